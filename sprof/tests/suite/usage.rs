//! Memory and CPU time of processes as lines over time.
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::support::machine::{alone, one_cpu};
use crate::support::skip::perf_events;
use crate::support::steal::undisturbed;
use crate::support::{Profile, Recording, program, record};

const MIB: f64 = 1024.0 * 1024.0;

fn numbers(column: &Value) -> Vec<f64> {
    let numbers = column.as_array().unwrap().iter();
    numbers.map(|number| number.as_f64().unwrap()).collect()
}

/// The lines of a category, which are all well-formed.
fn lines<'a>(profile: &'a Profile, category: &str) -> Vec<&'a Value> {
    let counters = profile.json["counters"].as_array().into_iter().flatten();
    let lines: Vec<&Value> = counters.filter(|counter| counter["category"] == category).collect();
    for line in &lines {
        let samples = &line["samples"];
        let times = numbers(&samples["time"]);
        assert!(times.is_sorted(), "{line}");
        assert_eq!(samples["length"].as_u64(), Some(times.len() as u64));
        assert_eq!(numbers(&samples["count"]).len(), times.len());
        let thread = &profile.json["threads"][line["mainThreadIndex"].as_u64().unwrap() as usize];
        assert_eq!(
            (&thread["pid"], &thread["isMainThread"]),
            (&line["pid"], &Value::Bool(true))
        );
    }
    lines
}

/// The steps of the program `memory`: what it has more than at its start, MiB, where it is level.
fn assert_steps(profile: &Profile) {
    let lines = lines(profile, "Memory");
    let [line] = lines[..] else { panic!("{lines:?}") };
    let bytes = numbers(&line["samples"]["number"]);
    // The front end adds up what changes.
    let mut sum = 0.0;
    for (change, bytes) in numbers(&line["samples"]["count"]).iter().zip(&bytes) {
        sum += change;
        assert_eq!(sum, *bytes);
    }
    let last = bytes.last().unwrap();
    let above: Vec<f64> = bytes.iter().map(|bytes| (bytes - last) / MIB).collect();
    // The kernel adds pages up in batches; what the C library needs to print comes later.
    let is_at = |level: f64| above.iter().any(|above| (above - level).abs() < 1.0);
    for level in [32.0, 64.0, 96.0, 128.0] {
        assert!(is_at(level), "not at {level} MiB: {above:?}");
    }
    let peak = above.iter().copied().fold(0.0, f64::max);
    assert!((peak - 128.0).abs() < 1.0, "{peak}: {above:?}");
    // Its one thread has a graph of its own: the front end leaves out counters of this name.
    let cpu = self::lines(profile, "CPU");
    assert!(cpu.iter().all(|line| line["name"] == "processCPU"), "{cpu:?}");
}

#[test]
fn the_memory_of_a_process_is_a_line_with_its_steps_and_its_peak() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (_, profile) = record().profile(program("memory").unwrap(), &["250"]);
    assert_steps(&profile);
}

#[test]
fn the_same_where_perf_events_are_refused() {
    one_cpu();
    let refuse = program("refuse").unwrap();
    let (_, profile) =
        (record().under(&[refuse.to_str().unwrap(), "eperm"])).profile(program("memory").unwrap(), &["250"]);
    assert_steps(&profile);
}

#[test]
fn the_cpu_time_of_a_process_with_several_threads_is_a_line_and_right() {
    let Some(()) = perf_events() else { return };
    alone();
    let (recording, profile) = undisturbed(|| record().profile(program("threads").unwrap(), &["4", "400"]));
    assert_cpu(&recording, &profile);
}

fn assert_cpu(recording: &Recording, profile: &Profile) {
    let lines = lines(profile, "CPU");
    let mut of_process = lines.iter().filter(|line| line["name"] == "cpu");
    let (Some(line), None) = (of_process.next(), of_process.next()) else {
        panic!("{lines:?}")
    };
    let counts = numbers(&line["samples"]["count"]);
    let times = numbers(&line["samples"]["time"]);
    let (sum_ms, truth_ms) = (counts.iter().sum::<f64>(), recording.printed("cpu_ns") / 1e6);
    // What the process used after it printed its time is there, too.
    assert!(
        (0.99..1.02).contains(&(sum_ms / truth_ms)),
        "{sum_ms} ms of {truth_ms} ms: {line}"
    );
    // Over all looks, each of which is some microseconds off, and a sample of each thread at both ends.
    let seen = times[0]..*times.last().unwrap();
    let sampled = profile.samples().filter(|sample| seen.contains(&sample.time_ms));
    let sampled_ms: f64 = sampled.map(|sample| sample.weight).sum();
    assert!(
        (sum_ms / sampled_ms - 1.0).abs() < 0.05,
        "{sum_ms} ms of CPU time beside samples of {sampled_ms} ms in {seen:?}: {line}"
    );
}
