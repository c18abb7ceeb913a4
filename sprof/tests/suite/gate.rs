//! The gate for pull requests: `gate/compare`, `gate/comment` and the steps of `action.yml`, on a repository with a
//! small program, with the variables of GitHub's runners and a stand-in of its API.
#![cfg(target_os = "linux")]

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::privacy;
use crate::support::machine::alone;
use crate::support::skip::{Need, has, perf_events};
use crate::support::steal::undisturbed_or_right;
use crate::support::store::{Answer, Behaviour, StandIn, State};
use crate::support::temp_dir;

const TOKEN: &str = "ghs_0123456789abcdef";
const BUILD: &str = "env >>\"$HOME/../seen\"; cc -O2 -g -o app app.c";
const RULE: &str = "--max-total-increase 5%";
/// What `gate/compare` promises, beside the recordings.
const FILES: [&str; 3] = ["check.xml", "diff.html", "summary.md"];

/// Goes on where the scripts find what they call.
fn tools() -> Option<()> {
    let are_there = ["git", "curl", "jq"]
        .iter()
        .all(|tool| Command::new(tool).arg("--version").output().is_ok());
    has(Need::Gate, are_there, "git, curl or jq is not installed").then_some(())
}

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A program with two functions that take the same time, but for these percent of it in the one with this name.
fn program(function: &str, percent: u32) -> String {
    format!(
        "#include <stdint.h>\n\
         static volatile uint64_t sink;\n\
         #define WORK(name) __attribute__((noinline)) void name(uint64_t rounds) {{ \\\n\
             uint64_t x = 88172645463325252u; \\\n\
             while (rounds--) {{ x ^= x << 13; x ^= x >> 7; x ^= x << 17; }} \\\n\
             sink += x; }}\n\
         WORK({function})\n\
         WORK(format)\n\
         int main(void) {{ for (int i = 0; i < 100; i++) {{ {function}({percent} * 2000); format(200000); }} }}\n"
    )
}

/// A folder with a repository (`origin`), the clone of a branch as CI systems make it (`checkout`), and the folders
/// that a runner has.
struct Runner {
    dir: tempfile::TempDir,
}

/// How the steps of the action ended.
struct Acted {
    status: i32,
    /// What all steps printed.
    log: String,
}

impl Runner {
    /// The branch `change` of the clone replaces the program of the branch `main`.
    fn new(base: &str, head: &str) -> Runner {
        let runner = Runner { dir: temp_dir() };
        for folder in ["origin", "home", "tmp", "runner", "bin"] {
            fs::create_dir(runner.path(folder)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_sprof"), runner.path("bin/sprof")).unwrap();
        let event = json!({"pull_request": {"number": 7, "head": {"repo": {"full_name": "you/app"}}}});
        fs::write(runner.path("event.json"), event.to_string()).unwrap();
        runner.git("origin", &["init", "--quiet", "--initial-branch", "main"]);
        runner.commit(base);
        runner.git("origin", &["checkout", "--quiet", "-b", "change"]);
        runner.commit(head);
        runner.git("origin", &["checkout", "--quiet", "main"]);
        // Pull requests are behind: what came later into `main` is not theirs.
        runner.commit("int main(void) { return 0; }\n");
        let url = format!("file://{}", runner.path("origin").display());
        let clone = [
            "clone", "--quiet", "--depth", "1", "--branch", "change", &url, "checkout",
        ];
        runner.git(".", &clone);
        runner
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=you", "-c", "user.email=you@example.org"];
        let mut command = self.command("git");
        let output = command
            .current_dir(self.path(folder))
            .args(identity)
            .args(arguments)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn commit(&self, source: &str) {
        fs::write(self.path("origin/app.c"), source).unwrap();
        self.git("origin", &["add", "app.c"]);
        self.git("origin", &["commit", "--quiet", "--allow-empty", "-m", "A change"]);
    }

    /// A command with the variables that GitHub's runners set, and none of this machine.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap();
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("CI", "true")
            .env("RUNNER_TEMP", self.path("runner"))
            .env("GITHUB_ACTION_PATH", repository_root())
            .env("GITHUB_API_URL", "http://127.0.0.1:9")
            .env("GITHUB_SERVER_URL", "https://github.com")
            .env("GITHUB_REPOSITORY", "you/app")
            .env("GITHUB_RUN_ID", "4711")
            .env("GITHUB_EVENT_NAME", "pull_request")
            .env("GITHUB_EVENT_PATH", self.path("event.json"))
            .env("GITHUB_BASE_REF", "main")
            .env("GITHUB_STEP_SUMMARY", self.path("step-summary"))
            // Half a second in all for each version.
            .env("SPROF_ITERATION_COUNT", "2")
            .env("SPROF_RATE", "4000")
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    /// `gate/compare`, without a build.
    fn compare(&self, arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
        let mut command = self.command(repository_root().join("gate/compare"));
        command.current_dir(self.path("checkout")).args(["--output", "../out"]);
        let output = command
            .args(arguments)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        (output.status.code(), text(&output))
    }

    /// Runs the steps of `action.yml` as a runner does: up to the first one that fails.
    fn act(&self, api: &StandIn, inputs: &[(&str, &str)]) -> Acted {
        let action = Action::read();
        let mut context: HashMap<String, String> = action.defaults.clone();
        context.extend(
            inputs
                .iter()
                .map(|(name, value)| (format!("inputs.{name}"), (*value).to_owned())),
        );
        context.insert("github.token".to_owned(), TOKEN.to_owned());
        context.insert("github.action_repository".to_owned(), "they/sprof".to_owned());
        let mut log = String::new();
        for step in &action.steps {
            let fields = |fields: &[(String, String)]| -> Vec<(String, String)> {
                let known = fields
                    .iter()
                    .map(|(name, value)| (name.clone(), evaluate(value, &context)));
                known.collect()
            };
            let (env, with) = (fields(&step.env), fields(&step.with));
            let Some(script) = &step.run else {
                // A version that nobody can replace.
                let (_, commit) = step.uses.split_once("actions/upload-artifact@").unwrap();
                assert!(commit[..40].bytes().all(|byte| byte.is_ascii_hexdigit()), "{commit}");
                let folder = self.path("runner/sprof").display().to_string();
                assert!(with.contains(&("path".to_owned(), folder)), "{with:?}");
                continue;
            };
            let output_file = self.path("step-output");
            fs::write(&output_file, "").unwrap();
            let mut command = self.command("bash");
            let output = command
                .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
                .current_dir(self.path("checkout"))
                .env("GITHUB_API_URL", format!("http://127.0.0.1:{}", api.port))
                .env("GITHUB_OUTPUT", &output_file)
                .env("GITHUB_PATH", self.path("step-path"))
                .envs(env)
                .output()
                .unwrap();
            log += &text(&output);
            if let Some(id) = &step.id {
                for line in fs::read_to_string(&output_file).unwrap().lines() {
                    let (name, value) = line.split_once('=').unwrap();
                    context.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
                }
            }
            if !output.status.success() {
                return Acted {
                    status: output.status.code().unwrap(),
                    log,
                };
            }
        }
        Acted { status: 0, log }
    }

    /// All files but the repository, the clone's own ones, sprof's cache, and what the test made.
    fn left(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(self.dir.path()).unwrap().to_str().unwrap().to_owned();
                let own = ["origin", "bin", "event.json", "checkout/.git", "home/.cache/sprof"];
                let is_ours = own.contains(&name.as_str());
                match path.is_dir() && !path.is_symlink() {
                    _ if is_ours => {}
                    true => folders.push(path),
                    false => {
                        found.insert(name);
                    }
                }
            }
        }
        found
    }
}

fn text(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap()
}

/// `action.yml`, as far as it says what runs.
struct Action {
    /// `inputs.NAME` with its value.
    defaults: HashMap<String, String>,
    steps: Vec<Step>,
}

#[derive(Default)]
struct Step {
    id: Option<String>,
    uses: String,
    run: Option<String>,
    env: Vec<(String, String)>,
    with: Vec<(String, String)>,
}

impl Action {
    /// Reads the part of YAML that the file has.
    fn read() -> Action {
        let text = fs::read_to_string(repository_root().join("action.yml")).unwrap();
        let (inputs, steps) = text.split_once("\n  steps:\n").unwrap();
        let mut defaults = HashMap::new();
        let mut input = String::new();
        for line in inputs.lines() {
            let words = line.trim();
            match (line.len() - words.len(), words.split_once(':')) {
                (2, Some((name, ""))) => input = format!("inputs.{name}"),
                (4, Some(("default", value))) => {
                    defaults.insert(input.clone(), value.trim().trim_matches('"').to_owned());
                }
                _ => {}
            }
        }
        let mut read: Vec<Step> = Vec::new();
        let mut block = "";
        for line in steps.lines() {
            let words = line.trim_start().trim_start_matches("- ");
            let depth = line.len() - words.len();
            if line.starts_with("    - ") {
                read.push(Step::default());
            }
            let step = read.last_mut().unwrap();
            let field = words
                .split_once(':')
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
            match (depth, field) {
                (6, Some((name, value))) => {
                    block = match name.as_str() {
                        "env" => "env",
                        "with" => "with",
                        "run" => {
                            assert_eq!(value, "|");
                            step.run = Some(String::new());
                            "run"
                        }
                        "id" => {
                            step.id = Some(value);
                            ""
                        }
                        "uses" => {
                            step.uses = value;
                            ""
                        }
                        "name" | "shell" | "continue-on-error" => "",
                        _ => panic!("{line}"),
                    };
                }
                _ if block == "run" => {
                    let script = step.run.as_mut().unwrap();
                    *script += line.get(8..).unwrap_or_default();
                    script.push('\n');
                }
                (8, Some(field)) if block == "env" => step.env.push(field),
                (8, Some(field)) if block == "with" => step.with.push(field),
                _ => assert_eq!(words, "", "{line}"),
            }
        }
        // A script that has a text of the pull request in it would run the text.
        assert!(
            read.iter()
                .flat_map(|step| &step.run)
                .all(|script| !script.contains("${{"))
        );
        Action { defaults, steps: read }
    }
}

/// `${{ NAME }}` with its value, which must be known.
fn evaluate(value: &str, context: &HashMap<String, String>) -> String {
    match value.strip_prefix("${{ ").and_then(|rest| rest.strip_suffix(" }}")) {
        Some(name) => context
            .get(name)
            .unwrap_or_else(|| panic!("{name}: {context:?}"))
            .clone(),
        None => value.to_owned(),
    }
}

/// GitHub's contract for the comments of pull request 7. Everyone but `Bot` may write the words that mark ours.
fn comments(call: &str, headers: &HashMap<String, &str>, body: &[u8], state: &mut State) -> Answer {
    if headers.get("authorization") != Some(&format!("Bearer {TOKEN}").as_str()) {
        return Answer::text(401, "{}");
    }
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let command_lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    for line in command_lines {
        assert!(!String::from_utf8_lossy(&line).contains(TOKEN));
    }
    if let Some(page) = call.strip_prefix("GET /repos/you/app/issues/7/comments?per_page=100&page=") {
        let first = (page.parse::<usize>().unwrap() - 1) * 100;
        let all = state.objects.values().skip(first).take(100);
        let all: Vec<Value> = all
            .map(|(comment, _)| serde_json::from_slice(comment).unwrap())
            .collect();
        return Answer::text(200, json!(all).to_string());
    }
    let text = serde_json::from_slice::<Value>(body).unwrap()["body"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.chars().count() <= 65536);
    let (status, id) = match call.strip_prefix("PATCH /repos/you/app/issues/comments/") {
        Some(id) => (200, id.parse().unwrap()),
        None if call == "POST /repos/you/app/issues/7/comments" => (201, state.objects.len()),
        None => return Answer::text(404, "{}"),
    };
    keep_comment(state, id, "Bot", &text);
    Answer::text(status, json!({"id": id}).to_string())
}

fn keep_comment(state: &mut State, id: usize, user: &str, text: &str) {
    let comment = json!({"id": id, "user": {"type": user}, "body": text});
    let kept = state.objects.entry(format!("{id:06}")).or_default();
    *kept = (comment.to_string().into_bytes(), kept.1 + 1);
}

fn api() -> StandIn {
    StandIn::start_as(Behaviour::Honest, comments)
}

fn last_comment(api: &StandIn) -> String {
    let comment = api.with(|state| state.objects.values().last().unwrap().0.clone());
    serde_json::from_slice::<Value>(&comment).unwrap()["body"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The words of a summary, its status with `cannot-tell: failure`, and whether there are recordings.
struct Expected {
    status: i32,
    words: &'static [&'static str],
    is_recorded: bool,
}

/// Runs the action, and compares all that it leaves and calls with what it promises.
fn assert_acted(head: &str, base: &str, inputs: &[(&str, &str)], rounds: usize, expected: &Expected) {
    let Expected {
        status,
        words,
        is_recorded,
    } = expected;
    let (runner, api) = (Runner::new(base, head), api());
    let rounds_text = rounds.to_string();
    let standard = [
        ("build", BUILD),
        ("run", "./app"),
        ("check", RULE),
        ("rounds", &rounds_text),
        ("cannot-tell", "failure"),
    ];
    let acted = runner.act(&api, &[&standard[..], inputs].concat());
    let summary = runner.read("runner/sprof/summary.md");
    assert_eq!(acted.status, *status, "{}", acted.log);
    for words in *words {
        assert!(summary.contains(words), "{words}: {summary}");
    }
    assert_eq!(summary, runner.read("step-summary"));

    // Of all programs, one knows the token, and of all machines, one is called.
    let seen = runner.read("seen");
    assert!(!acted.log.contains(TOKEN) && !seen.contains(TOKEN));
    for file in ["GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH"] {
        assert!(!seen.contains(&format!("{file}=")), "{seen}");
    }
    let list = "GET /repos/you/app/issues/7/comments?per_page=100&page=1";
    let calls: &[&str] = match status {
        1 => &[list, "POST /repos/you/app/issues/7/comments"],
        _ => &[list],
    };
    assert_eq!(api.calls(), calls, "{}", acted.log);
    if *status == 1 {
        let comment = last_comment(&api);
        assert!(
            comment.starts_with("<!-- sprof sprof -->\n## sprof: a rule is broken\n"),
            "{comment}"
        );
        assert!(comment.contains(summary.trim_end()), "{comment}");
        assert!(
            comment.contains("(https://github.com/you/app/actions/runs/4711)"),
            "{comment}"
        );
    }

    let mut promised: BTreeSet<String> = ["seen", "step-output", "step-summary", "runner/sprof/summary.md"]
        .map(str::to_owned)
        .into();
    if *is_recorded {
        promised.extend(["checkout/app".to_owned()]);
        promised.extend(FILES.map(|file| format!("runner/sprof/{file}")));
        for round in 1..=rounds {
            promised.extend(["base", "head"].map(|side| format!("runner/sprof/{side}-{round}.json.gz")));
        }
    }
    let mut left = runner.left();
    left.remove("checkout/app.c");
    if !is_recorded {
        // One version may have been built.
        left.remove("checkout/app");
    }
    assert_eq!(left, promised, "{}", acted.log);
    assert_eq!(runner.git("checkout", &["worktree", "list"]).lines().count(), 1);
}

/// What each case of a pull request leads to. The rule on an equal program leaves room for what the machine does.
fn recorded_cases() -> [(&'static str, String, &'static str, Expected); 4] {
    let expect = |status, words| Expected {
        status,
        words,
        is_recorded: true,
    };
    [
        (
            "slower",
            program("parse", 140),
            RULE,
            expect(
                1,
                &["sprof: a rule is broken", "the whole program took ", "### What changed"],
            ),
        ),
        (
            "equal",
            program("parse", 100) + "// Nothing.\n",
            "--max-total-increase 25%",
            expect(0, &["sprof: all rules are kept", "| kept |", "### What changed"]),
        ),
        (
            "faster",
            program("parse", 60),
            RULE,
            expect(0, &["sprof: all rules are kept", "total: -"]),
        ),
        (
            "renamed",
            program("parse_all", 100),
            "--max-increase parse=5%",
            expect(3, &["sprof: cannot tell", "renamed, inlined or gone"]),
        ),
    ]
}

#[test]
fn a_pull_request_that_makes_the_program_slower_fails_and_gets_a_comment() {
    let (Some(()), Some(())) = (perf_events(), tools()) else {
        return;
    };
    alone();
    // Four times as slow, which two recordings a side show on any machine.
    let expected = Expected {
        status: 1,
        words: &[
            "sprof: a rule is broken",
            "**broken**",
            "the whole program took ",
            "`parse  [app]`",
        ],
        is_recorded: true,
    };
    let inputs = [("check", "\n--max-total-increase '5%'\n--focus main\n")];
    undisturbed_or_right(|| assert_acted(&program("parse", 700), &program("parse", 100), &inputs, 2, &expected));
}

/// Ten times each, as the pull requests of a day.
#[test]
#[ignore = "takes minutes"]
fn slower_equal_faster_and_renamed_programs_are_told_apart_ten_times() {
    let (Some(()), Some(())) = (perf_events(), tools()) else {
        return;
    };
    alone();
    for (case, head, rule, expected) in recorded_cases() {
        for time in 1..=10 {
            eprintln!("{case}, {time}");
            let act = || assert_acted(&head, &program("parse", 100), &[("check", rule)], 5, &expected);
            undisturbed_or_right(act);
        }
    }
}

#[test]
fn what_does_not_build_is_not_compared() {
    let Some(()) = tools() else { return };
    let works = program("parse", 100);
    let broken = "int main(void) { return missing; }\n";
    let expect = |status, words| Expected {
        status,
        words,
        is_recorded: false,
    };
    let cases = [
        (broken, &*works, expect(125, &[") does not build"][..])),
        (
            &works,
            broken,
            expect(3, &["cannot tell: the base (", ") does not build"]),
        ),
        (
            "int main(void) { return 3; }\n",
            &works,
            expect(125, &["the head (", ") does not run"]),
        ),
    ];
    for (head, base, expected) in &cases {
        assert_acted(head, base, &[], 1, expected);
    }
    // Who wants it is not stopped by what sprof cannot tell.
    let runner = Runner::new(broken, &works);
    let neutral = runner.act(&api(), &[("build", BUILD), ("run", "./app"), ("check", RULE)]);
    assert_eq!(neutral.status, 0, "{}", neutral.log);
    assert!(
        neutral.log.contains("::warning title=sprof::cannot tell"),
        "{}",
        neutral.log
    );
}

#[test]
fn a_comparison_needs_a_base_and_rules_and_refuses_what_would_be_wrong() {
    let Some(()) = tools() else { return };
    let runner = Runner::new(&program("parse", 100), &program("parse", 100));
    let words = ["--build", "exit 1", "--run", "./app", "--max-total-increase", "5%"];
    let is_built = "building the head";
    let app = runner.path("checkout/app").display().to_string();
    for (arguments, variables, status, said) in [
        // Without a base.
        (&words[..], &[("GITHUB_BASE_REF", "")][..], 3, "no base is named"),
        (
            &words,
            &[("GITHUB_BASE_REF", "gone")],
            3,
            "cannot tell: cannot fetch gone",
        ),
        (
            &[&words[..], &["--base", "gone"]].concat(),
            &[],
            2,
            "no such branch or commit: gone",
        ),
        // Other systems name it otherwise. The build fails next.
        (
            &words,
            &[("GITHUB_BASE_REF", ""), ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")],
            125,
            is_built,
        ),
        (
            &words,
            &[("GITHUB_BASE_REF", ""), ("BUILDKITE_PULL_REQUEST_BASE_BRANCH", "main")],
            125,
            is_built,
        ),
        (
            &[&words[..], &["--base", "HEAD"]].concat(),
            &[("GITHUB_BASE_REF", "")],
            125,
            is_built,
        ),
        // Before anything is built.
        (&words[..4], &[], 2, "there is no rule to check"),
        (
            &[&words[..], &["--max-increase", "f=fast"]].concat(),
            &[],
            2,
            "--max-increase",
        ),
        (
            &[&words[..], &["--rounds", "0"]].concat(),
            &[],
            2,
            "--rounds 0 is no number",
        ),
        (&[&words[..], &["--base"]].concat(), &[], 2, "--base needs a value"),
        (&words[..2], &[], 2, "there is no --run COMMAND"),
        (
            &words,
            &[("GITHUB_EVENT_NAME", "pull_request_target")],
            2,
            "use pull_request",
        ),
        (
            &words,
            &[("CARGO_TARGET_DIR", "/target")],
            2,
            "one folder for both versions",
        ),
        (
            &words,
            &[("CARGO_BUILD_TARGET_DIR", "/target")],
            2,
            "one folder for both versions",
        ),
        (
            &[&words[..], &["--run", &format!("nice '{app}'")]].concat(),
            &[],
            2,
            "--run names one file of this checkout",
        ),
        (&[&words[..], &["-fmd"]].concat(), &[], 2, "-fmd cannot stand here"),
        (
            &[&words[..], &["--base=main"]].concat(),
            &[],
            2,
            "--base=main cannot stand here",
        ),
        (
            &[&words[..], &["--", "--output", "out"]].concat(),
            &[],
            2,
            "--output cannot stand here",
        ),
        (
            &[&words[..], &["--config", "none.toml"]].concat(),
            &[],
            2,
            "cannot read the rules in none.toml",
        ),
        // The script's own failure is no outcome of a rule.
        (&[&words[..], &["--output", "app.c/out"]].concat(), &[], 125, "app.c"),
        (&words, &[("PATH", "/usr/bin:/bin")], 125, "sprof is not in PATH"),
    ] {
        let (code, log) = runner.compare(arguments, variables);
        assert_eq!(code, Some(status), "{arguments:?} {variables:?}: {log}");
        assert!(log.contains(said), "{said}: {log}");
        assert_eq!(log.contains(is_built), said == is_built, "{log}");
    }
    let misspelt = [("run", "./app"), ("cannot-tell", "nuetral")];
    let acted = runner.act(&api(), &misspelt);
    assert!(acted.status == 2 && acted.log.contains("not nuetral"), "{}", acted.log);
    // Rules of the repository.
    fs::write(
        runner.path("checkout/sprof.toml"),
        "[check]\nmax-total-increase = \"5%\"\n",
    )
    .unwrap();
    let (code, log) = runner.compare(&words[..4], &[]);
    assert!(code == Some(125) && log.contains(is_built), "{log}");
}

#[test]
fn a_named_base_is_fetched_where_the_clone_lacks_it() {
    let Some(()) = tools() else { return };
    for base in ["main", "release", "change~"] {
        let runner = Runner::new("", "");
        runner.git("origin", &["tag", "release", "main"]);
        let commit = |name: &str| runner.git("origin", &["rev-parse", name]).trim().to_owned();
        let base = if base == "change~" {
            commit(base)
        } else {
            base.to_owned()
        };
        let build = format!("test $(git rev-parse HEAD) = {}", commit("change"));
        let arguments = ["--build", &build, "--run", "./app", "--max-total-increase", "5%"];
        let (code, log) = runner.compare(&[&arguments[..], &["--base", &base]].concat(), &[]);
        let said = format!("the base ({}) does not build", &commit("change~")[..7]);
        assert!(code == Some(3) && log.contains(&said), "{base}: {log}");
    }
}

#[test]
fn the_merge_that_github_checks_out_is_called_by_the_change_and_compared_with_the_branch() {
    let Some(()) = tools() else { return };
    let runner = Runner::new("", "");
    runner.git("origin", &["checkout", "--quiet", "-b", "merge"]);
    runner.git(
        "origin",
        &["merge", "--quiet", "--strategy", "ours", "--no-edit", "change"],
    );
    runner.git("checkout", &["fetch", "--quiet", "--depth", "1", "origin", "merge"]);
    runner.git("checkout", &["checkout", "--quiet", "FETCH_HEAD"]);
    let commit = |name: &str| runner.git("origin", &["rev-parse", name]).trim().to_owned();
    let merge = commit("merge");
    let only_head = format!("test $(git rev-parse HEAD) = {merge}");
    for (build, status, said) in [
        ("exit 1", 125, format!("the head ({}) does not", &commit("change")[..7])),
        (&only_head, 3, format!("the base ({}) does not", &commit("main")[..7])),
    ] {
        let arguments = ["--build", build, "--run", "./app", "--max-total-increase", "5%"];
        let (code, log) = runner.compare(&arguments, &[("GITHUB_SHA", &merge)]);
        assert!(code == Some(status) && log.contains(&said), "{said}: {log}");
    }
}

#[test]
fn a_comparison_uses_no_network() {
    let (Some(()), Some(()), Some(())) = (perf_events(), tools(), privacy::network_namespaces()) else {
        return;
    };
    let runner = Runner::new(&program("parse", 10), &program("parse", 10));
    let script = format!(
        "unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR GITHUB_EVENT_NAME GITHUB_SHA GITHUB_STEP_SUMMARY
         cd checkout && PATH={}:$PATH GITHUB_BASE_REF=main SPROF_ITERATION_COUNT=1 {} --build '{}' --run ./app --rounds 1 \
         {RULE} >../log 2>&1; cd ..",
        runner.path("bin").display(),
        repository_root().join("gate/compare").display(),
        "cc -g -o app app.c",
    );
    assert_eq!(
        privacy::attempts(&script, runner.dir.path()),
        0,
        "{}",
        runner.read("log")
    );
    assert!(
        runner.path("checkout/sprof-gate/diff.html").exists(),
        "{}",
        runner.read("log")
    );
}

#[test]
fn the_action_installs_sprof_where_glibc_s_is() {
    let Some(()) = tools() else { return };
    let runner = Runner::new("", "");
    let install = &Action::read().steps[0].run.clone().unwrap();
    let script = "echo \"$SPROF_RELEASES $@\" >>\"$HOME/../installed\"\n";
    fs::write(runner.path("bin/install.sh"), script).unwrap();
    symlink(repository_root().join("Cargo.toml"), runner.path("bin/Cargo.toml")).unwrap();
    let run = || {
        let mut command = runner.command("bash");
        let output = command
            .args(["-eo", "pipefail", "-c", install])
            .env("GITHUB_ACTION_PATH", runner.path("bin"))
            .env("ACTION_REPOSITORY", "they/sprof")
            .env("GITHUB_PATH", runner.path("step-path"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    run();
    assert_eq!(runner.read("installed"), "");
    fs::remove_file(runner.path("bin/sprof")).unwrap();
    // It says its version and its usage, and knows no command.
    symlink("/bin/false", runner.path("bin/sprof")).unwrap();
    run();
    let folder = runner.path("runner/sprof-bin").display().to_string();
    let version = env!("CARGO_PKG_VERSION");
    let releases = format!("https://github.com/they/sprof/releases/download/v{version}");
    assert_eq!(runner.read("installed"), format!("{releases} --to {folder}\n"));
    assert_eq!(runner.read("step-path"), format!("{folder}\n"));
}

/// Runs `gate/comment` with this status, and returns what it printed.
fn comment(runner: &Runner, api: &StandIn, status: &str, summary: &str, variables: &[(&str, &str)]) -> String {
    fs::write(runner.path("summary.md"), summary).unwrap();
    let output = runner
        .command(repository_root().join("gate/comment"))
        .args([status, "summary.md", "parser"])
        .env("GITHUB_API_URL", format!("http://127.0.0.1:{}", api.port))
        .env("GITHUB_TOKEN", TOKEN)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let log = text(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
    assert_eq!(fs::read_dir(runner.path("tmp")).unwrap().count(), 0);
    log
}

#[test]
fn one_comment_is_kept_up_to_date() {
    let Some(()) = tools() else { return };
    let runner = Runner::new("", "");
    let api = api();
    let marker = "<!-- sprof parser -->\n";
    api.with(|state| {
        for id in 0..150 {
            keep_comment(state, id, "User", &format!("{marker}All is well."));
        }
        keep_comment(
            state,
            150,
            "Bot",
            "<!-- sprof encoder -->\nThe comment of another comparison.",
        );
    });
    let writes = |api: &StandIn| -> Vec<String> {
        let calls = api.calls();
        calls.into_iter().filter(|call| !call.starts_with("GET ")).collect()
    };
    // Nothing to say.
    for status in ["0", "3", "125"] {
        comment(&runner, &api, status, "## sprof: nothing\n", &[]);
    }
    assert_eq!(writes(&api), [""; 0]);
    let posted = "POST /repos/you/app/issues/7/comments";
    comment(
        &runner,
        &api,
        "1",
        "## sprof: a rule is broken\n\n| `a` | \"b\" \\ $x |\n",
        &[],
    );
    assert_eq!(writes(&api), [posted]);
    assert!(last_comment(&api).starts_with(&format!(
        "{marker}## sprof: a rule is broken\n\n| `a` | \"b\" \\ $x |\n"
    )));
    // The next runs replace it, also by what is well again.
    let replaced = "PATCH /repos/you/app/issues/comments/151";
    comment(&runner, &api, "1", &"still ".repeat(20_000), &[]);
    assert!(last_comment(&api).contains("still still"));
    comment(&runner, &api, "0", "## sprof: all rules are kept\n", &[]);
    assert_eq!(writes(&api), [posted, replaced, replaced]);
    assert!(last_comment(&api).starts_with(&format!("{marker}## sprof: all rules are kept\n")));
    assert_eq!(api.with(|state| state.objects.len()), 152);
}

#[test]
fn without_a_right_to_comment_there_is_none() {
    let Some(()) = tools() else { return };
    let runner = Runner::new("", "");
    let none = api();
    for (variables, said) in [
        (&[("GITHUB_TOKEN", "")][..], "there is no token"),
        (&[("GITHUB_EVENT_NAME", "push")], "this is no pull request"),
        (
            &[("GITHUB_REPOSITORY", "they/app")],
            "a fork's pull request cannot get one",
        ),
    ] {
        let log = comment(&runner, &none, "1", "## sprof: a rule is broken\n", variables);
        assert!(log.contains(said), "{said}: {log}");
    }
    assert_eq!(none.calls(), [""; 0]);
    // The replies have the token in them.
    for (behaviour, calls) in [
        (Behaviour::Status(403), 1),
        (Behaviour::Says("not JSON"), 1),
        (Behaviour::Redirects, 1),
        (Behaviour::NoReply, 1),
        (Behaviour::Says("[]"), 2),
    ] {
        let api = StandIn::start(behaviour);
        comment(&runner, &api, "1", "## sprof: a rule is broken\n", &[]);
        assert_eq!(api.calls().len(), calls, "{behaviour:?}");
    }
}
