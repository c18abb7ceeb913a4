//! A profile in memory: plain tables that refer to each other by index.

pub(crate) mod heap;
mod index;
pub(crate) mod no_samples;
pub(crate) mod samples;
pub(crate) mod spans;
pub(crate) mod spill;
pub(crate) mod stacks;
pub(crate) mod strings;
pub(crate) mod tables;
pub(crate) mod thread;
pub(crate) mod usage;
pub(crate) mod waits;

use std::sync::Arc;

use names::symbol::SymbolSource;
use recording::event::Role;
use recording::info::{PeriodUnit, RecordingInfo};
use recording::module::Module;
use recording::quality::Quality;

use crate::data::{RunningFacts, SampledFacts};
use crate::sources::Sources;
use spans::RecordedSpans;
use stacks::StackTree;
use strings::{StringId, StringTable};
use tables::FrameTables;
use thread::{MarkerKind, RecordedProcess, RecordedThread};
use usage::MachineUsage;
use waits::WaitTotals;

/// A finished profile. Made by [`Builder::finish`](crate::builder::Builder::finish).
#[derive(Clone)]
pub struct Profile {
    pub(crate) info: RecordingInfo,
    pub(crate) quality: Quality,
    pub(crate) counts: BuildCounts,
    /// The commit that the program was built from, if anyone named it.
    pub(crate) commit: Option<String>,
    /// Stack bytes that were to be copied with each sample, if the recorder copied any.
    pub(crate) stack_bytes: Option<u64>,
    /// What part of the recording this is, if it is not all.
    pub(crate) part: Option<String>,
    /// See [`Data::is_end`](crate::data::Data::is_end).
    pub(crate) is_end: bool,
    /// `None` if waits were not recorded.
    pub(crate) waits: Option<WaitTotals>,
    /// `None`: samples were taken all the time.
    pub(crate) sampled: Option<SampledFacts>,
    /// `None` if switches were not recorded.
    pub(crate) running: Option<RunningFacts>,
    pub(crate) strings: StringTable,
    pub(crate) tables: FrameTables,
    pub(crate) stacks: StackTree,
    pub(crate) processes: Vec<RecordedProcess>,
    pub(crate) machine: MachineUsage,
    pub(crate) spans: RecordedSpans,
    /// In the file's order. Never empty: the front end refuses a profile without threads.
    pub(crate) threads: Vec<RecordedThread>,
    /// The ids of [`thread::MarkerKind::NAMES`].
    pub(crate) marker_names: [StringId; thread::MarkerKind::NAMES.len()],
    /// The names of the user's events, which are also the names of their markers.
    pub(crate) event_names: Vec<StringId>,
    pub(crate) symbolicated: bool,
    /// Each track is a CPU, and no thread.
    pub(crate) tracks_are_cpus: bool,
    /// The texts of source files.
    pub(crate) sources: Sources,
}

/// What the builder counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildCounts {
    /// Processes, including those without a sample.
    pub processes: u64,
    /// Threads, including those without a sample.
    pub threads: u64,
    /// Samples of running threads in the profile.
    pub samples: u64,
    /// Samples with an earlier time than the thread's last sample; kept at the last sample's time.
    pub samples_out_of_order: u64,
    /// The part of the recording in which samples were taken; `None`: all of it.
    pub sampled: Option<SampledTime>,
    /// Samples of threads other than main threads, left out because the user chose main threads only.
    pub samples_left_out: u64,
    /// Samples with a function named by a perf map. The map has no times, so the function may have been another one at
    /// the sample's time.
    pub samples_named_without_time: u64,
    /// Samples of further events, on tracks of their own.
    pub counted_samples: u64,
    /// Point events, including those without a marker.
    pub points: u64,
    /// Sampled blocks of memory.
    pub blocks: u64,
    /// Blocks that a forked process freed, and that its parent had taken before: not counted as freed in either.
    pub inherited_blocks_freed: u64,
    /// Blocks that were freed, and that nobody is known to have taken.
    pub unknown_blocks_freed: u64,
    /// Blocks at an address where a block was that is not known to be freed; it counts as freed by then.
    pub blocks_on_others: u64,
    /// Markers left out because their thread has [`MARKERS_PER_THREAD`](crate::builder::MARKERS_PER_THREAD) markers.
    pub markers_left_out: u64,
    /// Spans that the program named, including those without a marker.
    pub spans: u64,
    /// Spans without a marker: [`SPANS_IN_ALL`](crate::builder::SPANS_IN_ALL) are kept.
    pub spans_left_out: u64,
    /// Fields of spans that were left out: there were too many different keys.
    pub span_fields_left_out: u64,
    /// Values of counters of the program that were left out: it has too many counters.
    pub plots_left_out: u64,
}

/// The parts of a recording between its pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledTime {
    /// Their sum.
    pub ns: u64,
    /// Their number.
    pub parts: u64,
}

/// A module with frames in the profile, and the addresses of the frames.
#[derive(Clone, Debug)]
pub struct LibAddresses {
    /// The module.
    pub module: Arc<Module>,
    /// Lookup addresses relative to the module's image base, ascending, without duplicates.
    pub addresses: Vec<u64>,
}

impl Profile {
    /// Names the commit that the program was built from: a hash.
    pub fn set_commit(&mut self, commit: Option<String>) {
        self.commit = commit;
    }

    /// Says what part of the recording this is: `the last 30.00 s of 600.00 s`.
    pub fn set_part(&mut self, part: Option<String>) {
        self.part = part;
    }

    /// What part of the recording this is; `None`: all of it.
    pub fn part(&self) -> Option<&str> {
        self.part.as_deref()
    }

    /// Says that this has only the end of a recording. Its quality is of the whole recording, and with it the number of
    /// samples in which something was lost or cut.
    pub fn set_end(&mut self) {
        self.is_end = true;
        self.counts.samples = self.quality.samples.saturating_sub(self.quality.beside.stacks);
    }

    /// Says how many stack bytes were to be copied with each sample.
    pub fn set_stack_bytes(&mut self, bytes: u64) {
        self.stack_bytes = Some(bytes);
    }

    /// The threads with samples of the recording's first event, without the tracks of further events.
    pub(crate) fn main_threads(&self) -> impl Iterator<Item = &RecordedThread> {
        self.threads.iter().filter(|thread| thread.event.is_none())
    }

    /// The profile's amount of an event, by its index in [`RecordingInfo::events`]: the sum of its samples' weights, or
    /// the number of its markers.
    pub fn in_profile(&self, event: usize) -> u64 {
        let role = self.info.events.get(event).map(|event| event.role);
        let threads = self.threads.iter();
        let of_event = |thread: &&RecordedThread| match role {
            Some(Role::Running) => thread.event.is_none(),
            _ => thread.event == u32::try_from(event).ok(),
        };
        match role {
            Some(Role::Point) => threads
                .flat_map(|thread| &thread.markers)
                .filter(|marker| matches!(&marker.what, MarkerKind::Point(point) if point.event as usize == event))
                .count() as u64,
            Some(_) => threads
                .filter(of_event)
                .fold(0, |sum: u64, thread| sum.saturating_add(thread.samples.period_sum())),
            None => 0,
        }
    }

    /// The unit of a thread's samples.
    pub(crate) fn unit_of(&self, thread: &RecordedThread) -> PeriodUnit {
        let event = thread.event.and_then(|event| self.info.events.get(event as usize));
        event.map_or(self.info.unit, |event| event.unit)
    }

    /// The event of a thread's samples, if they are not samples of the threads' CPU time.
    pub(crate) fn counted_event(&self, thread: &RecordedThread) -> Option<&str> {
        match thread.event {
            Some(event) => self.info.events.get(event as usize).map(|event| event.name.as_str()),
            None => (self.info.unit == PeriodUnit::Counts).then_some(self.info.event.as_str()),
        }
    }

    /// The modules of frames, in the order of the file's library list, with the addresses that need symbols.
    pub fn libs(&self) -> Vec<LibAddresses> {
        let mut libs: Vec<LibAddresses> = (self.tables.libs.iter())
            .map(|lib| LibAddresses {
                module: lib.module.clone(),
                addresses: Vec::new(),
            })
            .collect();
        for frame in &self.tables.frames {
            if let (Some(lib), Some(address)) = (frame.lib, frame.address) {
                libs[lib.0 as usize].addresses.push(address);
            }
        }
        for lib in &mut libs {
            lib.addresses.sort_unstable();
            lib.addresses.dedup();
        }
        libs
    }

    /// The recording's properties.
    pub fn info(&self) -> &RecordingInfo {
        &self.info
    }

    /// How far the recording can be trusted.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// Adds symbols that could not be read, a sentence each, to the quality of the profile.
    pub fn add_damaged_symbols(&mut self, damage: impl IntoIterator<Item = String>) {
        self.quality.damaged_symbols.extend(damage);
    }

    /// Records the source of the names of each module.
    pub fn set_symbol_sources(&mut self, source: impl Fn(&Module) -> SymbolSource) {
        for lib in &mut self.tables.libs {
            lib.symbol_source = source(&lib.module);
        }
    }

    /// The builder's counts.
    pub fn counts(&self) -> BuildCounts {
        self.counts
    }

    /// The name of each process, including those without a sample.
    pub fn process_names(&self) -> impl Iterator<Item = &str> {
        self.processes.iter().map(|process| process.name.as_str())
    }

    /// True if each track is a CPU, and no thread.
    pub fn tracks_are_cpus(&self) -> bool {
        self.tracks_are_cpus
    }

    /// The waits of threads; `None` if waits were not recorded.
    pub fn waits(&self) -> Option<&WaitTotals> {
        self.waits.as_ref()
    }

    /// True if [`enrich`](crate::enrich::enrich) has run.
    pub fn is_symbolicated(&self) -> bool {
        self.symbolicated
    }
}
