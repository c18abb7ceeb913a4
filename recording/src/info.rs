//! What is known of a recording as a whole once it has ended.

use crate::clock::{ClockReference, Timestamp};

/// The unit of [`Sample::period`](crate::event::Sample::period).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodUnit {
    /// Nanoseconds of CPU time (cpu-clock).
    CpuNanoseconds,
    /// CPU cycles of variable length (a hardware counter).
    Cycles,
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
    /// The sampling interval asked for, ns.
    pub interval_ns: u64,
    /// The event's name as perf writes it: `cycles`, `cpu-clock`.
    pub event: String,
    /// The unit of the samples' periods.
    pub unit: PeriodUnit,
    /// False if the kernel's share was not recorded for lack of permission.
    pub kernel_included: bool,
    /// What else has to be known to judge the whole recording, a sentence each: what its way of recording gets wrong, or what could
    /// not be recorded.
    pub notes: Vec<String>,
    /// The machine.
    pub host: Host,
}
