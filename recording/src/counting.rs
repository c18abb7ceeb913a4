//! The contract for counting: what one run of a program took, as numbers and without samples.

use std::ffi::OsString;

use crate::event::Pid;
use crate::session::ProgramExit;

/// A program to run and count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedProgram {
    /// Program and arguments. Looked up in PATH if the first holds no slash.
    pub command: Vec<OsString>,
    /// Variables added to its environment.
    pub env: Vec<(OsString, OsString)>,
}

/// What is counted and runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountedTarget {
    /// These processes, and all that they start.
    Processes(Vec<Pid>),
    /// All that runs.
    WholeMachine,
}

/// Something that a run takes. In the order in which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// From the moment at which the program is let go to its end.
    Wall,
    /// The part of [`Measure::Wall`] before the program's file was executed.
    Start,
    /// CPU time of all threads and processes.
    TaskClock,
    /// CPU time in user code. The kernel knows the sum with [`Measure::System`], and estimates the parts by ticks.
    User,
    /// CPU time in the kernel.
    System,
    /// Time for which threads could run and had no CPU, added up over all threads.
    CpuWait,
    /// Memory in RAM of the process that had most, at its peak.
    PeakMemory,
    /// Page faults that needed no disk.
    MinorFaults,
    /// Page faults that waited for a disk.
    MajorFaults,
    /// Times that a thread left a CPU because it waited.
    VoluntarySwitches,
    /// Times that a thread had to leave a CPU for another thread.
    ForcedSwitches,
    /// Times that a thread went on on another CPU.
    CpuMigrations,
    /// Bytes that came from disks.
    ReadBytes,
    /// Bytes that are to go to disks.
    WrittenBytes,
    /// Processes that were started, with the program itself.
    Processes,
    /// Threads that were started, with the first one of each process.
    Threads,
    /// Cycles of the CPUs.
    Cycles,
    /// Instructions that the CPUs completed.
    Instructions,
    /// Branches among them.
    Branches,
    /// Branches that the CPU had guessed wrongly.
    BranchMisses,
    /// Accesses of the last cache.
    CacheReferences,
    /// Accesses that it had to pass on to memory.
    CacheMisses,
    /// An event that the user named.
    Event(&'static str),
}

/// What a number of a [`Measure`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Occurrences.
    Count,
}

impl Measure {
    /// All but events that the user named, in this order.
    pub const ALL: [Measure; 22] = [
        Measure::Wall,
        Measure::Start,
        Measure::TaskClock,
        Measure::User,
        Measure::System,
        Measure::CpuWait,
        Measure::PeakMemory,
        Measure::MinorFaults,
        Measure::MajorFaults,
        Measure::VoluntarySwitches,
        Measure::ForcedSwitches,
        Measure::CpuMigrations,
        Measure::ReadBytes,
        Measure::WrittenBytes,
        Measure::Processes,
        Measure::Threads,
        Measure::Cycles,
        Measure::Instructions,
        Measure::Branches,
        Measure::BranchMisses,
        Measure::CacheReferences,
        Measure::CacheMisses,
    ];

    /// Its name in tables and files. perf has the same where it has one.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Wall => "wall",
            Measure::Start => "start",
            Measure::TaskClock => "task-clock",
            Measure::User => "user",
            Measure::System => "system",
            Measure::CpuWait => "cpu-wait",
            Measure::PeakMemory => "peak-memory",
            Measure::MinorFaults => "minor-faults",
            Measure::MajorFaults => "major-faults",
            Measure::VoluntarySwitches => "voluntary-switches",
            Measure::ForcedSwitches => "forced-switches",
            Measure::CpuMigrations => "cpu-migrations",
            Measure::ReadBytes => "read-bytes",
            Measure::WrittenBytes => "written-bytes",
            Measure::Processes => "processes",
            Measure::Threads => "threads",
            Measure::Cycles => "cycles",
            Measure::Instructions => "instructions",
            Measure::Branches => "branches",
            Measure::BranchMisses => "branch-misses",
            Measure::CacheReferences => "cache-references",
            Measure::CacheMisses => "cache-misses",
            Measure::Event(name) => name,
        }
    }

    /// The measure with this name: an event if no other has it. A name of an event is never freed.
    pub fn named(name: &str) -> Measure {
        let known = Measure::ALL.into_iter().find(|measure| measure.name() == name);
        known.unwrap_or_else(|| Measure::Event(name.to_owned().leak()))
    }

    /// What its number counts.
    pub fn unit(self) -> MeasureUnit {
        match self {
            Measure::Wall
            | Measure::Start
            | Measure::TaskClock
            | Measure::User
            | Measure::System
            | Measure::CpuWait => MeasureUnit::Nanoseconds,
            Measure::Event(name) if name.starts_with("cpu-clock") || name.starts_with("task-clock") => {
                MeasureUnit::Nanoseconds
            }
            Measure::PeakMemory | Measure::ReadBytes | Measure::WrittenBytes => MeasureUnit::Bytes,
            _ => MeasureUnit::Count,
        }
    }
}

/// A number of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// What was counted.
    pub measure: Measure,
    /// In [`Measure::unit`]. Scaled up if events took turns on the counters of the CPU.
    pub value: f64,
    /// The part of the time in which it was counted: less than 1 if events took turns.
    pub counted: f64,
    /// The kernel's code is not in it.
    pub user_only: bool,
    /// Some of it may not have been seen.
    pub at_least: bool,
}

/// Measures that this machine or user can't have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which.
    pub measures: Vec<Measure>,
    /// Why, and what helps.
    pub reason: String,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedRun {
    /// How the program ended.
    pub exit: ProgramExit,
    /// Sorted by measure; at most one of each.
    pub readings: Vec<Reading>,
    /// What is not among the readings.
    pub missing: Vec<Missing>,
    /// CPU time that the machine's host gave to others meanwhile, ns, of all CPUs.
    pub stolen_ns: u64,
    /// A signal asked for the end. There should be no further run.
    pub is_interrupted: bool,
}

impl CountedRun {
    /// The number of a measure.
    pub fn value(&self, measure: Measure) -> Option<f64> {
        let mut of_measure = self.readings.iter().filter(|reading| reading.measure == measure);
        of_measure.next().map(|reading| reading.value)
    }
}
