//! Processes, threads and their markers.

use super::heap::RecordedHeap;
use super::no_samples::NoSamples;
use super::samples::PackedSamples;
use super::spans::PlotSeries;
use super::stacks::StackId;
use super::strings::StringId;
use super::usage::ProcessUsage;
use crate::data::SPAN_SCHEMA;
use crate::data::spans::OWN_TYPES;

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
    /// Counters of the program, by name.
    pub(crate) plots: Vec<(String, PlotSeries)>,
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
    /// No samples were taken from here to there: the program asked for that.
    Paused,
    /// What led to this profile of a recording that goes on.
    Trigger {
        words: StringId,
    },
    /// A point event.
    Point(Box<PointMarker>),
    /// A section that the program named; the marker has its name.
    Span(Box<SpanMarker>),
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

/// A span, as recorded in its thread.
#[derive(Clone, Debug)]
pub(crate) struct SpanMarker {
    pub(crate) name: StringId,
    pub(crate) lane: Option<u64>,
    /// The number of a flow, and whether the flow ends here.
    pub(crate) flow: Option<(StringId, bool)>,
    /// Index into [`RecordedSpans::keys`](super::spans::RecordedSpans::keys), and the value.
    pub(crate) fields: Box<[(u32, PointValue)]>,
}

/// A value of a point event or a span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PointValue {
    Unsigned(u64),
    Signed(i64),
    Address(u64),
    Float(f64),
    Text(StringId),
}

impl MarkerKind {
    /// The names of all kinds except points, which have their event's name. A marker's type has the same name.
    /// Benchmarks, tests and spans have this type and names of their own.
    pub(crate) const NAMES: [&'static str; OWN_TYPES.len() + 1] = [
        OWN_TYPES[0],
        OWN_TYPES[1],
        OWN_TYPES[2],
        OWN_TYPES[3],
        OWN_TYPES[4],
        OWN_TYPES[5],
        OWN_TYPES[6],
        OWN_TYPES[7],
        OWN_TYPES[8],
        OWN_TYPES[9],
        SPAN_SCHEMA,
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
            MarkerKind::Paused => 8,
            MarkerKind::Trigger { .. } => 9,
            MarkerKind::Span(_) => 10,
            MarkerKind::Point(point) => return Err(point.event as usize),
        })
    }
}
