//! What was recorded: functions, frames, call chains, and what they are of.

use names::v8::Start;
use serde::{Deserialize, Serialize};

use super::NONE;
use crate::category::{CATEGORIES, CodeKind};

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
            is_wait: CodeKind::is_wait(index),
        });
        all.collect()
    }

    /// True if the category has this name, whatever the case. Earlier profiles of sprof have another name for waits.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let is_of_waits = ["Idle", "Off-CPU"].iter().any(|other| other.eq_ignore_ascii_case(name));
        self.name.eq_ignore_ascii_case(name) || self.is_wait && is_of_waits
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
    pub resource: Option<ScriptOrigin>,
}

impl Script {
    /// The script of a function of JavaScript that starts here.
    pub(crate) fn from_start(start: Start) -> Script {
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
pub struct ScriptOrigin {
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
    /// Index of the text of the crate that defines it, or of the package that it was compiled from: see
    /// [`names::rust_crate`]. [`NONE`] if that is not known, and for other functions.
    pub krate: u32,
}

impl Func {
    /// A function of no script.
    pub const fn native(name: u32, lib: u32, file: u32) -> Func {
        Func {
            name,
            lib,
            file,
            script: NONE,
            krate: NONE,
        }
    }
}

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Index of a function.
    pub func: u32,
    /// From 1, or [`NONE`].
    pub line: u32,
    /// Index of the text of the path of the line's source file, where that is not the function's: see
    /// [`Data::line_file`](super::Data::line_file). [`NONE`] elsewhere.
    pub line_file: u32,
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

impl Frame {
    /// A frame with a function and no other property.
    pub const fn of(func: u32) -> Frame {
        Frame {
            func,
            line: NONE,
            line_file: NONE,
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

    /// The line, where it is a line of the function's file; 0 elsewhere. For formats with one file for a function and
    /// its lines.
    pub fn line_of_function(&self) -> u32 {
        match (self.line, self.line_file) {
            (line, NONE) if line != NONE => line,
            _ => 0,
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
