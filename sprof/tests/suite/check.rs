//! `sprof check`: rules that hold, rules that are broken, and rules that the recordings can't decide.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::schema::parsed;
use crate::support::{sprof, temp_dir};

/// 10,000 samples before; after, `parse::json` has 30 % more and `format` is as it was.
fn recordings(dir: &Path) -> [PathBuf; 2] {
    ["old", "new"].map(|name| {
        let json = if name == "new" { 5200 } else { 4000 };
        let file = dir.join(format!("{name}.folded"));
        std::fs::write(&file, format!("app;main;parse::json {json}\napp;main;format 6000\n")).unwrap();
        file
    })
}

fn check(dir: &Path, arguments: &[&str]) -> Output {
    let [old, new] = recordings(dir);
    let mut command = sprof();
    command.current_dir(dir).arg("check").arg(new).arg("--base").arg(old);
    command.args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_rule_is_broken_by_what_got_slower_by_more_than_it_allows() {
    let dir = temp_dir();
    for (rule, code) in [
        ("parse::json=10%", 1),
        ("parse*=10%", 1),
        ("parse*=40%", 0),
        ("format=0%", 0),
        ("*=10%", 1),
    ] {
        let output = check(dir.path(), &["--by", "functions", "--max-increase", rule]);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(code), "{rule}: {text}");
        assert_eq!(text.contains("BROKEN"), code == 1, "{text}");
        assert_eq!(text.contains("parse::json took 30.0 % more"), code == 1, "{text}");
    }
}

#[test]
fn rules_come_from_a_file_too() {
    let dir = temp_dir();
    let rules = dir.path().join("sprof.toml");
    std::fs::write(&rules, "[check.max-increase]\n\"parse*\" = \"10%\"\nformat = 5\n").unwrap();
    let output = check(dir.path(), &["--by", "functions"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        stdout(&output).contains("kept  format may take 5 % more"),
        "{}",
        stdout(&output)
    );
    for (text, words) in [
        ("[check.max-increase]\nf = \"much\"", "a percentage such as"),
        ("[check]\nmax-decrease = 1", "unknown field"),
        ("[check", "line 1"),
    ] {
        std::fs::write(&rules, text).unwrap();
        let output = check(dir.path(), &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(
            stderr.contains("sprof.toml") && stderr.contains(words),
            "{words}: {stderr}"
        );
    }
}

#[test]
fn a_rule_that_cannot_be_told_has_a_status_of_its_own_and_no_rule_at_all_is_an_error() {
    let dir = temp_dir();
    let output = check(dir.path(), &["--max-increase", "pasre=1%"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = stdout(&output);
    assert!(text.contains("cannot tell  pasre"), "{text}");
    assert!(text.contains("no function is called `pasre`"), "{text}");
    let output = check(dir.path(), &["--max-increase", "pars=1%"]);
    let alike = "other names contain it: parse::json (46.4 %); give one of them, or '*pars*' for a rule on each";
    assert!(stdout(&output).contains(alike), "{output:?}");
    for (arguments, code) in [
        (&["--max-increase", "pasre=1%", "--allow-unknown"][..], 0),
        (
            &[
                "--max-increase",
                "pasre=1%",
                "--max-increase",
                "json=1%",
                "--allow-unknown",
            ],
            1,
        ),
        // A broken rule counts more than an unknown one.
        (&["--max-increase", "pasre=1%", "--max-increase", "json=1%"], 1),
        (&[], 2),
        (&["--max-increase", "f=fast"], 2),
    ] {
        assert_eq!(check(dir.path(), arguments).status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn the_new_profile_may_stand_before_or_after_the_base() {
    let dir = temp_dir();
    let [old, new] = recordings(dir.path()).map(|file| file.display().to_string());
    let status = |arguments: &[&str]| {
        let mut command = sprof();
        command
            .current_dir(dir.path())
            .args(["check", "--max-increase", "json=10%"]);
        let output = command.args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (old, new) = (old.as_str(), new.as_str());
    let joined = format!("--base={old}");
    for broken in [
        &["--base", old, new][..],
        &["--base", old, "--", new],
        &[new, "--base", old],
        &[&joined, new],
        &[new, new, "--base", old, old],
    ] {
        assert_eq!(status(broken).0, Some(1), "{broken:?} {}", status(broken).1);
    }
    assert_eq!(status(&["--base", new, old]).0, Some(0));
    let (code, stderr) = status(&["--base", old, old, new]);
    assert!(
        code == Some(2) && stderr.contains("which of these are new?"),
        "{stderr}"
    );
    let (code, stderr) = status(&["--base", old]);
    assert!(code == Some(2) && stderr.contains("check --base OLD NEW"), "{stderr}");
}

#[test]
fn rules_are_on_the_whole_program_and_on_shares_too() {
    let dir = temp_dir();
    // The whole takes 12 % more; the share of `parse::json` grows from 40.0 % to 46.4 %.
    for (rule, code) in [
        (["--max-total-increase", "5%"], 1),
        (["--max-total-increase", "20%"], 0),
        (["--max-share-increase", "json=2"], 1),
        (["--max-share-increase", "json=8"], 0),
        (["--max-share-increase", "*=2"], 1),
    ] {
        let output = check(dir.path(), &rule);
        assert_eq!(output.status.code(), Some(code), "{rule:?} {output:?}");
    }
    let text = stdout(&check(dir.path(), &["--max-total-increase", "5%"]));
    assert!(text.contains("total: +12.0 % samples ("), "{text}");
    assert!(text.contains("BROKEN  the whole program may take 5 % more"), "{text}");
    let rules = dir.path().join("sprof.toml");
    let toml = "[check]\nmax-total-increase = \"5%\"\n[check.max-share-increase]\njson = 8\n";
    std::fs::write(&rules, toml).unwrap();
    let text = stdout(&check(dir.path(), &[]));
    assert!(text.contains("BROKEN  the whole program"), "{text}");
    assert!(text.contains("kept  json may take 8 points more of all"), "{text}");
}

#[test]
fn rules_are_on_the_samples_that_are_wanted() {
    let dir = temp_dir();
    for (focus, code) in [("format", 0), ("json", 1)] {
        let arguments = ["--focus", focus, "--max-total-increase", "5%"];
        let output = check(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(code), "{focus}: {output:?}");
        assert!(
            stdout(&output).contains(&format!("only stacks with {focus}")),
            "{output:?}"
        );
    }
    let output = check(dir.path(), &["--thread", "nobody", "--max-total-increase", "5%"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(125) && stderr.contains("no thread \"nobody\""),
        "{stderr}"
    );
}

#[test]
fn ci_systems_and_pull_requests_have_their_forms() {
    let dir = temp_dir();
    let rules = [
        "--by",
        "functions",
        "--max-increase",
        "parse*=10%",
        "--max-increase",
        "<none>=1%",
        "--max-increase",
        "format=1%",
    ];
    let junit = stdout(&check(dir.path(), &[&rules[..], &["--format", "junit"]].concat()));
    assert!(
        junit.contains("<testsuites tests=\"3\" failures=\"1\" skipped=\"1\">"),
        "{junit}"
    );
    assert!(
        junit.contains("<failure message=\"parse::json took 30.0 % more: 4000 -&gt; 5200 samples"),
        "{junit}"
    );
    assert!(junit.contains("name=\"&lt;none&gt; may take 1 % more\""), "{junit}");
    let md = stdout(&check(dir.path(), &[&rules[..], &["--format", "md"]].concat()));
    assert!(
        md.contains("| parse* may take 10 % more | **broken** | parse::json took"),
        "{md}"
    );
    let json = stdout(&check(dir.path(), &[&rules[..], &["--format", "json"]].concat()));
    let json: serde_json::Value = parsed(&json);
    let outcomes: Vec<&str> = (json["rules"].as_array().unwrap().iter())
        .map(|rule| rule["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["broken", "cannot tell", "kept"]);
    let increase = json["rules"][0]["found"][0]["increase"].as_f64().unwrap();
    assert!((increase - 0.3).abs() < 1e-9, "{json:#}");
    for (form, three) in [
        (
            &junit,
            [
                "<failure ",
                "<skipped message=\"cannot tell: no function",
                "<system-out>",
            ],
        ),
        (&md, ["**broken**", "| cannot tell |", "| kept |"]),
    ] {
        assert!(three.iter().all(|outcome| form.contains(outcome)), "{form}");
    }
}

/// Eight runs of `versions` each, a tenth of a second long. Of five, two that a slow phase of the machine makes half as
/// long again hide even three times the work.
#[cfg(target_os = "linux")]
#[test]
fn recordings_of_slower_equal_and_renamed_programs_are_told_apart() {
    use crate::support;

    let Some(()) = support::skip::perf_events() else {
        return;
    };
    support::machine::alone();
    let dir = temp_dir();
    let app = dir.path().join("app.old");
    let recorded = |name: &str, app: &Path, rounds: &str| {
        let options = ["--rate", "4000", "--iteration-count", "8"];
        let (recording, _) = support::record().options(&options).profile(app, &[rounds]);
        let file = dir.path().join(name);
        std::fs::copy(&recording.output, &file).unwrap();
        file
    };
    support::copy_program(support::program("versions").unwrap(), &app);
    let old = recorded("old.json.gz", &app, "60");
    let renamed = dir.path().join("app");
    support::copy_program(&app, &renamed);
    // 60 rounds take a third of the time of 176, by the program's own numbers.
    let slower = recorded("slower.json.gz", &renamed, "176");
    let equal = recorded("equal.json.gz", &renamed, "60");
    let outcome = |new: &Path, rule: &[&str]| {
        let mut command = sprof();
        command
            .current_dir(dir.path())
            .arg("check")
            .arg(new)
            .arg("--base")
            .arg(&old);
        let output = command.args(rule).output().unwrap();
        (output.status.code(), stdout(&output))
    };
    let broken = [
        &["--max-increase", "main=5%"][..],
        &["--max-increase", "version_0=5%"],
        &["--max-increase", "*=5%"],
        &["--max-total-increase", "5%"],
    ];
    for rule in broken {
        let (code, text) = outcome(&slower, rule);
        assert_eq!(code, Some(1), "{rule:?}: {text}");
        assert!(text.contains("app.old before is app after"), "{text}");
    }
    // What the machine does meanwhile is not the program's: a CPU that others share may be half as fast for seconds.
    for rule in [&["--max-increase", "main=150%"][..], &["--max-total-increase", "150%"]] {
        let (code, text) = outcome(&equal, rule);
        assert_eq!(code, Some(0), "{rule:?}: {text}");
    }
    // Some three samples of each run: its clock misses up to a third of it, and five runs that agree prove nothing.
    let options = ["--rate", "30", "--iteration-count", "5"];
    let (few, _) = support::record().options(&options).profile(&renamed, &["60"]);
    for rule in [&["--max-increase", "main=5%"][..], &["--max-total-increase", "5%"]] {
        let (code, text) = outcome(&few.output, rule);
        assert_eq!(code, Some(3), "{rule:?}: {text}");
    }
    // Nothing is new and nothing gone because the file has another name. Of a hundred such lists one has a change by
    // chance if the limit is the usual one; this one is that of five standard deviations.
    let mut diff = sprof();
    diff.args(["diff", "--false-discoveries", "0.00006"]);
    let output = diff.args([&old, &equal]).output().unwrap();
    let text = stdout(&output);
    assert!(text.contains("app.old before is app after"), "{text}");
    assert!(!text.contains("slower") && !text.contains("faster"), "{text}");
}

/// The base and the file of the result, under their one name in all commands that compare.
#[test]
fn comparisons_take_the_base_and_write_files_as_check_does() {
    let dir = temp_dir();
    let [old, new] = recordings(dir.path());
    let (old, new) = (old.to_str().unwrap(), new.to_str().unwrap());
    let run = |words: &[&str]| {
        let output = sprof().current_dir(dir.path()).args(words).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {stderr}");
        stdout(&output)
    };
    let expected = run(&["diff", old, new]);
    assert!(expected.contains("parse::json"), "{expected}");
    for words in [
        ["diff", new, "--base", old],
        ["diff", "--base", old, new],
        ["diff", old, "--new", new],
    ] {
        assert_eq!(run(&words), expected, "{words:?}");
    }
    let rule = ["check", new, "--base", old, "--max-increase", "*=50%"];
    let formats = [("text", "txt"), ("md", "md"), ("json", "json"), ("junit", "xml")];
    for (command, formats) in [
        (&["diff", old, new][..], &formats[..3]),
        (&rule[..], &formats[..]),
        (&["annotate", new, "format"], &[formats[0], formats[2]]),
    ] {
        for (format, end) in formats {
            let words = [command, &["-f", format]].concat();
            let printed = run(&words);
            let file = dir.path().join(format!("{}.{end}", command[0]));
            // The second one replaces the first.
            for _ in 0..2 {
                let to_file = run(&[&words[..], &["-o", file.to_str().unwrap()]].concat());
                assert_eq!(to_file, "");
                assert_eq!(std::fs::read_to_string(&file).unwrap(), printed, "{words:?}");
            }
            if *format == "json" {
                assert_eq!(run(&[command, &["--json"]].concat()), printed);
                let schema = format!("{{\"schema\":\"sprof-{}\",\"schema_version\":1,", command[0]);
                assert!(printed.starts_with(&schema), "{printed}");
            }
        }
    }
    // A file of another kind stays.
    let source = dir.path().join("main.rs");
    std::fs::write(&source, "fn main() {}\n").unwrap();
    let output = (sprof().args(["diff", old, new, "-o"]).arg(&source)).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(std::fs::read_to_string(&source).unwrap(), "fn main() {}\n");
}
