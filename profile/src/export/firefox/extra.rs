//! `meta.extra`: how far the profile can be trusted, as the front end's "more info" panel shows it.

use recording::cpu_account::{CpuAccount, ProcessTime, UnrecordedCause};
use recording::info::{EventRole, PeriodUnit, SampleBy};
use recording::sink::ModuleMiss;
use recording::stack::StackMark;
use recording::wait::{WaitGuess, WaitReason};
use serde_json::{Value, json};

use super::cpu::CpuDelta;
use crate::build::lost_label;
use crate::model::Profile;
use crate::model::waits::WaitTotals;
use crate::view::data::{PROCESSES, RUNS_BEGAN, THREADS};

/// `ExtraProfileInfoSection[]` of src/types/profile.ts. Rows that would say 0 are left out, but for those that a reader
/// looks for: samples, lost, truncated, unverified.
pub(super) fn sections(profile: &Profile) -> Value {
    let mut sections = vec![json!({"label": "Recording", "entries": recording(profile)})];
    sections.extend(
        profile
            .waits
            .as_ref()
            .map(|waits| json!({"label": "Off-CPU", "entries": off_cpu(waits)})),
    );
    if !profile.info.events.is_empty() {
        sections.push(json!({"label": "Events", "entries": events(profile)}));
    }
    sections.push(json!({"label": "Recording quality", "entries": quality(profile)}));
    Value::Array(sections)
}

fn text(label: &str, value: impl Into<String>) -> Value {
    json!({"label": label, "format": "string", "value": value.into()})
}

fn count(label: impl Into<String>, value: u64) -> Value {
    json!({"label": label.into(), "format": "integer", "value": value})
}

/// The format `duration` wants milliseconds.
fn duration(label: &str, ns: u64) -> Value {
    json!({"label": label, "format": "duration", "value": ns as f64 / 1e6})
}

fn recording(profile: &Profile) -> Vec<Value> {
    let (info, quality, counts) = (&profile.info, &profile.quality, &profile.counts);
    let mut rows = vec![
        text("Event", &info.event),
        text(
            "Kernel code",
            if info.kernel_included {
                "included"
            } else {
                (info.events.iter())
                    .find_map(|event| event.without_kernel.filter(|_| event.role == EventRole::Weight))
                    .unwrap_or("not included: no permission")
            },
        ),
    ];
    rows.extend(info.notes.iter().map(|note| text("Note", note)));
    if info.unit != PeriodUnit::Counts {
        rows.push(text("Asked rate", rate(quality.asked_rate_hz)));
    }
    rows.extend(quality.achieved_rate_hz.map(|hz| text("Achieved rate", rate(hz))));
    if !info.run_starts.is_empty() {
        let starts = info.run_starts.iter().map(|start| {
            let ns = start.nanos_since(info.clock.timestamp);
            format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
        });
        rows.push(text(RUNS_BEGAN, starts.collect::<Vec<_>>().join(", ")));
    }
    rows.push(count(PROCESSES, counts.processes));
    rows.push(count(THREADS, counts.threads));
    let periods: u64 = profile
        .main_threads()
        .fold(0, |sum, thread| sum.saturating_add(thread.samples.period_sum()));
    match info.unit {
        PeriodUnit::CpuNanoseconds => rows.push(duration("CPU time in samples", periods)),
        PeriodUnit::Cycles => rows.push(count("CPU cycles in samples", periods)),
        PeriodUnit::Counts => rows.push(count(format!("Samples' weights: {}, in all", info.event), periods)),
    }
    if let CpuDelta::ScaledCycles { ns_per_cycle } = CpuDelta::of(profile) {
        let how = format!("cycles times {ns_per_cycle:.4} ns, so that they sum up to the time counted by the kernel");
        rows.push(text("CPU time of each sample", how));
    }
    rows.extend(
        quality
            .cpu_time_ns
            .map(|ns| duration("CPU time counted by the kernel", ns)),
    );
    let account = &quality.cpu_account;
    rows.extend(account.accounted_ns.map(|ns| {
        duration(
            "CPU time of the program and what it waited for, by the kernel's accounting",
            ns,
        )
    }));
    rows.extend(
        account
            .left_running
            .iter()
            .map(|process| text("Still running, no longer recorded", named(process))),
    );
    rows
}

fn named(process: &ProcessTime) -> String {
    format!("{} ({})", process.name, process.pid.0)
}

/// Processes that have no events, and how much CPU time that is.
fn not_recorded(account: &CpuAccount) -> Vec<Value> {
    let mut rows = Vec::new();
    if account.unrecorded_ns > 0 {
        rows.push(duration("CPU time not recorded, at least", account.unrecorded_ns));
        if account.unrecorded.is_empty() {
            rows.push(text("Not recorded", "the cause is not known"));
        }
    }
    rows.extend(account.unrecorded.iter().map(|process| {
        let time = match process.cpu_ns {
            Some(ns) if ns > 0 => format!(", at least {:.2} s of CPU time", ns as f64 / 1e9),
            _ => String::new(),
        };
        let cause = process.cause.map_or("", cause_label);
        text("Not recorded", format!("{}{time}: {cause}", named(process)))
    }));
    if account.unrecorded_more > 0 {
        rows.push(count("Further processes not recorded", account.unrecorded_more));
    }
    rows
}

fn cause_label(cause: UnrecordedCause) -> &'static str {
    match cause {
        UnrecordedCause::UndumpableExec => {
            "the kernel ended its events when it executed a program that has other rights, or that may not be read"
        }
        UnrecordedCause::OtherUser => "it belongs to another user",
    }
}

/// Each event that the user named: how it was sampled, and how much of it is in the profile.
fn events(profile: &Profile) -> Vec<Value> {
    let mut rows = Vec::new();
    for (index, event) in (0..).zip(&profile.info.events) {
        let name = &event.name;
        let role = match event.role {
            EventRole::Weight => "what samples weigh",
            EventRole::Track => "tracks of their own",
            EventRole::Marker => "markers",
        };
        let how = match event.sample_by {
            SampleBy::Period(1) => "each time".to_owned(),
            SampleBy::Period(period) => format!("every {period} times"),
            SampleBy::Frequency(rate_hz) => format!("{rate_hz} times a second, with weights"),
        };
        let kernel = event
            .without_kernel
            .map_or_else(String::new, |why| format!("; user code only: {why}"));
        rows.push(text(name, format!("{role}; sampled {how}{kernel}")));
        let in_profile = profile.in_profile(index);
        rows.push(count(format!("{name}: in the profile"), in_profile));
        let Some(counts) = event.counts else { continue };
        rows.push(count(format!("{name}: counted by the kernel"), counts.counted));
        if counts.lost > 0 {
            rows.push(count(format!("{name}: records lost, ring full"), counts.lost));
        }
        if let Some(share) = counts.partial_share() {
            rows.push(text(
                &format!("{name}: counted for"),
                format!(
                    "{:.1} % of the time: more events than hardware counters; not scaled",
                    100.0 * share
                ),
            ));
        }
    }
    rows
}

/// Times are those of all threads, added up.
fn off_cpu(waits: &WaitTotals) -> Vec<Value> {
    let mut rows = vec![
        count("Waits", waits.all().count),
        duration("Time off-CPU, waiting for a CPU", waits.of(WaitReason::Cpu).ns),
        duration("Time off-CPU, blocked", waits.blocked().ns),
    ];
    let reasons = WaitReason::ALL.into_iter().filter(|reason| *reason != WaitReason::Cpu);
    for (reason, sum) in reasons.map(|reason| (reason, waits.of(reason))) {
        if sum.count > 0 {
            rows.push(duration(&format!("Blocked: {}", reason.name()), sum.ns));
        }
    }
    for guess in [WaitGuess::OtherWait, WaitGuess::LastOnCpu, WaitGuess::NotSampled] {
        let (sum, label) = (waits.guessed(guess), guess.label().trim_matches(['[', ']']));
        if sum.count > 0 {
            rows.push(count(format!("Waits, {label}"), sum.count));
            rows.push(duration(&format!("Their time, {label}"), sum.ns));
        }
    }
    if let Some(share) = waits.accounted_share() {
        let share = format!("{:.1} %", 100.0 * share);
        rows.push(text("CPU time and waits, of the time that threads lived", share));
    }
    for (label, value) in [
        ("Waits that lasted when recording began", waits.already_waiting),
        ("Threads that waited throughout, left out", waits.never_ran),
        ("Waits that lasted until recording ended", waits.still_waiting),
        ("Waits left out, beginning or end lost", waits.unpaired),
    ] {
        if value > 0 {
            rows.push(count(label, value));
        }
    }
    rows
}

fn rate(hz: f64) -> String {
    format!("{hz:.1} samples per second of CPU time")
}

fn quality(profile: &Profile) -> Vec<Value> {
    let (quality, counts) = (&profile.quality, &profile.counts);
    let mut rows = vec![
        count("Samples", counts.samples),
        count("Lost records", quality.lost_total()),
    ];
    let mut some = |label: String, value: u64| {
        if value > 0 {
            rows.push(count(label, value));
        }
    };
    for (cause, value) in &quality.lost {
        some(format!("Lost, {}", lost_label(*cause)), *value);
    }
    some("Throttled by the kernel, times".into(), quality.throttled);
    some("Malformed records".into(), quality.malformed);
    some("Samples out of order".into(), counts.samples_out_of_order);
    some(
        "Samples of other than main threads, left out".into(),
        counts.samples_left_out,
    );
    some("Markers left out".into(), counts.markers_left_out);
    some(
        "Samples with JIT names of perf maps, which have no times to check".into(),
        counts.samples_named_without_time,
    );
    rows.append(&mut not_recorded(&quality.cpu_account));
    rows.push(count("Stacks that reach their root", quality.rooted));
    rows.push(count("Stacks truncated", quality.truncated_total()));
    rows.push(count("Stacks unverified", quality.unverified));
    let mut some = |label: String, value: u64| {
        if value > 0 {
            rows.push(count(label, value));
        }
    };
    some(
        "Truncated, stack memory not available".into(),
        quality.truncated_no_memory,
    );
    some("Truncated, no unwind information".into(), quality.truncated_no_rule);
    some("Truncated, too many frames".into(), quality.truncated_depth);
    some("Stacks of Go's system stack (g0)".into(), quality.on_other_stack);
    some("Stacks completed from live memory".into(), quality.completed_live);
    some(
        "Stacks with frames found by frame pointer".into(),
        quality.by_frame_pointer,
    );
    for (reason, value) in &quality.missing {
        some(
            StackMark::Missing(*reason).label().trim_matches(['[', ']']).to_owned(),
            *value,
        );
    }
    for (reason, value) in &quality.module_misses {
        some(format!("Modules not read, {}", miss_label(*reason)), *value);
    }
    rows
}

fn miss_label(miss: ModuleMiss) -> &'static str {
    match miss {
        ModuleMiss::Anonymous => "anonymous memory",
        ModuleMiss::NotFound => "file not found",
        ModuleMiss::PermissionDenied => "permission denied",
        ModuleMiss::Replaced => "file replaced since it was mapped",
        ModuleMiss::NotIdentified => "file not identified: no build id, no inode",
        ModuleMiss::Malformed => "malformed file",
    }
}
