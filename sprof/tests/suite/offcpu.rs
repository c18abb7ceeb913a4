//! `--off-cpu`: recordings of programs whose waits are known.
#![cfg(target_os = "linux")]

use std::time::Duration;

use crate::support::machine::{alone, one_cpu};
use crate::support::profile::Thread;
use crate::support::schema::parsed;
use crate::support::skip::{kernel_samples, perf_events};
use crate::support::steal::{undisturbed_or_right, with_stolen_ms};
use crate::support::target::{Target, number_in, wait_for_cpu_ms, wait_for_state};
use crate::support::waits::{assert_quarters, main_thread, weight_ms};
use crate::support::{Profile, program, record};
use serde_json::Value;

/// The times of a thread and of its profile agree: what it was on a CPU and what it was not is all there is. Pauses
/// that the host makes (`stolen_ms`) have no samples.
fn assert_whole(profile: &Profile, thread: &Thread, wall_ms: f64, stolen_ms: f64) {
    let all = weight_ms(profile, thread, |_| true);
    assert!(
        all > 0.97 * wall_ms - stolen_ms && all < 1.03 * wall_ms,
        "{}: {all} ms of {wall_ms} ms; {stolen_ms} ms were taken away\n{}",
        thread.name,
        profile.summary()
    );
}

#[test]
fn equal_quarters_of_spinning_sleeping_reading_and_locking() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    // Records of waits are lost while the host has the CPU of sprof for longer than rings have room.
    undisturbed_or_right(assert_equal_quarters);
}

fn assert_equal_quarters() {
    let ((recording, profile), stolen_ms) = with_stolen_ms(|| {
        record()
            .options(&["--off-cpu"])
            .profile(program("waits").unwrap(), &["3", "250"])
    });
    let thread = main_thread(&profile);
    assert_quarters(&profile, thread, |label| recording.printed(label), stolen_ms);
    assert_eq!(thread.samples.iter().filter(|sample| sample.weight < 0.0).count(), 0);
    assert!(thread.is_monotonic());
    for name in ["[guess: stack of another wait]", "[stack not sampled]"] {
        assert_eq!(profile.share_of(name).hits, 0, "{name}\n{}", profile.summary());
    }
}

#[test]
fn waits_have_categories_of_their_own() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let (recording, profile) = record()
        .options(&["--off-cpu", "--json"])
        .profile(program("waits").unwrap(), &["2", "300"]);
    let (mut waits, mut on_cpu) = (0, 0);
    for sample in profile.samples() {
        let frames: Vec<_> = profile.stack_frames(sample.stack.unwrap()).collect();
        let leaf = frames.last().unwrap();
        let is_wait = frames.iter().any(|frame| frame.function == "[off-CPU]");
        let is_wait_leaf = leaf.function == "[waiting for a CPU]" || leaf.function.starts_with("[off-CPU: ");
        assert_eq!(is_wait_leaf, is_wait, "{leaf:?}");
        // The name by which the front end knows what to leave out.
        assert_eq!(leaf.category == "Idle", is_wait, "{leaf:?}");
        if is_wait {
            assert_eq!(
                leaf.subcategory == "Waiting for a CPU",
                leaf.function == "[waiting for a CPU]",
                "{leaf:?}"
            );
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
    let json: Value = parsed(recording.stdout.lines().last().unwrap());
    assert_eq!(json["samples"], on_cpu);
    let hottest = &json["hottest"][0];
    assert!(hottest["self_share"].as_f64().unwrap() > 0.8, "{json}");
    // Main slept for 0.6 s, and the helper for 1.2 s while main waited for the pipe and the lock. A sleep ends late
    // while the host has the CPU of its timer.
    let sleep_s = json["off_cpu"]["by_reason"]["sleep"]["time_s"].as_f64().unwrap();
    let labels = ["sleep_ns", "pipe_ns", "lock_ns", "ask_ns"];
    let printed_s: f64 = labels.iter().map(|label| recording.printed(label) / 1e9).sum();
    assert!(
        (1.7..printed_s + 0.4).contains(&sleep_s),
        "{printed_s} s were printed: {json}"
    );
    assert!(recording.stderr.contains("on-CPU "), "{}", recording.stderr);
    assert!(recording.stderr.contains("off-CPU "), "{}", recording.stderr);
}

/// As the front end does it: nothing precedes the first sample, and no interval has more CPU time than it has time.
fn graphed_cpu_ns(thread: &Thread) -> f64 {
    let pairs = thread.samples.windows(2);
    pairs
        .map(|pair| {
            pair[1]
                .cpu_delta
                .unwrap()
                .min((pair[1].time_ms - pair[0].time_ms) * 1e6)
        })
        .sum()
}

#[test]
fn the_cpu_graph_has_all_cpu_time_between_short_waits() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let ((recording, profile), stolen_ms) = with_stolen_ms(|| {
        record()
            .options(&["--off-cpu"])
            .profile(program("beats").unwrap(), &["2000", "300"])
    });
    let thread = main_thread(&profile);
    let graphed = graphed_cpu_ns(thread);
    let (working, all) = (recording.printed("working_ns"), recording.printed("cpu_ns"));
    // Up to a sample of 1 ms at either end.
    let ends = 2e6 + stolen_ms * 1e6;
    // getrusage has the time of each switch, too: the kernel charges a thread from where it picks it, and writes
    // PERF_RECORD_SWITCH when the switch is done. 10 to 40 µs a wait on virtual machines, without a profiler, too.
    assert!(
        graphed >= working - ends && graphed <= all + ends + 20e3 * 2000.0,
        "graph {graphed} ns, of work {working} ns, getrusage {all} ns\n{}",
        profile.summary()
    );
    // All that is not waiting is CPU time.
    let waited = weight_ms(&profile, thread, |names| names.contains(&"[off-CPU]"));
    let on_cpu = weight_ms(&profile, thread, |names| !names.contains(&"[off-CPU]"));
    assert!(
        waited + stolen_ms > on_cpu,
        "{waited} ms waiting, {on_cpu} ms on a CPU; {stolen_ms} ms were taken away"
    );
}

#[test]
fn a_wait_that_outlasts_the_recording_is_shown() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let recording = record()
        .options(&["--off-cpu", "--duration", "1.5"])
        .run(program("waits").unwrap(), &["0", "0", "forever"]);
    let profile = recording.profile();
    let thread = main_thread(&profile);
    let is_forever =
        |names: &[&str]| names.contains(&"wait_forever") && names.last() == Some(&"[off-CPU: pipe or socket]");
    let forever = weight_ms(&profile, thread, is_forever);
    let end_ms = profile.json["meta"]["profilingEndTime"].as_f64().unwrap();
    // A slow machine takes a part of the recording to start the program. From there on it waits.
    let mut samples = thread.samples.iter();
    let first = samples.find(|sample| is_forever(&profile.names(sample.stack.unwrap()).collect::<Vec<_>>()));
    let since_ms = first.unwrap().time_ms;
    assert!(
        forever > end_ms - since_ms - 10.0 && forever > 300.0 && forever < end_ms,
        "{forever} of {end_ms} ms, from {since_ms} on\n{}",
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
    let Some(()) = kernel_samples() else { return };
    alone();
    let threads = program("threads").unwrap();
    let command = ["-c", "0", threads.to_str().unwrap(), "2", "1500"];
    let ((_, profile), stolen_ms) = with_stolen_ms(|| record().options(&["--off-cpu"]).profile("taskset", &command));
    for name in ["worker-000", "worker-001"] {
        let thread = profile.threads_named(name).next().unwrap();
        let wall_ms = thread.end_ms.unwrap() - thread.start_ms;
        assert_whole(&profile, thread, wall_ms, stolen_ms);
        let waiting = weight_ms(&profile, thread, |names| names.last() == Some(&"[waiting for a CPU]"));
        // Each uses 1500 ms of CPU time. Others on this CPU make the rest longer. While the host has the CPU, one of
        // the two is on it.
        let (percent, expected) = (100.0 * waiting / wall_ms, 100.0 * (1.0 - 1500.0 / wall_ms));
        let stolen = 100.0 * stolen_ms / wall_ms;
        assert!(
            (expected - 3.0 - stolen..=expected + 3.0).contains(&percent),
            "{percent:.1} %, not {expected:.1} %; {stolen:.1} % were taken away\n{}",
            profile.summary()
        );
        assert!(percent > 45.0 - stolen, "{percent:.1} %; {stolen:.1} % were taken away");
        let with_stack = weight_ms(&profile, thread, |names| {
            names.contains(&"thread_work") && names.last() == Some(&"[waiting for a CPU]")
        });
        assert!(with_stack > 0.97 * waiting, "{}", profile.summary());
    }
}

#[test]
fn without_the_option_nothing_changes() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (recording, profile) = record().profile(program("waits").unwrap(), &["1", "50"]);
    assert!(profile.samples().all(|sample| sample.weight == 1.0));
    assert_eq!(profile.share_of("[off-CPU]").hits, 0);
    assert!(!recording.stderr.contains("off-CPU"), "{}", recording.stderr);
}

/// `waits` that runs without sprof, and begins with the quarters when it is told to. Both of its threads wait.
fn start_waits() -> Target {
    let target = Target::start(program("waits").unwrap(), &["3", "250", "told"]);
    wait_for_state(&target.pid(), 2, "S");
    target
}

/// What the main thread of `waits` does until it is told to begin, and its helper: they wait since before the
/// recording.
fn assert_waited_from_the_start(profile: &Profile, pid: &str) {
    for (tid_is_pid, function) in [(true, "wait_to_be_told"), (false, "helper_main")] {
        let thread = (profile.threads.iter())
            .find(|thread| thread.pid == pid && (thread.tid == pid) == tid_is_pid)
            .unwrap();
        let first = thread.samples.first().unwrap();
        let names: Vec<&str> = profile.names(first.stack.unwrap()).collect();
        assert!(
            names.contains(&function) && names.last() == Some(&"[off-CPU: pipe or socket]"),
            "{names:?}"
        );
        assert!(first.weight > 1.0 && first.time_ms >= 0.0, "{} ms", first.weight);
    }
    assert!(profile.figure(&["lasted when"]) >= 2.0, "{:?}", profile.quality());
}

#[test]
fn an_attached_program_has_equal_quarters() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    // As above.
    undisturbed_or_right(assert_quarters_of_an_attached_program);
}

fn assert_quarters_of_an_attached_program() {
    let ((target, printed, recording), stolen_ms) = with_stolen_ms(|| {
        let mut target = start_waits();
        let running = record().options(&["--off-cpu", "-p", &target.pid()]).attach();
        running.wait_for_sprof("recording waits");
        let printed = target.ask();
        (target, printed, running.finish())
    });
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    let printed = |label: &str| number_in(&printed, label);
    assert_quarters(&profile, main_thread(&profile), printed, stolen_ms);
    assert_waited_from_the_start(&profile, &target.pid());
    let unpaired = profile
        .quality()
        .iter()
        .any(|(label, _)| label.contains("beginning or end lost"));
    assert!(!unpaired, "{:?}", profile.quality());
}

#[test]
fn a_program_on_the_recorded_machine_has_equal_quarters() {
    let Some(()) = kernel_samples() else { return };
    alone();
    // As above.
    undisturbed_or_right(assert_quarters_on_the_recorded_machine);
}

fn assert_quarters_on_the_recorded_machine() {
    let ((target, printed, recording), stolen_ms) = with_stolen_ms(|| {
        let mut target = start_waits();
        let running = record().options(&["--off-cpu", "-a"]).attach();
        running.wait_for_sprof("recording the whole machine");
        let printed = target.ask();
        running.signal_sprof("INT");
        (target, printed, running.finish())
    });
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    let main = profile
        .threads
        .iter()
        .find(|thread| thread.tid == target.pid())
        .unwrap();
    assert_quarters(&profile, main, |label| number_in(&printed, label), stolen_ms);
    assert_waited_from_the_start(&profile, &target.pid());
    assert!(
        profile.threads.iter().all(|thread| thread.tid != "0"),
        "the idle task waits for nothing"
    );
}

#[test]
fn threads_that_wait_all_the_time_are_shown_with_their_stacks() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let mut target = Target::start(program("waits").unwrap(), &["1", "20", "forever"]);
    target.line();
    wait_for_state(&target.pid(), 2, "S");
    let recording = (record()
        .options(&["--off-cpu", "-d", "1", "-p", &target.pid()])
        .attach())
    .finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    for (thread, function) in profile.threads.iter().zip(["wait_forever", "helper_main"]) {
        let waited = weight_ms(&profile, thread, |names| {
            names.contains(&function) && names.last() == Some(&"[off-CPU: pipe or socket]")
        });
        let end_ms = profile.json["meta"]["profilingEndTime"].as_f64().unwrap();
        // What a thread does is read when its events count: some milliseconds later, or more on a slow machine.
        let since_ms = thread.samples.first().unwrap().time_ms;
        assert!(
            (end_ms - since_ms - 10.0..=end_ms).contains(&waited) && waited > 500.0,
            "{waited} of {end_ms} ms, from {since_ms} on\n{}",
            profile.summary()
        );
    }
    assert_eq!(profile.threads.len(), 2);
    assert_eq!(profile.figure(&["lasted when"]), 2.0);
    assert_eq!(profile.figure(&["lasted until"]), 2.0);
}

#[test]
fn all_time_of_threads_that_start_while_attaching_is_told_once() {
    let Some(()) = kernel_samples() else { return };
    alone();
    for pause_ms in [0, 30, 60] {
        let ((names, recording), stolen_ms) = with_stolen_ms(|| {
            let mut target = Target::start(program("attached").unwrap(), &["burst", "120", "10"]);
            assert_eq!(target.line(), "ready");
            std::thread::sleep(Duration::from_millis(pause_ms));
            let running = record().options(&["--off-cpu", "-p", &target.pid()]).attach();
            running.wait_for_sprof("Ctrl-C ends");
            let first = target.ask();
            let names: Vec<String> = (std::iter::once(first).chain((1..120).map(|_| target.line())))
                .map(|line| line.split_once('=').unwrap().0.to_owned())
                .collect();
            target.end();
            (names, running.finish())
        });
        assert_eq!(recording.code, Some(0), "{}", recording.stderr);
        let profile = recording.profile();
        let first_ms = profile
            .samples()
            .map(|sample| sample.time_ms)
            .fold(f64::INFINITY, f64::min);
        for name in names {
            let thread = profile.threads_named(&name).next().unwrap();
            let start_ms = thread.start_ms.max(first_ms);
            let wall_ms = thread.end_ms.unwrap() - start_ms;
            let told_ms = weight_ms(&profile, thread, |_| true);
            // Threads are found some milliseconds after recording began. Pauses that the host makes have no samples.
            assert!(
                told_ms > 0.9 * wall_ms - 40.0 - stolen_ms && told_ms < 1.05 * wall_ms + 5.0,
                "{name}: {told_ms} of {wall_ms} ms, after {pause_ms} ms; {stolen_ms} ms were taken away; {:?}\n{}",
                profile.quality(),
                recording.stderr
            );
        }
    }
}

#[test]
fn a_thread_that_is_running_is_not_taken_for_waiting() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let target = Target::start(program("split").unwrap(), &["600000"]);
    wait_for_cpu_ms(&target.pid(), 50.0);
    // A recording of a second holds little of a program whose CPU the host has.
    let running = record().options(&["--off-cpu", "-p", &target.pid()]).attach();
    let recording = running.finish_after_cpu_ms(&[target.pid()], 800.0);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    let thread = main_thread(&profile);
    let blocked = weight_ms(&profile, thread, |names| {
        names.last().is_some_and(|leaf| leaf.starts_with("[off-CPU: "))
    });
    assert_eq!(blocked, 0.0, "{}", profile.summary());
    // A host that takes two thirds of the CPU time away leaves half of the samples.
    assert!(
        weight_ms(&profile, thread, |names| names.contains(&"run_split")) > 250.0,
        "{}",
        profile.summary()
    );
}

#[test]
fn a_cpu_s_track_has_no_waits() {
    let recording = record()
        .options(&["--off-cpu", "--per-cpu-threads", "-d", "1"])
        .run("true", &[""; 0]);
    assert_eq!(recording.code, Some(2));
    assert!(
        recording.stderr.contains("--per-cpu-threads") && recording.stderr.contains("--off-cpu"),
        "{}",
        recording.stderr
    );
}
