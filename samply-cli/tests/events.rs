//! `-e`: programs that do known numbers of things, recorded for real.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod support;

use serde_json::Value;
use support::profile::{Sample, Thread};
use support::skip::{kernel_samples, perf_events, tracepoints};
use support::{Profile, Recording, program, record};

fn record_events(options: &[&str], arguments: &[&str]) -> (Recording, Profile) {
    record().options(options).profile(program("events").unwrap(), arguments)
}

/// The weight of the samples of which the predicate holds for their function names, root first.
fn weight<'a>(profile: &Profile, samples: impl IntoIterator<Item = &'a Sample>, what: impl Fn(&[&str]) -> bool) -> f64 {
    samples
        .into_iter()
        .filter(|sample| {
            let names: Vec<&str> = sample.stack.map_or(Vec::new(), |stack| profile.names(stack).collect());
            what(&names)
        })
        .map(|sample| sample.weight)
        .sum()
}

fn thread<'a>(profile: &'a Profile, name: &'a str) -> &'a Thread {
    let names: Vec<&str> = profile.threads.iter().map(|thread| thread.name.as_str()).collect();
    let mut found = profile.threads_named(name);
    let thread = found
        .next()
        .unwrap_or_else(|| panic!("no thread `{name}` in {names:?}"));
    assert!(found.next().is_none(), "{names:?}");
    thread
}

/// The markers of an event on a thread, with their data.
fn markers<'a>(thread: &'a Thread, event: &str) -> Vec<&'a Value> {
    let names = thread.marker_names.iter().zip(&thread.markers);
    names.filter(|(name, _)| *name == event).map(|(_, data)| data).collect()
}

#[test]
fn page_faults_are_weighed_in_the_place_of_cpu_time() {
    let Some(_machine) = perf_events() else { return };
    let (recording, profile) = record_events(&["-e", "page-faults"], &["faults", "10000"]);
    let samples = &thread(&profile, "events").samples;
    let of = |function: &str| weight(&profile, samples, |names| names.contains(&function));
    // 10,000 and 30,000, to a sample's weight of 16: nothing is estimated.
    assert!((of("few_pages") - 10_000.0).abs() <= 32.0, "{}", profile.summary());
    assert!((of("many_pages") - 30_000.0).abs() <= 32.0, "{}", profile.summary());
    // Loading the program takes some 100.
    let all = weight(&profile, samples, |_| true);
    assert!((40_000.0..41_000.0).contains(&all), "{all}");
    // Counts, and no time: nothing says how busy a CPU was.
    assert!(samples.iter().all(|sample| sample.cpu_delta.is_none()));
    assert!(profile.json["meta"]["sampleUnits"].is_null());
    assert_eq!(profile.json["threads"][0]["samples"]["weightType"], "samples");
    let figures = profile.quality();
    assert_eq!(figures["Event"], "page-faults");
    assert_eq!(figures["page-faults: in the profile"].as_f64().unwrap(), all);
    let counted = figures["page-faults: counted by the kernel"].as_f64().unwrap();
    // What is left over on each CPU is less than one sample.
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    assert!(
        (0.0..16.0 * cpus).contains(&(counted - all)),
        "{counted} counted, {all} in samples"
    );
    assert!(recording.stderr.contains("event page-faults: "), "{}", recording.stderr);
    assert!(!recording.stderr.contains("CPU time"), "{}", recording.stderr);
    recording.assert_tidy();
}

#[test]
fn a_period_of_one_is_every_single_one() {
    let Some(_machine) = perf_events() else { return };
    // Some 10,000 a second find room.
    let (_, profile) = record_events(&["-e", "page-faults/period=1/"], &["faults", "100"]);
    let samples = &thread(&profile, "events").samples;
    let of = |function: &str| weight(&profile, samples, |names| names.contains(&function));
    assert_eq!(
        (of("few_pages"), of("many_pages")),
        (100.0, 300.0),
        "{}",
        profile.summary()
    );
    assert!(samples.iter().all(|sample| sample.weight == 1.0));
}

#[test]
fn a_second_event_has_a_track_of_its_own_beside_the_thread() {
    let Some(_machine) = kernel_samples() else { return };
    let (recording, profile) = record_events(&["-e", "page-faults,context-switches/period=1/"], &["both", "10000"]);
    let faults = &thread(&profile, "events").samples;
    let few = weight(&profile, faults, |names| names.contains(&"few_pages"));
    assert!((few - 10_000.0).abs() <= 32.0, "{few}\n{}", profile.summary());
    // A switch for each of the 100 naps, and some more where other work took the CPU.
    let track = thread(&profile, "events · context-switches/period=1/");
    assert_eq!(track.pid, thread(&profile, "events").pid);
    let naps = weight(&profile, &track.samples, |names| names.contains(&"nap"));
    assert!((100.0..=110.0).contains(&naps), "{naps}\n{}", profile.summary());
    let others = weight(&profile, &track.samples, |names| names.contains(&"few_pages"));
    assert!(others < 20.0, "{others}");
    assert!(
        recording.stderr.contains("event context-switches/period=1/: "),
        "{}",
        recording.stderr
    );
    // The hottest functions are those of the first event.
    let hottest = recording.stderr.lines().find(|line| line.contains(" %  ")).unwrap();
    assert!(hottest.contains("many_pages"), "{}", recording.stderr);
}

#[test]
fn every_hit_of_a_tracepoint_is_a_marker_with_its_stack_and_its_values() {
    let Some(_machine) = tracepoints() else { return };
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
