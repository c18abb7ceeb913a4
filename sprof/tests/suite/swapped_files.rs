//! A FIFO comes to the place of a file between two looks at the file. Whoever opens it by name then waits forever;
//! sprof does not wait.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::run::output;
use crate::support::skip::{Need, has, perf_events};
use crate::support::{Recording, program, record, sprof, temp_dir, tests_dir};

/// The command before sprof that swaps the file once sprof has named it in so many system calls.
fn swap(folder: &Path, pattern: &str, calls: usize) -> Vec<String> {
    let swap = program("swap").unwrap();
    let words = [
        swap.to_str().unwrap(),
        folder.to_str().unwrap(),
        pattern,
        &calls.to_string(),
    ];
    words.map(str::to_owned).to_vec()
}

/// True where a program may trace its own child.
fn may_trace() -> bool {
    let traced = Command::new(&swap(Path::new("/"), "none", 1)[0])
        .args(["/", "none", "1", "true"])
        .status();
    has(Need::Attach, traced.unwrap().success(), "ptrace is not permitted")
}

/// Calls `run` with each number of calls, until sprof makes no more of them. `run` returns what sprof wrote to stderr.
fn after_each_call(run: impl Fn(usize) -> String) {
    let mut calls = 0;
    loop {
        calls += 1;
        let stderr = run(calls);
        if !stderr.lines().any(|line| line == "swapped") {
            break;
        }
        assert!(calls < 50, "{stderr}");
    }
    // At least one look, and the opening.
    assert!(calls > 1, "sprof does not look at the file");
}

/// Records a program that ends when the recording does. If it ended by itself, its end would interrupt a call that
/// waits (SIGCHLD).
fn record_for_a_second(wrapper: &[String], name: &str, arguments: &[&str]) -> Recording {
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let recorder = record().under(&wrapper).options(&["--duration", "1"]);
    let recording = recorder.run(program(name).unwrap(), arguments);
    // Of a program that SIGTERM ended.
    assert_eq!(recording.code, Some(128 + 15), "{}", recording.stderr);
    recording
}

#[test]
fn a_perf_map_that_becomes_a_fifo_is_not_waited_for() {
    let Some(()) = perf_events() else { return };
    if !may_trace() {
        return;
    }
    after_each_call(|calls| {
        let wrapper = swap(Path::new("/tmp"), "perf-*.map", calls);
        let recording = record_for_a_second(&wrapper, "jit", &["600000", "rwx", "map"]);
        for pid in recording.profile().pids() {
            let _ = fs::remove_file(format!("/tmp/perf-{pid}.map"));
        }
        recording.stderr
    });
}

#[test]
fn a_mapped_file_that_becomes_a_fifo_is_not_waited_for() {
    let Some(()) = perf_events() else { return };
    if !may_trace() {
        return;
    }
    let library = program("library.so").unwrap();
    after_each_call(|calls| {
        let dir = temp_dir();
        let copy = dir.path().join("library.so");
        fs::copy(&library, &copy).unwrap();
        let wrapper = swap(dir.path(), "library.so", calls);
        let arguments = [copy.to_str().unwrap(), "600000"];
        record_for_a_second(&wrapper, "dlopen", &arguments).stderr
    });
}

#[test]
fn a_source_that_becomes_a_fifo_is_not_waited_for() {
    let Some(()) = perf_events() else { return };
    if !may_trace() {
        return;
    }
    let dir = temp_dir();
    let source = dir.path().join("forged.c");
    let programs = tests_dir().join("programs");
    let text = fs::read(programs.join("forged.c")).unwrap();
    fs::write(&source, &text).unwrap();
    let built = Command::new("cc")
        .args(["-O1", "-g", "-DNAME=some_function", "-I"])
        .arg(programs)
        .arg("-o")
        .args([&dir.path().join("prog"), &source])
        .status();
    assert!(built.unwrap().success());
    let (recording, _) = record().profile(dir.path().join("prog"), &["200"]);
    after_each_call(|calls| {
        let _ = fs::remove_file(&source);
        fs::write(&source, &text).unwrap();
        let wrapper = swap(dir.path(), "forged.c", calls);
        let sprof = sprof();
        let mut annotate = Command::new(&wrapper[0]);
        annotate.args(&wrapper[1..]).arg(sprof.get_program());
        annotate.arg("annotate").arg(&recording.output).arg("some_function");
        let shown = output(&mut annotate);
        let stderr = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert!(shown.status.success(), "{stderr}");
        stderr
    });
}
