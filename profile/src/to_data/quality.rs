//! How far a recording can be trusted: typed facts and rows of the front end's panel, from the same lines.

use recording::cpu_account::{CpuAccount, ProcessTime, UnrecordedCause};
use recording::event::Role;
use recording::heap::HeapCoverage;
use recording::info::PeriodUnit;
use recording::sink::ModuleMiss;
use recording::stack::StackMark;

use super::markers::usual_period;
use super::usage;
use crate::builder::lost_label;
use crate::data::{
    AboutRow, AskedEvent, CountedEvent, HeapFacts, HeapGrowthFacts, HeapLosses, RecordingFacts, RecordingLimit,
    RunExtent,
};
use crate::recorded::Profile;

/// Where a line is shown. `Said`: the facts have a field for it, or it is not a limit.
#[derive(Clone, Copy, PartialEq)]
enum LineUse {
    Said,
    Limit,
}

use LineUse::{Limit as Limiting, Said};

enum LineAmount {
    Count(u64),
    Ns(u64),
    Words(String),
}

struct QualityLine {
    what: String,
    amount: LineAmount,
    kind: LineUse,
}

impl QualityLine {
    fn row(&self) -> AboutRow {
        match &self.amount {
            LineAmount::Count(value) => AboutRow::count(&*self.what, *value),
            LineAmount::Ns(ns) => AboutRow::duration(&*self.what, *ns),
            LineAmount::Words(words) => AboutRow::text(&*self.what, words),
        }
    }

    fn limit(self) -> Option<RecordingLimit> {
        let what = self.what;
        (self.kind == Limiting).then(|| match self.amount {
            LineAmount::Count(value) => RecordingLimit {
                what,
                count: Some(value),
                ..RecordingLimit::default()
            },
            LineAmount::Ns(ns) => RecordingLimit {
                what,
                ns: Some(ns),
                ..RecordingLimit::default()
            },
            LineAmount::Words(words) => RecordingLimit {
                what,
                words: Some(words),
                ..RecordingLimit::default()
            },
        })
    }
}

/// Rows with 0 are left out, except those that readers look for.
pub(super) fn rows(profile: &Profile) -> Vec<AboutRow> {
    lines(profile).iter().map(QualityLine::row).collect()
}

pub(crate) fn recorded_facts(profile: &Profile) -> RecordingFacts {
    let (info, quality, counts) = (&profile.info, &profile.quality, &profile.counts);
    let run_starts = info.run_starts.iter();
    RecordingFacts {
        event: info.event.clone(),
        asked_events: (info.events.iter())
            .filter(|event| event.asked != event.name)
            .map(|event| AskedEvent {
                event: event.name.clone(),
                asked: event.asked.clone(),
            })
            .collect(),
        counted_events: (info.events.iter())
            .filter(|event| event.role == Role::Point)
            .filter_map(|event| {
                Some(CountedEvent {
                    event: event.name.clone(),
                    counted: event.counts?.counted,
                    period: usual_period(event),
                })
            })
            .collect(),
        kernel_code: kernel_code(profile).to_owned(),
        commit: profile.commit.clone(),
        stack_bytes: profile.stack_bytes,
        asked_rate_hz: (info.unit != PeriodUnit::Counts).then_some(quality.asked_rate_hz),
        achieved_rate_hz: quality.achieved_rate_hz,
        run_starts_ms: run_starts
            .map(|start| start.nanos_since(info.clock.timestamp) as f64 / 1e6)
            .collect(),
        extent: match info.whole_runs {
            Some(true) => RunExtent::WholeRuns,
            Some(false) => RunExtent::Window,
            None => RunExtent::Unstated,
        },
        sampled: profile.sampled.clone(),
        running: profile.running.clone(),
        tracks_are_cpus: profile.tracks_are_cpus,
        processes: counts.processes,
        threads: counts.threads,
        samples: Some(counts.samples),
        lost: quality.lost_total(),
        truncated: quality.truncated_total(),
        unverified: quality.unverified,
        by_framehop: quality.by_framehop,
        stacks_beside: quality.beside.stacks,
        truncated_beside: quality.beside.truncated,
        unverified_beside: quality.beside.unverified,
        heap: info.heap.as_ref().map(heap_facts),
        resources: usage::facts(profile),
        thinned_spans: profile.spans.thinned.clone(),
        files_over_limit: quality
            .module_misses
            .get(&ModuleMiss::TooManyOpen)
            .copied()
            .unwrap_or_default(),
        limits: lines(profile).into_iter().filter_map(QualityLine::limit).collect(),
    }
}

/// `included`, or why it is not.
pub(super) fn kernel_code(profile: &Profile) -> &str {
    let info = &profile.info;
    let why = || {
        let weighs = info.events.iter().filter(|event| event.role == Role::Running);
        weighs.filter_map(|event| event.without_kernel).next()
    };
    match info.kernel_included {
        true => "included",
        false => why().unwrap_or("not included: no permission"),
    }
}

fn heap_facts(coverage: &HeapCoverage) -> HeapFacts {
    HeapFacts {
        interval: coverage.interval,
        longest_interval: coverage.longest_interval,
        programs: coverage.programs,
        blocks: coverage.blocks,
        frees: coverage.frees,
        lost: coverage.lost.map(|lost| HeapLosses {
            blocks: lost.blocks.saturating_add(lost.unknown),
            bytes: lost.bytes.saturating_add(lost.unknown_bytes),
            frees: lost.frees.saturating_add(lost.untracked),
            refused: lost.refused,
        }),
        unseen: coverage.unseen_more.saturating_add(coverage.unseen.len() as u64),
        growth: coverage.growth.map(|growth| HeapGrowthFacts {
            seen: growth.seen,
            grown: growth.grown,
            processes: growth.processes,
            unmeasured: growth.unmeasured,
        }),
    }
}

/// What was not seen of the heap. Lost blocks are among the lost records.
fn heap_not_seen(coverage: &HeapCoverage, lines: &mut Vec<QualityLine>) {
    let lost = coverage.lost.unwrap_or_default();
    let not_freed = lost.frees.saturating_add(lost.untracked);
    some(
        lines,
        Limiting,
        "Blocks of memory whose free was not recorded",
        not_freed,
    );
    let unknown = "Blocks of memory of processes or threads whose start was not recorded";
    some(lines, Limiting, unknown, lost.unknown);
    some(lines, Limiting, "Messages of the heap that made no sense", lost.refused);
    lines.extend(coverage.unseen.iter().map(|program| QualityLine {
        what: match program.cause.is_partial() {
            true => "Heap recorded in part".to_owned(),
            false => "Heap not recorded".to_owned(),
        },
        amount: LineAmount::Words(format!(
            "{} ({}): {}",
            program.name,
            program.pid.0,
            program.cause.label()
        )),
        kind: Limiting,
    }));
    let more = "Further programs whose heap was not recorded";
    some(lines, Limiting, more, coverage.unseen_more);
}

fn lines(profile: &Profile) -> Vec<QualityLine> {
    let (quality, counts) = (&profile.quality, &profile.counts);
    let always = |what: &str, value| QualityLine {
        what: what.to_owned(),
        amount: LineAmount::Count(value),
        kind: Said,
    };
    let mut lines = vec![
        always("Samples", counts.samples),
        always("Lost records", quality.lost_total()),
    ];
    lines.extend(profile.part().map(|part| QualityLine {
        what: "In the profile".to_owned(),
        amount: LineAmount::Words(format!("only {part}")),
        kind: Limiting,
    }));
    for ((role, cause), value) in &quality.lost {
        some(
            &mut lines,
            Limiting,
            format!("Lost, {}", lost_label(*role, *cause)),
            *value,
        );
    }
    for (what, value) in [
        ("Throttled by the kernel, times", quality.throttled),
        ("Malformed records", quality.malformed),
        ("Samples out of order", counts.samples_out_of_order),
        ("Samples of other than main threads, left out", counts.samples_left_out),
        ("Markers left out", counts.markers_left_out),
        ("Spans without a marker, chosen by chance", counts.spans_left_out),
        ("Fields of spans left out, too many keys", counts.span_fields_left_out),
        (
            "Values of the program's counters left out, too many counters",
            counts.plots_left_out,
        ),
        (
            "Freed blocks of memory that nobody is known to have taken",
            counts.unknown_blocks_freed,
        ),
        (
            "Blocks of memory where another block was not known to be freed",
            counts.blocks_on_others,
        ),
        (
            "Samples with JIT names of perf maps, which have no times to check",
            counts.samples_named_without_time,
        ),
    ] {
        some(&mut lines, Limiting, what, value);
    }
    not_recorded(&quality.cpu_account, &mut lines);
    if let Some(coverage) = &profile.info.heap {
        heap_not_seen(coverage, &mut lines);
    }
    if let Some(machine) = quality.cpu_account.machine.filter(|time| time.stolen_share().is_some()) {
        lines.push(QualityLine {
            what: "CPU time that the host took away from this machine".to_owned(),
            amount: LineAmount::Ns(machine.stolen_ns),
            kind: Limiting,
        });
    }
    lines.extend([
        always("Stacks that reach their root", quality.rooted),
        always("Stacks truncated", quality.truncated_total()),
        always("Stacks unverified", quality.unverified),
    ]);
    let beside = quality.beside;
    if beside.stacks > 0 {
        let what = match profile.info.heap {
            None => "Stacks of waits and point events",
            Some(_) => "Stacks of waits, point events and blocks of memory",
        };
        lines.extend([
            always(what, beside.stacks),
            always("Of them truncated", beside.truncated),
            always("Of them unverified", beside.unverified),
        ]);
    }
    for (kind, what, value) in [
        (
            Limiting,
            "Truncated, stack memory not available",
            quality.truncated_no_memory,
        ),
        (Limiting, "Truncated, no unwind information", quality.truncated_no_rule),
        (Limiting, "Truncated, too many frames", quality.truncated_depth),
        (
            Limiting,
            "Truncated, deferred call chain not recorded",
            quality.truncated_deferred,
        ),
        (Limiting, "Stacks of Go's system stack (g0)", quality.on_other_stack),
        (Said, "Stacks completed from live memory", quality.completed_live),
        (
            Said,
            "Stacks with frames found by frame pointer",
            quality.by_frame_pointer,
        ),
        (Said, "Stacks with frames found from code", quality.by_code),
        (Said, "Stacks unwound by framehop", quality.by_framehop),
    ] {
        some(&mut lines, kind, what, value);
    }
    for (reason, value) in &quality.missing {
        let label = StackMark::Missing(*reason).label();
        some(&mut lines, Limiting, label.trim_matches(['[', ']']), *value);
    }
    lines.extend(quality.damaged_symbols.iter().map(|damage| QualityLine {
        what: "Symbols not read".to_owned(),
        amount: LineAmount::Words(damage.clone()),
        kind: Limiting,
    }));
    for (what, misses) in [
        ("Modules", &quality.module_misses),
        ("Files of spans", &quality.span_file_misses),
    ] {
        for (reason, value) in misses {
            let (kind, why) = miss(*reason);
            some(&mut lines, kind, format!("{what} not read, {why}"), *value);
        }
    }
    lines
}

fn some(lines: &mut Vec<QualityLine>, kind: LineUse, what: impl Into<String>, value: u64) {
    if value > 0 {
        lines.push(QualityLine {
            what: what.into(),
            amount: LineAmount::Count(value),
            kind,
        });
    }
}

/// Processes without events, and their CPU time.
fn not_recorded(account: &CpuAccount, lines: &mut Vec<QualityLine>) {
    let mut push = |what: &str, amount| {
        lines.push(QualityLine {
            what: what.to_owned(),
            amount,
            kind: Limiting,
        });
    };
    if account.unrecorded_ns > 0 {
        push("CPU time not recorded, at least", LineAmount::Ns(account.unrecorded_ns));
        if account.unrecorded.is_empty() {
            push("Not recorded", LineAmount::Words("the cause is not known".to_owned()));
        }
    }
    for process in &account.unrecorded {
        let time = match process.cpu_ns {
            Some(ns) if ns > 0 => format!(", at least {:.2} s of CPU time", ns as f64 / 1e9),
            _ => String::new(),
        };
        let cause = process.cause.map_or("", cause_label);
        push(
            "Not recorded",
            LineAmount::Words(format!("{}{time}: {cause}", named(process))),
        );
    }
    if account.unrecorded_more > 0 {
        push(
            "Further processes not recorded",
            LineAmount::Count(account.unrecorded_more),
        );
    }
}

fn cause_label(cause: UnrecordedCause) -> &'static str {
    match cause {
        UnrecordedCause::UndumpableExec => {
            "the kernel ended its events when it executed a program that has other rights, or that may not be read"
        }
        UnrecordedCause::OtherUser => "it belongs to another user",
    }
}

/// Why a module was not read. Anonymous memory is not a module, so nothing is lost.
fn miss(miss: ModuleMiss) -> (LineUse, &'static str) {
    match miss {
        ModuleMiss::Anonymous => (Said, "anonymous memory"),
        ModuleMiss::NotFound => (Limiting, "file not found"),
        ModuleMiss::PermissionDenied => (Limiting, "permission denied"),
        ModuleMiss::TooManyOpen => (Limiting, "too few open files allowed"),
        ModuleMiss::Replaced => (Limiting, "file replaced since it was mapped"),
        ModuleMiss::NotIdentified => (Limiting, "file not identified: no build id, no inode"),
        ModuleMiss::Malformed => (Limiting, "malformed file"),
    }
}

pub(super) fn named(process: &ProcessTime) -> String {
    format!("{} ({})", process.name, process.pid.0)
}
