//! Processes, threads, names and times.
#![cfg(target_os = "linux")]

use std::time::UNIX_EPOCH;

use crate::support;
use crate::support::machine::alone;
use crate::support::schema::parsed;
use crate::support::skip::perf_events;
use crate::support::steal::with_stolen_ms;
use crate::support::{program, record, sprof};

#[test]
fn a_fork_without_exec_is_a_process_of_its_own() {
    let Some(()) = perf_events() else { return };
    let (recording, profile) = record().profile(program("processes").unwrap(), &["fork", "500"]);
    let child = recording.printed("child").to_string();
    assert_eq!(profile.pids().len(), 2, "{:?}", profile.pids());
    let in_function = |function: &str, of_child: bool| {
        let threads = profile
            .threads
            .iter()
            .filter(|thread| (thread.pid == child) == of_child);
        let samples = threads
            .flat_map(|thread| &thread.samples)
            .filter_map(|sample| sample.stack);
        samples
            .filter(|&stack| profile.names(stack).any(|name| name == function))
            .count()
    };
    // Of 500: a host that takes two thirds of the CPU time away leaves half.
    assert!(in_function("child_work", true) > 150, "{}", profile.summary());
    assert!(in_function("parent_work", false) > 150, "{}", profile.summary());
    assert_eq!(in_function("child_work", false), 0);
    assert_eq!(in_function("parent_work", true), 0);
}

#[test]
fn a_program_that_was_started_through_exec_has_its_own_name() {
    let Some(()) = perf_events() else { return };
    let (recording, profile) = record().profile(program("processes").unwrap(), &["exec", "500"]);
    let child = recording.printed("child").to_string();
    let thread = profile
        .threads
        .iter()
        .find(|thread| thread.pid == child && !thread.samples.is_empty())
        .unwrap();
    assert!(thread.is_main);
    // The kernel names the process after the file that was executed: here the link `exe`.
    assert!(
        ["exe", "processes"].contains(&&*thread.process_name),
        "{}",
        thread.process_name
    );
    // Of 500: a host that takes two thirds of the CPU time away leaves half.
    let share = profile.share_of("exec_work");
    assert!(share.hits > 150, "{}", profile.summary());
}

#[test]
fn a_renamed_thread_has_its_last_name_and_markers_for_the_earlier_ones() {
    let Some(()) = perf_events() else { return };
    let (_, profile) = record().profile(program("processes").unwrap(), &["rename", "300"]);
    let thread = profile
        .threads
        .iter()
        .max_by_key(|thread| thread.samples.len())
        .unwrap();
    assert_eq!(thread.name, "third");
    let shared = profile.json["shared"]["stringArray"].to_string();
    for name in ["first", "second"] {
        let marker = thread.markers.iter().any(|data| data.to_string().contains(name))
            || thread.marker_names.iter().any(|marker| marker.contains(name))
            || (!thread.markers.is_empty() && shared.contains(name));
        assert!(
            marker,
            "no marker for {name}: {:?} {:?}",
            thread.marker_names, thread.markers
        );
    }
}

#[test]
fn four_hundred_processes_of_one_millisecond_are_all_followed() {
    let Some(()) = perf_events() else { return };
    alone();
    let (recording, stolen_ms) = with_stolen_ms(|| {
        record()
            .options(&["--rate", "4000", "--json"])
            .run(program("processes").unwrap(), &["many", "400"])
    });
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let summary: serde_json::Value = parsed(recording.stdout.lines().last().unwrap());
    assert_eq!(summary["processes"], 401, "{summary}");
    let profile = recording.profile();
    // At 4 kHz a child of 1 ms gets about four samples; one without any has no thread in the profile. Where a pause
    // that the host makes counts as its CPU time, its samples are missing. Where the kernel takes the pause off its CPU
    // time, it works for longer.
    let lost = profile.figure(&["lost"]);
    let pids = profile.pids().len() as f64;
    assert!(
        pids >= 390.0 - stolen_ms / 0.75 - lost / 3.0 && pids <= 401.0,
        "{pids} processes of 401; {stolen_ms} ms were taken away, {lost} samples lost"
    );
    let child = profile.share_of("child_work");
    let hits = child.hits as f64;
    assert!(
        hits >= 1200.0 - 4.0 * stolen_ms - lost && hits < 2400.0 + 4.0 * stolen_ms && hits > 0.0,
        "{child:?}; {stolen_ms} ms were taken away, {lost} samples lost\n{}",
        profile.summary()
    );
    let rooted = profile.share(|names| names.contains(&"child_work"), |names| names.contains(&"main"));
    assert!(rooted.percent() >= 99.0, "{rooted:?}\n{}", profile.summary());
}

#[test]
fn two_hundred_busy_threads_all_have_samples_and_next_to_none_are_lost() {
    let Some(()) = perf_events() else { return };
    alone();
    let ((_, profile), stolen_ms) = with_stolen_ms(|| record().profile(program("threads").unwrap(), &["200", "20"]));
    let lost = profile.figure(&["lost"]);
    let samples_of = |i: usize| -> usize {
        let name = format!("worker-{i:03}");
        profile.threads_named(&name).map(|thread| thread.samples.len()).sum()
    };
    // Each used 20 ms of CPU time. One with 5 samples had pauses of 14 ms that the host made, or lost 14 samples.
    let few = (0..200).filter(|&i| samples_of(i) <= 5).count();
    assert!(
        14.0 * few as f64 <= stolen_ms + lost,
        "{few} threads have few samples; {stolen_ms} ms were taken away, {lost} samples lost\n{}",
        profile.summary()
    );
    // While the host has taken the CPU of sprof away, the threads of another one fill the rings.
    let samples = profile.sample_count() as f64;
    assert!(
        lost <= 0.005 * samples + stolen_ms,
        "{lost} lost, {samples} recorded, {stolen_ms} ms were taken away: {:?}",
        profile.quality()
    );
}

#[test]
fn the_busiest_threads_are_shown_at_first() {
    let Some(()) = perf_events() else { return };
    let (_, profile) = record().profile(program("threads").unwrap(), &["30", "20"]);
    let visible = profile.json["meta"]["initialVisibleThreads"]
        .as_array()
        .expect("initialVisibleThreads");
    let visible: Vec<usize> = visible.iter().map(|index| index.as_u64().unwrap() as usize).collect();
    // By weight: samples of cycles have different ones. More threads than are shown may have the same, but for what
    // rounding makes of it.
    let weight_of = |i: usize| -> f64 {
        let weights = profile.threads[i].samples.iter().map(|sample| sample.weight);
        weights.sum()
    };
    let least_shown = visible.iter().map(|&i| weight_of(i)).fold(f64::MAX, f64::min);
    let hidden = (0..profile.threads.len()).filter(|i| !visible.contains(i));
    let most_hidden = hidden.map(weight_of).fold(0.0, f64::max);
    assert!(
        visible.len() > 1 && most_hidden <= 1.001 * least_shown,
        "{visible:?} have weights of {least_shown} or more, others up to {most_hidden}"
    );
}

#[test]
fn sample_times_are_in_order_and_within_the_life_of_their_thread() {
    let Some(()) = perf_events() else { return };
    alone();
    let (_, profile) = record()
        .options(&["--rate", "4000"])
        .profile(program("threads").unwrap(), &["20", "50"]);
    // Of 4,000: a host that takes two thirds of the CPU time away leaves half.
    assert!(profile.sample_count() > 1000);
    for thread in &profile.threads {
        assert!(thread.is_monotonic(), "{}", thread.name);
        let (Some(first), Some(last)) = (thread.samples.first(), thread.samples.last()) else {
            continue;
        };
        assert!(
            first.time_ms >= thread.start_ms,
            "{}: {} < {}",
            thread.name,
            first.time_ms,
            thread.start_ms
        );
        let end_ms = thread.end_ms.expect("all threads have ended");
        assert!(last.time_ms <= end_ms, "{}: {} > {end_ms}", thread.name, last.time_ms);
    }
}

#[test]
fn the_start_is_right_on_the_wall_clock() {
    let Some(()) = perf_events() else { return };
    alone();
    let ((recording, profile), stolen_ms) =
        with_stolen_ms(|| record().profile(program("exits").unwrap(), &["busy", "1500"]));
    let start_ms = profile.json["meta"]["startTime"].as_f64().unwrap();
    let before_ms = recording.before.duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0;
    let after_ms = recording.after.duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0;
    let first_ms = start_ms + profile.samples().map(|sample| sample.time_ms).fold(f64::MAX, f64::min);
    let last_ms = start_ms + profile.samples().map(|sample| sample.time_ms).fold(0.0, f64::max);
    // The time zero and every sample lie between the start and the end of sprof.
    for (what, time_ms) in [
        ("start", start_ms),
        ("first sample", first_ms),
        ("last sample", last_ms),
    ] {
        assert!(
            (before_ms - 1.0..=after_ms + 1.0).contains(&time_ms),
            "{what}: {before_ms} {time_ms} {after_ms}"
        );
    }
    // The host may have the CPU at either end.
    assert!(
        (last_ms - first_ms - 1500.0).abs() < 1000.0 + stolen_ms,
        "{first_ms} {last_ms}; {stolen_ms} ms were taken away"
    );
}

#[test]
fn the_sum_of_cpu_deltas_is_what_getrusage_says() {
    let Some(()) = perf_events() else { return };
    alone();
    for (name, arguments) in [
        ("split", &["1000"][..]),
        ("threads", &["8", "150"]),
        ("reader", &["600"]),
    ] {
        let ((recording, profile), stolen_ms) = with_stolen_ms(|| record().profile(program(name).unwrap(), arguments));
        let (deltas, truth) = (profile.cpu_ns(), recording.printed("cpu_ns"));
        let user_only = profile.quality()["Kernel code"] != "included";
        if name == "reader" && user_only {
            continue;
        }
        // Which clock goes on while the host has a CPU depends on the kernel.
        assert!(
            (deltas - truth).abs() <= 0.02 * truth + stolen_ms * 1e6,
            "{name}: deltas {deltas} ns, getrusage {truth} ns; {stolen_ms} ms were taken away"
        );
        // What the front end shows as running time.
        for thread in profile.json["threads"].as_array().unwrap() {
            assert_eq!(thread["samples"]["weightType"], "tracing-ms");
        }
        let weights = profile.samples().map(|sample| sample.weight).sum::<f64>() * 1e6;
        assert!((weights / deltas - 1.0).abs() < 1e-6, "{name}: {weights} ns");
    }
}

#[test]
fn the_profile_says_what_was_recorded_and_where() {
    let Some(()) = perf_events() else { return };
    let (_, profile) = record().profile(program("split").unwrap(), &["200"]);
    let meta = &profile.json["meta"];
    assert_eq!(meta["interval"].as_f64(), Some(1.0), "ms at 1 kHz");
    assert!(
        meta["product"].as_str().unwrap().contains("split"),
        "{}",
        meta["product"]
    );
    for field in ["oscpu", "logicalCPUs", "mainMemory", "CPUName"] {
        assert!(!meta[field].is_null(), "meta.{field}");
    }
    assert_eq!(meta["symbolicated"].as_bool(), Some(true));
    assert!(
        meta["arguments"].is_null(),
        "arguments only with --include-args: {}",
        meta["arguments"]
    );
    for words in [
        &["lost"][..],
        &["asked", "rate"],
        &["achieved", "rate"],
        &["truncated"],
        &["unverified"],
    ] {
        profile.figure(words);
    }

    let (_, profile) = record()
        .options(&["--include-args"])
        .profile(program("split").unwrap(), &["201"]);
    assert!(profile.json["meta"]["arguments"].as_str().unwrap().contains("201"));
}

/// Records with `--json`; the summary stands behind what the program printed.
fn with_summary(options: &[&str], arguments: &[&str]) -> (support::Recording, serde_json::Value) {
    let options: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
    let recording = record().options(&options).run(program("processes").unwrap(), arguments);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let last = recording.stdout.lines().last().unwrap_or_default();
    let summary = parsed(last);
    (recording, summary)
}

#[test]
fn nothing_is_said_to_be_unrecorded_where_all_was_recorded() {
    let Some(()) = perf_events() else { return };
    alone();
    // Long and short processes, those that end below the sampling period, and those that only execute another.
    for arguments in [
        ["work", "300"],
        ["work", "0"],
        ["fork", "150"],
        ["exec", "150"],
        ["many", "400"],
    ] {
        let (recording, summary) = with_summary(&[], &arguments);
        let account = &summary["cpu_account"];
        assert_eq!(account["unrecorded_cpu_time_s"], 0.0, "{arguments:?}: {summary}");
        assert_eq!(account["unrecorded"], serde_json::json!([]), "{arguments:?}: {summary}");
        for words in ["not recorded", "no longer recorded", "accounts"] {
            assert!(!recording.stderr.contains(words), "{arguments:?}: {}", recording.stderr);
        }
        // The kernel's account of it is there all the same, and holds what the program says.
        let accounted_s = account["kernel_cpu_time_s"].as_f64().unwrap();
        let printed_s = recording.printed("cpu_ns") / 1e9;
        assert!(accounted_s >= printed_s, "{arguments:?}: {printed_s} s, {summary}");
    }
}

#[test]
fn a_daemon_that_outlives_the_recording_is_named() {
    let Some(()) = perf_events() else { return };
    // It is ended with the test.
    let (recording, summary) = with_summary(&[], &["daemon", "100000"]);
    let daemon = recording.printed("daemon");
    let left = summary["cpu_account"]["left_running"].as_array().unwrap();
    assert_eq!(left.len(), 1, "{summary}");
    assert_eq!(left[0]["pid"].as_f64(), Some(daemon), "{summary}");
    let line = format!("no longer recorded: processes ({daemon})");
    assert!(recording.stderr.contains(&line), "{}", recording.stderr);
    let in_profile = recording.profile().quality();
    let row = in_profile["Still running, no longer recorded"].as_str().unwrap();
    assert_eq!(row, format!("processes ({daemon})"));
}

#[test]
fn processes_and_threads_are_as_many_in_the_report_as_in_the_summary() {
    let Some(()) = perf_events() else { return };
    // At this rate, most of the children have no sample, and no thread in the profile.
    let (recording, summary) = with_summary(&["--rate", "50"], &["many", "40"]);
    let counts = [&summary["processes"], &summary["threads"]];
    assert_eq!(counts, [41, 41], "{summary}");
    assert!(recording.profile().pids().len() < 30);
    let report = |format: &str| {
        let output = sprof()
            .arg("report")
            .args(["-f", format])
            .arg(&recording.output)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let json: serde_json::Value = parsed(&report("json"));
    assert_eq!(
        [&json["profile"]["processes"], &json["profile"]["threads"]],
        counts,
        "{json}"
    );
    for text in [&recording.stderr, &report("text")] {
        assert!(text.contains("41 processes, 41 threads"), "{text}");
    }
}

/// The title comes after the first reading of titles, and stays for more than one.
#[test]
fn a_process_that_writes_a_title_has_it_beside_its_program_s_name() {
    let Some(()) = perf_events() else { return };
    let title = "worker: busy with shop";
    let (recording, profile) = record().profile(
        program("title").unwrap(),
        &["700", "1800", title, "some more arguments, so that there is room"],
    );
    let main = profile.threads.iter().find(|thread| thread.name == title);
    assert!(main.is_some(), "{}", recording.stderr);
    let run = |words: &[&str]| {
        let output = (sprof().arg("report").arg(&recording.output).args(words))
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    for view in ["threads", "processes"] {
        let text = run(&["--view", view]);
        assert!(text.contains(title), "{text}");
    }
    assert!(run(&["--view", "threads"]).contains("title pid "));
    // The program's name selects it as before.
    assert!(run(&["--process", "title"]).contains("work_for"));
    // An empty argument is no title.
    let (_, profile) = record().profile(program("work").unwrap(), &["200", ""]);
    assert!(profile.threads.iter().any(|thread| thread.name == "work"));
}
