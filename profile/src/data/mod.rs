//! One form for every profile, whichever program recorded it and whichever version of a file holds it.
//!
//! Views take [`Data`]: `Data::from` makes it of a built profile, [`read::whole`](crate::read::whole) of a file.
//! Writers and [`merge`](mod@crate::merge) take [`SavedData`]. Tables refer to each other by index. A stack comes after
//! its caller's stack, so one backward pass adds up subtrees.

mod about;
mod allocations;
pub(crate) mod blocks;
mod code;
pub(crate) mod facts;
mod for_views;
pub(crate) mod parallelism;
mod sampled;
pub(crate) mod spans;
mod threads;
pub(crate) mod v8_names;

use std::collections::HashSet;

use names::source_path::in_profile;
use rustc_hash::FxHashMap;
use serde_json::Value;

pub use self::about::{
    AboutRow, AboutSection, AskedEvent, CountedEvent, HeapFacts, HeapGrowthFacts, HeapLosses, RecordingFacts,
    RecordingLimit, ResourceFacts, RowValue, RunExtent, RunningFacts, SampledFacts, SavedLib, SpanFacts, UnreadFacts,
};
pub use self::allocations::Allocations;
pub use self::code::{Category, Frame, Func, Script, ScriptOrigin, Stack, Symbol};
pub(crate) use self::for_views::{ForViews, prepare};
pub use self::spans::Span;
pub use self::threads::{
    CallArc, Calls, Counter, Marker, MarkerPhase, SPAN_SCHEMA, Samples, Thread, WeightUnit, Weights,
};
pub(crate) use self::threads::{TextFields, map_stacks_of_js_allocations, shift_value};
use crate::sources::Sources;
use crate::unique::Unique;

/// The frame that stands for the stack of a sample without one, in formats where each sample has a stack.
pub(crate) const NO_STACK_LABEL: &str = "[no stack]";

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
    /// `start_ms` is the start of the recording, whatever the times in the file count from. In files of the published
    /// `fxprof-processed-profile`: those of samply on Linux (seen in 0.13.1) have times since the machine's start.
    pub starts_with_recording: bool,
    /// Duration of the recording, ms.
    pub duration_ms: Option<f64>,
    /// Time between two samples of a busy thread, ms.
    pub interval_ms: f64,
    /// Unit of the weights.
    pub unit: WeightUnit,
    /// The file's own name and unit of its weights, if it holds several kinds or a unit that [`WeightUnit`] lacks.
    pub weights: Option<Weights>,
    /// The sampled event, if it is not CPU time: see [`Data::keep_event`].
    pub event: Option<String>,
    /// Events that were recorded one by one, including those that never happened.
    pub point_events: Vec<String>,
    /// What the file records of calls.
    pub calls: Calls,
    /// True for folded stacks: each sample is a sum of samples, whose times are unknown.
    pub is_summed: bool,
    /// True for the end of a recording that goes on: its samples, threads and processes are not all that were recorded.
    pub is_end: bool,
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
    /// A main thread has its process's title, if the process has one (`postgres: checkpointer`): in recordings of
    /// sprof.
    pub main_threads_have_titles: bool,
    /// How the recording was made and how far it can be trusted; only sprof writes it.
    pub recorded: Option<RecordingFacts>,
    /// A later sprof wrote the file. Its facts have other meanings, so none was read.
    pub newer_facts: bool,
    /// Other rows about the recording, shown as they are: `meta.extra`.
    pub extra: Vec<AboutSection>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Types of markers: `MarkerSchema` of the front end's src/types/markers.ts.
    pub schemas: Vec<Value>,
    /// Other fields of `meta`, under the names of the Firefox Profiler's format.
    pub meta: Fields,
    /// Other fields of the file.
    pub rest: Fields,
}

/// A whole file of the Firefox Profiler, including the fields that no view uses.
/// [`read::everything`](crate::read::everything) reads it; it can be merged and written. Times, units and threads are
/// the file's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedData(pub Data);

impl std::ops::Deref for SavedData {
    type Target = Data;

    fn deref(&self) -> &Data {
        &self.0
    }
}

impl std::ops::DerefMut for SavedData {
    fn deref_mut(&mut self) -> &mut Data {
        &mut self.0
    }
}

/// Fields that are only written again.
pub type Fields = serde_json::Map<String, Value>;

impl Data {
    /// The text with this index.
    pub fn text(&self, text: u32) -> &str {
        self.texts.get(text as usize).map_or("", |text| text)
    }

    /// The text of the source file at this path, in any form of the path. `None` if the profile does not hold it.
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
            (None, WeightUnit::Samples) => rounded(weight.abs()),
            (None, WeightUnit::Milliseconds | WeightUnit::Bytes | WeightUnit::Counts) => 1,
        }
    }

    /// True if the samples are blocks of memory that were chosen by chance: see [`Samples::variance`].
    pub fn is_heap(&self) -> bool {
        self.threads.iter().any(|thread| thread.samples.variance.is_some())
    }

    /// True if it has sums in which chance has no part, as far as the file says.
    pub fn is_exact(&self) -> bool {
        self.weights.is_some() && !self.is_heap()
    }

    /// The commit that the program was built from; `None` if the recording does not name it.
    pub fn commit(&self) -> Option<&str> {
        self.recorded.as_ref()?.commit.as_deref()
    }

    /// The recorded duration, or the time up to the last sample, ms; `None` if neither is known.
    pub fn length_ms(&self) -> Option<f64> {
        let last = || {
            let ends = self.threads.iter().filter_map(|thread| thread.samples.time_ms.last());
            ends.copied().filter(|time| time.is_finite()).reduce(f64::max)
        };
        let known = self.duration_ms.filter(|ms| ms.is_finite()).or_else(last);
        known.filter(|ms| *ms > 0.0)
    }

    /// The start of the recording in the file's times, ms: `recorded_ms`, if the file has it, or else the first sample
    /// or marker.
    pub(crate) fn zero_ms(&self, recorded_ms: Option<f64>) -> f64 {
        let first_ms = || {
            let times = self.threads.iter().flat_map(|thread| {
                let markers = thread.markers.iter().map(|marker| &marker.start_ms);
                thread.samples.time_ms.iter().chain(markers)
            });
            times.copied().filter(|time| time.is_finite()).reduce(f64::min)
        };
        let recorded_ms = recorded_ms.filter(|ms| ms.is_finite());
        recorded_ms.or_else(first_ms).unwrap_or(0.0)
    }

    /// The names of point events, whose markers views take for samples: of a file for views, or of one as it is.
    pub(crate) fn names_of_points(&self) -> HashSet<&str> {
        let has_period = |schema: &&Value| schema.get("period").is_some_and(Value::is_number);
        let schemas = self.schemas.iter().filter(has_period);
        let of_schemas = schemas.filter_map(|schema| schema.get("name")?.as_str());
        self.point_events.iter().map(String::as_str).chain(of_schemas).collect()
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

    /// Whole runs of the program, or a window of something that goes on.
    pub fn extent(&self) -> RunExtent {
        self.recorded
            .as_ref()
            .map_or(RunExtent::Unstated, |recorded| recorded.extent)
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

    /// The text of the path of the source file that holds a frame's line, or [`NONE`].
    pub fn line_file(&self, frame: &Frame) -> u32 {
        match frame.line_file {
            NONE => self.funcs[frame.func as usize].file,
            file => file,
        }
    }

    /// Renames functions: `rename` returns the new name, or `None` to keep the old one. Functions that then are equal
    /// become one.
    pub fn rename_functions(&mut self, rename: impl Fn(&str) -> Option<String>) {
        let mut texts: Unique<Box<str>> = std::mem::take(&mut self.texts).into();
        let mut new_name: FxHashMap<u32, u32> = FxHashMap::default();
        for func in &self.funcs {
            if let Some(old) = texts.all.get(func.name as usize)
                && !new_name.contains_key(&func.name)
                && let Some(name) = rename(old)
            {
                new_name.insert(func.name, texts.index_of(&*name));
            }
        }
        self.texts = texts.all;
        if new_name.is_empty() {
            return;
        }
        let renamed = |name: u32| new_name.get(&name).copied().unwrap_or(name);
        let mut funcs: Unique<Func> = Unique::default();
        let new_index: Vec<u32> = (self.funcs.iter())
            .map(|func| {
                funcs.index(Func {
                    name: renamed(func.name),
                    ..*func
                })
            })
            .collect();
        // Arcs refer to the rows as they are.
        if self.calls != Calls::Paths {
            self.funcs.iter_mut().for_each(|func| func.name = renamed(func.name));
            return;
        }
        for frame in &mut self.frames {
            frame.func = new_index[frame.func as usize];
        }
        self.funcs = funcs.all;
    }

    /// A function's name.
    pub fn func_name(&self, func: u32) -> &str {
        self.text(self.funcs[func as usize].name)
    }

    /// The file name of a function's library; `None` for a function without one, or whose library has no name.
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
