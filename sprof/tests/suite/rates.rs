//! As many samples as were asked for, wherever the program may run.
#![cfg(target_os = "linux")]

use crate::support::machine::alone;
use crate::support::skip::{perf_events, two_cpus};
use crate::support::steal::undisturbed;
use crate::support::{Profile, program, record};

fn assert_losses(profile: &Profile, at_most: f64) {
    let (lost, samples) = (profile.figure(&["lost"]), profile.sample_count() as f64);
    assert!(
        lost <= at_most * samples,
        "{lost} lost, {samples} recorded: {:?}",
        profile.quality()
    );
}

/// Samples a second of CPU time, by the program's own account of its CPU time.
fn rate_hz(profile: &Profile, cpu_ns: f64) -> f64 {
    profile.sample_count() as f64 / (cpu_ns / 1e9)
}

#[test]
fn under_taskset_there_are_as_many_samples_as_without() {
    let Some(()) = perf_events() else { return };
    alone();
    if !two_cpus() {
        return;
    }
    let split = program("split").unwrap();
    let (free, free_profile) = undisturbed(|| record().profile(&split, &["500", "2"]));
    // sprof and the program may run on CPU 1 only.
    let on_cpu_1 = || record().under(&["taskset", "-c", "1"]);
    let (pinned, pinned_profile) = undisturbed(|| on_cpu_1().profile(&split, &["500", "2"]));
    // sprof may run on CPU 1 only, and the program leaves for CPU 0: events for the CPUs of sprof's own mask miss it.
    let script = format!("exec taskset -c 0 {} 500 2", split.display());
    let (elsewhere, elsewhere_profile) = undisturbed(|| on_cpu_1().profile("sh", &["-c", &script]));
    let rates = [
        rate_hz(&free_profile, free.printed("cpu_ns")),
        rate_hz(&pinned_profile, pinned.printed("cpu_ns")),
        rate_hz(&elsewhere_profile, elsewhere.printed("cpu_ns")),
    ];
    for rate in rates {
        assert!(
            (rate / 1000.0 - 1.0).abs() <= 0.05,
            "samples a second of CPU time: {rates:?}"
        );
    }
}

#[test]
fn at_10_khz_the_rate_is_what_was_asked_and_next_to_nothing_is_lost() {
    let Some(()) = perf_events() else { return };
    alone();
    if !two_cpus() {
        return;
    }
    let (recording, profile) = undisturbed(|| {
        record()
            .options(&["--rate", "10000"])
            .profile(program("threads").unwrap(), &["2", "1000"])
    });
    let rate = rate_hz(&profile, recording.printed("cpu_ns"));
    assert!(
        (rate / 10_000.0 - 1.0).abs() <= 0.03,
        "{rate} samples a second of CPU time, 10000 asked"
    );
    assert_losses(&profile, 0.005);
}

#[test]
fn four_busy_threads_lose_nothing_to_speak_of() {
    let Some(()) = perf_events() else { return };
    alone();
    for rate in ["4000", "10000"] {
        let (_, profile) = undisturbed(|| {
            record()
                .options(&["--rate", rate])
                .profile(program("threads").unwrap(), &["4", "500"])
        });
        assert_losses(&profile, 0.005);
    }
}

#[test]
fn the_rate_that_was_achieved_is_in_the_profile_and_right() {
    let Some(()) = perf_events() else { return };
    alone();
    let (recording, profile) = undisturbed(|| {
        record()
            .options(&["--rate", "2000"])
            .profile(program("split").unwrap(), &["1000"])
    });
    let truth = rate_hz(&profile, recording.printed("cpu_ns"));
    let claimed = profile.figure(&["achieved"]);
    assert!(
        (claimed / truth - 1.0).abs() <= 0.03,
        "claimed {claimed} Hz, found {truth} Hz"
    );
    let asked = profile.figure(&["asked"]);
    assert!((asked - 2000.0).abs() < 1.0, "asked {asked}");
}

#[test]
fn the_cpu_time_of_several_threads_is_in_the_profile_and_right() {
    let Some(()) = perf_events() else { return };
    alone();
    // The clock of perf events goes on while a host takes a virtual machine's CPU away, and the program's does not:
    // with four threads 4 % in one run of 20, 1 % in the others.
    let mut told = Vec::new();
    let is_right = (0..3).any(|_| {
        let (recording, profile) = undisturbed(|| record().profile(program("threads").unwrap(), &["4", "400"]));
        let share = profile.figure(&["cpu time counted"]) * 1e6 / recording.printed("cpu_ns");
        told.push(share);
        (share - 1.0).abs() <= 0.03
    });
    assert!(is_right, "of the CPU time, the profiles tell {told:?}");
}
