//! When it was recorded: threads with their samples and markers, and their units.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::allocations::{Allocations, retain};
use super::{Fields, NONE};
use crate::text::numbers::number_json;

/// Values over time: `RawCounter` of the front end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counter {
    /// Index of the thread that represents the counter's process.
    pub thread: u32,
    /// Its other fields.
    pub fields: Fields,
}

impl Counter {
    /// Moves all times.
    pub(crate) fn shift(&mut self, by_ms: f64) {
        let Some(samples) = self.fields.get_mut("samples") else {
            return;
        };
        match samples.get_mut("time").and_then(Value::as_array_mut) {
            Some(times) => times.iter_mut().for_each(|time| shift_value(time, by_ms)),
            None => {
                let deltas = samples.get_mut("timeDeltas").and_then(Value::as_array_mut);
                let first = deltas.and_then(|deltas| deltas.first_mut());
                first.into_iter().for_each(|first| shift_value(first, by_ms));
            }
        }
    }
}

/// Moves a time in JSON. An absent time stays absent.
pub(crate) fn shift_value(time: &mut Value, by_ms: f64) {
    if let Some(ms) = time.as_f64() {
        *time = number_json(ms + by_ms);
    }
}

/// The unit of samples' weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WeightUnit {
    /// Samples.
    #[default]
    Samples,
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
    /// [`Weights`] names the unit: instructions, calls, allocations. The weights are never time, and nothing was
    /// sampled.
    Counts,
}

/// The weights of an imported file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// `Ir`, `cpu`, `alloc_space`.
    pub name: String,
    /// Their unit as the file names it: `nanoseconds`; empty if it names none.
    pub unit: String,
    /// Names of the file's other counts. Any of them could have been read instead.
    pub others: Vec<String>,
    /// Each occurrence was counted, none sampled.
    #[serde(default)]
    pub is_exact: bool,
}

/// What a file records of callers and callees.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Calls {
    /// The call chain of each sample.
    #[default]
    Paths,
    /// The cost of calls from one function to another, without call chains. Each stack is one frame.
    Arcs(Vec<CallArc>),
    /// Nothing. Each stack is one frame.
    Unknown,
}

/// All calls from one line to one function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallArc {
    /// Index of the thread.
    pub thread: u32,
    /// Index of the calling frame.
    pub caller: u32,
    /// Index of the called function.
    pub callee: u32,
    /// Number of calls.
    pub calls: u64,
    /// Cost of these calls, including their callees, in [`Data::unit`](super::Data::unit).
    pub weight: f64,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Its process's name.
    pub process_name: String,
    /// The file's process id. Usually a number; some tracks represent a part of a process.
    pub pid: String,
    /// The file's thread id.
    pub tid: String,
    /// True for a main thread.
    pub is_main: bool,
    /// The event of its samples, if the file names it: see [`Data::keep_event`](super::Data::keep_event).
    pub event: Option<String>,
    /// For a track of an event: the name of the thread in which the event happened.
    pub event_of: Option<String>,
    /// Unit of its samples' weights.
    pub unit: WeightUnit,
    /// Its samples, in time order.
    pub samples: Samples,
    /// Its markers.
    pub markers: Vec<Marker>,
    /// Blocks of memory that threads of its process took and freed.
    pub allocations: Option<Allocations>,
    /// Other fields of a thread in the format of the Firefox Profiler.
    pub rest: Fields,
}

impl Thread {
    /// Maps the stack index of each sample, marker and block of memory.
    pub(crate) fn map_stacks(&mut self, mut map: impl FnMut(u32) -> u32) {
        let of_markers = self.markers.iter_mut().map(|marker| &mut marker.stack);
        let of_blocks = self
            .allocations
            .iter_mut()
            .flat_map(|allocations| &mut allocations.stack);
        let stacks = self.samples.stack.iter_mut().chain(of_markers).chain(of_blocks);
        for stack in stacks.filter(|stack| **stack != NONE) {
            *stack = map(*stack);
        }
        map_stacks_of_js_allocations(&mut self.rest, map);
    }
}

/// Maps the stack indices of `RawJsAllocationsTable` (the front end's src/types/profile.ts).
pub(crate) fn map_stacks_of_js_allocations(rest: &mut Fields, mut map: impl FnMut(u32) -> u32) {
    let table = rest.get_mut("jsAllocations");
    let stacks = table.and_then(|table| table.get_mut("stack")?.as_array_mut());
    for stack in stacks.into_iter().flatten() {
        if let Some(index) = stack.as_u64().and_then(|index| u32::try_from(index).ok()) {
            *stack = map(index).into();
        }
    }
}

/// The samples of a thread: columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Since [`Data::start_ms`](super::Data::start_ms), ms.
    pub time_ms: Vec<f64>,
    /// Index of a stack, or [`NONE`].
    pub stack: Vec<u32>,
    /// Weight of each sample, in [`Data::unit`](super::Data::unit); `None`: 1 each.
    pub weight: Option<Vec<f64>>,
    /// The number of samples that each row represents, if an imported file has it.
    pub count: Option<Vec<u64>>,
    /// The variance that each sample adds to a sum of weights, if it is a block of memory that was chosen by chance.
    pub variance: Option<Vec<f64>>,
    /// CPU time since the previous sample, in `sampleUnits.threadCPUDelta`; NaN if unknown.
    pub cpu_delta: Option<Vec<f64>>,
    /// Other columns of a file of the Firefox Profiler.
    pub rest: Fields,
}

impl Samples {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.stack.len()
    }

    /// True if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Time, stack and weight of each sample.
    pub fn iter(&self) -> impl Iterator<Item = (f64, u32, f64)> + '_ {
        (0..self.len()).map(|at| {
            let weight = self.weight.as_ref().map_or(1.0, |weights| weights[at]);
            (self.time_ms[at], self.stack[at], weight)
        })
    }

    /// Keeps the samples whose entry is true.
    pub(crate) fn retain(&mut self, is_kept: &[bool]) {
        retain(&mut self.time_ms, is_kept);
        retain(&mut self.stack, is_kept);
        if let Some(weights) = &mut self.weight {
            retain(weights, is_kept);
        }
        if let Some(counts) = &mut self.count {
            retain(counts, is_kept);
        }
        for values in [&mut self.variance, &mut self.cpu_delta].into_iter().flatten() {
            retain(values, is_kept);
        }
        for values in self.rest.values_mut().filter_map(Value::as_array_mut) {
            retain(values, is_kept);
        }
    }
}

/// The type of the markers that are spans in recordings of sprof: the program named them, or the user did.
pub const SPAN_SCHEMA: &str = "Span";

/// A span of time with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// Index of a text.
    pub name: u32,
    /// Since [`Data::start_ms`](super::Data::start_ms), ms.
    pub start_ms: f64,
    /// End; equals `start_ms` for a point in time.
    pub end_ms: f64,
    /// Whether the marker has a start, an end or both.
    pub phase: MarkerPhase,
    /// Index of a category.
    pub category: u32,
    /// Index of the stack that caused it, or [`NONE`].
    pub stack: u32,
    /// The number of events that it represents, if it differs from its type's number.
    pub weight: Option<f64>,
    /// True if sprof itself noted it: a child process, lost records. It is no span of the program.
    pub is_own: bool,
    /// See [`Span::is_async`](super::Span::is_async).
    pub is_async: bool,
    /// See [`Span::is_cut`](super::Span::is_cut).
    pub is_cut: bool,
    /// Its other fields. Those that are texts by index (see [`Data::schemas`](super::Data::schemas)) are indices of
    /// this data's texts.
    pub fields: Option<Box<Fields>>,
}

impl Marker {
    /// A marker of a span of time.
    pub const fn spanning(name: u32, start_ms: f64, end_ms: f64) -> Marker {
        Marker {
            name,
            start_ms,
            end_ms,
            phase: MarkerPhase::Interval,
            category: 0,
            stack: NONE,
            weight: None,
            is_own: false,
            is_async: false,
            is_cut: false,
            fields: None,
        }
    }
}

/// For each type of markers, the fields that are texts by index.
#[derive(Default)]
pub(crate) struct TextFields(FxHashMap<String, Vec<String>>);

impl TextFields {
    /// Reads types in the front end's form, as in [`Data::schemas`](super::Data::schemas).
    pub(crate) fn from_schemas(schemas: &[Value]) -> TextFields {
        let fields = |schema: &Value| {
            let lists = ["fields", "data"].into_iter();
            let lists = lists.filter_map(|key| schema.get(key)?.as_array());
            let texts = lists.flatten().filter(|field| {
                let format = field.get("format").and_then(Value::as_str);
                matches!(format, Some("unique-string" | "flow-id" | "terminating-flow-id"))
            });
            let keys = texts.filter_map(|field| Some(field.get("key")?.as_str()?.to_owned()));
            Some((schema.get("name")?.as_str()?.to_owned(), keys.collect()))
        };
        TextFields(schemas.iter().filter_map(fields).collect())
    }

    /// Maps the text indices in a marker's fields.
    pub(crate) fn map(&self, fields: &mut Fields, mut map: impl FnMut(u32) -> u32) {
        let keys = fields
            .get("type")
            .and_then(Value::as_str)
            .and_then(|kind| self.0.get(kind));
        for key in keys.into_iter().flatten() {
            if let Some(text) = fields.get_mut(key)
                && let Some(index) = text.as_u64()
            {
                *text = map(u32::try_from(index).unwrap_or(NONE)).into();
            }
        }
    }
}

/// `MarkerPhase` of the front end's src/types/gecko-profile.ts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkerPhase {
    /// A point in time.
    #[default]
    Instant,
    /// A span from start to end.
    Interval,
    /// A start; another marker is the end.
    Start,
    /// An end.
    End,
}
