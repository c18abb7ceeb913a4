//! `sprof check`: rules that hold, rules that are broken, and rules about nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Output;

use support::{sprof, temp_dir};

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
        ("parse::json=20%", 1),
        ("parse*=20%", 1),
        ("parse*=40%", 0),
        ("format=0%", 0),
        ("*=20%", 1),
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
    std::fs::write(&rules, "[check.max-increase]\n\"parse*\" = \"20%\"\nformat = 5\n").unwrap();
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
fn a_rule_about_nothing_is_told_and_no_rule_at_all_is_an_error() {
    let dir = temp_dir();
    let output = check(dir.path(), &["--max-increase", "pasre=1%"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("`pasre`: that rule checks nothing"), "{stderr}");
    assert!(stdout(&output).contains("not seen  pasre"), "{}", stdout(&output));
    assert_eq!(check(dir.path(), &[]).status.code(), Some(2));
    assert_eq!(check(dir.path(), &["--max-increase", "f=fast"]).status.code(), Some(2));
}

#[test]
fn ci_systems_and_pull_requests_have_their_forms() {
    let dir = temp_dir();
    let rules = [
        "--by",
        "functions",
        "--max-increase",
        "parse*=20%",
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
        md.contains("| parse* may take 20 % more | **broken** | parse::json took"),
        "{md}"
    );
}
