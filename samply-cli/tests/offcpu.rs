//! `--off-cpu`: recordings of programs whose waits are known.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod support;

use serde_json::Value;
use support::profile::Thread;
use support::skip::{kernel_samples, perf_events};
use support::waits::{assert_quarters, main_thread, weight_ms};
use support::{Profile, program, record};

/// The times of a thread and of its profile agree: what it was on a CPU and what it was not is all there is.
fn assert_whole(profile: &Profile, thread: &Thread, wall_ms: f64) {
    let all = weight_ms(profile, thread, |_| true);
    assert!(
        (all / wall_ms - 1.0).abs() < 0.03,
        "{}: {all} ms of {wall_ms} ms\n{}",
        thread.name,
        profile.summary()
    );
}

#[test]
fn equal_quarters_of_spinning_sleeping_reading_and_locking() {
    let Some(_machine) = kernel_samples() else { return };
    let (recording, profile) = record()
        .options(&["--off-cpu"])
        .profile(program("waits").unwrap(), &["3", "250"]);
    let thread = main_thread(&profile);
    assert_quarters(&profile, thread, |label| recording.printed(label));
    assert_eq!(thread.samples.iter().filter(|sample| sample.weight < 0.0).count(), 0);
    assert!(thread.is_monotonic());
    for name in ["[guess: stack of another wait]", "[stack not sampled]"] {
        assert_eq!(profile.share_of(name).hits, 0, "{name}\n{}", profile.summary());
    }
}

#[test]
fn waits_use_no_cpu_and_have_categories_of_their_own() {
    let Some(_machine) = kernel_samples() else { return };
    let (recording, profile) = record()
        .options(&["--off-cpu", "--json"])
        .profile(program("waits").unwrap(), &["2", "300"]);
    let (mut waits, mut on_cpu) = (0, 0);
    for sample in profile.samples() {
        let frames: Vec<_> = profile.stack_frames(sample.stack.unwrap()).collect();
        let leaf = frames.last().unwrap();
        let is_wait = frames.iter().any(|frame| frame.function == "[off-CPU]");
        let category = match leaf.function.as_str() {
            "[waiting for a CPU]" => Some("Waiting for a CPU"),
            name if name.starts_with("[off-CPU: ") => Some("Off-CPU"),
            _ => None,
        };
        assert_eq!(category.is_some(), is_wait, "{leaf:?}");
        if let Some(category) = category {
            assert_eq!(leaf.category, category);
            assert_eq!(sample.cpu_delta, Some(0.0));
            waits += 1;
        } else {
            assert_eq!(sample.weight, 1.0, "a sample at 1 kHz stands for 1 ms");
            on_cpu += 1;
        }
    }
    assert!(waits > 5 && on_cpu > 50, "{waits} waits, {on_cpu} samples");
    for thread in profile.json["threads"].as_array().unwrap() {
        assert_eq!(thread["samples"]["weightType"], "tracing-ms");
    }
    // On-CPU shares are of samples on a CPU, off-CPU shares of the time off it.
    let json: Value = serde_json::from_str(recording.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(json["samples"], on_cpu);
    let hottest = &json["hottest"][0];
    assert!(hottest["self_share"].as_f64().unwrap() > 0.8, "{json}");
    let sleep_s = json["off_cpu"]["by_reason"]["sleep"]["time_s"].as_f64().unwrap();
    assert!((1.7..2.2).contains(&sleep_s), "main 0.6 s, helper 1.2 s: {json}");
    assert!(recording.stderr.contains("on-CPU "), "{}", recording.stderr);
    assert!(recording.stderr.contains("off-CPU "), "{}", recording.stderr);
}

#[test]
fn a_wait_that_outlasts_the_recording_is_shown() {
    let Some(_machine) = kernel_samples() else { return };
    let recording = record()
        .options(&["--off-cpu", "--duration", "1.5"])
        .run(program("waits").unwrap(), &["1", "50", "forever"]);
    let profile = recording.profile();
    let thread = main_thread(&profile);
    let forever = weight_ms(&profile, thread, |names| {
        names.contains(&"wait_forever") && names.last() == Some(&"[off-CPU: pipe or socket]")
    });
    let end_ms = profile.json["meta"]["profilingEndTime"].as_f64().unwrap();
    assert!(
        forever > 1000.0 && forever < end_ms,
        "{forever} of {end_ms} ms\n{}",
        profile.summary()
    );
    // Main and helper.
    assert_eq!(profile.figure(&["lasted until"]), 2.0);
    // In pieces, so that a selection in the middle shows it.
    let last = thread.samples.iter().rfind(|sample| sample.weight > 0.0).unwrap();
    assert!(
        end_ms - last.time_ms < 250.0,
        "the last piece is at {} of {end_ms} ms",
        last.time_ms
    );
}

#[test]
fn two_spinners_on_one_cpu_wait_for_it_half_of_the_time() {
    let Some(_machine) = kernel_samples() else { return };
    let threads = program("threads").unwrap();
    let command = ["-c", "0", threads.to_str().unwrap(), "2", "1500"];
    let (_, profile) = record().options(&["--off-cpu"]).profile("taskset", &command);
    for name in ["worker-000", "worker-001"] {
        let thread = profile.threads_named(name).next().unwrap();
        let wall_ms = thread.end_ms.unwrap() - thread.start_ms;
        assert_whole(&profile, thread, wall_ms);
        let waiting = weight_ms(&profile, thread, |names| names.last() == Some(&"[waiting for a CPU]"));
        // Each uses 1500 ms of CPU time. Others on this CPU make the rest longer.
        let (percent, expected) = (100.0 * waiting / wall_ms, 100.0 * (1.0 - 1500.0 / wall_ms));
        assert!(
            (percent - expected).abs() <= 3.0,
            "{percent:.1} %, not {expected:.1} %\n{}",
            profile.summary()
        );
        assert!(percent > 45.0, "{percent:.1} %");
        let with_stack = weight_ms(&profile, thread, |names| {
            names.contains(&"thread_work") && names.last() == Some(&"[waiting for a CPU]")
        });
        assert!(with_stack > 0.97 * waiting, "{}", profile.summary());
    }
}

#[test]
fn without_the_option_nothing_changes() {
    let Some(_machine) = perf_events() else { return };
    let (recording, profile) = record().profile(program("waits").unwrap(), &["1", "50"]);
    assert_eq!(profile.json["threads"][0]["samples"]["weightType"], "samples");
    assert_eq!(profile.share_of("[off-CPU]").hits, 0);
    assert!(!recording.stderr.contains("off-CPU"), "{}", recording.stderr);
}
