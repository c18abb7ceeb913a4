//! `meta.extra`: how far the profile can be trusted, for the front end's "more info" panel.

use super::cpu::CpuDelta;
use super::quality::{self, named};
use crate::data::{AboutRow, AboutSection};
use crate::recorded::Profile;
use crate::recorded::waits::WaitTotals;
use recording::event::Role;
use recording::info::{PeriodUnit, SampleBy};
use recording::wait::{WaitGuess, WaitReason};

/// `ExtraProfileInfoSection[]` of src/types/profile.ts. Rows with 0 are left out, except samples, lost, truncated and
/// unverified, which readers look for.
pub(crate) fn sections(profile: &Profile) -> Vec<AboutSection> {
    let section = |label: &str, rows: Vec<AboutRow>| AboutSection {
        label: label.to_owned(),
        rows,
    };
    let mut sections = vec![section("Recording", recording(profile))];
    sections.extend(profile.waits.as_ref().map(|waits| section("Off-CPU", off_cpu(waits))));
    if !profile.info.events.is_empty() {
        sections.push(section("Events", events(profile)));
    }
    sections.push(section("Recording quality", quality::rows(profile)));
    sections
}

fn recording(profile: &Profile) -> Vec<AboutRow> {
    let (info, quality, counts) = (&profile.info, &profile.quality, &profile.counts);
    let mut rows = vec![
        AboutRow::text("Event", &info.event),
        AboutRow::text("Kernel code", quality::kernel_code(profile)),
    ];
    rows.extend(profile.commit.iter().map(|commit| AboutRow::text("Commit", commit)));
    rows.extend(info.notes.iter().map(|note| AboutRow::text("Note", note)));
    if info.unit != PeriodUnit::Counts {
        rows.push(AboutRow::text("Asked rate", rate(quality.asked_rate_hz)));
    }
    rows.extend(
        quality
            .achieved_rate_hz
            .map(|hz| AboutRow::text("Achieved rate", rate(hz))),
    );
    if !info.run_starts.is_empty() {
        let starts = info.run_starts.iter().map(|start| {
            let ns = start.nanos_since(info.clock.timestamp);
            format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
        });
        rows.push(AboutRow::text("Runs began, ms", starts.collect::<Vec<_>>().join(", ")));
    }
    rows.push(AboutRow::count("Processes", counts.processes));
    rows.push(AboutRow::count("Threads", counts.threads));
    let periods: u64 = profile
        .main_threads()
        .fold(0, |sum, thread| sum.saturating_add(thread.samples.period_sum()));
    match info.unit {
        PeriodUnit::CpuNanoseconds => rows.push(AboutRow::duration("CPU time in samples", periods)),
        PeriodUnit::Cycles => rows.push(AboutRow::count("CPU cycles in samples", periods)),
        PeriodUnit::Counts => rows.push(AboutRow::count(
            format!("Samples' weights: {}, in all", info.event),
            periods,
        )),
    }
    if let CpuDelta::ScaledCycles { ns_per_cycle } = CpuDelta::new(profile) {
        let how = format!("cycles times {ns_per_cycle:.4} ns, so that they sum up to the time counted by the kernel");
        rows.push(AboutRow::text("CPU time of each sample", how));
    }
    rows.extend(
        quality
            .cpu_time_ns
            .map(|ns| AboutRow::duration("CPU time counted by the kernel", ns)),
    );
    let account = &quality.cpu_account;
    rows.extend(account.accounted_ns.map(|ns| {
        AboutRow::duration(
            "CPU time of the program and what it waited for, by the kernel's accounting",
            ns,
        )
    }));
    rows.extend(
        account
            .left_running
            .iter()
            .map(|process| AboutRow::text("Still running, no longer recorded", named(process))),
    );
    rows
}

/// For each event that the user named: how it was sampled, and its count in the profile.
fn events(profile: &Profile) -> Vec<AboutRow> {
    let mut rows = Vec::new();
    for (index, event) in (0..).zip(&profile.info.events) {
        let name = &event.name;
        let role = match event.role {
            Role::Counted => "tracks of their own",
            Role::Point => "markers",
            _ => "what samples weigh",
        };
        let how = match event.sample_by {
            SampleBy::Period(1) => "each time".to_owned(),
            SampleBy::Period(period) => format!("every {period} times"),
            SampleBy::Frequency(rate_hz) => format!("{rate_hz} times a second, with weights"),
        };
        let kernel = event
            .without_kernel
            .map_or_else(String::new, |why| format!("; user code only: {why}"));
        rows.push(AboutRow::text(name, format!("{role}; sampled {how}{kernel}")));
        let in_profile = profile.in_profile(index);
        rows.push(AboutRow::count(format!("{name}: in the profile"), in_profile));
        let Some(counts) = event.counts else { continue };
        rows.push(AboutRow::count(
            format!("{name}: counted by the kernel"),
            counts.counted,
        ));
        if counts.lost > 0 {
            rows.push(AboutRow::count(format!("{name}: records lost, ring full"), counts.lost));
        }
        if let Some(share) = counts.partial_share() {
            rows.push(AboutRow::text(
                format!("{name}: counted for"),
                format!(
                    "{:.1} % of the time: more events than hardware counters; not scaled",
                    100.0 * share
                ),
            ));
        }
    }
    rows
}

/// Times are sums over all threads.
fn off_cpu(waits: &WaitTotals) -> Vec<AboutRow> {
    let mut rows = vec![
        AboutRow::count("Waits", waits.all().count),
        AboutRow::duration("Time off-CPU, waiting for a CPU", waits.of(WaitReason::Cpu).ns),
        AboutRow::duration("Time off-CPU, blocked", waits.blocked().ns),
    ];
    let reasons = WaitReason::ALL.into_iter().filter(|reason| *reason != WaitReason::Cpu);
    for (reason, sum) in reasons.map(|reason| (reason, waits.of(reason))) {
        if sum.count > 0 {
            rows.push(AboutRow::duration(format!("Blocked: {}", reason.name()), sum.ns));
        }
    }
    for guess in [WaitGuess::OtherWait, WaitGuess::LastOnCpu, WaitGuess::NotSampled] {
        let (sum, label) = (waits.guessed(guess), guess.label().trim_matches(['[', ']']));
        if sum.count > 0 {
            rows.push(AboutRow::count(format!("Waits, {label}"), sum.count));
            rows.push(AboutRow::duration(format!("Their time, {label}"), sum.ns));
        }
    }
    if let Some(share) = waits.accounted_share() {
        let share = format!("{:.1} %", 100.0 * share);
        rows.push(AboutRow::text(
            "CPU time and waits, of the time that threads lived",
            share,
        ));
    }
    for (label, value) in [
        ("Waits that lasted when recording began", waits.initial),
        ("Threads that waited throughout, left out", waits.never_ran),
        ("Waits that lasted until recording ended", waits.still_waiting),
        ("Waits left out, beginning or end lost", waits.unpaired),
    ] {
        if value > 0 {
            rows.push(AboutRow::count(label, value));
        }
    }
    rows
}

fn rate(hz: f64) -> String {
    format!("{hz:.1} samples per second of CPU time")
}
