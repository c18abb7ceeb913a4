//! The gate for pull requests: `gate/compare`, `gate/comment` and the steps of `action.yml`, on a repository with a
//! small program, with the variables of GitHub's runners and a stand-in of its API.
#![cfg(target_os = "linux")]

mod action;
mod comments;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::privacy;
use crate::support::machine::alone;
use crate::support::skip::{Need, has, perf_events};
use crate::support::steal::undisturbed_or_right;
use crate::support::store::StandIn;
use crate::support::temp_dir;
use action::{Action, evaluate};
use comments::{api, last_comment};

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
    /// Runs of the program in each recording.
    iterations: usize,
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
        let runner = Runner {
            dir: temp_dir(),
            iterations: 2,
        };
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
            .env("SPROF_ITERATION_COUNT", self.iterations.to_string())
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
                let own = [
                    "origin",
                    "bin",
                    "event.json",
                    "seen",
                    "checkout/.git",
                    "checkout/app.c",
                    "home/.cache/sprof",
                ];
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

/// A pull request, and what the action makes of it.
#[derive(Clone)]
struct PullRequest {
    title: &'static str,
    head: String,
    /// `None` if the branch that it is for is gone.
    base: Option<String>,
    check: &'static str,
    rounds: usize,
    /// Runs of the program in each recording.
    iterations: usize,
    /// With `cannot-tell: failure`.
    status: i32,
    /// Parts of the summary.
    words: &'static [&'static str],
    is_recorded: bool,
}

impl PullRequest {
    /// Runs the action, and compares all that it leaves and calls with what it promises.
    fn assert_acted(&self) {
        let (mut runner, api) = (Runner::new(self.base.as_deref().unwrap_or_default(), &self.head), api());
        runner.iterations = self.iterations;
        if self.base.is_none() {
            runner.git("origin", &["branch", "--move", "main", "trunk"]);
        }
        let inputs = [
            ("build", BUILD),
            ("run", "./app"),
            ("check", self.check),
            ("rounds", &self.rounds.to_string()),
            ("cannot-tell", "failure"),
        ];
        let acted = runner.act(&api, &inputs);
        let summary = runner.read("runner/sprof/summary.md");
        assert_eq!(acted.status, self.status, "{}", acted.log);
        for words in self.words {
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
        let calls: &[&str] = match self.status {
            1 => &[list, "POST /repos/you/app/issues/7/comments"],
            _ => &[list],
        };
        assert_eq!(api.calls(), calls, "{}", acted.log);
        if self.status == 1 {
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

        let mut promised: BTreeSet<String> = ["step-output", "step-summary", "runner/sprof/summary.md"]
            .map(str::to_owned)
            .into();
        let mut left = runner.left();
        if self.is_recorded {
            promised.extend(["checkout/app".to_owned()]);
            promised.extend(FILES.map(|file| format!("runner/sprof/{file}")));
            for round in 1..=self.rounds {
                promised.extend(["base", "head"].map(|side| format!("runner/sprof/{side}-{round}.json.gz")));
            }
        } else {
            // One version may have been built.
            left.remove("checkout/app");
        }
        assert_eq!(left, promised, "{}", acted.log);
        assert_eq!(runner.git("checkout", &["worktree", "list"]).lines().count(), 1);
    }
}

/// Pull requests that are recorded. The rule on an equal program leaves room for what the machine does.
fn recorded() -> [PullRequest; 4] {
    let slower = PullRequest {
        title: "slower",
        head: program("parse", 140),
        base: Some(program("parse", 100)),
        check: RULE,
        rounds: 5,
        iterations: 2,
        status: 1,
        words: &["sprof: a rule is broken", "the whole program took ", "### What changed"],
        is_recorded: true,
    };
    [
        PullRequest {
            title: "equal",
            head: program("parse", 100) + "// Nothing.\n",
            check: "--max-total-increase 25%",
            status: 0,
            words: &["sprof: all rules are kept", "| kept |", "### What changed"],
            ..slower.clone()
        },
        PullRequest {
            title: "faster",
            head: program("parse", 60),
            status: 0,
            words: &["sprof: all rules are kept", "total: -"],
            ..slower.clone()
        },
        PullRequest {
            title: "renamed",
            head: program("parse_all", 100),
            check: "--max-increase parse=5%",
            status: 3,
            words: &["sprof: cannot tell", "renamed, inlined or gone"],
            ..slower.clone()
        },
        slower,
    ]
}

/// Pull requests that end before both versions are recorded.
fn unrecorded() -> [PullRequest; 4] {
    let broken = || "int main(void) { return missing; }\n".to_owned();
    let head_is_broken = PullRequest {
        title: "the head does not build",
        head: broken(),
        base: Some(program("parse", 100)),
        check: RULE,
        rounds: 1,
        iterations: 2,
        status: 125,
        words: &["## sprof: the head (", ") does not build\n"],
        is_recorded: false,
    };
    [
        PullRequest {
            title: "the base does not build",
            head: program("parse", 100),
            base: Some(broken()),
            status: 3,
            words: &["## sprof: cannot tell: the base (", ") does not build\n"],
            ..head_is_broken.clone()
        },
        PullRequest {
            title: "the head does not run",
            head: "int main(void) { return 3; }\n".to_owned(),
            words: &["## sprof: the head (", ") does not run\n"],
            ..head_is_broken.clone()
        },
        PullRequest {
            title: "no base",
            head: program("parse", 100),
            base: None,
            status: 3,
            words: &["## sprof: cannot tell: cannot fetch main, which "],
            ..head_is_broken.clone()
        },
        head_is_broken,
    ]
}

#[test]
fn a_pull_request_that_makes_the_program_slower_fails_and_gets_a_comment() {
    let (Some(()), Some(())) = (perf_events(), tools()) else {
        return;
    };
    alone();
    let [.., slower] = recorded();
    // Four times as slow. Two recordings a side show that only where they differ by less than a tenth: with one degree
    // of freedom, t has to be 32. From five, sprof leaves out the slowest and the fastest.
    let slower = PullRequest {
        head: program("parse", 700),
        check: "\n--max-total-increase '5%'\n--focus main\n",
        rounds: 5,
        iterations: 1,
        words: &[
            "sprof: a rule is broken",
            "**broken**",
            "the whole program took ",
            "`parse  [app]`",
        ],
        ..slower
    };
    undisturbed_or_right(|| slower.assert_acted());
}

/// Ten times each, as the pull requests of a day.
#[test]
#[ignore = "takes minutes"]
fn each_kind_of_pull_request_has_its_outcome_ten_times() {
    let (Some(()), Some(())) = (perf_events(), tools()) else {
        return;
    };
    alone();
    for request in recorded().iter().chain(&unrecorded()) {
        for time in 1..=10 {
            eprintln!("{}, {time}", request.title);
            undisturbed_or_right(|| request.assert_acted());
        }
    }
}

#[test]
fn what_does_not_build_or_has_no_base_is_not_compared() {
    let Some(()) = tools() else { return };
    for request in unrecorded() {
        eprintln!("{}", request.title);
        request.assert_acted();
    }
    // Who wants it is not stopped by what sprof cannot tell.
    let [base_is_broken, ..] = unrecorded();
    let runner = Runner::new(&base_is_broken.base.unwrap(), &base_is_broken.head);
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
            "--rounds 0 is not a number",
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
    let cc = "cc -g -o app app.c";
    for (base, build, is_recorded) in [("main", cc, true), ("main", "exit 1", false), ("gone", cc, false)] {
        let runner = Runner::new(&program("parse", 10), &program("parse", 10));
        let script = format!(
            "unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR GITHUB_EVENT_NAME GITHUB_SHA GITHUB_STEP_SUMMARY
             cd checkout && PATH={}:$PATH GITHUB_BASE_REF={base} SPROF_ITERATION_COUNT=1 {} --build '{build}' --run ./app \
             --rounds 1 {RULE} >../log 2>&1; cd ..",
            runner.path("bin").display(),
            repository_root().join("gate/compare").display(),
        );
        let attempts = privacy::attempts(&script, runner.dir.path());
        let log = runner.read("log");
        assert_eq!(attempts, 0, "{log}");
        assert!(runner.path("checkout/sprof-gate/summary.md").exists(), "{log}");
        assert_eq!(
            runner.path("checkout/sprof-gate/diff.html").exists(),
            is_recorded,
            "{log}"
        );
    }
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
