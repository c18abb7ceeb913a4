//! Files in which perf noted when threads left their CPUs: the waits are on the time line, as those that sprof records.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::perf_data::rings;
use crate::support::machine::share_again;
use crate::support::perf::{load, perf_record, perf_script};
use crate::support::profile::Thread;
use crate::support::skip::{perf, perf_on_one_cpu, root};
use crate::support::steal::with_stolen_ms;
use crate::support::target::number_in;
use crate::support::waits::{assert_quarters, main_thread, weight_ms};
use crate::support::{Profile, program, temp_dir};

/// A recording of the program `waits`.
struct RecordedWaits {
    file: PathBuf,
    /// What the program said of itself.
    printed: String,
    stolen_ms: f64,
    _dir: tempfile::TempDir,
}

impl RecordedWaits {
    fn record(options: &[&str]) -> RecordedWaits {
        let dir = temp_dir();
        let file = dir.path().join("perf.data");
        let options = [&["--switch-events"][..], rings(), options].concat();
        let waits = program("waits").unwrap();
        let (printed, stolen_ms) = with_stolen_ms(|| perf_record(&file, &options, &waits, &["3", "250"]));
        share_again();
        RecordedWaits {
            file,
            printed,
            stolen_ms,
            _dir: dir,
        }
    }

    fn printed(&self, label: &str) -> f64 {
        number_in(self.printed.trim_end(), label)
    }

    fn assert_quarters(&self, profile: &Profile, thread: &Thread) {
        assert_quarters(profile, thread, |label| self.printed(label), self.stolen_ms);
    }
}

/// The time between each thread's switches out and in, ms, as `perf script` lists them.
fn waits_of_perf_script(file: &Path) -> HashMap<u32, f64> {
    let text = perf_script(file, &["--show-switch-events", "-F", "comm,tid,time,event"]);
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
    assert!(!waited.is_empty(), "{text}");
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
    let recorded = RecordedWaits::record(&options);
    let (profile, stderr) = load(&recorded.file, &[]);
    let thread = main_thread(&profile);
    recorded.assert_quarters(&profile, thread);
    assert!(thread.is_monotonic());
    // Stacks of waits are no samples that were left out.
    assert!(!stderr.contains("left out"), "{stderr}");
    assert!(!stderr.contains("stack of another wait"), "{stderr}");
    assert!(
        !profile.quality().contains_key("Malformed records"),
        "{}",
        profile.summary()
    );

    let waited = waits_of_perf_script(&recorded.file);
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
    let recorded = RecordedWaits::record(&options);
    let (profile, stderr) = load(&recorded.file, &[]);
    recorded.assert_quarters(&profile, main_thread(&profile));
    assert!(!stderr.contains("left out"), "{stderr}");
}

#[test]
fn without_stacks_the_times_are_right_and_the_stacks_are_called_guesses() {
    let Some(()) = perf_on_one_cpu() else { return };
    let recorded = RecordedWaits::record(&["-e", "cpu-clock", "-F", "1000", "-g"]);
    let (profile, _) = load(&recorded.file, &[]);
    let thread = main_thread(&profile);
    let off_cpu = |names: &[&str]| names.contains(&"[off-CPU]");
    let blocked = weight_ms(&profile, thread, |names| {
        off_cpu(names) && names.last() != Some(&"[waiting for a CPU]")
    });
    // It also waits until its helper has the lock: long, while the host has the helper's CPU.
    let labels = ["sleep_ns", "pipe_ns", "lock_ns", "ask_ns"];
    let printed_ms: f64 = labels.iter().map(|label| recorded.printed(label) / 1e6).sum();
    // The program may be on a CPU that the host has, between a clock and a wait.
    let unseen_ms = recorded.stolen_ms;
    assert!(
        blocked > 0.95 * printed_ms - unseen_ms && blocked < 1.05 * printed_ms,
        "{blocked} ms, not {printed_ms} ms; {unseen_ms} ms were taken away\n{}",
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
    let recorded = RecordedWaits::record(&options);
    let (profile, _) = load(&recorded.file, &[]);
    let thread = (profile.threads.iter())
        .find(|thread| thread.is_main && thread.process_name == "waits")
        .unwrap();
    recorded.assert_quarters(&profile, thread);
}

#[test]
fn waits_are_not_added_to_what_is_counted() {
    let Some(()) = perf_on_one_cpu() else { return };
    if !root() {
        return;
    }
    let options = ["-e", "cpu-clock", "-e", "page-faults", "-e", "sched:sched_switch", "-g"];
    let recorded = RecordedWaits::record(&options);
    let (faults, stderr) = load(&recorded.file, &["--event", "page-faults"]);
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
    let (switches, _) = load(&recorded.file, &["--event", "sched:sched_switch"]);
    assert_eq!(switches.share_of("[off-CPU]").hits, 0, "{}", switches.summary());
    assert!(switches.sample_count() > 10, "{}", switches.summary());
}
