//! Samples copy more of the stack once many stacks are deeper than 16 KiB, and waits once many are deeper than 8 KiB.
#![cfg(target_os = "linux")]

use std::process::Command;

use crate::support::machine::{alone, one_cpu};
use crate::support::profile::{Share, is_mark};
use crate::support::skip::{kernel_samples, perf_events, root};
use crate::support::steal::{undisturbed_or_right, with_stolen_ms};
use crate::support::target::Target;
use crate::support::{Profile, Recording, assert_split_within, program, record, wait_until};

/// What the profile says of larger copies of samples.
fn notes(profile: &Profile) -> Vec<String> {
    notes_of(profile, "samples")
}

/// `copied`: what copies stacks, samples or waits.
fn notes_of(profile: &Profile, copied: &str) -> Vec<String> {
    let sections = profile.json["meta"]["extra"].as_array().unwrap().iter();
    let entries = sections.flat_map(|section| section["entries"].as_array().unwrap());
    let values = entries.filter_map(|entry| entry["value"].as_str().map(str::to_owned));
    values
        .filter(|value| value.starts_with(copied) && value.contains(" KiB "))
        .collect()
}

fn is_whole(names: &[&str]) -> bool {
    names.contains(&"main") && !names.iter().any(|name| is_mark(name))
}

/// 40 KiB of stack. Until the first 50 samples are looked at, which a recorder that waits for a CPU does late, it is
/// completed from memory; from then on samples have all of it. The moment between the two is not seen: no sample is
/// missing, none is there twice.
#[test]
fn deep_stacks_are_copied_whole_from_a_moment_on() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    undisturbed_or_right(assert_copied_whole);
}

fn assert_copied_whole() {
    let deep = program("deep").unwrap();
    let ((recording, profile), stolen_ms) = with_stolen_ms(|| record().profile(&deep, &["spin", "40", "2000"]));
    let notes = notes(&profile);
    assert!(
        notes.len() == 1 && notes[0].contains("up to 64 KiB of stack, instead of 16"),
        "{notes:?}"
    );
    // None where one round had all of the first samples: nothing was read before them that could verify them.
    let completed = profile.figure_if_any(&["completed", "memory"]).unwrap_or(0.0);
    // If copies stayed as they were, all would be.
    assert!(
        completed < 0.2 * profile.sample_count() as f64,
        "{completed} completed from memory: {:?}",
        profile.quality()
    );
    // Before the first whole stack there may be a late first round.
    let is_whole_sample = |stack: usize| {
        let names: Vec<&str> = profile.names(stack).collect();
        names.contains(&"deep_leaf").then(|| is_whole(&names))
    };
    let of_leaf = profile.samples().filter_map(|sample| is_whole_sample(sample.stack?));
    let known: Vec<bool> = of_leaf.skip_while(|is_whole| !is_whole).collect();
    let whole = known.iter().filter(|is_whole| **is_whole).count();
    assert!(
        2 * known.len() as u64 > profile.sample_count() && whole * 100 >= known.len() * 99,
        "{whole} of {}\n{}",
        known.len(),
        profile.summary()
    );
    assert_eq!(profile.figure(&["lost"]), 0.0);
    let samples = profile.sample_count() as f64;
    let wanted = recording.printed("cpu_ns") / 1e6;
    // The switch costs each thread up to one sample, and the host what it takes away.
    assert!(
        (samples - wanted).abs() <= 0.01 * wanted + 5.0 + stolen_ms,
        "{samples} samples, {wanted} ms of CPU time, {stolen_ms} ms taken away"
    );
    let mut times: Vec<f64> = profile.samples().map(|sample| sample.time_ms).collect();
    let all = times.len();
    times.dedup();
    assert_eq!(times.len(), all, "two samples at one time");
}

/// The event of larger copies reports processes, names and mappings as the first one did.
#[test]
fn processes_that_start_later_are_recorded_as_before() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    undisturbed_or_right(assert_recorded_as_before);
}

fn assert_recorded_as_before() {
    let [deep, split] = ["deep", "split"].map(|name| program(name).unwrap());
    let script = format!("{} spin 40 500; exec {} 4000", deep.display(), split.display());
    let (_, profile) = record().options(&["--rate", "4000"]).profile("sh", &["-c", &script]);
    assert_eq!(
        notes(&profile).len(),
        1,
        "{:?}; {:?}",
        notes(&profile),
        profile.quality()
    );
    // Within 5 standard deviations. A host that takes CPU time away may leave a third of the 16,000 samples.
    assert_split_within(&profile, "", 4000, 4.0);
    let threads: Vec<&str> = profile.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert!(threads.contains(&"deep") && threads.contains(&"split"), "{threads:?}");
    let rooted = profile.share(|names| names.contains(&"run_split"), is_whole);
    assert!(rooted.of > 4000, "{}", profile.summary());
    assert_eq!(rooted.hits, rooted.of, "{}", profile.summary());
}

/// Of what runs already: two processes, whose events write to the same rings, and the whole machine.
#[test]
#[ignore = "long: the same of a launched program has the same rules"]
fn deep_stacks_of_what_runs_already_are_copied_whole_too() {
    let Some(()) = perf_events() else { return };
    alone();
    let deep = program("deep").unwrap();
    let script = format!(
        "{0} spin 40 150000 & echo $!; {0} spin 40 150000 & echo $!; wait",
        deep.display()
    );
    let mut shell = Target::start("sh", &["-c", &script]);
    let children = [shell.line(), shell.line()];
    let shell_pid = shell.pid();
    let mut options = vec![vec!["-p", &shell_pid]];
    if root() {
        options.push(vec!["-a"]);
    }
    let recordings: Vec<Recording> = options
        .iter()
        .map(|options| {
            record()
                .options(options)
                .attach()
                .finish_after_cpu_ms(&children, 2500.0)
        })
        .collect();
    for child in &children {
        Command::new("kill").arg(child).status().unwrap();
    }
    for (recording, options) in recordings.iter().zip(options) {
        assert_eq!(recording.code, Some(0), "{options:?}: {}", recording.stderr);
        let profile = recording.profile();
        let notes = notes(&profile);
        assert!(
            notes.len() == 1 && notes[0].contains("up to 64 KiB"),
            "{options:?}: {notes:?}"
        );
        let whole = profile.share(|names| names.contains(&"deep_leaf"), is_whole);
        // The first 50 samples are looked at together, and then a round goes by. The recorder waits for its CPU, as the
        // two programs have both: up to 75 ms were seen.
        assert!(
            whole.of > 2000 && whole.percent() >= 94.5,
            "{options:?}: {whole:?}\n{}",
            profile.summary()
        );
        // The figure is of all processes: with -a also of sprof itself, a tenth of a CPU without optimisation.
        let is_deep = |pid: &String| children.contains(pid);
        let others: usize = (profile.threads.iter().filter(|thread| !is_deep(&thread.pid)))
            .map(|thread| thread.samples.len())
            .sum();
        // None where one round had all of the first samples: nothing was read before them that could verify them.
        let completed = profile.figure_if_any(&["completed", "memory"]).unwrap_or(0.0) - others as f64;
        assert!(
            completed < 400.0,
            "{options:?}: {completed} completed from memory, beside {others} samples of others"
        );
        for child in &children {
            let thread = profile.threads.iter().find(|thread| thread.pid == *child).unwrap();
            let [first, last] = [thread.samples.first(), thread.samples.last()].map(|sample| sample.unwrap().time_ms);
            // While one event goes on and the other off, a thread may be sampled twice.
            let (samples, most) = (thread.samples.len() as f64, (last - first) * 1.005 + 5.0);
            assert!(
                samples > 800.0 && samples <= most,
                "{options:?}: {samples} samples, {most} at most"
            );
            let late = thread.samples.iter().filter(|sample| sample.time_ms > last - 1000.0);
            for stack in late.filter_map(|sample| sample.stack) {
                let names: Vec<&str> = profile.names(stack).collect();
                assert!(
                    !names.contains(&"deep_leaf") || is_whole(&names),
                    "{options:?}: {names:?}"
                );
            }
        }
    }
}

/// A recorder that gets no CPU finds its rings full. Smaller copies last longer.
#[test]
#[ignore = "long: waits have the same rule and a test of it"]
fn samples_are_smaller_again_after_larger_ones_were_lost() {
    let Some(()) = perf_events() else { return };
    alone();
    // The ring of each CPU holds a second: a program that moves between two of them lost nothing in 1.5 s.
    let deep = program("deep").unwrap();
    let command = ["-c", "0", &deep.display().to_string(), "spin", "40", "5000"];
    let running = record().start("taskset", &command);
    running.wait_for_cpu_ms(1000.0);
    running.signal_sprof("STOP");
    running.wait_for_cpu_ms(3500.0);
    running.signal_sprof("CONT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    let notes = notes(&profile).join("; ");
    assert!(
        notes.contains("64 KiB") && notes.contains("samples went back to 16 KiB stack copies"),
        "{notes}; {:?}",
        profile.quality()
    );
    assert!(profile.figure(&["lost"]) > 0.0, "{:?}", profile.quality());
    // Stacks are completed from memory, as before.
    assert!(
        profile.figure(&["completed", "memory"]) > 500.0,
        "{:?}",
        profile.quality()
    );
    let last = profile.samples().map(|sample| sample.time_ms).fold(0.0, f64::max);
    assert!(last > 4000.0, "the last sample is at {last} ms");
}

/// A size that the user chose holds.
#[test]
fn a_chosen_size_stays() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let recorder = record().options(&["--stack-size", "16384"]);
    let (_, profile) = recorder.profile(program("deep").unwrap(), &["spin", "40", "500"]);
    assert_eq!(notes(&profile), [] as [String; 0]);
    // Of 500, a host that takes CPU time away may leave a third.
    assert!(
        profile.figure(&["completed", "memory"]) > 100.0,
        "{:?}",
        profile.quality()
    );
}

/// The waits of `deep rests`, and how many of them have their callers down to `main`.
fn rests(profile: &Profile) -> Share {
    profile.share(
        |names| names.contains(&"rest") && names.contains(&"[off-CPU]"),
        |names| is_whole(names) && !names.iter().any(|name| name.starts_with("[guess")),
    )
}

/// Without the first half of the waits of `deep rests`. By then copies are larger, also if the recorder had to wait for
/// a CPU.
fn later_rests(mut profile: Profile) -> Profile {
    let is_rest = |stack: usize| {
        let names: Vec<&str> = profile.names(stack).collect();
        names.contains(&"rest") && names.contains(&"[off-CPU]")
    };
    let rests = profile.samples().filter(|sample| sample.stack.is_some_and(is_rest));
    let mut times: Vec<f64> = rests.map(|sample| sample.time_ms).collect();
    times.sort_by(f64::total_cmp);
    let middle = times[times.len() / 2];
    for thread in &mut profile.threads {
        thread.samples.retain(|sample| sample.time_ms >= middle);
    }
    profile
}

/// A thread waits below 40 KiB of stack, on two paths by turns: what is read later does not show on which.
#[test]
fn the_stacks_of_deep_waits_are_copied_whole_from_a_moment_on() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let recorder = record().options(&["--off-cpu"]);
    let (_, profile) = recorder.profile(program("deep").unwrap(), &["rests", "40", "1000"]);
    let notes = notes_of(&profile, "waits");
    assert!(
        notes.len() == 1 && notes[0].contains("waits copied up to 64 KiB of stack, instead of 8"),
        "{notes:?}"
    );
    assert!(rests(&profile).of > 900, "{}", profile.summary());
    let profile = later_rests(profile);
    let whole = rests(&profile);
    assert!(
        whole.of > 400 && whole.percent() >= 95.0,
        "{whole:?}\n{}",
        profile.summary()
    );
    for path in ["left_rest", "right_rest"] {
        let of_path = profile.share(|names| names.contains(&"rest"), |names| names.contains(&path));
        assert!((of_path.percent() - 50.0).abs() < 5.0, "{path}: {of_path:?}");
    }
}

#[test]
fn waits_that_are_not_deep_are_copied_as_usual() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let recorder = record().options(&["--off-cpu"]);
    let (_, profile) = recorder.profile(program("deep").unwrap(), &["rests", "5", "300"]);
    assert_eq!(notes_of(&profile, "waits"), [] as [String; 0]);
    let whole = rests(&profile);
    assert!(
        whole.of > 250 && whole.hits == whole.of,
        "{whole:?}\n{}",
        profile.summary()
    );
}

/// Where the user chose how much samples copy, waits copy no more than that.
#[test]
fn a_chosen_size_is_the_most_that_waits_copy() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    // Until the copies are larger, the recorder may have to wait for a CPU.
    for (size, waits, expected) in [
        ("32768", "800", Some("up to 32 KiB of stack, instead of 8")),
        ("8192", "300", None),
    ] {
        let recorder = record().options(&["--off-cpu", "--stack-size", size]);
        let (_, profile) = recorder.profile(program("deep").unwrap(), &["rests", "20", waits]);
        let notes = notes_of(&profile, "waits");
        assert_eq!(notes.len(), usize::from(expected.is_some()), "{size}: {notes:?}");
        assert!(
            expected.is_none_or(|expected| notes[0].contains(expected)),
            "{size}: {notes:?}"
        );
    }
}

/// Waits that a recorder without a CPU could not take are no reason to fail: larger copies of them are given up.
#[test]
fn waits_are_smaller_again_after_most_of_the_larger_ones_were_lost() {
    let Some(()) = kernel_samples() else { return };
    alone();
    let deep = program("deep").unwrap();
    let command = ["-c", "0", &deep.display().to_string(), "rests", "40", "3500"];
    let running = record().options(&["--off-cpu"]).start("taskset", &command);
    let waits = || {
        let text = std::fs::read_to_string(format!("/proc/{}/status", running.targets().first()?)).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    let wait_for = |count| wait_until(|| waits() >= Some(count), || format!("{:?} of {count} waits", waits()));
    wait_for(1000);
    running.signal_sprof("STOP");
    wait_for(2500);
    running.signal_sprof("CONT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let notes = notes_of(&recording.profile(), "waits").join("; ");
    assert!(
        notes.contains("waits copied up to 64 KiB") && notes.contains("waits went back to 8 KiB stack copies"),
        "{notes}"
    );
}
