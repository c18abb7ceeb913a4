//! What is known of a recording as a whole once it has ended.

use crate::clock::{ClockReference, Timestamp};
use crate::event::Role;
use crate::heap::HeapCoverage;

/// The unit of [`Sample::period`](crate::event::Sample::period).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodUnit {
    /// Nanoseconds of CPU time (cpu-clock).
    CpuNanoseconds,
    /// CPU cycles of variable length (a hardware counter).
    Cycles,
    /// How often the event happened.
    Counts,
}

/// When an event samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleBy {
    /// One sample after this number of events.
    Period(u64),
    /// Samples a second; the kernel adjusts the period.
    Frequency(u64),
}

/// An event that the user named.
#[derive(Clone, Debug, PartialEq)]
pub struct EventInfo {
    /// As the user wrote it; of a tracepoint, its own name.
    pub name: String,
    /// As the user wrote it: `uprobe:libc:malloc` for `uprobe:malloc`, `syscalls:*` for each of them.
    pub asked: String,
    /// What it is in the profile: with [`Role::Running`] the samples of the threads weigh its counts instead of CPU
    /// time, with [`Role::Counted`] it has a track of its own, with [`Role::Point`] a marker each time.
    pub role: Role,
    /// The unit of its samples' periods.
    pub unit: PeriodUnit,
    /// When it samples.
    pub sample_by: SampleBy,
    /// Why it does not count in the kernel, if it does not.
    pub without_kernel: Option<&'static str>,
    /// Names of the values that come with each one (tracepoints).
    pub fields: Vec<String>,
    /// What the kernel counted, once the recording has ended.
    pub counts: Option<EventCounts>,
}

/// What the kernel counted of one event, over all CPUs and tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// How often it happened while it was counted.
    pub counted: u64,
    /// Records of it that found no room in the ring. 0 before Linux 6.0.
    pub lost: u64,
    /// Nanoseconds for which it should have been counted.
    pub enabled_ns: u64,
    /// Nanoseconds for which it was: less if events took turns on too few hardware counters.
    pub running_ns: u64,
}

impl EventCounts {
    /// Those of two recordings together.
    pub fn plus(self, other: EventCounts) -> EventCounts {
        EventCounts {
            counted: self.counted.saturating_add(other.counted),
            lost: self.lost.saturating_add(other.lost),
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }

    /// Share of the time for which the event was counted, 0 to 1; `None` if it was counted all the time.
    pub fn partial_share(&self) -> Option<f64> {
        // Reading both takes some nanoseconds.
        let is_partial = self.enabled_ns.saturating_sub(self.running_ns) > self.enabled_ns / 1000;
        is_partial.then(|| self.running_ns as f64 / self.enabled_ns as f64)
    }
}

/// The machine that recorded. Fields are `None` where the system does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// For example `AMD EPYC 7B13`.
    pub cpu_name: Option<String>,
    /// CPUs online.
    pub logical_cpus: Option<u32>,
    /// Cores.
    pub physical_cpus: Option<u32>,
    /// Main memory in bytes.
    pub memory_bytes: Option<u64>,
    /// For example `Linux 6.18.44 x86_64, Debian GNU/Linux 12 (bookworm)`.
    pub os: Option<String>,
}

impl Host {
    /// True for macOS, whose modules are Mach-O files.
    pub fn is_macos(&self) -> bool {
        self.os.as_deref().is_some_and(|os| os.starts_with("macOS"))
    }
}

/// A recording as a whole.
#[derive(Clone, Debug)]
pub struct RecordingInfo {
    /// The recorded program's file name, without folders.
    pub program: String,
    /// Its arguments; only where the user agreed to have them in the profile.
    pub args: Option<Vec<String>>,
    /// An instant near the start on both clocks: time zero of the profile.
    pub clock: ClockReference,
    /// When recording ended.
    pub end: Timestamp,
    /// When each run of the program began, where it was run several times; else empty. What happened is of the run that
    /// had begun last.
    pub run_starts: Vec<Timestamp>,
    /// True if each run is whole: a launched program that ended by itself. False if the recording is a window of
    /// something that goes on. `None` if that is not known.
    pub whole_runs: Option<bool>,
    /// The sampling interval asked for, ns.
    pub interval_ns: u64,
    /// The event's name as perf writes it: `cycles`, `cpu-clock`.
    pub event: String,
    /// The unit of the samples' periods.
    pub unit: PeriodUnit,
    /// False if samples do not come from the kernel: for lack of permission, or because a named event leaves it out.
    pub kernel_included: bool,
    /// What else has to be known to judge the whole recording, a sentence each: what its way of recording gets wrong,
    /// or what could not be recorded.
    pub notes: Vec<String>,
    /// The events that the user named, in that order. [`Sample::event`](crate::event::Sample::event) is an index into
    /// this.
    pub events: Vec<EventInfo>,
    /// How much of the heap was seen; `None` if it was not recorded.
    pub heap: Option<HeapCoverage>,
    /// The machine.
    pub host: Host,
}

impl RecordingInfo {
    /// The rate asked for, samples per second.
    pub fn asked_rate_hz(&self) -> f64 {
        1e9 / self.interval_ns.max(1) as f64
    }
}
