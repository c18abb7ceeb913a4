//! What views are of: samples with their stacks, in one form, whoever recorded them and in whichever version they were saved.
//!
//! Made by [`read::whole`](crate::read::whole) from a file. Tables point at each
//! other by index; a stack comes after the stack that called it, so one pass backwards adds up subtrees.

use crate::read::SavedLib;

/// No index: a root's prefix, a sample without a stack, a frame without a line.
pub const NONE: u32 = u32::MAX;

/// Samples of all threads with all that they point at. Indices are checked: none points beyond its table.
#[derive(Clone, Debug, Default)]
pub struct Data {
    /// What was recorded.
    pub product: String,
    /// Unix time of the samples' time 0, ms.
    pub start_ms: f64,
    /// Time between two samples of a busy thread, ms.
    pub interval_ms: f64,
    /// What weights count.
    pub unit: Unit,
    /// True if functions have the names that symbols gave; false if they are addresses.
    pub symbolicated: bool,
    /// What frames' categories are called.
    pub categories: Vec<String>,
    /// Libraries.
    pub libs: Vec<SavedLib>,
    /// All texts, each once.
    pub texts: Vec<Box<str>>,
    /// Functions, each once: two of the same name in different libraries or files are two.
    pub funcs: Vec<Func>,
    /// Places in functions.
    pub frames: Vec<Frame>,
    /// Call paths.
    pub stacks: Vec<Stack>,
    /// Threads, in the order of the file.
    pub threads: Vec<Thread>,
}

/// What the weights of samples count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Samples.
    #[default]
    Samples,
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
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
}

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Index of a function.
    pub func: u32,
    /// From 1, or [`NONE`].
    pub line: u32,
    /// Index of a category, or [`NONE`]: that of its caller.
    pub category: u32,
    /// Index of a library, or [`NONE`].
    pub lib: u32,
    /// In the library, or `None`.
    pub address: Option<u64>,
    /// True if the function was inlined into the one that called it.
    pub inlined: bool,
}

/// A call path: a frame, and the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Index of the stack of the caller, less than this one's; [`NONE`] for a root.
    pub prefix: u32,
    /// Index of a frame.
    pub frame: u32,
}

/// A thread.
#[derive(Clone, Debug, Default)]
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
    /// Its samples, in time order.
    pub samples: Samples,
    /// Its markers.
    pub markers: Vec<Marker>,
}

/// The samples of a thread: columns of equal length.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Since [`Data::start_ms`], ms.
    pub time_ms: Vec<f64>,
    /// Index of a stack, or [`NONE`].
    pub stack: Vec<u32>,
    /// What each stands for, in [`Data::unit`]; `None`: one each.
    pub weight: Option<Vec<f64>>,
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
}

impl Data {
    /// A text.
    pub fn text(&self, text: u32) -> &str {
        self.texts.get(text as usize).map_or("", |text| text)
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
