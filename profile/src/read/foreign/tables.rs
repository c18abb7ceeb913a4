//! From names to the numbers that [`Data`] is made of.

use rustc_hash::FxHashMap;

use crate::data::{Data, Frame, Func, NONE, Stack};

/// Tables of data while they grow: equal rows are one.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) data: Data,
    texts: FxHashMap<Box<str>, u32>,
    funcs: FxHashMap<Func, u32>,
    frames: FxHashMap<FrameKey, u32>,
    stacks: FxHashMap<(u32, u32), u32>,
    values: u64,
}

type FrameKey = (u32, u32, u32, Option<u64>, bool);

impl Tables {
    /// What they take in memory, in 8 bytes, roughly.
    pub(super) fn values(&self) -> u64 {
        self.values
    }

    /// Text that is not empty has a number.
    pub(super) fn text(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return NONE;
        }
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let id = self.data.texts.len() as u32;
        self.data.texts.push(text.into());
        self.texts.insert(text.into(), id);
        self.values += 8 + text.len() as u64 / 4;
        id
    }

    /// A function, by its names and library.
    pub(super) fn func(&mut self, name: &str, lib: u32, file: &str) -> u32 {
        // A function without any name still needs a text.
        let name = self.text(if name.is_empty() { "[unknown]" } else { name });
        let file = self.text(file);
        self.func_of(name, lib, file)
    }

    /// A function, by texts.
    pub(super) fn func_of(&mut self, name: u32, lib: u32, file: u32) -> u32 {
        let func = Func::native(name, lib, file);
        let next = self.data.funcs.len() as u32;
        let id = *self.funcs.entry(func).or_insert(next);
        if id == next {
            self.data.funcs.push(func);
            self.values += 5;
        }
        id
    }

    /// A place in a function. Line 0 is none.
    pub(super) fn frame(&mut self, func: u32, line: u32, lib: u32, address: Option<u64>, inlined: bool) -> u32 {
        let line = if line == 0 { NONE } else { line };
        let next = self.data.frames.len() as u32;
        let id = *self.frames.entry((func, line, lib, address, inlined)).or_insert(next);
        if id == next {
            self.data.frames.push(Frame {
                line,
                lib,
                address,
                inline_depth: inlined.into(),
                ..Frame::of(func)
            });
            self.values += 12;
        }
        id
    }

    /// A call path.
    pub(super) fn stack(&mut self, prefix: u32, frame: u32) -> u32 {
        let next = self.data.stacks.len() as u32;
        let id = *self.stacks.entry((prefix, frame)).or_insert(next);
        if id == next {
            self.data.stacks.push(Stack { prefix, frame });
            self.values += 4;
        }
        id
    }
}
