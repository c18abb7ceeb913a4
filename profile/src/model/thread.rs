//! Processes, threads and what happened to them.

use super::no_samples::NoSamples;
use super::samples::Samples;
use super::stacks::StackId;
use super::strings::StringId;
use super::usage::Usage;

/// Index into [`Profile::processes`](super::Profile).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ProcessId(pub(crate) usize);

/// One process, from its first sign to its end. A pid used twice is two processes.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// `1234`; the second process with this number is `1234.1`.
    pub(crate) id: String,
    /// The last name it had.
    pub(crate) name: String,
    pub(crate) parent: Option<ProcessId>,
    /// ns from time zero.
    pub(crate) start: i64,
    pub(crate) end: Option<i64>,
    pub(crate) usage: Usage,
}

/// One thread.
#[derive(Clone)]
pub(crate) struct Thread {
    pub(crate) process: ProcessId,
    /// `1234`; `1234.1` for the second thread with this number.
    pub(crate) id: String,
    pub(crate) is_main: bool,
    pub(crate) name: String,
    pub(crate) start: i64,
    pub(crate) end: Option<i64>,
    pub(crate) samples: Samples,
    /// Index into [`RecordingInfo::events`](recording::info::RecordingInfo::events) of the event whose samples these are, if
    /// they are not those of the recording's first one.
    pub(crate) event: Option<u32>,
    pub(crate) markers: Vec<Marker>,
}

/// Something that happened at one time, or from one time to another.
#[derive(Clone, Debug)]
pub(crate) struct Marker {
    pub(crate) start: i64,
    pub(crate) end: Option<i64>,
    pub(crate) what: MarkerKind,
}

/// What a marker says.
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
    /// Says why there are no samples.
    NoSamples {
        why: NoSamples,
    },
    /// A benchmark or test, which has the marker's name.
    Ran {
        name: StringId,
        harness: &'static str,
        /// How its name and its times are known.
        how: &'static str,
    },
    /// A point event.
    Point(Box<PointMarker>),
}

/// A point event, as it stands on its thread.
#[derive(Clone, Debug)]
pub(crate) struct PointMarker {
    /// Index into [`RecordingInfo::events`](recording::info::RecordingInfo::events).
    pub(crate) event: u32,
    pub(crate) stack: Option<StackId>,
    /// How many it stands for.
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
    /// The names of all kinds but points, which have that of their event; a marker's type has the same name. Benchmarks and tests
    /// are of this type, and have names of their own.
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

    /// True if the marker is worth a row above its thread's track. A new name is not: it made nearly every thread's track higher.
    pub(crate) fn is_in_timeline(&self) -> bool {
        !matches!(self, MarkerKind::Exec { .. } | MarkerKind::Renamed { .. })
    }

    /// Index into [`MarkerKind::NAMES`]; `Err` is one into the events.
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
