//! What a program waits for, reads and writes, and what the machine is short of, beside what the program itself counts.
#![cfg(target_os = "linux")]

use std::path::Path;

use serde_json::Value;

use crate::support::playground::Playground;
use crate::support::run::output;
use crate::support::schema::parsed;
use crate::support::skip::{perf_events, root};
use crate::support::{Profile, program, record, sprof, temp_dir};

/// The view as JSON, with these options.
fn view(file: &Path, options: &[&str]) -> Value {
    let mut command = sprof();
    command
        .args(["report", "--view", "resources", "--json"])
        .arg(file)
        .args(options);
    let report = output(&mut command);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    parsed(&report.stdout)
}

fn rows<'a>(report: &'a Value, view: &str) -> &'a [Value] {
    let mut views = report["views"].as_array().unwrap().iter();
    let found = views.find(|found| found["id"] == view);
    found.map_or(&[], |found| found["rows"].as_array().unwrap())
}

/// A figure of a resource, and the row that it is in.
fn figure<'a>(report: &'a Value, resource: &str, name: &str) -> (f64, &'a Value) {
    let of_resource = rows(report, "resources")
        .iter()
        .filter(|row| row["resource"] == resource);
    let mut found = of_resource.flat_map(|row| {
        let groups = ["utilization", "saturation", "errors"].map(|group| row[group].as_array().unwrap());
        let figures = groups.into_iter().flatten().filter(|figure| figure["name"] == name);
        figures.map(move |figure| (figure["value"].as_f64().unwrap(), row))
    });
    found
        .next()
        .unwrap_or_else(|| panic!("no {name} of {resource} in {report:#}"))
}

fn printed(stdout: &str, name: &str) -> f64 {
    let mut words = stdout.split_whitespace();
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value
        .unwrap_or_else(|| panic!("no {name} in {stdout:?}"))
        .parse()
        .unwrap()
}

/// The sum of a counter of the process.
fn sum(profile: &Profile, name: &str) -> f64 {
    sum_if_any(profile, name).unwrap_or_else(|| panic!("no {name}"))
}

/// The same; `None` of what did not grow.
fn sum_if_any(profile: &Profile, name: &str) -> Option<f64> {
    let mut counters = profile.json["counters"].as_array().unwrap().iter();
    let counter = counters.find(|counter| counter["sprof"]["counter"] == name)?;
    let counts = counter["samples"]["count"].as_array().unwrap();
    Some(counts.iter().map(|count| count.as_f64().unwrap()).sum())
}

/// For how long the program sleeps at its end, ms: sprof pauses for some 500 times as long as a reading takes.
const REST_MS: &str = "1500";

/// All that the program counted is in the recording.
fn assert_truth(stdout: &str, stderr: &str, file: &Path) {
    let profile = Profile::read(file);
    let report = view(file, &[]);
    // Two threads on one CPU: each waits at least half of the time. Nothing is missing. On a busy machine, the program
    // also waits at its end, after it has read its sums.
    let [before_ms, waited_ms] = ["waited_before_ns", "waited_ns"].map(|name| printed(stdout, name) / 1e6);
    let recorded_ms = sum(&profile, "cpu-wait");
    assert!(
        recorded_ms > waited_ms - before_ms - 0.001 && recorded_ms < 1.5 * waited_ms,
        "{recorded_ms} ms of {waited_ms} ms, {before_ms} ms of them before it began"
    );
    // The process keeps one CPU busy for a while. The host may take the CPU away at its end, which may count.
    let (cpu_ms, recorded_cpu_ms) = (printed(stdout, "cpu_ns") / 1e6, sum(&profile, "cpu"));
    assert!(
        (0.95 * cpu_ms..1.5 * cpu_ms).contains(&recorded_cpu_ms),
        "{recorded_cpu_ms} of {cpu_ms} ms"
    );
    let (share, row) = figure(&report, "process-cpu", "waited");
    let expected = recorded_ms / (recorded_ms + recorded_cpu_ms);
    assert!((share - expected).abs() < 0.05, "{expected}: {row:#}");
    assert!(stderr.contains("short: waited for a CPU"), "{stderr}");
    assert!(
        report["shortage"]["text"]
            .as_str()
            .unwrap()
            .contains("waited for a CPU"),
        "{report:#}"
    );
    // What was worst is a range that --time-range takes.
    let range = row["worst"]["time_range"].as_str().unwrap();
    let worst = figure(&view(file, &["--time-range", range]), "process-cpu", "waited").0;
    let shown = row["worst"]["figure"]["value"].as_f64().unwrap();
    assert!((worst - shown).abs() < 0.05, "{worst}: {row:#}");

    let written = printed(stdout, "written");
    assert_eq!(sum(&profile, "written-bytes"), written);
    assert_eq!(figure(&report, "process-disks", "written").0, written);
    let faults = printed(stdout, "major_faults");
    let recorded = figure(&report, "process-memory", "major_faults").0;
    assert!(
        recorded >= faults && recorded <= faults + 10.0,
        "{recorded} of {faults}"
    );
    // A file system in memory has neither.
    if written > 0.0 {
        assert!(written >= f64::from(1 << 20) && faults >= 200.0, "{stdout}");
        let disks = profile.json["counters"].as_array().unwrap().iter();
        let mut disks = disks
            .filter(|counter| counter["sprof"]["counter"] == "disk-bytes")
            .peekable();
        if disks.peek().is_some() {
            let bytes = disks.flat_map(|disk| disk["samples"]["count"].as_array().unwrap());
            let bytes: f64 = bytes.map(|count| count.as_f64().unwrap()).sum();
            assert!(bytes >= f64::from(1 << 20), "{bytes} bytes on all disks");
        }
    }
    // A datagram that a socket has no room for is no drop of the interface.
    let lost = printed(stdout, "dropped");
    let (dropped, row) = figure(&report, "network", "dropped");
    assert!(
        lost > 1000.0 && dropped >= lost && row["device"] == "udp",
        "{lost}: {row:#}"
    );

    // The machine is busy for no less. The clock of CPU time may count what the host took meanwhile.
    let of_machine_ms = sum(&profile, "machine-cpu") + sum_if_any(&profile, "stolen-cpu").unwrap_or_default();
    assert!(
        of_machine_ms >= 0.9 * cpu_ms - 20.0,
        "{of_machine_ms} ms of {cpu_ms} ms"
    );
    let (busy, row) = figure(&report, "cpus", "busy");
    assert!(busy > 0.0 && busy <= 1.0, "{row:#}");
}

#[test]
fn what_a_program_waits_for_reads_writes_and_loses_is_in_the_recording() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let file = dir.path().join("written");
    let words = ["600", file.to_str().unwrap(), REST_MS];
    let recording = record().run(program("resources").unwrap(), &words);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    assert_truth(&recording.stdout, &recording.stderr, &recording.output);
    // Ranges and parts of a recording keep its resources, and two recordings have those of both.
    let merged = dir.path().join("merged.json.gz");
    let mut command = sprof();
    command
        .arg("merge")
        .args([&recording.output, &recording.output])
        .arg("-o")
        .arg(&merged);
    let made = output(&mut command);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let report = view(&merged, &[]);
    let cpus = rows(&report, "resources")
        .iter()
        .filter(|row| row["resource"] == "cpus");
    assert_eq!(
        cpus.filter(|row| row["process"]["pid"].is_string()).count(),
        2,
        "{report:#}"
    );
}

#[test]
fn an_ordinary_user_has_the_same_resources() {
    let Some(()) = perf_events() else { return };
    if !root() {
        return;
    }
    let playground = Playground::new(&["resources"]);
    let file = playground.path("written");
    let (output, path) = playground.record(&[], "resources", &["600", file.to_str().unwrap(), REST_MS]);
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_truth(&stdout, &stderr, &path);
}

#[test]
fn what_can_t_be_read_is_listed_and_the_rest_is_there() {
    let Some(()) = perf_events() else { return };
    if !root() {
        return;
    }
    // As in a container whose host hides the pressure.
    let hide = "mount -t tmpfs none /proc/pressure && exec \"$0\" \"$@\"";
    let recorder = record().under(&["unshare", "--mount", "sh", "-c", hide]);
    let recording = recorder.run(program("work").unwrap(), &["300"]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let report = view(&recording.output, &[]);
    for counter in ["cpu-pressure", "memory-pressure", "io-pressure"] {
        let mut unread = rows(&report, "resources_not_read").iter();
        let row = unread.find(|row| row["counter"] == counter);
        let row = row.unwrap_or_else(|| panic!("no {counter} in {report:#}"));
        assert_eq!((&row["cause"], &row["processes"]), (&"not-there".into(), &Value::Null));
    }
    let of_cpus = figure(&report, "cpus", "busy").1;
    let saturation = of_cpus["saturation"].as_array().unwrap();
    assert!(
        saturation.iter().all(|figure| figure["name"] != "pressure"),
        "{of_cpus:#}"
    );
}

#[test]
fn without_resources_there_are_memory_and_cpu_time_and_the_view_says_so() {
    let Some(()) = perf_events() else { return };
    let recorder = record().options(&["--no-resources"]);
    let (recording, profile) = recorder.profile(program("work").unwrap(), &["300"]);
    let counters = profile.json["counters"].as_array().into_iter().flatten();
    let names: Vec<&Value> = counters.map(|counter| &counter["sprof"]["counter"]).collect();
    assert!(
        names.iter().all(|name| **name == "memory" || **name == "cpu"),
        "{names:?}"
    );
    assert!(!recording.stderr.contains("short:"), "{}", recording.stderr);
    let mut command = sprof();
    command.args(["report", "--view", "resources"]).arg(&recording.output);
    let refused = output(&mut command);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && stderr.contains("it has no resources"),
        "{stderr}"
    );
}
