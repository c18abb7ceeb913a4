//! Files in which perf noted when threads left their CPUs: the waits are on the time line, as those that sprof records.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::machine::share_again;
use crate::support::perf::load;
use crate::support::skip::{perf, perf_on_one_cpu, root};
use crate::support::steal::undisturbed;
use crate::support::waits::{assert_quarters, main_thread, weight_ms};
use crate::support::{program, temp_dir};

/// Runs `perf record` with the options on the program `waits`. Returns the file and what the program printed.
fn recorded(options: &[&str]) -> (tempfile::TempDir, PathBuf, String) {
    let dir = temp_dir();
    let file = dir.path().join("perf.data");
    let output = undisturbed(|| {
        Command::new("perf")
            .args(["record", "--switch-events", "-o"])
            .arg(&file)
            .args(options)
            .arg("--")
            .arg(program("waits").unwrap())
            .args(["3", "250"])
            .output()
            .unwrap()
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    share_again();
    (dir, file, printed)
}

/// A number that the program printed as `label=123`.
fn number(printed: &str, label: &str) -> f64 {
    let word = printed
        .split_whitespace()
        .find_map(|word| word.strip_prefix(label)?.strip_prefix('='));
    word.unwrap_or_else(|| panic!("no {label} in {printed}"))
        .parse()
        .unwrap()
}

/// The time between each thread's switches out and in, ms, as `perf script` lists them.
fn waits_of_perf_script(file: &Path) -> HashMap<u32, f64> {
    let output = Command::new("perf")
        .args(["script", "--show-switch-events", "-F", "comm,tid,time,event", "-i"])
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut left, mut waited) = (HashMap::new(), HashMap::new());
    for line in text.lines() {
        // `          helper 26843 24090.692366: PERF_RECORD_SWITCH OUT        `
        let Some((who, what)) = line.split_once(": PERF_RECORD_SWITCH") else {
            continue;
        };
        let mut words = who.split_whitespace().rev();
        let seconds: f64 = words.next().unwrap().parse().unwrap();
        let tid: u32 = words.next().unwrap().parse().unwrap();
        if what.contains("OUT") {
            left.insert(tid, seconds);
        } else if let Some(since) = left.remove(&tid) {
            *waited.entry(tid).or_default() += (seconds - since) * 1e3;
        }
    }
    assert!(!waited.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    waited
}

#[test]
fn equal_quarters_with_the_stacks_of_sched_switch() {
    let Some(()) = perf_on_one_cpu() else { return };
    if !root() {
        return;
    }
    // No -F: it would sample switches at that rate, too, instead of each. Frame pointers would not do: libc has none,
    // so the functions that call it would be missing.
    let options = [
        "-e",
        "cpu-clock/freq=1000/",
        "-e",
        "sched:sched_switch",
        "--call-graph",
        "dwarf",
    ];
    let (_dir, file, printed) = recorded(&options);
    let (profile, stderr) = load(&file, &[]);
    let thread = main_thread(&profile);
    assert_quarters(&profile, thread, |label| number(&printed, label));
    assert!(thread.is_monotonic());
    // Stacks of waits are no samples that were left out.
    assert!(!stderr.contains("left out"), "{stderr}");
    assert!(!stderr.contains("stack of another wait"), "{stderr}");
    assert!(
        !profile.quality().contains_key("Malformed records"),
        "{}",
        profile.summary()
    );

    let waited = waits_of_perf_script(&file);
    for thread in &profile.threads {
        let of_perf = waited[&thread.tid.parse().unwrap()];
        let ours = weight_ms(&profile, thread, |names| names.contains(&"[off-CPU]"));
        // The wait for a thread's first CPU has no beginning, and one that ends with the thread no end.
        assert!(
            (ours / of_perf - 1.0).abs() < 0.01,
            "{}: {ours} ms, perf script: {of_perf} ms\n{}",
            thread.name,
            profile.summary()
        );
    }
}

#[test]
fn equal_quarters_with_the_stacks_of_context_switches() {
    let Some(()) = perf_on_one_cpu() else { return };
    if !root() {
        return;
    }
    let switches = "context-switches/period=1/";
    let options = ["-e", "cpu-clock/freq=1000/", "-e", switches, "--call-graph", "dwarf"];
    let (_dir, file, printed) = recorded(&options);
    let (profile, stderr) = load(&file, &[]);
    assert_quarters(&profile, main_thread(&profile), |label| number(&printed, label));
    assert!(!stderr.contains("left out"), "{stderr}");
}

#[test]
fn without_stacks_the_times_are_right_and_the_stacks_are_called_guesses() {
    let Some(()) = perf_on_one_cpu() else { return };
    let (_dir, file, printed) = recorded(&["-e", "cpu-clock", "-F", "1000", "-g"]);
    let (profile, _) = load(&file, &[]);
    let thread = main_thread(&profile);
    let off_cpu = |names: &[&str]| names.contains(&"[off-CPU]");
    let blocked = weight_ms(&profile, thread, |names| {
        off_cpu(names) && names.last() != Some(&"[waiting for a CPU]")
    });
    let labels = ["sleep_ns", "pipe_ns", "lock_ns"];
    let printed_ms: f64 = labels.iter().map(|label| number(&printed, label) / 1e6).sum();
    // Beside the three quarters it waits for its helper to take the lock, and that is short.
    assert!(
        (blocked / printed_ms - 1.0).abs() < 0.05,
        "{blocked} ms, not {printed_ms} ms\n{}",
        profile.summary()
    );
    let guessed = weight_ms(&profile, thread, |names| {
        names.contains(&"[guess: last stack on a CPU]") || names.contains(&"[stack not sampled]")
    });
    let all = weight_ms(&profile, thread, off_cpu);
    assert!((guessed / all - 1.0).abs() < 0.001, "{guessed} of {all} ms");
}

#[test]
fn the_waits_of_the_whole_machine() {
    let Some(()) = perf() else { return };
    if !root() {
        return;
    }
    let switches = "context-switches/period=1/";
    let options = [
        "-a",
        "-e",
        "cpu-clock/freq=1000/",
        "-e",
        switches,
        "--call-graph",
        "dwarf",
    ];
    let (_dir, file, printed) = recorded(&options);
    let (profile, _) = load(&file, &[]);
    let thread = (profile.threads.iter())
        .find(|thread| thread.is_main && thread.process_name == "waits")
        .unwrap();
    assert_quarters(&profile, thread, |label| number(&printed, label));
}

#[test]
fn waits_are_not_added_to_what_is_counted() {
    let Some(()) = perf_on_one_cpu() else { return };
    if !root() {
        return;
    }
    let options = ["-e", "cpu-clock", "-e", "page-faults", "-e", "sched:sched_switch", "-g"];
    let (_dir, file, _) = recorded(&options);
    let (faults, stderr) = load(&file, &["--event", "page-faults"]);
    assert!(
        stderr.contains("switches of threads are left out: waits are shown beside an event that measures time"),
        "{stderr}"
    );
    assert!(
        stderr.contains("samples of the event sched:sched_switch are left out"),
        "{stderr}"
    );
    assert_eq!(faults.share_of("[off-CPU]").hits, 0, "{}", faults.summary());
    // Asked for by name, switches are samples as those of any event.
    let (switches, _) = load(&file, &["--event", "sched:sched_switch"]);
    assert_eq!(switches.share_of("[off-CPU]").hits, 0, "{}", switches.summary());
    assert!(switches.sample_count() > 10, "{}", switches.summary());
}
