//! One form for every profile, whichever program recorded it and whichever version of a file holds it.
//!
//! Views take [`Data`]: `Data::from` makes it of a built profile, [`read::whole`](crate::read::whole) of a file. Writers and
//! [`merge`](mod@crate::merge) take [`Saved`]. Tables refer to each other by index. A stack comes after its caller's stack, so one backward
//! pass adds up subtrees.

use std::collections::HashSet;

use recording::module::Module;
use recording::source_path::in_profile;
use recording::v8::Start;
use rustc_hash::FxHashMap;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use crate::category::{CATEGORIES, Kind};
use crate::sources::Sources;

/// No index: the prefix of a root, the stack of a sample without one, the line of a frame without one.
pub const NONE: u32 = u32::MAX;

/// The samples of all threads, with the tables that they refer to. Reading has checked every index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    /// The recorded program.
    pub product: String,
    /// The program that wrote the file, if the file names it.
    pub imported_from: String,
    /// The program's arguments, if they were recorded.
    pub arguments: String,
    /// The recorded machine's operating system, if the file names it.
    pub os: String,
    /// The recorded machine's processor, if the file names it.
    pub cpu: String,
    /// Unix time of the samples' time 0, ms.
    pub start_ms: f64,
    /// Duration of the recording, ms.
    pub duration_ms: Option<f64>,
    /// Time between two samples of a busy thread, ms.
    pub interval_ms: f64,
    /// Unit of the weights.
    pub unit: Unit,
    /// The file's own name and unit of its weights, if it holds several kinds or a unit that [`Unit`] lacks.
    pub weights: Option<Weights>,
    /// The sampled event, if it is not CPU time: see [`Data::keep_event`].
    pub event: Option<String>,
    /// Events that were recorded one by one, including those that never happened.
    pub point_events: Vec<String>,
    /// What the file records of calls.
    pub calls: Calls,
    /// True for folded stacks: each sample is a sum of samples, whose times are unknown.
    pub is_summed: bool,
    /// True if functions have names from symbols; false if their names are addresses.
    pub symbolicated: bool,
    /// Categories of frames and markers.
    pub categories: Vec<Category>,
    /// Libraries.
    pub libs: Vec<SavedLib>,
    /// All texts, without duplicates.
    pub texts: Vec<Box<str>>,
    /// All functions, without duplicates. Functions with one name in different libraries or files are different.
    pub funcs: Vec<Func>,
    /// For each function, the function that it is a part of. Callgrind splits a function by source file; only one part is called. Empty if
    /// no function is split.
    pub part_of: Vec<u32>,
    /// Places in functions.
    pub frames: Vec<Frame>,
    /// Properties that only functions of scripts have.
    pub scripts: Vec<Script>,
    /// The texts of source files that the profile holds, by path, in the form of profiles.
    pub sources: Sources,
    /// Library symbols that contain frames.
    pub symbols: Vec<Symbol>,
    /// Ids of the browser windows (`innerWindowID`) of frames, without duplicates.
    pub windows: Vec<u64>,
    /// Call chains.
    pub stacks: Vec<Stack>,
    /// Threads, in the file's order.
    pub threads: Vec<Thread>,
    /// How the recording was made and how far it can be trusted; only sprof writes it.
    pub recorded: Option<Recorded>,
    /// A later sprof wrote the file. Its facts have other meanings, so none was read.
    pub newer_facts: bool,
    /// Other rows about the recording, shown as they are: `meta.extra`.
    pub extra: Vec<Section>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Types of markers: `MarkerSchema` of the front end's src/types/markers.ts.
    pub schemas: Vec<Value>,
    /// Other fields of `meta`, under the names of the Firefox Profiler's format.
    pub meta: Fields,
    /// Other fields of the file.
    pub rest: Fields,
}

/// A whole file of the Firefox Profiler, including the fields that no view uses. [`read::everything`](crate::read::everything) reads it; it
/// can be merged and written. Times, units and threads are the file's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved(pub Data);

impl std::ops::Deref for Saved {
    type Target = Data;

    fn deref(&self) -> &Data {
        &self.0
    }
}

impl std::ops::DerefMut for Saved {
    fn deref_mut(&mut self) -> &mut Data {
        &mut self.0
    }
}

/// Fields that are only written again.
pub type Fields = serde_json::Map<String, Value>;

/// A category of frames and markers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// `CategoryColor` of the front end's src/types/profile.ts.
    pub color: String,
    /// The first one is the category itself.
    pub subcategories: Vec<String>,
    /// sprof's own field: frames of this category are waits.
    #[serde(rename = "isWait", skip_serializing_if = "std::ops::Not::not")]
    pub is_wait: bool,
}

impl Category {
    /// The categories of every profile that sprof records.
    pub(crate) fn all() -> Vec<Category> {
        let all = CATEGORIES.iter().enumerate().map(|(index, category)| Category {
            name: category.name.to_owned(),
            color: category.color.to_owned(),
            subcategories: category.subcategories.iter().map(|&name| name.to_owned()).collect(),
            is_wait: Kind::is_wait(index),
        });
        all.collect()
    }

    /// A category with this name and no subcategories.
    pub fn named(name: &str) -> Category {
        Category {
            name: name.to_owned(),
            color: "grey".to_owned(),
            subcategories: vec!["Other".to_owned()],
            is_wait: false,
        }
    }
}

/// The properties of a script's function besides its name and file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Script {
    /// False for native functions that a browser lists among scripts.
    pub is_js: bool,
    /// The function is native, and shown among scripts.
    pub relevant_for_js: bool,
    /// First line, or [`NONE`].
    pub line: u32,
    /// First column, or [`NONE`].
    pub column: u32,
    /// The script's origin, if it is not a library.
    pub resource: Option<Resource>,
}

impl Script {
    /// Of a function of JavaScript that starts here.
    pub(crate) fn of(start: Start) -> Script {
        Script {
            is_js: true,
            relevant_for_js: false,
            line: start.line,
            column: start.column.unwrap_or(NONE),
            resource: None,
        }
    }
}

/// The origin of scripts: a site or an add-on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// Index of a text.
    pub name: u32,
    /// Index of a text, or [`NONE`].
    pub host: u32,
    /// `ResourceTypeEnum` of the front end's src/types/profile.ts.
    pub kind: u32,
}

/// A symbol of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Index of a library.
    pub lib: u32,
    /// Relative to the library.
    pub address: u64,
    /// Index of a text.
    pub name: u32,
    /// Size in bytes.
    pub size: Option<u64>,
}

/// Values over time: `RawCounter` of the front end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counter {
    /// Index of the thread that represents the counter's process.
    pub thread: u32,
    /// Its other fields.
    pub fields: Fields,
}

/// Rows about the recording under a heading: `ExtraProfileInfoSection` of the front end's src/types/profile.ts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Section {
    /// The heading.
    pub label: String,
    /// The rows.
    #[serde(rename = "entries")]
    pub rows: Vec<Row>,
}

/// A row: a label and its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// Its label.
    pub label: String,
    /// The front end's format of numbers: `integer`, `duration` (ms)...
    #[serde(deserialize_with = "text_or_empty")]
    pub format: String,
    /// The value.
    pub value: RowValue,
}

impl Row {
    fn of(label: impl Into<String>, format: &str, value: RowValue) -> Row {
        Row {
            label: label.into(),
            format: format.to_owned(),
            value,
        }
    }

    /// A row with a text.
    pub(crate) fn text(label: impl Into<String>, value: impl Into<String>) -> Row {
        Row::of(label, "string", RowValue::Text(value.into()))
    }

    /// A row with a count.
    pub(crate) fn count(label: impl Into<String>, value: u64) -> Row {
        Row::of(label, "integer", RowValue::Number(value.into()))
    }

    /// A row with a time. The front end takes ms.
    pub(crate) fn duration(label: impl Into<String>, ns: u64) -> Row {
        let ms = Number::from_f64(ns as f64 / 1e6);
        Row::of(label, "duration", ms.map_or(RowValue::None, RowValue::Number))
    }
}

/// A value of a [`Row`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum RowValue {
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list or an object. No recorder is known to write one.
    Other(IgnoredAny),
    /// `null`.
    #[default]
    None,
}

impl Serialize for RowValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RowValue::Number(number) => number.serialize(serializer),
            RowValue::Text(text) => text.serialize(serializer),
            RowValue::Other(_) | RowValue::None => serializer.serialize_unit(),
        }
    }
}

/// A format may be an object, which describes how a table is shown.
fn text_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match RowValue::deserialize(deserializer)? {
        RowValue::Text(text) => text,
        _ => String::new(),
    })
}

/// The unit of samples' weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Samples.
    #[default]
    Samples,
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
    /// [`Weights`] names the unit: instructions, calls, allocations. The weights are never time, and nothing was sampled.
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
}

/// What a file records of callers and callees.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Calls {
    /// The call chain of each sample.
    #[default]
    Paths,
    /// The cost of calls from one function to another, without call chains. Each stack is one frame.
    Arcs(Vec<Arc>),
    /// Nothing. Each stack is one frame.
    Unknown,
}

/// All calls from one line to one function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arc {
    /// Index of the thread.
    pub thread: u32,
    /// Index of the calling frame.
    pub caller: u32,
    /// Index of the called function.
    pub callee: u32,
    /// Number of calls.
    pub calls: u64,
    /// Cost of these calls, including their callees, in [`Data::unit`].
    pub weight: f64,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Func {
    /// Index of a text.
    pub name: u32,
    /// Index of a library, or [`NONE`].
    pub lib: u32,
    /// Index of the text of its source file's path, or [`NONE`].
    pub file: u32,
    /// Index of a script's function, or [`NONE`] for native functions.
    pub script: u32,
}

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Index of a function.
    pub func: u32,
    /// From 1, or [`NONE`].
    pub line: u32,
    /// From 1, or [`NONE`].
    pub column: u32,
    /// Index of a category. [`NONE`]: the caller's category.
    pub category: u32,
    /// Index into the category's subcategories, or 0.
    pub subcategory: u16,
    /// 0 for a function with code of its own, one more for each level of inlining.
    pub inline_depth: u16,
    /// Index of a symbol, or [`NONE`].
    pub symbol: u32,
    /// Index of a library, or [`NONE`].
    pub lib: u32,
    /// Index of the id of a browser's window, or [`NONE`].
    pub window: u32,
    /// Address relative to the library.
    pub address: Option<u64>,
}

impl Func {
    /// A function of no script.
    pub const fn native(name: u32, lib: u32, file: u32) -> Func {
        Func {
            name,
            lib,
            file,
            script: NONE,
        }
    }
}

impl Frame {
    /// A frame with a function and no other property.
    pub const fn of(func: u32) -> Frame {
        Frame {
            func,
            line: NONE,
            column: NONE,
            category: NONE,
            subcategory: 0,
            inline_depth: 0,
            symbol: NONE,
            lib: NONE,
            window: NONE,
            address: None,
        }
    }

    /// True if the function was inlined into its caller.
    pub const fn is_inlined(&self) -> bool {
        self.inline_depth > 0
    }
}

/// A call chain: a frame and its caller's call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stack {
    /// Index of the caller's stack, less than this stack's; [`NONE`] for a root.
    pub prefix: u32,
    /// Index of a frame.
    pub frame: u32,
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
    /// The event of its samples, if the file names it: see [`Data::keep_event`].
    pub event: Option<String>,
    /// For a track of an event: the name of the thread in which the event happened.
    pub event_of: Option<String>,
    /// Unit of its samples' weights.
    pub unit: Unit,
    /// Its samples, in time order.
    pub samples: Samples,
    /// Its markers.
    pub markers: Vec<Marker>,
    /// Other fields of a thread in the format of the Firefox Profiler.
    pub rest: Fields,
}

impl Thread {
    /// Maps the stack index of each sample and marker.
    pub(crate) fn map_stacks(&mut self, mut map: impl FnMut(u32) -> u32) {
        let of_markers = self.markers.iter_mut().map(|marker| &mut marker.stack);
        let stacks = self.samples.stack.iter_mut().chain(of_markers);
        for stack in stacks.filter(|stack| **stack != NONE) {
            *stack = map(*stack);
        }
        map_stacks_of_allocations(&mut self.rest, map);
    }
}

/// Maps the stack indices of `RawNativeAllocationTable` and `RawJsAllocationsTable` (the front end's src/types/profile.ts).
pub(crate) fn map_stacks_of_allocations(rest: &mut Fields, mut map: impl FnMut(u32) -> u32) {
    for key in ["nativeAllocations", "jsAllocations"] {
        let stacks = rest.get_mut(key).and_then(|table| table.get_mut("stack"));
        for stack in stacks.and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(index) = stack.as_u64().and_then(|index| u32::try_from(index).ok()) {
                *stack = map(index).into();
            }
        }
    }
}

/// The samples of a thread: columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Since [`Data::start_ms`], ms.
    pub time_ms: Vec<f64>,
    /// Index of a stack, or [`NONE`].
    pub stack: Vec<u32>,
    /// Weight of each sample, in [`Data::unit`]; `None`: 1 each.
    pub weight: Option<Vec<f64>>,
    /// The number of samples that each row represents, if an imported file has it.
    pub count: Option<Vec<u64>>,
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
    pub(super) fn retain(&mut self, is_kept: &[bool]) {
        fn column<T>(column: &mut Vec<T>, is_kept: &[bool]) {
            let mut is_kept = is_kept.iter();
            column.retain(|_| is_kept.next().copied().unwrap_or(false));
        }
        column(&mut self.time_ms, is_kept);
        column(&mut self.stack, is_kept);
        if let Some(weights) = &mut self.weight {
            column(weights, is_kept);
        }
        if let Some(counts) = &mut self.count {
            column(counts, is_kept);
        }
        if let Some(deltas) = &mut self.cpu_delta {
            column(deltas, is_kept);
        }
        for values in self.rest.values_mut().filter_map(Value::as_array_mut) {
            column(values, is_kept);
        }
    }
}

/// A span of time with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// Index of a text.
    pub name: u32,
    /// Since [`Data::start_ms`], ms.
    pub start_ms: f64,
    /// End; equals `start_ms` for a point in time.
    pub end_ms: f64,
    /// Whether the marker has a start, an end or both.
    pub phase: Phase,
    /// Index of a category.
    pub category: u32,
    /// Index of the stack that caused it, or [`NONE`].
    pub stack: u32,
    /// The number of events that it represents, if it differs from its type's number.
    pub weight: Option<f64>,
    /// Its other fields. Those that are texts by index (see [`Data::schemas`]) are indices of this data's texts.
    pub fields: Option<Box<Fields>>,
}

impl Marker {
    /// A marker of a span of time.
    pub const fn spanning(name: u32, start_ms: f64, end_ms: f64) -> Marker {
        Marker {
            name,
            start_ms,
            end_ms,
            phase: Phase::Interval,
            category: 0,
            stack: NONE,
            weight: None,
            fields: None,
        }
    }
}

/// For each type of markers, the fields that are texts by index.
#[derive(Default)]
pub(crate) struct TextFields(FxHashMap<String, Vec<String>>);

impl TextFields {
    /// Reads types in the front end's form, as in [`Data::schemas`].
    pub(crate) fn of(schemas: &[Value]) -> TextFields {
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
pub enum Phase {
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

impl Data {
    /// The text with this index.
    pub fn text(&self, text: u32) -> &str {
        self.texts.get(text as usize).map_or("", |text| text)
    }

    /// The text of the source file at this path, in any form, if the profile holds it.
    pub fn source(&self, path: &str) -> Option<&str> {
        self.sources.get(&*in_profile(path))?.as_deref()
    }

    /// Number of source files whose text the profile holds.
    pub fn embedded_sources(&self) -> usize {
        self.sources.values().flatten().count()
    }

    /// True if the file has samples and their number. Counts of an imported file may be no samples.
    pub fn has_samples(&self) -> bool {
        self.weights.is_none() || self.threads.iter().any(|thread| thread.samples.count.is_some())
    }

    /// The number of samples in this row of a thread: at least one, or 0 if nothing was sampled.
    pub fn count_of(&self, samples: &Samples, at: usize, weight: f64) -> u64 {
        match (&samples.count, self.unit) {
            (Some(counts), _) => counts.get(at).copied().unwrap_or(0),
            (None, _) if self.weights.is_some() => 0,
            (None, Unit::Samples) => rounded(weight.abs()),
            (None, Unit::Milliseconds | Unit::Bytes | Unit::Counts) => 1,
        }
    }

    /// Number of processes during the recording, or else of processes with threads in the file.
    pub fn processes(&self) -> u64 {
        self.recorded.as_ref().map_or_else(
            || {
                let pids: HashSet<&str> = self.threads.iter().map(|thread| thread.pid.as_str()).collect();
                pids.len() as u64
            },
            |recorded| recorded.processes,
        )
    }

    /// Number of threads during the recording, or else of threads in the file.
    pub fn threads_in_all(&self) -> u64 {
        (self.recorded.as_ref()).map_or(self.threads.len() as u64, |recorded| recorded.threads)
    }

    /// The start of each run of the program, ms, in order, if the file holds several runs (`--iteration-count`).
    pub fn run_starts_ms(&self) -> &[f64] {
        let starts = self
            .recorded
            .as_ref()
            .map_or(&[][..], |recorded| &recorded.run_starts_ms);
        match starts.is_sorted() && starts.iter().all(|start| start.is_finite()) {
            true => starts,
            false => &[],
        }
    }

    /// True if the sampled thread was off-CPU. Only profiles of sprof record that.
    pub fn is_wait(&self, stack: u32) -> bool {
        let Some(stack) = self.stacks.get(stack as usize) else {
            return false;
        };
        let category = self.categories.get(self.frames[stack.frame as usize].category as usize);
        category.is_some_and(|category| category.is_wait)
    }

    /// The frame of the function whose code contains the stack's leaf: the nearest frame that is not inlined.
    pub fn frame_with_code(&self, mut stack: u32) -> u32 {
        loop {
            let Stack { prefix, frame } = self.stacks[stack as usize];
            if !self.frames[frame as usize].is_inlined() || prefix == NONE {
                return frame;
            }
            stack = prefix;
        }
    }

    /// Maps the stack index of each sample and marker.
    pub(crate) fn map_stacks(&mut self, map: impl Fn(u32) -> u32) {
        self.threads.iter_mut().for_each(|thread| thread.map_stacks(&map));
    }

    /// A function's name.
    pub fn func_name(&self, func: u32) -> &str {
        self.text(self.funcs[func as usize].name)
    }

    /// The file name of a function's library.
    pub fn lib_name(&self, func: u32) -> Option<&str> {
        let lib = self.libs.get(self.funcs[func as usize].lib as usize)?;
        lib.name.as_deref().or(lib.debug_name.as_deref())
    }
}

/// `f64::round` of a number that is not negative. `f64::round` calls the C library, once for each sample.
pub(crate) fn rounded(number: f64) -> u64 {
    let whole = number as u64;
    whole.saturating_add(u64::from(number - whole as f64 >= 0.5))
}

/// How a recording of sprof was made and how far it can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recorded {
    /// The event that was sampled.
    pub event: String,
    /// `included`, or why samples have no kernel code.
    pub kernel_code: String,
    /// Requested samples per second of CPU time; `None` if samples are not of time.
    pub asked_rate_hz: Option<f64>,
    /// Achieved samples per second of CPU time, if the kernel counted CPU time.
    pub achieved_rate_hz: Option<f64>,
    /// The start of each run of the program, ms since the profile's time 0, if it ran several times (`--iteration-count`).
    pub run_starts_ms: Vec<f64>,
    /// Number of processes during the recording, including those without samples.
    pub processes: u64,
    /// Number of threads during the recording, including those without samples.
    pub threads: u64,
    /// Lost records, for any reason.
    pub lost: u64,
    /// Stacks that do not reach their root, for any reason.
    pub truncated: u64,
    /// Stacks with a step that could not be verified.
    pub unverified: u64,
    /// Everything else that is missing or doubtful, and the parts of the counts above. Views show them in this order.
    pub limits: Vec<Limit>,
}

/// Something missing or doubtful: a count, a time or words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limit {
    /// Its description for people.
    pub what: String,
    /// Number of cases.
    pub count: Option<u64>,
    /// The CPU time of the cases, ns.
    pub ns: Option<u64>,
    /// The process and the reason.
    pub words: Option<String>,
}

/// A library as a profile names it. A field is `None` if the file lacks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SavedLib {
    /// File name.
    pub name: Option<String>,
    /// Path on the recorded machine.
    pub path: Option<String>,
    /// File name of the debug file. A request for symbols names it and the Breakpad id.
    pub debug_name: Option<String>,
    /// The debug file's path.
    pub debug_path: Option<String>,
    /// Breakpad id.
    pub breakpad_id: Option<String>,
    /// Build id in hex (Linux), or the platform's equivalent.
    pub code_id: Option<String>,
    /// `x86_64`, `arm64`...
    pub arch: Option<String>,
}

impl SavedLib {
    /// Of which only the path is known; it may be empty.
    pub(crate) fn of_path(path: &str) -> SavedLib {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (name, path) = (some(path.rsplit('/').next().unwrap_or(path)), some(path));
        SavedLib {
            name: name.clone(),
            path: path.clone(),
            debug_name: name,
            debug_path: path,
            ..SavedLib::default()
        }
    }

    /// The module's names in a profile of sprof.
    pub(crate) fn of(module: &Module) -> SavedLib {
        let name = module.name();
        let readable = module.readable_path.as_ref().unwrap_or(&module.path);
        SavedLib {
            arch: Some(module.arch.unwrap_or_default().to_owned()),
            path: Some(module.path.to_string_lossy().into_owned()),
            // The front end's key of a library is `debugName/breakpadId`, split at the slash.
            debug_name: Some(name.replace('/', "_")),
            debug_path: Some(readable.to_string_lossy().into_owned()),
            breakpad_id: Some(module.breakpad_id()),
            code_id: module.build_id.as_ref().map(|id| id.to_hex()),
            name: Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn halves_are_rounded_up_and_nothing_else() {
        for number in [0.0, 0.49999999999999994, 0.5, 1.0, 1.5, 2.4999, 1e15 + 0.5, 1e18, 1e300] {
            assert_eq!(rounded(number), number.round() as u64, "{number}");
        }
    }
}
