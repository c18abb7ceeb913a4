//! The summary after a recording: what was recorded, and its quality; a few lines of text, or one JSON object.

mod events;
mod heap;
mod highlights;
mod more;
mod unrecorded;
mod waits;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use profile::enrich::Enriched;
use profile::text::numbers::{count, grouped, with_share};
use profile::{BuildCounts, NoSamples, Profile, WaitTotals};
use recording::command::own;
use recording::cpu_account::MachineTime;
use recording::event::{LostCause, Role};
use recording::info::{PeriodUnit, RecordingInfo};
use recording::quality::Quality;
use recording::session::{ProgramExit, RecordOptions, StopReason};
use recording::sink::ModuleMiss;
use serde_json::{Value, json};

use crate::terminal::Term;
use crate::terminal::style::Style;
use events::NamedEvent;
pub(crate) use highlights::Highlights;
pub(crate) use more::rate_limit_hz;

/// Version of the JSON form. A removed or changed field increases it, a new field does not.
const SCHEMA_VERSION: u32 = 1;

/// Smaller shares of CPU time that the host took are reported with -v only: busy hosts take 1 or 2 % at any time.
const STOLEN_SHARE: f64 = 0.05;

pub(crate) struct Summary {
    /// What part of the recording it is of, if not of all.
    pub(crate) part: Option<String>,
    pub(crate) info: RecordingInfo,
    pub(crate) quality: Quality,
    pub(crate) counts: BuildCounts,
    pub(crate) stop: StopReason,
    pub(crate) iterations: u32,
    /// Options of the recorder; `None` if a file was read.
    pub(crate) asked: Option<RecordOptions>,
    pub(crate) highlights: Highlights,
    /// `None` if waits were not recorded.
    pub(crate) waits: Option<WaitTotals>,
    /// Events that the user named.
    pub(crate) events: Vec<NamedEvent>,
    /// The outcome of the look-up of names; `None` if names are looked up later or never.
    pub(crate) enriched: Option<Enriched>,
    /// Path of the profile; `None` if it went to stdout.
    pub(crate) path: Option<PathBuf>,
    /// The link, if the profile is served.
    pub(crate) link: Option<String>,
}

impl Summary {
    /// The summary of a profile, without path and link.
    pub(crate) fn of(profile: &Profile, stop: StopReason) -> Summary {
        Summary {
            info: profile.info().clone(),
            quality: profile.quality().clone(),
            counts: profile.counts(),
            stop,
            iterations: 1,
            asked: None,
            highlights: Highlights::default(),
            waits: profile.waits().cloned(),
            part: profile.part().map(str::to_owned),
            events: events::of(profile),
            enriched: None,
            path: None,
            link: None,
        }
    }

    fn duration(&self) -> Duration {
        Duration::from_nanos(self.info.end.nanos_since(self.info.clock.timestamp))
    }

    pub(crate) fn print(&self, term: &Term) {
        let counts = &self.counts;
        let mut recorded = format!(
            "{} in {:.2} s{}: {}{}, {}, {}",
            term.style(Style::Bold, &self.info.program),
            self.duration().as_secs_f64(),
            self.sampled(),
            self.cpu_time(),
            count(counts.processes, "process", "processes"),
            count(counts.threads, "thread", "threads"),
            count(counts.samples, "sample", "samples"),
        );
        if self.iterations > 1 {
            let _ = write!(recorded, ", {} runs", self.iterations);
        }
        match self.stop {
            StopReason::ProgramEnded | StopReason::ProgramInterrupted => {}
            StopReason::Duration => recorded.push_str("; ended by --duration"),
            StopReason::Interrupted => recorded.push_str("; ended by Ctrl-C"),
            StopReason::Terminated => recorded.push_str("; ended by a signal"),
        }
        term.line(format_args!("recorded {recorded}"));
        if let (Some(_), Some(ns)) = (&self.waits, self.quality.cpu_time_ns) {
            term.detail(format_args!(
                "on-CPU {:.2} s of thread time, by samples:",
                ns as f64 / 1e9
            ));
        }
        self.highlights.print(term);
        if let Some(few) = self.few_samples() {
            term.detail(term.style(Style::Warning, few));
        }
        if let Some(distorted) = &self.highlights.distorted {
            term.detail(term.style(Style::Warning, distorted));
        }
        events::print(&self.events, &self.quality, term);
        if counts.samples == 0 {
            let why = NoSamples::from_counts(counts, &self.quality, &self.info);
            let next = match why {
                NoSamples::ShortTasks | NoSamples::TooShort => self.way_to_more(),
                NoSamples::EventIsRare => "; /period=N/ sets after how many there is one".to_owned(),
                NoSamples::NotDelivered => "; `-e cpu-clock` samples by the kernel's timer".to_owned(),
                NoSamples::OnlyKernel | NoSamples::NothingCame => {
                    format!("; `{} doctor` shows what may be recorded", own())
                }
                NoSamples::NeverResumed
                | NoSamples::LeftOut
                | NoSamples::Lost
                | NoSamples::LostEvents
                | NoSamples::WithoutEvents => String::new(),
            };
            term.detail(format_args!("no samples: {why}{next}"));
        }
        if let Some(waits) = &self.waits {
            waits::print(waits, &self.highlights.wait_places, term);
        }
        if let Some(coverage) = &self.info.heap {
            heap::print(coverage, term);
        }
        term.detail(self.quality_line(term));
        if let Some(beside) = self.quality_beside(term) {
            term.detail(beside);
        }
        if let Some(rates) = self.rates() {
            term.detail(rates);
        }
        let unrecorded = unrecorded::lines(&self.quality.cpu_account, self.quality.cpu_time_ns);
        for line in unrecorded
            .into_iter()
            .chain(self.info.notes.iter().cloned())
            .chain(self.part.iter().map(|part| format!("in the profile: only {part}")))
            .chain(self.limits(term))
        {
            term.detail(term.style(Style::Warning, line));
        }
        if let Some(shortage) = &self.highlights.shortage {
            let text = format!(
                "short: {}; `{} report --view resources` shows more",
                shortage.text,
                own()
            );
            term.detail(term.style(Style::Warning, text));
        }
        for line in self.highlights.advice() {
            term.detail(format_args!("{} {line}", term.style(Style::Bold, "advice:")));
        }
    }

    /// `, sampled 1.20 s of it in 40 parts` where programs paused the recording.
    fn sampled(&self) -> String {
        self.counts.sampled.map_or_else(String::new, |sampled| {
            format!(
                ", sampled {:.2} s of it in {}",
                sampled.ns as f64 / 1e9,
                count(sampled.parts, "part", "parts")
            )
        })
    }

    /// CPU time that the kernel counted for the recorded tasks, else the CPU time of the samples; ends with a comma.
    fn cpu_time(&self) -> String {
        match (self.quality.cpu_time_ns, self.highlights.sampled_cpu_ns) {
            (Some(ns), _) => format!("{:.2} s of CPU time, ", ns as f64 / 1e9),
            (None, Some(ns)) => format!("{:.2} s of CPU time by samples, ", ns / 1e9),
            (None, None) => String::new(),
        }
    }

    /// Counts of samples that were lost, throttled, truncated, unverified, without symbols. All counts are always
    /// there: a 0 is a statement.
    fn quality_line(&self, term: &Term) -> String {
        let quality = &self.quality;
        let of = |number: u64, whole: u64| with_share(number, whole + quality.lost_total());
        let samples = quality.samples.saturating_sub(quality.beside.stacks);
        let of_samples = |number: u64| of(number, samples.max(self.counts.samples));
        let flag = |number: u64, text: String| match number {
            0 => text,
            _ => term.style(Style::Warning, text).to_string(),
        };
        let mut parts = vec![
            flag(
                quality.lost_total(),
                format!("{} lost", of_samples(quality.lost_total())),
            ),
            flag(quality.throttled, format!("{} throttled", grouped(quality.throttled))),
            flag(
                quality.truncated_samples(),
                format!("{} truncated", of_samples(quality.truncated_samples())),
            ),
            flag(
                quality.unverified_samples(),
                format!("{} unverified", of_samples(quality.unverified_samples())),
            ),
        ];
        if quality.on_other_stack > 0 {
            parts.push(format!(
                "{} on Go's system stack (g0)",
                of_samples(quality.on_other_stack)
            ));
        }
        parts.push(match &self.enriched {
            Some(enriched) => flag(
                enriched.samples_without_name,
                format!(
                    "{} without symbols",
                    of(enriched.samples_without_name, self.counts.samples)
                ),
            ),
            None => "symbols left out".to_owned(),
        });
        format!("quality: {}", parts.join(", "))
    }

    /// The quality of stacks that are not samples; `None` if there are none.
    fn quality_beside(&self, term: &Term) -> Option<String> {
        let beside = self.quality.beside;
        let of = match (&self.waits, self.events.is_empty(), &self.info.heap) {
            (Some(_), true, None) => "of waits",
            (Some(_), false, None) => "of waits and point events",
            (None, _, None) => "of point events",
            (None, true, Some(_)) => "of blocks of memory",
            (_, _, Some(_)) => "of waits, point events and blocks of memory",
        };
        let part = |number: u64, what: &str| {
            let text = format!("{} {what}", with_share(number, beside.stacks));
            match number {
                0 => text,
                _ => term.style(Style::Warning, text).to_string(),
            }
        };
        (beside.stacks > 0).then(|| {
            format!(
                "quality of {} {of}: {}, {}",
                count(beside.stacks, "stack", "stacks"),
                part(beside.truncated, "truncated"),
                part(beside.unverified, "unverified")
            )
        })
    }

    fn rates(&self) -> Option<String> {
        // An event that does not count time has a line of its own.
        if self.info.unit == PeriodUnit::Counts {
            return None;
        }
        let asked = self.quality.asked_rate_hz;
        let event = &self.info.event;
        let user_only = if self.info.kernel_included {
            ""
        } else {
            ", user code only"
        };
        Some(match self.quality.achieved_rate_hz {
            Some(achieved) => format!("rate: asked {asked:.0} Hz, achieved {achieved:.0} Hz ({event}{user_only})"),
            None => format!("rate: asked {asked:.0} Hz ({event}{user_only})"),
        })
    }

    /// Lines about other limits of the recording.
    fn limits(&self, term: &Term) -> Vec<String> {
        let quality = &self.quality;
        let mut lines = Vec::new();
        let stolen = (quality.cpu_account.machine).and_then(MachineTime::stolen_share);
        if let Some(share) = stolen.filter(|share| *share >= STOLEN_SHARE || term.is_verbose()) {
            lines.push(format!(
                "the host of this virtual machine took {:.0} % of its CPU time away: times may be too long, and samples too few; \
                 record again when the host is quiet",
                100.0 * share
            ));
        }
        let mut say = |number: u64, one: &str, many: &str, text: &str| {
            if number > 0 {
                lines.push(format!("{} {text}", count(number, one, many)));
            }
        };
        let missing = quality.missing.values().sum();
        say(missing, "sample has", "samples have", "no user stack");
        let switches_lost = quality.switches_lost();
        let text = "lost: the ring was full";
        say(switches_lost, "record of a wait was", "records of waits were", text);
        let text = "of the kernel could not be used";
        say(quality.malformed, "record", "records", text);
        let text = "of tasks at the end of their exit, which have no pid any more: not in the profile";
        say(quality.without_pid(), "record is", "records are", text);
        let out_of_order = self.counts.samples_out_of_order;
        say(out_of_order, "sample", "samples", "came out of order");
        let left_out = self.counts.markers_left_out;
        say(left_out, "marker was", "markers were", "left out");
        let text = "lost: they came faster than they were read, or made no sense";
        say(quality.spans_lost(), "span was", "spans were", text);
        let text = "not in the profile: of the most frequent names, some were chosen by chance";
        say(self.counts.spans_left_out, "span is", "spans are", text);
        say(
            self.counts.samples_named_without_time,
            "sample has a name",
            "samples have names",
            "of a perf map, which has no times: code that was replaced has the later name",
        );
        for (miss, number) in &quality.module_misses {
            if let Some(text) = miss_text(*miss) {
                say(*number, "mapped file", "mapped files", text);
            }
        }
        for (miss, number) in &quality.span_file_misses {
            let text = format!("not read: {}", miss_name(*miss).replace('_', " "));
            say(*number, "file of spans was", "files of spans were", &text);
        }
        let spans_of = |cause| quality.lost.get(&(Role::Span, cause)).copied().unwrap_or(0);
        let text = "no spans: half a line, or an end before its start";
        let others = spans_of(LostCause::NotUnderstood);
        say(
            others,
            "line of a file of spans is",
            "lines of files of spans are",
            text,
        );
        let text = "lost: the ring was full";
        say(spans_of(LostCause::RingFull), "span was", "spans were", text);
        let damaged = quality.damaged_symbols.iter();
        lines.extend(damaged.map(|damage| format!("symbols were not read: {damage}")));
        lines
    }

    pub(crate) fn json(&self, exit: ProgramExit) -> Value {
        let (quality, counts) = (&self.quality, &self.counts);
        let lost: serde_json::Map<String, Value> = (quality.lost.iter())
            .map(|((role, cause), number)| (lost_name(*role, *cause).to_owned(), json!(number)))
            .collect();
        let misses: serde_json::Map<String, Value> = (quality.module_misses.iter())
            .map(|(miss, number)| (miss_name(*miss).to_owned(), json!(number)))
            .collect();
        let figures = json!({
            "lost": quality.lost_total(),
            "lost_by_cause": lost,
            "switches_lost": quality.switches_lost(),
            "counted_lost": quality.counted_lost(),
            "points_lost": quality.points_lost(),
            "throttled": quality.throttled,
            "malformed": quality.malformed,
            "rooted": quality.rooted,
            "completed_live": quality.completed_live,
            "unverified": quality.unverified,
            "truncated": quality.truncated_total(),
            "beside": {
                "stacks": quality.beside.stacks,
                "truncated": quality.beside.truncated,
                "unverified": quality.beside.unverified,
            },
            "truncated_no_memory": quality.truncated_no_memory,
            "truncated_no_rule": quality.truncated_no_rule,
            "truncated_depth": quality.truncated_depth,
            "truncated_deferred": quality.truncated_deferred,
            "on_other_stack": quality.on_other_stack,
            "without_user_stack": quality.missing.values().sum::<u64>(),
            "by_frame_pointer": quality.by_frame_pointer,
            "by_code": quality.by_code,
            "by_framehop": quality.by_framehop,
            "named_without_time": self.counts.samples_named_without_time,
            "damaged_symbols": quality.damaged_symbols,
            "out_of_order": counts.samples_out_of_order,
            "without_symbols": self.enriched.map(|enriched| enriched.samples_without_name),
            "modules_unreadable": misses,
        });
        let mut summary = json!({
            "schema": "sprof-summary",
            "schema_version": SCHEMA_VERSION,
            "sprof_version": env!("CARGO_PKG_VERSION"),
            "program": self.info.program,
            "exit": match exit {
                ProgramExit::Code(code) => json!({ "code": code }),
                ProgramExit::Signal(signal) => json!({ "signal": signal }),
                ProgramExit::StillRunning => json!({ "running": true }),
                ProgramExit::NotOurs => Value::Null,
            },
            "ended_by": match self.stop {
                StopReason::ProgramEnded | StopReason::ProgramInterrupted => "program",
                StopReason::Duration => "duration",
                StopReason::Interrupted => "interrupt",
                StopReason::Terminated => "signal",
            },
            "runs": self.iterations,
            "duration_s": self.duration().as_secs_f64(),
            "sampled_ns": counts.sampled.map(|sampled| sampled.ns),
            "sampled_parts": counts.sampled.map(|sampled| sampled.parts),
            "processes": counts.processes,
            "threads": counts.threads,
            "samples": counts.samples,
            "few_samples": self.few_samples(),
            "event": self.info.event,
            "events": events::to_json(&self.events),
            "kernel_included": self.info.kernel_included,
            "notes": self.info.notes,
            "cpu_time_s": quality.cpu_time_ns.map(|ns| ns as f64 / 1e9),
            "asked_rate_hz": quality.asked_rate_hz,
            "achieved_rate_hz": quality.achieved_rate_hz,
            "off_cpu": self.waits.as_ref().map(|waits| waits::to_json(waits, &self.highlights.wait_places)),
            "heap": self.info.heap.as_ref().map(heap::to_json),
            "quality": figures,
            "cpu_account": unrecorded::to_json(&quality.cpu_account),
            "stolen_share": quality.cpu_account.machine.map(|time| time.stolen_share().unwrap_or(0.0)),
            "profile": self.path.as_ref().map(|path| path.to_string_lossy()),
            "symbolicated": self.enriched.is_some(),
            "url": self.link,
        });
        if let Value::Object(fields) = &mut summary {
            fields.extend(self.highlights.json());
        }
        summary
    }
}

fn lost_name(role: Role, cause: LostCause) -> &'static str {
    match (role, cause) {
        (Role::Point, LostCause::NoPid) => "points_without_pid",
        (Role::Counted, LostCause::NoPid) => "counted_without_pid",
        (_, LostCause::NoPid) => "samples_without_pid",
        (Role::Running, LostCause::RingFull) => "ring_full",
        (Role::Running, LostCause::SamplesRingFull) => "samples_ring_full",
        (Role::Running, _) => "samples_queue_full",
        (Role::Switch | Role::WaitStack | Role::Wait, _) => "switches_ring_full",
        (Role::Counted, _) => "counted_ring_full",
        (Role::Point, LostCause::OverLimit) => "too_many_points",
        (Role::Point, _) => "points_ring_full",
        (Role::Allocation, _) => "allocations_ring_full",
        (Role::Span, LostCause::NotUnderstood) => "spans_not_understood",
        (Role::Span, _) => "spans_ring_full",
    }
}

fn miss_name(miss: ModuleMiss) -> &'static str {
    match miss {
        ModuleMiss::Anonymous => "anonymous",
        ModuleMiss::NotFound => "not_found",
        ModuleMiss::PermissionDenied => "permission_denied",
        ModuleMiss::TooManyOpen => "too_many_open",
        ModuleMiss::Replaced => "replaced",
        ModuleMiss::NotIdentified => "not_identified",
        ModuleMiss::Malformed => "malformed",
    }
}

/// Warning for a file that was not used. `None` for anonymous code: it has no file, and every program with a JIT has
/// such code.
fn miss_text(miss: ModuleMiss) -> Option<&'static str> {
    match miss {
        ModuleMiss::Anonymous => None,
        ModuleMiss::NotFound => Some("gone when unwind tables were needed"),
        ModuleMiss::PermissionDenied => Some("not readable for this user: stacks may be cut"),
        ModuleMiss::TooManyOpen => {
            Some("not opened, because too few open files are allowed: raise `ulimit -n`; stacks are cut")
        }
        ModuleMiss::Replaced => Some("replaced on disk: restart the program to get whole stacks"),
        ModuleMiss::NotIdentified => Some("not used: the recording cannot distinguish files of the same name"),
        ModuleMiss::Malformed => Some("with damaged headers: stacks may be cut"),
    }
}
