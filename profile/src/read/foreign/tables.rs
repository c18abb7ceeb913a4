//! Assigns the numbers of [`Data`] to names.

use crate::data::{Data, Frame, Func, NONE, Stack};
use crate::unique::Unique;

/// Growing tables; equal rows become one.
#[derive(Default)]
pub(super) struct ForeignTables {
    /// Everything except the tables.
    pub(super) data: Data,
    texts: Unique<Box<str>>,
    funcs: Unique<Func>,
    frames: Unique<Frame>,
    stacks: Unique<Stack>,
    text_bytes: u64,
}

impl ForeignTables {
    /// The memory of a stack in units of 8 bytes, here and in views.
    pub(super) const STACK_VALUES: u64 = 8;

    /// The tables' approximate memory in units of 8 bytes.
    pub(super) fn values(&self) -> u64 {
        let tables = 8 * self.texts.all.len() + 5 * self.funcs.all.len() + 12 * self.frames.all.len();
        tables as u64 + ForeignTables::STACK_VALUES * self.stacks.all.len() as u64 + self.text_bytes / 4
    }

    /// The number of a text that is not empty.
    pub(super) fn text(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return NONE;
        }
        let known = self.texts.all.len();
        let id = self.texts.index_of(text);
        if self.texts.all.len() > known {
            self.text_bytes += text.len() as u64;
        }
        id
    }

    /// The text with this number.
    pub(super) fn text_of(&self, id: u32) -> &str {
        self.texts.all.get(id as usize).map_or("", |text| text)
    }

    /// A function by its names and library.
    pub(super) fn func(&mut self, name: &str, lib: u32, file: &str) -> u32 {
        // A function without a name needs a text.
        let name = self.text(if name.is_empty() { "[unknown]" } else { name });
        let file = self.text(file);
        self.func_of(name, lib, file)
    }

    /// A function by the numbers of its texts.
    pub(super) fn func_of(&mut self, name: u32, lib: u32, file: u32) -> u32 {
        self.funcs.index(Func::native(name, lib, file))
    }

    /// A function by its row.
    pub(super) fn func_row(&mut self, func: Func) -> u32 {
        self.funcs.index(func)
    }

    /// A place in a function. Line 0 is unknown.
    pub(super) fn frame(&mut self, func: u32, line: u32, lib: u32, address: Option<u64>, inlined: bool) -> u32 {
        self.frames.index(Frame {
            line: if line == 0 { NONE } else { line },
            lib,
            address,
            inline_depth: inlined.into(),
            ..Frame::of(func)
        })
    }

    /// A line of a function, in another file than the function's if that is not [`NONE`]. Line 0 is unknown.
    pub(super) fn frame_of_line(
        &mut self,
        (func, line, line_file): (u32, u32, u32),
        lib: u32,
        address: Option<u64>,
    ) -> u32 {
        let has_line = line != 0;
        self.frames.index(Frame {
            line: if has_line { line } else { NONE },
            line_file: if has_line { line_file } else { NONE },
            lib,
            address,
            ..Frame::of(func)
        })
    }

    /// A call path.
    pub(super) fn stack(&mut self, prefix: u32, frame: u32) -> u32 {
        self.stacks.index(Stack { prefix, frame })
    }

    /// The data with its tables.
    pub(super) fn into_data(self) -> Data {
        Data {
            texts: self.texts.all,
            funcs: self.funcs.all,
            frames: self.frames.all,
            stacks: self.stacks.all,
            ..self.data
        }
    }
}
