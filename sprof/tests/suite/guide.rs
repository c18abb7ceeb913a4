//! `sprof guide`: its examples run as they stand, and another program takes its schemas.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::span_views::requests;
use crate::support::client::script;
use crate::support::run::output;
use crate::support::schema::{self, parsed};
use crate::support::skip::perf_events;
use crate::support::{sprof, temp_dir};

/// The page, and its examples.
fn guide() -> (String, Vec<String>) {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide.md")).unwrap();
    let examples = page.lines().filter_map(|line| line.strip_prefix("    "));
    let examples = examples.map(str::to_owned).collect();
    (page, examples)
}

/// What the shell makes of a line, in a folder with the files that the page supposes.
fn shell(line: &str, folder: &Path) -> Output {
    let own = Path::new(env!("CARGO_BIN_EXE_sprof")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    // A running process, which ends when it is recorded: the header of what is recorded so far is written then.
    let is_recorded = "timeout 120 sh -c 'until [ -s profile.json.gz.partial ]; do sleep 0.01; done'";
    let before = match line.contains("$PID") {
        true => format!("{is_recorded} & PID=$!\n"),
        false => String::new(),
    };
    let mut command = Command::new("sh");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"SPROF_")) {
        command.env_remove(name);
    }
    command
        .args(["-c", &format!("{before}{line}")])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", own.display()))
        .env("SPROF_CACHE", "off")
        .env_remove("CI");
    output(&mut command)
}

fn run(examples: &[&String], folder: &Path) {
    for example in examples {
        let output = shell(example, folder);
        // Chance leaves open whether a file is slower than itself.
        let expected = if example.contains("sprof check") { 3 } else { 0 };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{example}: {said}");
        if example.contains("--json") {
            parsed(&output.stdout);
        }
    }
}

/// True of examples that record, or read what only a recording has.
fn is_of_recording(example: &str) -> bool {
    let words = ["sprof record", "sprof stat", "heap.json.gz", "resources"];
    words.iter().any(|words| example.contains(words))
}

#[test]
fn examples_that_read_run_as_they_stand() {
    let (page, examples) = guide();
    let printed = output(sprof().arg("guide"));
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), page);
    assert!(page.lines().count() <= 120 && page.lines().all(|line| line.chars().count() <= 100));

    let folder = temp_dir();
    let file = requests(folder.path(), 200, 10);
    for name in ["profile.json.gz", "old.json.gz", "new.json.gz"] {
        fs::copy(&file, folder.path().join(name)).unwrap();
    }
    let read: Vec<&String> = examples.iter().filter(|example| !is_of_recording(example)).collect();
    assert!(read.len() > 12, "{read:?}");
    std::thread::scope(|scope| {
        for part in read.chunks(read.len().div_ceil(3)) {
            scope.spawn(|| run(part, folder.path()));
        }
    });
}

#[test]
fn examples_that_record_run_as_they_stand() {
    let Some(()) = perf_events() else { return };
    let (_, examples) = guide();
    let of_recording = examples.iter().filter(|example| is_of_recording(example));
    let (of_app, others): (Vec<&String>, Vec<&String>) =
        of_recording.partition(|example| !example.contains("heap") && !example.contains("sprof stat"));
    std::thread::scope(|scope| {
        for part in [of_app, others] {
            scope.spawn(move || run(&part, with_programs().path()));
        }
    });
}

/// A folder with the programs that the page supposes. `app` takes a block of 3 MB, which one in 512 kB is sure to meet.
fn with_programs() -> tempfile::TempDir {
    let folder = temp_dir();
    let takes = "x=$(head -c 3000000 /dev/zero | tr '\\0' x)";
    for (name, script) in [("app", takes), ("old", ""), ("new", "")] {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// Its outputs are those of `sprof doctor`, `report` and `diff`.
#[test]
#[ignore = "a validator in Node takes a second; the other tests check what it checks"]
fn a_validator_takes_the_schemas_and_what_they_accept() {
    let folder = temp_dir();
    let file = requests(folder.path(), 20, 10);
    let name = file.to_str().unwrap();
    let outputs = [&["doctor"][..], &["report", name], &["diff", name, name]].map(|words| {
        let printed = output(sprof().args(words).arg("--json")).stdout;
        let path = folder.path().join(format!("{}.output", words[0]));
        fs::write(&path, printed).unwrap();
        path
    });
    let schemas = schema::folder();
    let paths = [&schemas].into_iter().chain(&outputs);
    let paths: Vec<&OsStr> = paths.map(|path| path.as_os_str()).collect();
    let Some(answer) = script("schemas.js", &paths) else {
        return;
    };
    assert_eq!(answer, "valid\n");
}
