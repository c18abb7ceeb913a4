//! `sprof doctor --self-test`, and what has something to do on macOS alone.

use crate::support::machine::alone;
use crate::support::sprof;

#[test]
fn the_self_test_passes_and_prints_a_block_to_paste() {
    alone();
    let output = sprof().args(["doctor", "--self-test"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.first() == Some(&"```") && lines.last() == Some(&"```"), "{text}");
    for wanted in [
        "sprof: ",
        "os: Linux",
        "ok     the program ends by itself",
        "ok     functions have names",
        "ok     shares are right",
        "self-test: passed",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(wanted)),
            "no `{wanted}` in {text}"
        );
    }
}

#[test]
fn setup_and_resume_say_that_there_is_nothing_to_do_on_linux() {
    let output = sprof().arg("setup").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing to set up"));
    let output = sprof().args(["doctor", "--resume", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing stays stopped"));
}
