//! A profile in one form, whoever recorded it and in whichever version it was saved: what is viewed, merged and written.
//!
//! Views take what `Data::from` makes of a profile that was just built, or [`read::whole`](crate::read::whole) of a file: the same. What is
//! written or merged is [`Saved`]. Tables point at each other by index; a stack comes after the stack that called it, so one pass
//! backwards adds up subtrees.

use std::collections::HashSet;

use recording::module::Module;
use rustc_hash::FxHashMap;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use crate::category::{CATEGORIES, Kind};

/// No index: a root's prefix, a sample without a stack, a frame without a line.
pub const NONE: u32 = u32::MAX;

/// Samples of all threads with all that they point at. Indices are checked: none points beyond its table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    /// What was recorded.
    pub product: String,
    /// Who wrote the file, where it says so.
    pub imported_from: String,
    /// Arguments of the program, where they were recorded.
    pub arguments: String,
    /// Operating system that was recorded on, where the file says so.
    pub os: String,
    /// Processor that was recorded on, where the file says so.
    pub cpu: String,
    /// Unix time of the samples' time 0, ms.
    pub start_ms: f64,
    /// How long recording took, ms; `None` if the file does not say.
    pub duration_ms: Option<f64>,
    /// Time between two samples of a busy thread, ms.
    pub interval_ms: f64,
    /// What weights count.
    pub unit: Unit,
    /// How the file names what its weights count, where it holds several or names them by other words than [`Unit`].
    pub weights: Option<Weights>,
    /// The event that was sampled in the place of CPU time, of a recording: see [`Data::keep_event`].
    pub event: Option<String>,
    /// Events that were recorded one by one, whether or not any happened.
    pub point_events: Vec<String>,
    /// What the file knows of calls.
    pub calls: Calls,
    /// True if each sample stands for as many as it weighs, which came at times that are not known: folded stacks.
    pub is_summed: bool,
    /// True if functions have the names that symbols gave; false if they are addresses.
    pub symbolicated: bool,
    /// Of frames and markers.
    pub categories: Vec<Category>,
    /// Libraries.
    pub libs: Vec<SavedLib>,
    /// All texts, each once.
    pub texts: Vec<Box<str>>,
    /// Functions, each once: two of the same name in different libraries or files are two.
    pub funcs: Vec<Func>,
    /// For each function the one that it is a part of: of a function with code of several source files, by which callgrind takes it
    /// apart, only one is called. Empty where each is whole.
    pub part_of: Vec<u32>,
    /// Places in functions.
    pub frames: Vec<Frame>,
    /// Functions of scripts, which have more than native ones.
    pub scripts: Vec<Script>,
    /// Symbols of libraries that frames fall into.
    pub symbols: Vec<Symbol>,
    /// Ids of the browser windows (`innerWindowID`) that frames belong to, each once.
    pub windows: Vec<u64>,
    /// Call paths.
    pub stacks: Vec<Stack>,
    /// Threads, in the order of the file.
    pub threads: Vec<Thread>,
    /// How it was recorded and how far it can be trusted, of files of sprof.
    pub recorded: Option<Recorded>,
    /// The file was written by a later sprof, whose facts have other meanings: none of them is known here.
    pub newer_facts: bool,
    /// What recorders tell about the recording beside that, to be shown as it is: `meta.extra`.
    pub extra: Vec<Section>,
    /// Lines over time.
    pub counters: Vec<Counter>,
    /// Types of markers: `MarkerSchema` of the front end's src/types/markers.ts.
    pub schemas: Vec<Value>,
    /// What else a file of the Firefox Profiler has in `meta`, by its own names.
    pub meta: Fields,
    /// What else such a file has.
    pub rest: Fields,
}

/// Data in the form of a file of the Firefox Profiler, with all that is written and no view is of: what
/// [`read::everything`](crate::read::everything) reads, and what is merged and written. Times, units and threads are those of the file.
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

/// Fields of a file that only who writes it again takes notice of.
pub type Fields = serde_json::Map<String, Value>;

/// A category of frames and markers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Category {
    /// What it is called.
    pub name: String,
    /// `CategoryColor` of the front end's src/types/profile.ts.
    pub color: String,
    /// The first stands for the category itself.
    pub subcategories: Vec<String>,
    /// Its frames stand for waits: sprof's own.
    #[serde(rename = "isWait", skip_serializing_if = "std::ops::Not::not")]
    pub is_wait: bool,
}

impl Category {
    /// Those that all profiles of ours have.
    pub(crate) fn all() -> Vec<Category> {
        let all = CATEGORIES.iter().enumerate().map(|(index, category)| Category {
            name: category.name.to_owned(),
            color: category.color.to_owned(),
            subcategories: category.subcategories.iter().map(|&name| name.to_owned()).collect(),
            is_wait: Kind::is_wait(index),
        });
        all.collect()
    }

    /// One of this name, without subcategories.
    pub fn named(name: &str) -> Category {
        Category {
            name: name.to_owned(),
            color: "grey".to_owned(),
            subcategories: vec!["Other".to_owned()],
            is_wait: false,
        }
    }
}

/// What a function of a script has beside its name and file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Script {
    /// False for native functions that a browser marks for scripts' sake.
    pub is_js: bool,
    /// Native, and shown among scripts.
    pub relevant_for_js: bool,
    /// Line where it begins, or [`NONE`].
    pub line: u32,
    /// Column where it begins, or [`NONE`].
    pub column: u32,
    /// Where it came from, where that is no library.
    pub resource: Option<Resource>,
}

/// A site, an add-on: where scripts came from.
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
    /// In the library.
    pub address: u64,
    /// Index of a text.
    pub name: u32,
    /// Bytes, where known.
    pub size: Option<u64>,
}

/// A line over time, as the front end's `RawCounter` has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counter {
    /// Index of the thread that stands for its process.
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
    /// What it tells.
    pub label: String,
    /// How the front end would write a number: `integer`, `duration` (ms)...
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

    /// Words.
    pub(crate) fn text(label: impl Into<String>, value: impl Into<String>) -> Row {
        Row::of(label, "string", RowValue::Text(value.into()))
    }

    /// A count.
    pub(crate) fn count(label: impl Into<String>, value: u64) -> Row {
        Row::of(label, "integer", RowValue::Number(value.into()))
    }

    /// A time, which the front end wants in ms.
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
    /// Neither: a list or an object of a form that no recorder is known to write.
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

/// A format may be an object, which says how a table is shown.
fn text_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match RowValue::deserialize(deserializer)? {
        RowValue::Text(text) => text,
        _ => String::new(),
    })
}

/// What the weights of samples count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Samples.
    #[default]
    Samples,
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
    /// What [`Weights`] says: instructions, calls, allocations. Never time, and nothing was sampled.
    Counts,
}

/// What the weights of an imported file are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// `Ir`, `cpu`, `alloc_space`.
    pub name: String,
    /// What the file says that they are in: `nanoseconds`; empty if it does not say.
    pub unit: String,
    /// What else the file counts, by name: any of them could have been read instead.
    pub others: Vec<String>,
}

/// What is known of who called whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Calls {
    /// The call path of each sample.
    #[default]
    Paths,
    /// What calls from one function to another cost, but no path: each stack is one frame.
    Arcs(Vec<Arc>),
    /// Nothing: each stack is one frame.
    Unknown,
}

/// All calls from one line to one function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arc {
    /// Index of the thread.
    pub thread: u32,
    /// Index of the frame that calls.
    pub caller: u32,
    /// Index of the function that is called.
    pub callee: u32,
    /// How often.
    pub calls: u64,
    /// What these calls cost, with all that was called in turn, in [`Data::unit`].
    pub weight: f64,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Func {
    /// Index of a text.
    pub name: u32,
    /// Index of a library, or [`NONE`].
    pub lib: u32,
    /// Index of a text: the path of its source file, or [`NONE`].
    pub file: u32,
    /// Index of a script's function, or [`NONE`] for native ones.
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
    /// Index of a category, or [`NONE`]: that of its caller.
    pub category: u32,
    /// Index into the category's, or 0.
    pub subcategory: u16,
    /// 0 for a function with code of its own; functions inlined into it count up.
    pub inline_depth: u16,
    /// Index of a symbol, or [`NONE`].
    pub symbol: u32,
    /// Index of a library, or [`NONE`].
    pub lib: u32,
    /// Index of the id of a browser's window, or [`NONE`].
    pub window: u32,
    /// In the library, or `None`.
    pub address: Option<u64>,
}

impl Func {
    /// No script's.
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
    /// Of this function, and of nothing else.
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

    /// True if the function was inlined into the one that called it.
    pub const fn is_inlined(&self) -> bool {
        self.inline_depth > 0
    }
}

/// A call path: a frame, and the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stack {
    /// Index of the stack of the caller, less than this one's; [`NONE`] for a root.
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
    /// As the file has it: a number, but for tracks that stand for parts of a process.
    pub pid: String,
    /// As the file has it.
    pub tid: String,
    /// True for a main thread.
    pub is_main: bool,
    /// What its samples are of, where the file says so: see [`Data::keep_event`].
    pub event: Option<String>,
    /// The name of the thread in which that event happened, where this one is a track beside it.
    pub event_of: Option<String>,
    /// What its samples' weights count.
    pub unit: Unit,
    /// Its samples, in time order.
    pub samples: Samples,
    /// Its markers.
    pub markers: Vec<Marker>,
    /// What else a file of the Firefox Profiler has of it.
    pub rest: Fields,
}

impl Thread {
    /// The same of this thread.
    pub(crate) fn map_stacks(&mut self, mut map: impl FnMut(u32) -> u32) {
        let of_markers = self.markers.iter_mut().map(|marker| &mut marker.stack);
        let stacks = self.samples.stack.iter_mut().chain(of_markers);
        for stack in stacks.filter(|stack| **stack != NONE) {
            *stack = map(*stack);
        }
        map_stacks_of_allocations(&mut self.rest, map);
    }
}

/// The same of `RawNativeAllocationTable` and `RawJsAllocationsTable` of the front end's src/types/profile.ts.
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
    /// What each stands for, in [`Data::unit`]; `None`: one each.
    pub weight: Option<Vec<f64>>,
    /// How many samples each stands for, where an imported file says so.
    pub count: Option<Vec<u64>>,
    /// CPU time since the sample before, in `sampleUnits.threadCPUDelta`; NaN where not known.
    pub cpu_delta: Option<Vec<f64>>,
    /// Further columns of a file of the Firefox Profiler.
    pub rest: Fields,
}

impl Samples {
    /// How many.
    pub fn len(&self) -> usize {
        self.stack.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Time, stack and weight of each.
    pub fn iter(&self) -> impl Iterator<Item = (f64, u32, f64)> + '_ {
        (0..self.len()).map(|at| {
            let weight = self.weight.as_ref().map_or(1.0, |weights| weights[at]);
            (self.time_ms[at], self.stack[at], weight)
        })
    }

    /// Keeps those that are true in the list.
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
    /// The same as `start_ms` for a point in time.
    pub end_ms: f64,
    /// Whether it has an end.
    pub phase: Phase,
    /// Index of a category.
    pub category: u32,
    /// Index of the stack that led to it, or [`NONE`].
    pub stack: u32,
    /// How many it stands for, where that is another number than its type says.
    pub weight: Option<f64>,
    /// Its other fields; those that are texts by index (see [`Data::schemas`]) are so here.
    pub fields: Option<Box<Fields>>,
}

impl Marker {
    /// A span of time with this name.
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

/// Of each type of markers, the fields that are texts by index.
#[derive(Default)]
pub(crate) struct TextFields(FxHashMap<String, Vec<String>>);

impl TextFields {
    /// Of types as the front end has them, in the place of [`Data::schemas`].
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

    /// Gives each text of a marker's fields another index.
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
    /// From its start to its end.
    Interval,
    /// Its start; the end is another marker.
    Start,
    /// Its end.
    End,
}

impl Data {
    /// A text.
    pub fn text(&self, text: u32) -> &str {
        self.texts.get(text as usize).map_or("", |text| text)
    }

    /// True if something was sampled, and the file tells how often. What an imported file counts may be no samples.
    pub fn has_samples(&self) -> bool {
        self.weights.is_none() || self.threads.iter().any(|thread| thread.samples.count.is_some())
    }

    /// How many samples the one at this place of a thread's list stands for: at least one, or 0 where nothing was sampled.
    pub fn count_of(&self, samples: &Samples, at: usize, weight: f64) -> u64 {
        match (&samples.count, self.unit) {
            (Some(counts), _) => counts.get(at).copied().unwrap_or(0),
            (None, _) if self.weights.is_some() => 0,
            (None, Unit::Samples) => rounded(weight.abs()),
            (None, Unit::Milliseconds | Unit::Bytes | Unit::Counts) => 1,
        }
    }

    /// Processes that ran while recording, if the file says so; else those that it has threads of.
    pub fn processes(&self) -> u64 {
        self.recorded.as_ref().map_or_else(
            || {
                let pids: HashSet<&str> = self.threads.iter().map(|thread| thread.pid.as_str()).collect();
                pids.len() as u64
            },
            |recorded| recorded.processes,
        )
    }

    /// Threads that ran while recording, if the file says so; else those that it has.
    pub fn threads_in_all(&self) -> u64 {
        (self.recorded.as_ref()).map_or(self.threads.len() as u64, |recorded| recorded.threads)
    }

    /// When each run of the program began, ms, in order, where the file holds several (`--iteration-count`); else nothing.
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

    /// True for a sample of a thread that was not on a CPU; as far as known: in profiles of sprof.
    pub fn is_wait(&self, stack: u32) -> bool {
        let Some(stack) = self.stacks.get(stack as usize) else {
            return false;
        };
        let category = self.categories.get(self.frames[stack.frame as usize].category as usize);
        category.is_some_and(|category| category.is_wait)
    }

    /// The frame of the function that a stack's leaf is compiled into: the nearest one that is not inlined.
    pub fn frame_with_code(&self, mut stack: u32) -> u32 {
        loop {
            let Stack { prefix, frame } = self.stacks[stack as usize];
            if !self.frames[frame as usize].is_inlined() || prefix == NONE {
                return frame;
            }
            stack = prefix;
        }
    }

    /// Gives each stack that samples and markers point at another index.
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

/// `f64::round` of a number that is not negative. That one is a call into the C library for each sample.
pub(crate) fn rounded(number: f64) -> u64 {
    let whole = number as u64;
    whole.saturating_add(u64::from(number - whole as f64 >= 0.5))
}

/// How a recording of sprof was made, and how far it can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recorded {
    /// The event that was sampled.
    pub event: String,
    /// `included`, or why samples have no kernel code.
    pub kernel_code: String,
    /// Samples per second of CPU time that were asked for; `None` of what is not time.
    pub asked_rate_hz: Option<f64>,
    /// Samples per second of CPU time that there are, where the kernel counted that time.
    pub achieved_rate_hz: Option<f64>,
    /// When each run of the program began, in ms since the profile's time 0, where it was run several times (`--iteration-count`).
    pub run_starts_ms: Vec<f64>,
    /// Processes that ran while recording, those without samples, too.
    pub processes: u64,
    /// The same of threads.
    pub threads: u64,
    /// Records that were lost, for any cause.
    pub lost: u64,
    /// Stacks that do not reach their root, for any cause.
    pub truncated: u64,
    /// Stacks of which a step could not be verified.
    pub unverified: u64,
    /// What else is missing or doubtful, and of which of these it is a part. In the order in which it is shown.
    pub limits: Vec<Limit>,
}

/// Something that is missing or doubtful, as a count, a time or words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limit {
    /// What, for people.
    pub what: String,
    /// How often.
    pub count: Option<u64>,
    /// For how much CPU time.
    pub ns: Option<u64>,
    /// Of which process, and why.
    pub words: Option<String>,
}

/// A library as a profile names it. Fields that the file does not have are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SavedLib {
    /// File name.
    pub name: Option<String>,
    /// Path on the machine that recorded.
    pub path: Option<String>,
    /// File name of the debug file: one half of what symbols are asked by.
    pub debug_name: Option<String>,
    /// Its path.
    pub debug_path: Option<String>,
    /// Breakpad id: the other half.
    pub breakpad_id: Option<String>,
    /// Build id in hex (Linux), or what the platform has instead.
    pub code_id: Option<String>,
    /// `x86_64`, `arm64`...
    pub arch: Option<String>,
}

impl SavedLib {
    /// As a profile of ours names the module.
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
