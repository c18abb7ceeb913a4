//! The compared functions, lines or call paths. A key is one number in all recordings.

use recording::rust_name::readable;
use rustc_hash::FxHashMap;

use super::{Amount, Change, What};
use crate::data::{Data, NONE};
use crate::unique::Unique;

/// All keys of both sides.
#[derive(Default)]
pub(super) struct Keys {
    texts: Unique<Box<str>>,
    parts: Unique<KeyParts>,
    groups_of: FxHashMap<u32, Vec<u32>>,
}

/// The key of a group of frame keys, by the group's number. Group keys count down from the largest key.
pub(super) fn group(number: usize) -> usize {
    NONE as usize - 1 - number
}

/// Texts by number; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct KeyParts {
    function: u32,
    lib: u32,
    file: u32,
    line: u32,
    /// The key of the caller, [`NONE`] for none.
    caller: u32,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.parts.all.len()
    }

    /// Makes the keys members of a [`group`].
    pub(super) fn add_group(&mut self, number: usize, members: &[usize]) {
        for member in members {
            let groups = self.groups_of.entry(*member as u32).or_default();
            groups.push(group(number) as u32);
        }
    }

    /// The groups of a frame's key.
    pub(super) fn groups(&self, key: u32) -> &[u32] {
        self.groups_of.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The function of a key.
    pub(super) fn function(&self, key: usize) -> &str {
        &self.texts.all[self.parts.all[key].function as usize]
    }

    /// The library of a key.
    pub(super) fn lib(&self, key: usize) -> Option<&str> {
        Some(&*self.texts.all[self.parts.all[key].lib as usize]).filter(|lib| !lib.is_empty())
    }

    fn text(&mut self, text: &str) -> u32 {
        if self.texts.all.is_empty() {
            self.texts.index_of("");
        }
        self.texts.index_of(text)
    }

    /// The change of a key, with its names.
    pub(super) fn change(&self, key: usize, [base, new]: [Amount; 2], share_change: (f64, f64), p: f64) -> Change {
        let text = |id: u32| self.texts.all[id as usize].to_string();
        let parts = self.parts.all[key];
        let mut callers = Vec::new();
        let mut caller = parts.caller;
        while let Some(parts) = self.parts.all.get(caller as usize) {
            callers.push(text(parts.function));
            caller = parts.caller;
        }
        callers.reverse();
        Change {
            function: text(parts.function),
            lib: Some(text(parts.lib)).filter(|lib| !lib.is_empty()),
            line: (parts.line != 0).then(|| (text(parts.file), parts.line)),
            callers,
            base,
            new,
            share_change,
            p,
        }
    }
}

/// The key of each frame: its function or its line.
pub(super) fn of_frames(data: &Data, what: What, keys: &mut Keys) -> Vec<u32> {
    (data.frames.iter())
        .map(|frame| {
            let func = data.funcs[frame.func as usize];
            let with_line = what == What::Lines && frame.line != NONE;
            let parts = KeyParts {
                // A recording of another profiler, or of an older sprof, has another form.
                function: keys.text(&readable(data.text(func.name))),
                lib: keys.text(data.lib_name(frame.func).unwrap_or_default()),
                file: if with_line {
                    keys.text(data.text(data.line_file(frame)))
                } else {
                    0
                },
                line: if with_line { frame.line } else { 0 },
                caller: NONE,
            };
            keys.parts.index(parts)
        })
        .collect()
}

/// The key of a call path, built from the root.
pub(super) fn of_path(data: &Data, leaf: u32, key_of_frame: &[u32], known: &mut [u32], keys: &mut Keys) -> u32 {
    let mut open = Vec::new();
    let mut stack = leaf;
    while stack != NONE && known[stack as usize] == NONE {
        open.push(stack);
        stack = data.stacks[stack as usize].prefix;
    }
    let mut caller = known.get(stack as usize).copied().unwrap_or(NONE);
    while let Some(stack) = open.pop() {
        let function = keys.parts.all[key_of_frame[data.stacks[stack as usize].frame as usize] as usize];
        caller = keys.parts.index(KeyParts { caller, ..function });
        known[stack as usize] = caller;
    }
    caller
}
