//! How recordings end: exit statuses, signals, durations; a valid profile each time, and nothing left behind.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::run::Running;
use crate::support::skip::perf_events;
use crate::support::target::wait_for_state;
use crate::support::{Recording, program, record, sprof, wait_until};

fn start(mode: &str, options: &[&str]) -> Running {
    record().options(options).start(program("exits").unwrap(), &[mode])
}

/// A profile with samples of the work that every mode does first.
fn assert_complete(recording: &Recording) {
    let profile = recording.profile();
    // Of 100: a host that takes two thirds of the CPU time away, in small pieces, leaves a third.
    let busy = profile.share_of("busy_work");
    assert!(busy.hits > 20, "{busy:?}\n{}\n{}", profile.summary(), recording.stderr);
    recording.assert_tidy();
}

#[test]
fn the_status_is_that_of_the_program() {
    let Some(()) = perf_events() else { return };
    for status in [0, 3] {
        let recording = record().run(program("exits").unwrap(), &["status", &status.to_string()]);
        assert_eq!(recording.code, Some(status), "{}", recording.stderr);
        let failed = recording.stderr.contains("exits ended with exit status 3\n");
        assert_eq!(failed, status == 3, "{}", recording.stderr);
        assert_complete(&recording);
    }
}

#[test]
fn a_path_alone_is_recorded_and_a_profile_alone_is_loaded() {
    let Some(()) = perf_events() else { return };
    let folder = support::temp_dir();
    let profile = folder.path().join("profile.json.gz");
    let output = sprof()
        .arg(program("exits").unwrap())
        .args(["status", "3"])
        .env("SPROF_OUTPUT", &profile)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        support::Profile::read(&profile).share_of("busy_work").hits > 20,
        "{stderr}"
    );
    let saved = folder.path().join("saved.json.gz");
    let output = sprof()
        .arg(&profile)
        .env("SPROF_SAVE_ONLY", "1")
        .env("SPROF_OUTPUT", &saved)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let saved = support::Profile::read(&saved);
    let is_nameless = |name: &&str| name.starts_with("fun_") || name.starts_with("0x");
    let said = match saved.share(|_| true, |names| names.iter().any(is_nameless)).hits {
        0 => "all functions of the profile have names",
        _ => "no more names are available than the profile has",
    };
    assert!(stderr.contains(said), "{stderr}");
    assert!(saved.share_of("busy_work").hits > 20, "{stderr}");
}

#[test]
fn a_rust_panic_is_status_101() {
    let Some(()) = perf_events() else { return };
    let recording = record().run::<&str>(program("panic_rs").unwrap(), &[]);
    assert_eq!(recording.code, Some(101), "{}", recording.stderr);
    // The program's own words on its standard error pass through.
    assert!(
        recording.stderr.contains("the test program panics on purpose"),
        "{}",
        recording.stderr
    );
    assert!(recording.profile().sample_count() > 5);
}

#[test]
fn death_by_signal_n_is_status_128_plus_n() {
    let Some(()) = perf_events() else { return };
    for (mode, status, signal) in [("segv", 139, "11 (SIGSEGV)"), ("abort", 134, "6 (SIGABRT)")] {
        let recording = record().run(program("exits").unwrap(), &[mode]);
        assert_eq!(recording.code, Some(status), "{mode}: {}", recording.stderr);
        let line = format!("exits was killed by signal {signal}\n");
        assert!(recording.stderr.contains(&line), "{mode}: {}", recording.stderr);
        assert_complete(&recording);
    }
}

#[test]
fn a_program_that_does_not_exist_is_status_127() {
    let recording = record().run::<&str>("/no/such/program", &[]);
    assert_eq!(recording.code, Some(127), "{}", recording.stderr);
    assert!(recording.stderr.contains("/no/such/program"), "{}", recording.stderr);
    assert!(!recording.output.exists());
    recording.assert_tidy();

    let recording = record().run::<&str>("no-such-program-in-the-path", &[]);
    assert_eq!(recording.code, Some(127), "{}", recording.stderr);
}

#[test]
fn a_file_that_is_not_executable_is_status_126() {
    let dir = support::temp_dir();
    let file = dir.path().join("not-executable");
    std::fs::write(&file, "text").unwrap();
    let recording = record().run::<&str>(&file, &[]);
    assert_eq!(recording.code, Some(126), "{}", recording.stderr);
    assert!(recording.stderr.contains("not-executable"), "{}", recording.stderr);
    let recording = record().run::<&str>(dir.path(), &[]);
    assert_eq!(recording.code, Some(126), "a directory: {}", recording.stderr);
}

#[test]
fn wrong_usage_is_status_2() {
    for arguments in [
        &["record", "--no-such-flag", "true"][..],
        &["record"],
        &["no-such-command"],
    ] {
        let output = sprof().args(arguments).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn ctrl_c_goes_to_the_program_and_the_profile_is_finished() {
    let Some(()) = perf_events() else { return };
    let running = start("catch-int", &[]);
    running.wait_for("ready");
    running.signal_group("INT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(7), "{}", recording.stderr);
    assert!(recording.stdout.contains("caught"), "{}", recording.stdout);
    assert_complete(&recording);
}

#[test]
fn ctrl_c_that_sprof_sees_when_the_program_has_ended_is_none_for_the_names() {
    let Some(()) = perf_events() else { return };
    let running = start("catch-int", &[]);
    running.wait_for("ready");
    running.signal_sprof("STOP");
    wait_for_state(&running.sprof_pid().to_string(), 1, "T");
    running.signal_group("INT");
    running.wait_for("caught");
    wait_until(|| running.targets().is_empty(), || "the program has ended".to_owned());
    running.signal_sprof("CONT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(7), "{}", recording.stderr);
    assert!(!recording.stderr.contains("interrupted"), "{}", recording.stderr);
    assert_complete(&recording);
}

#[test]
fn ctrl_c_that_kills_the_program_is_status_130() {
    let Some(()) = perf_events() else { return };
    let running = start("sleep", &[]);
    running.wait_for("ready");
    running.signal_group("INT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(130), "{}", recording.stderr);
    assert_complete(&recording);
}

#[test]
fn sigint_to_sprof_alone_reaches_the_program() {
    let Some(()) = perf_events() else { return };
    // `kill -INT $(pgrep sprof)`, or a supervisor: there is no terminal that signals the group.
    let running = start("catch-int", &[]);
    running.wait_for("ready");
    running.signal_sprof("INT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(7), "{}", recording.stderr);
    assert_complete(&recording);
}

#[test]
fn a_second_ctrl_c_stops_a_program_that_ignores_the_first() {
    let Some(()) = perf_events() else { return };
    let running = start("ignore-int", &[]);
    running.wait_for("ready");
    running.signal_group("INT");
    running.wait_until_interrupted();
    running.signal_group("INT");
    let recording = running.finish();
    assert_ne!(recording.code, Some(0), "{}", recording.stderr);
    assert_complete(&recording);
}

#[test]
fn sigterm_goes_to_the_program_and_the_profile_is_written() {
    let Some(()) = perf_events() else { return };
    let running = start("sleep", &[]);
    running.wait_for("ready");
    running.signal_sprof("TERM");
    let recording = running.finish();
    assert_eq!(recording.code, Some(143), "{}", recording.stderr);
    assert_complete(&recording);
}

#[test]
fn a_duration_ends_the_recording_and_the_program_with_all_its_children_unless_it_is_to_be_kept() {
    let Some(()) = perf_events() else { return };
    // Each works for 100 ms first. Four of them, beside other tests, take seconds for it while the host has the CPUs.
    let kept = start("sleep", &["--duration", "6", "--keep-running"]);
    let ended = ["sleep", "tree", "ignore-term"].map(|mode| start(mode, &["--duration", "6"]));
    let [sleep, tree, ignores] = ended.map(Running::finish);
    for recording in [&sleep, &tree, &ignores] {
        assert_complete(recording);
    }
    // The program, its child and its grandchild.
    assert_eq!(tree.profile().figure(&["processes"]), 3.0);
    let kept = kept.finish();
    assert!(kept.profile().share_of("busy_work").hits > 20);
    assert_eq!(kept.left_behind().len(), 1, "{:?}", kept.left_behind());
}

#[test]
fn the_program_owns_the_standard_streams() {
    let Some(()) = perf_events() else { return };
    let recording = record().stdin(b"one\ntwo\n").run(program("exits").unwrap(), &["stdin"]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    assert_eq!(recording.stdout, "one\ntwo\n", "sprof's own words go to standard error");
    assert!(recording.stderr.contains("err\n"), "{}", recording.stderr);
}

#[test]
fn a_summary_with_the_quality_of_the_recording_is_printed() {
    let Some(()) = perf_events() else { return };
    let recording = record().run(program("split").unwrap(), &["500"]);
    // By self time, the hottest function is the loop that is inlined everywhere.
    for word in ["samples", "xorshift", "lost"] {
        assert!(recording.stderr.contains(word), "no `{word}` in: {}", recording.stderr);
    }
    assert!(
        recording.stderr.contains(recording.output.to_str().unwrap()),
        "no path in: {}",
        recording.stderr
    );
}
