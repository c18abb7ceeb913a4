//! Memory and CPU time of processes as lines over time.
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::support::machine::{alone, one_cpu};
use crate::support::skip::perf_events;
use crate::support::steal::with_stolen_ms;
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
fn assert_steps(recording: &Recording, profile: &Profile) {
    let lines = lines(profile, "Memory");
    let [line] = lines[..] else { panic!("{lines:?}") };
    let bytes = numbers(&line["samples"]["number"]);
    // The front end adds up what changes.
    let mut sum = 0.0;
    for (change, bytes) in numbers(&line["samples"]["count"]).iter().zip(&bytes) {
        sum += change;
        assert_eq!(sum, *bytes);
    }
    let base = recording.printed("base");
    let above: Vec<f64> = bytes.iter().map(|bytes| (bytes - base) / MIB).collect();
    // When sprof has a CPU for its readings is chance on a slow machine: each level has one that was read there. The
    // program's times are of the same clock as the start of the profile, to a millisecond or so.
    let start_ms = profile.json["meta"]["startTime"].as_f64().unwrap();
    let times: Vec<f64> = (numbers(&line["samples"]["time"]).iter())
        .map(|time| start_ms + time)
        .collect();
    let printed_ms = |name: &str| recording.printed(name) / 1e6;
    let read_from_to = |from: f64, to: f64| -> Vec<f64> {
        let read = times.iter().zip(&above);
        let is_within = |time: f64| time > from + 5.0 && time < to - 5.0;
        read.filter(|(time, _)| is_within(**time))
            .map(|(_, above)| *above)
            .collect()
    };
    // The kernel adds pages up in batches.
    let mut found = 0;
    for (step, level) in [32.0, 64.0, 96.0, 128.0].into_iter().enumerate() {
        let [from, to] = ["from", "to"].map(|edge| printed_ms(&format!("{edge}_{step}")));
        let read = read_from_to(from, to);
        let is_at_level = read.iter().any(|above| (above - level).abs() < 1.0);
        assert!(
            read.is_empty() || is_at_level,
            "not at {level} MiB but at {read:?}: {above:?}"
        );
        found += usize::from(is_at_level);
    }
    assert!(found >= 2, "{found} of the levels: {above:?}");
    let peak = above.iter().copied().fold(0.0, f64::max);
    assert!(peak < 129.0, "{peak}: {above:?}");
    // What the C library needs to print comes later.
    let given_back = read_from_to(printed_ms("freed"), f64::MAX);
    assert!(given_back.iter().all(|above| *above < 2.0), "{given_back:?}: {above:?}");
    // Its one thread has a graph of its own: the front end leaves out counters of this name.
    let cpu = self::lines(profile, "CPU");
    assert!(cpu.iter().all(|line| line["name"] == "processCPU"), "{cpu:?}");
}

#[test]
fn the_memory_of_a_process_is_a_line_with_its_steps_and_its_peak() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (recording, profile) = record().profile(program("memory").unwrap(), &["250"]);
    assert_steps(&recording, &profile);
}

#[test]
fn the_same_where_perf_events_are_refused() {
    one_cpu();
    let refuse = program("refuse").unwrap();
    let (recording, profile) =
        (record().under(&[refuse.to_str().unwrap(), "eperm"])).profile(program("memory").unwrap(), &["250"]);
    assert_steps(&recording, &profile);
}

#[test]
fn the_cpu_time_of_a_process_with_several_threads_is_a_line_and_right() {
    let Some(()) = perf_events() else { return };
    alone();
    let ((recording, profile), stolen_ms) =
        with_stolen_ms(|| record().profile(program("threads").unwrap(), &["4", "400"]));
    assert_cpu(&recording, &profile, stolen_ms);
}

fn assert_cpu(recording: &Recording, profile: &Profile, stolen_ms: f64) {
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
    // Over all looks, each of which is some microseconds off, and a sample of each thread at both ends. A pause that
    // the host makes has no samples, and counts as CPU time on some kernels.
    let seen = times[0]..*times.last().unwrap();
    let sampled = profile.samples().filter(|sample| seen.contains(&sample.time_ms));
    let sampled_ms: f64 = sampled.map(|sample| sample.weight).sum();
    assert!(
        (sum_ms - sampled_ms).abs() < 0.05 * sampled_ms + stolen_ms,
        "{sum_ms} ms of CPU time beside samples of {sampled_ms} ms in {seen:?}: {line}"
    );
}
