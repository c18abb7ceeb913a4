//! Names and kinds of functions in exports.

use std::borrow::Cow;

use crate::data::{Category, Data, Frame, SavedLib, Thread};

/// A function's name. An address gets its library's name, so equal addresses of two libraries stay separate.
pub(super) fn function(data: &Data, func: u32) -> Cow<'_, str> {
    let name = data.func_name(func);
    match data.lib_name(func) {
        _ if name.is_empty() => "[unknown]".into(),
        Some(lib) if is_address(name) => format!("{lib}+{name}").into(),
        _ => name.into(),
    }
}

fn is_address(name: &str) -> bool {
    let digits = name.strip_prefix("0x").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A process's name, or else its id.
pub(super) fn process(thread: &Thread) -> Cow<'_, str> {
    match (thread.process_name.as_str(), thread.pid.as_str()) {
        ("", "") => "[unknown process]".into(),
        ("", pid) => format!("process {pid}").into(),
        (name, _) => name.into(),
    }
}

/// A thread's name and id, so threads with one name stay separate.
pub(super) fn thread(thread: &Thread) -> String {
    match (thread.name.as_str(), thread.tid.as_str()) {
        (name, "") => name.to_owned(),
        ("", tid) => format!("thread {tid}"),
        (name, tid) => format!("{name} ({tid})"),
    }
}

/// A library's path, or else its name.
pub(super) fn library(lib: &SavedLib) -> &str {
    let names = [&lib.path, &lib.name, &lib.debug_name];
    names.into_iter().find_map(|name| name.as_deref()).unwrap_or_default()
}

/// The name of the counted event as one word: readers split it at spaces.
pub(super) fn event(name: &str) -> String {
    let word = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    match name.is_empty() {
        true => "cost".to_owned(),
        false => word.collect(),
    }
}

/// The kind of a frame's code, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FrameColor {
    Program,
    Library,
    System,
    RustStd,
    Dependency,
    Jit,
    Kernel,
    Wait,
    Mark,
    /// A process or thread.
    Place,
    Other,
}

impl FrameColor {
    /// Its name in the legend.
    pub(super) fn name(self) -> &'static str {
        match self {
            FrameColor::Program => "program",
            FrameColor::Library => "library",
            FrameColor::System => "system library",
            FrameColor::RustStd => "Rust standard library",
            FrameColor::Dependency => "dependency",
            FrameColor::Jit => "JIT and anonymous",
            FrameColor::Kernel => "kernel",
            FrameColor::Wait => "waiting",
            FrameColor::Mark => "incomplete stack",
            FrameColor::Place => "process, thread",
            FrameColor::Other => "other",
        }
    }

    fn of_category(category: &Category) -> Option<FrameColor> {
        Some(match category.name.as_str() {
            _ if category.is_wait => FrameColor::Wait,
            // Categories of sprof, of samply, and of the front end's importers.
            "Program" | "User" | "Native" => FrameColor::Program,
            "Library" => FrameColor::Library,
            "System library" => FrameColor::System,
            "Rust standard library" => FrameColor::RustStd,
            "Dependency" => FrameColor::Dependency,
            "JIT and anonymous" | "JIT" | "JavaScript" | "Java" => FrameColor::Jit,
            "Kernel" => FrameColor::Kernel,
            "Incomplete stack" => FrameColor::Mark,
            _ => return None,
        })
    }
}

/// The kinds of a profile's frames.
pub(super) struct FrameColors(Vec<Option<FrameColor>>);

impl FrameColors {
    pub(super) fn new(data: &Data) -> FrameColors {
        FrameColors(data.categories.iter().map(FrameColor::of_category).collect())
    }

    pub(super) fn kind(&self, data: &Data, frame: &Frame) -> FrameColor {
        let by_category = self.0.get(frame.category as usize).copied().flatten();
        let is_kernel = || (data.lib_name(frame.func)).is_some_and(|lib| lib.starts_with("[kernel"));
        by_category.unwrap_or_else(|| {
            if is_kernel() {
                FrameColor::Kernel
            } else {
                FrameColor::Other
            }
        })
    }
}
