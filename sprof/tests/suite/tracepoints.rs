//! `-e` with points of the kernel: each hit is a marker with its values and its stack.
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::support;
use crate::support::events::{markers, record_events, thread};
use crate::support::machine::alone;
use crate::support::run::sprof;
use crate::support::schema::parsed;
use crate::support::skip::tracepoints;
use crate::support::steal::undisturbed_or_right;
use crate::support::{program, record};

#[test]
fn every_hit_of_a_tracepoint_is_a_marker_with_its_stack_and_its_values() {
    let Some(()) = tracepoints() else { return };
    let (recording, profile) = record_events(
        &["-e", "raw_syscalls:sys_enter,syscalls:sys_exit_getppid"],
        &["ask", "700"],
    );
    let events = thread(&profile, "events");
    // Exactly 700 by ask_parent, and one by main.
    let exits = markers(events, "syscalls:sys_exit_getppid");
    assert_eq!(exits.len(), 701, "{}", recording.stderr);
    let stacks = |markers: &[&Value], function: &str| {
        let stacks = markers
            .iter()
            .map(|data| data["cause"]["stack"].as_u64().expect("a stack"));
        stacks
            .filter(|stack| profile.names(*stack as usize).any(|name| name == function))
            .count()
    };
    assert_eq!(stacks(&exits, "ask_parent"), 700);
    assert_eq!(stacks(&exits, "main"), 701);
    let parent = (recording.printed("parent") as u64).to_string();
    assert!(
        exits.iter().all(|data| data["ret"] == parent.as_str()),
        "{:?}",
        exits[0]
    );
    // All system calls: each getppid enters with its number.
    let number = if cfg!(target_arch = "aarch64") { "173" } else { "110" };
    let enters = markers(events, "raw_syscalls:sys_enter");
    let asks: Vec<&Value> = enters.into_iter().filter(|data| data["id"] == number).collect();
    assert_eq!(asks.len(), 701);
    assert_eq!(stacks(&asks, "ask_parent"), 700);
    // The front end is told of the fields.
    let schemas = profile.json["meta"]["markerSchema"].as_array().unwrap();
    let schema = schemas
        .iter()
        .find(|schema| schema["name"] == "raw_syscalls:sys_enter")
        .unwrap();
    let keys: Vec<&str> = (schema["fields"].as_array().unwrap().iter())
        .map(|field| field["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["id", "args"]);
    // CPU time is sampled as ever.
    assert_eq!(profile.json["meta"]["sampleUnits"]["threadCPUDelta"], "ns");
    assert!(
        recording
            .stderr
            .contains("event syscalls:sys_exit_getppid: 701 markers of 701 counted"),
        "{}",
        recording.stderr
    );
}

/// What the kernel wrote, and what it copied with the stack at that moment; and never what is in memory later, where
/// this program has only x by then.
#[test]
fn texts_of_tracepoints_are_those_of_their_time_and_else_an_address() {
    let Some(()) = tracepoints() else { return };
    let events = "syscalls:sys_enter_openat,sched:sched_process_exec,sched:sched_switch";
    let path = program("events").unwrap();
    // A shell whose child ends first waits for nothing. A program that sleeps leaves its CPU.
    let script = "\"$0\" open 100; \"$0\" sleep 20; :";
    let (recording, profile) = record()
        .options(&["-e", events])
        .profile("/bin/sh", &["-c", script, path.to_str().unwrap()]);
    let of = |event: &str, field: &str| -> Vec<&str> {
        let markers = profile.threads.iter().flat_map(|thread| markers(thread, event));
        markers.map(|data| data[field].as_str().unwrap()).collect()
    };
    // Constants have their names; the number of the call, which the event's name says, comes last.
    let flags = of("syscalls:sys_enter_openat", "flags");
    assert!(flags.iter().all(|flags| flags.starts_with("O_RDONLY")), "{flags:?}");
    let folders = of("syscalls:sys_enter_openat", "dfd");
    assert!(folders.iter().all(|folder| *folder == "AT_FDCWD"), "{folders:?}");
    let schemas = profile.json["meta"]["markerSchema"].as_array().unwrap();
    let openat = schemas
        .iter()
        .find(|schema| schema["name"] == "syscalls:sys_enter_openat");
    let last = openat.unwrap()["fields"].as_array().unwrap().last().unwrap();
    assert_eq!(last["key"], "__syscall_nr");
    let opened = of("syscalls:sys_enter_openat", "filename");
    let local: Vec<&str> = opened
        .iter()
        .copied()
        .filter(|path| path.starts_with("/nonexistent/"))
        .collect();
    let expected: Vec<String> = (0..100).map(|i| format!("/nonexistent/local/{i}")).collect();
    assert_eq!(local, expected, "{}", recording.stderr);
    let addresses = opened.iter().filter(|path| path.starts_with("0x")).count();
    assert!(addresses >= 100, "{opened:?}");
    assert!(opened.iter().all(|path| !path.contains("xxx")), "{opened:?}");
    assert!(of("sched:sched_process_exec", "filename").contains(&path.to_str().unwrap()));
    assert!(of("sched:sched_switch", "prev_comm").contains(&"events"));
}

/// 700 by `ask_parent`, and one by `main`, whose stack has no `ask_parent`.
#[test]
fn stacks_of_points_are_samples_of_their_event_in_every_command() {
    let Some(()) = tracepoints() else { return };
    let event = "syscalls:sys_exit_getppid";
    // CPU time is exported below, and an export without a sample is an error.
    let (recording, _) = record_events(
        &["-e", event, "-e", "syscalls:sys_exit_sethostname"],
        &["ask", "700", "50"],
    );
    let file = recording.output.to_str().unwrap();
    let run = |words: &[&str]| {
        let output = sprof().args(words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words:?}: {stderr}");
        (String::from_utf8(output.stdout).unwrap(), stderr)
    };
    let views = ["--view", "functions", "--format", "json"];
    let (text, _) = run(&[&["report", file, "-e", event][..], &views].concat());
    let report: Value = parsed(&text);
    let rows = report["views"][0]["rows"].as_array().unwrap();
    let total = |name: &str| {
        let row = rows.iter().find(|row| row["function"] == name);
        row.unwrap_or_else(|| panic!("{name}: {text}"))["total"].clone()
    };
    assert_eq!(
        (total("ask_parent")["weight"].as_f64(), total("main")["weight"].as_f64()),
        (Some(700.0), Some(701.0))
    );

    let (folded, _) = run(&["export", file, "-f", "folded", "-e", event]);
    // A pattern means all events that it matches.
    let (same, _) = run(&["export", file, "-f", "folded", "-e", "syscalls:sys_exit_*"]);
    assert_eq!(same, folded);
    let of = |function: &str| -> u64 {
        let lines = folded.lines().filter_map(|line| line.rsplit_once(' '));
        let lines = lines.filter(|(stack, _)| stack.split(';').any(|frame| frame == function));
        lines.map(|(_, count)| count.parse::<u64>().unwrap()).sum()
    };
    assert_eq!((of("ask_parent"), of("main")), (700, 701), "{folded}");
    let (script, _) = run(&["export", file, "-f", "perf-script", "-e", event]);
    assert_eq!(script.matches(" syscalls_sys_exit_getppid: ").count(), 701);
    let (svg, _) = run(&["flamegraph", file, "-e", event, "-o", "-"]);
    assert!(svg.contains("<title>ask_parent (700 "), "{svg}");
    // The recordings cannot decide on every function, and on which depends on the times of the hits.
    for (focus, hits) in [("ask_parent", 700.0), ("main", 701.0)] {
        let (text, _) = run(&["diff", file, file, "-e", event, "--focus", focus, "--format", "json"]);
        let same: Value = parsed(&text);
        let per_run = |side: &str| same[side]["per_run"].as_f64();
        assert_eq!((per_run("base"), per_run("new")), (Some(hits), Some(hits)), "{text}");
        assert_eq!(same["changed"], 0, "{text}");
    }
    let folder = support::temp_dir();
    let old = folder.path().join("v55.json");
    run(&["export", file, "-f", "firefox-v55", "-o", old.to_str().unwrap()]);
    let (of_old, _) = run(&["export", old.to_str().unwrap(), "-f", "folded", "-e", event]);
    assert_eq!(of_old, folded);

    // CPU time is shown unless an event is named, and what did not happen is said.
    let (_, stderr) = run(&["export", file, "-f", "folded"]);
    assert!(stderr.contains(event), "{stderr}");
    let output = sprof()
        .args(["report", file, "-e", "syscalls:sys_exit_sethostname"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr.contains("there was no `syscalls:sys_exit_sethostname`"),
        "{stderr}"
    );
}

#[test]
fn a_count_is_for_points_too() {
    let Some(()) = tracepoints() else { return };
    let (recording, profile) = record_events(&["-c", "10", "-e", "raw_syscalls:sys_enter"], &["ask", "500"]);
    let tenths = markers(thread(&profile, "events"), "raw_syscalls:sys_enter").len();
    assert!((50..100).contains(&tenths), "{tenths}");
    // Each stands for ten.
    let output = sprof()
        .args([
            "export",
            recording.output.to_str().unwrap(),
            "-f",
            "folded",
            "-e",
            "raw_syscalls:sys_enter",
        ])
        .output()
        .unwrap();
    let folded = String::from_utf8(output.stdout).unwrap();
    let counts = folded.lines().filter_map(|line| line.rsplit_once(' '));
    let sum: u64 = counts.map(|(_, count)| count.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 10 * tenths as u64, "{folded}");
}

#[test]
fn points_come_by_pattern_and_only_so_often_if_asked() {
    let Some(()) = tracepoints() else { return };
    let (_, profile) = record_events(
        &[
            "-e",
            "syscalls:sys_*_getppid",
            "-e",
            "raw_syscalls:sys_enter/period=10/",
        ],
        &["ask", "500"],
    );
    let events = thread(&profile, "events");
    for event in ["syscalls:sys_enter_getppid", "syscalls:sys_exit_getppid"] {
        assert_eq!(markers(events, event).len(), 501, "{event}");
    }
    // Every tenth of all system calls: getppid, and some dozens to load the program, on each CPU that it was on.
    let tenths = markers(events, "raw_syscalls:sys_enter").len();
    assert!((50..100).contains(&tenths), "{tenths}");
}

#[test]
fn a_flood_of_tracepoints_takes_no_samples_away_and_is_counted_to_the_last() {
    let Some(()) = tracepoints() else { return };
    alone();
    undisturbed_or_right(assert_flood);
}

fn assert_flood() {
    let hits = 400_000;
    let (recording, profile) = record_events(
        &["-e", "syscalls:sys_enter_getppid", "--json"],
        &["flood", &hits.to_string(), "1500"],
    );
    let summary: Value = parsed(&recording.stdout);
    let quality = &summary["quality"];
    assert_eq!(
        quality["lost"], 0,
        "samples of CPU time were lost: {}",
        recording.stderr
    );
    let event = &summary["events"][0];
    assert_eq!(event["counted"].as_u64(), Some(hits), "{event}");
    let kept = markers(thread(&profile, "events"), "syscalls:sys_enter_getppid").len() as u64;
    assert_eq!(event["in_profile"].as_u64(), Some(kept));
    assert!((1000..=50_000).contains(&kept), "{kept}");
    // Each one is a marker, or one that was left out, or one that was lost. How many are of which kind is the machine's
    // doing.
    let lost = quality["points_lost"].as_u64().unwrap();
    let left_out = profile
        .quality()
        .get("Markers left out")
        .map_or(0, |count| count.as_u64().unwrap());
    assert!(lost > 0, "{}", recording.stderr);
    assert_eq!(kept + lost + left_out, hits, "{quality}");
    assert!(
        recording.stderr.contains("point events were lost"),
        "{}",
        recording.stderr
    );
    let output = (sprof().arg("report").arg(&recording.output))
        .args(["--view", "markers"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("of 400,000 markers, by the kernel's count"), "{text}");
    // The program's work is sampled as ever: a sample each ms of CPU time.
    let sampled = profile.sample_count() as f64;
    let cpu_ms = summary["cpu_time_s"].as_f64().unwrap() * 1000.0;
    assert!(
        (sampled / cpu_ms - 1.0).abs() < 0.03,
        "{sampled} samples in {cpu_ms} ms"
    );
}
