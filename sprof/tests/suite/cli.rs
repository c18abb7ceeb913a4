//! Errors that need no recording: each names what was attempted, on what, and the next step, with the documented
//! status.

use std::process::{Command, Output, Stdio};

fn sprof(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sprof"));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"SPROF_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    sprof(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_refused(output: &Output, status: i32, expected: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(
        output.stdout.is_empty(),
        "stdout is the program's: {}",
        text(&output.stdout)
    );
    for expected in expected {
        assert!(stderr.contains(expected), "no {expected:?} in:\n{stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn wrong_usage_is_status_2_and_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("ran");
    let touch = ["touch", witness.to_str().unwrap()];
    for (options, expected) in [
        (&["-r", "0"][..], "more than 0"),
        (&["-r", "1000000000"], "limit"),
        (&["-r", "-1"], "more than 0"),
        (&["-d", "0"], "leave -d away"),
        (&["-o", "-", "--json"], "--json"),
        (&["--stack-size", "1"], "multiple of 8"),
        (&["-P", "x"], "3000+"),
        (&["-a", "--iteration-count", "2"], "-a"),
        (&["-p", "1", "2"], "-p 1,2"),
    ] {
        let arguments: Vec<&str> = [&["record"], options, &touch].concat();
        assert_refused(&run(&arguments), 2, &[expected]);
    }
    assert_refused(&run(&["record", "A=1", "B=2"]), 2, &["no command after the variables"]);
    assert_refused(&run(&[]), 2, &["record"]);
    assert!(!witness.exists());
}

#[test]
fn advice_names_sprof_by_its_full_path() {
    let own = env!("CARGO_BIN_EXE_sprof");
    let no_event = format!("`{own} record -e list` shows");
    assert_refused(&run(&["record", "-e", "no-such-event", "true"]), 2, &[&no_event]);
    let no_command = format!("run: {own} record env");
    assert_refused(&run(&["record", "A=1"]), 2, &[&no_command]);
}

#[test]
fn environment_variables_stand_for_flags() {
    let output = sprof(&["record", "true"]).env("SPROF_RATE", "0").output().unwrap();
    assert_refused(&output, 2, &["more than 0"]);
    let folder = tempfile::tempdir().unwrap();
    let output = sprof(&["record", "-r", "5", "--ui-dir", "/no/such/ui", "true"])
        .env("SPROF_RATE", "0")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(2), "the flag wins: {}", text(&output.stderr));
}

#[test]
fn an_output_that_cannot_be_written_is_said_before_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("ran");
    let missing = folder.path().join("none/p.json.gz");
    for (output, expected) in [
        (missing.to_str().unwrap(), "create it first"),
        (folder.path().to_str().unwrap(), "it is a folder"),
        ("/proc/none/p.json.gz", "/proc/none"),
    ] {
        let refused = run(&["record", "-s", "-o", output, "touch", witness.to_str().unwrap()]);
        assert_refused(&refused, 125, &[output, expected, "nothing was run"]);
    }
    assert!(!witness.exists());
}

#[test]
fn files_that_are_no_profiles_are_named_with_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "not a profile").unwrap();
    let file = file.to_str().unwrap();
    assert_refused(&run(&["load", "-n", file]), 125, &[file, "expected a Firefox profile"]);
    let folder = folder.path().to_str().unwrap();
    assert_refused(&run(&["load", "-n", folder]), 125, &[folder]);
    assert_refused(&run(&["load", "-n", "/no/such/file"]), 125, &["/no/such/file"]);
}

#[test]
fn help_lists_what_exists_and_nothing_else() {
    let output = run(&["--help"]);
    assert!(output.status.success());
    let help = text(&output.stdout);
    for command in [
        "record",
        "load",
        "diff",
        "report",
        "annotate",
        "export",
        "flamegraph",
        "top",
        "share",
        "doctor",
        "completions",
        "man",
        "125",
        "SPROF_",
    ] {
        assert!(help.contains(command), "{command}");
    }
    assert!(!help.contains("setup"), "setup is announced");
}

#[test]
fn variables_for_sharing_are_no_reason_to_refuse_a_recording() {
    let output = sprof(&["record", "-e", "list:page-faults"])
        .env("SPROF_YES", "1")
        .env("SPROF_SERVER", "https://store.example.org")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn completions_and_man_pages_come_from_the_definition() {
    for shell in ["elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("iteration-count"), "{shell}");
    }
    let page = run(&["man", "record"]);
    assert!(page.status.success());
    assert!(text(&page.stdout).contains("iteration"));
    for command in ["record", "report", "cargo"] {
        let page = run(&["man", command]);
        for section in ["EXAMPLES", "\"EXIT STATUS\"", "ENVIRONMENT", "FILES", "\"SEE ALSO\""] {
            assert!(
                text(&page.stdout).contains(&format!(".SH {section}\n")),
                "{command} {section}"
            );
        }
    }
    assert_refused(&run(&["man", "nothing"]), 2, &["nothing", "record"]);
}

#[test]
fn a_reader_that_leaves_is_a_quiet_end() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = sprof(&["completions", "bash"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(output.status.success());
}

#[test]
fn a_closed_stderr_is_no_reason_to_crash() {
    let shell = format!("'{}' load /no/such/file 2>&-", env!("CARGO_BIN_EXE_sprof"));
    let status = Command::new("sh").args(["-c", &shell]).status().unwrap();
    assert_eq!(status.code(), Some(125));
}

#[test]
fn colour_only_where_it_is_wanted() {
    let plain = run(&["load", "/no/such/file"]);
    assert!(!text(&plain.stderr).contains('\u{1b}'));
    let forced = sprof(&["load", "/no/such/file"])
        .env("CLICOLOR_FORCE", "1")
        .env_remove("NO_COLOR")
        .output()
        .unwrap();
    assert!(text(&forced.stderr).contains('\u{1b}'));
}

#[test]
fn every_field_of_a_json_output_is_described() {
    let described = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md")).unwrap();
    let folder = crate::support::temp_dir();
    let [old, new] = ["old.folded", "new.folded"].map(|name| folder.path().join(name));
    std::fs::write(&old, "main;first 300\nmain;second 100\n").unwrap();
    std::fs::write(&new, "main;first 300\nmain;second 200\n").unwrap();
    let [old, new] = [old.to_str().unwrap(), new.to_str().unwrap()];
    for line in [
        &["report", old, "--json"][..],
        &["annotate", old, "first", "-f", "json"],
        &["diff", old, new, "--json"],
        &["check", new, "--max-increase", "first=10%", "--json", "--base", old],
        &["doctor", "--json"],
        &["doctor", "-f", "json"],
        &["record", "-s", "--json", "-o", "/dev/null", "true"],
    ] {
        let output = run(line);
        let object = crate::support::schema::parsed(&output.stdout);
        for key in object.as_object().unwrap().keys() {
            assert!(described.contains(&format!("`{key}`")), "{line:?}: {key}");
        }
    }
}
