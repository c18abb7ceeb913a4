//! Processes, threads and their markers.

use super::heap::RecordedHeap;
use super::no_samples::NoSamples;
use super::samples::PackedSamples;
use super::stacks::StackId;
use super::strings::StringId;
use super::usage::ProcessUsage;

/// Index into [`Profile::processes`](super::Profile).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ProcessId(pub(crate) usize);

/// One process, from its first event to its end. A reused pid is two processes, and so are two programs with samples
/// that one process ran one after the other (exec).
#[derive(Clone)]
pub(crate) struct RecordedProcess {
    /// `1234`; the second process with this number is `1234.1`.
    pub(crate) id: String,
    /// Its last name.
    pub(crate) name: String,
    /// Its last title, if it wrote one over its command line.
    pub(crate) title: Option<String>,
    pub(crate) parent: Option<ProcessId>,
    /// ns from time zero.
    pub(crate) start: i64,
    pub(crate) end: Option<i64>,
    /// How many threads it had, one after the other or at once.
    pub(crate) threads: usize,
    pub(crate) usage: ProcessUsage,
    pub(crate) heap: RecordedHeap,
}

/// One thread.
#[derive(Clone)]
pub(crate) struct RecordedThread {
    pub(crate) process: ProcessId,
    /// `1234`; `1234.1` for the second thread with this number.
    pub(crate) id: String,
    pub(crate) is_main: bool,
    pub(crate) name: String,
    pub(crate) start: i64,
    pub(crate) end: Option<i64>,
    pub(crate) samples: PackedSamples,
    /// Index into [`RecordingInfo::events`](recording::info::RecordingInfo::events) of the samples' event; `None` for
    /// the recording's first event.
    pub(crate) event: Option<u32>,
    pub(crate) markers: Vec<RecordedMarker>,
}

/// An event at one time, or a span of time.
#[derive(Clone, Debug)]
pub(crate) struct RecordedMarker {
    pub(crate) start: i64,
    pub(crate) end: Option<i64>,
    pub(crate) what: MarkerKind,
}

/// The kind and the values of a marker.
#[derive(Clone, Debug)]
pub(crate) enum MarkerKind {
    /// A child process, from fork to end.
    Child {
        pid: StringId,
        name: StringId,
    },
    Exec {
        from: StringId,
        to: StringId,
    },
    Renamed {
        from: StringId,
        to: StringId,
    },
    Lost {
        count: u64,
        cause: &'static str,
    },
    Throttled,
    Malformed {
        what: &'static str,
    },
    /// States why there are no samples.
    NoSamples {
        why: NoSamples,
    },
    /// A benchmark or test; the marker has its name.
    Ran {
        name: StringId,
        harness: &'static str,
        /// How its name and its times were found.
        how: &'static str,
    },
    /// A point event.
    Point(Box<PointMarker>),
}

/// A point event, as recorded in its thread.
#[derive(Clone, Debug)]
pub(crate) struct PointMarker {
    /// Index into [`RecordingInfo::events`](recording::info::RecordingInfo::events).
    pub(crate) event: u32,
    pub(crate) stack: Option<StackId>,
    /// The number of events that it represents.
    pub(crate) period: u64,
    /// In the order of the event's fields.
    pub(crate) values: Box<[PointValue]>,
}

/// A value of a point event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PointValue {
    Unsigned(u64),
    Signed(i64),
    Address(u64),
    Text(StringId),
}

impl MarkerKind {
    /// The names of all kinds except points, which have their event's name. A marker's type has the same name.
    /// Benchmarks and tests have this type and names of their own.
    pub(crate) const NAMES: [&'static str; 8] = [
        "Child process",
        "Exec",
        "Renamed",
        "Lost records",
        "Throttled",
        "Malformed record",
        "No samples",
        "Benchmark or test",
    ];

    /// True if the marker gets a row above its thread's track. A new thread name gets none: it made nearly every track
    /// higher.
    pub(crate) fn is_in_timeline(&self) -> bool {
        !matches!(self, MarkerKind::Exec { .. } | MarkerKind::Renamed { .. })
    }

    /// Index into [`MarkerKind::NAMES`]; `Err` is an index into the events.
    pub(crate) fn name_index(&self) -> Result<usize, usize> {
        Ok(match self {
            MarkerKind::Child { .. } => 0,
            MarkerKind::Exec { .. } => 1,
            MarkerKind::Renamed { .. } => 2,
            MarkerKind::Lost { .. } => 3,
            MarkerKind::Throttled => 4,
            MarkerKind::Malformed { .. } => 5,
            MarkerKind::NoSamples { .. } => 6,
            MarkerKind::Ran { .. } => 7,
            MarkerKind::Point(point) => return Err(point.event as usize),
        })
    }
}
