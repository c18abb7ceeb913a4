//! The compared functions, lines or call paths. A key is one number in all recordings.

use names::rust_name::readable;
use rustc_hash::FxHashMap;

use super::{Change, Compared, KeyAmount, KeyVerdict};
use crate::data::{Data, NONE};
use crate::unique::Unique;
use crate::view::select::{WITHOUT_NAMES, without_names};

/// All keys of both sides.
#[derive(Default)]
pub(super) struct ComparedKeys {
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

impl ComparedKeys {
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

    /// The key of a call path: a function's key below the key of its caller.
    pub(super) fn path(&mut self, caller: u32, function: u32) -> u32 {
        let function = self.parts.all[function as usize];
        self.parts.index(KeyParts { caller, ..function })
    }

    /// The change of a key, with its names.
    pub(super) fn change(&self, item: &KeyVerdict) -> Change {
        let p = item.tested.p.unwrap_or(1.0);
        self.named(item.key, [item.base, item.new], item.tested.change(), p)
    }

    /// A change of a key, with its names. Exact figures have no `KeyVerdict`.
    pub(super) fn named(&self, key: usize, [base, new]: [KeyAmount; 2], range: (f64, f64), p: f64) -> Change {
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
            range,
            p,
        }
    }
}

/// The key of each frame: its function or its line.
pub(super) fn of_frames(data: &Data, what: Compared, keys: &mut ComparedKeys) -> Vec<u32> {
    // The address of such code differs in each run.
    let is_address = without_names(data);
    (data.frames.iter())
        .map(|frame| {
            let func = data.funcs[frame.func as usize];
            let with_line = what == Compared::Lines && frame.line != NONE;
            let parts = KeyParts {
                // A recording of another profiler, or of an older sprof, has another form.
                function: match is_address[frame.func as usize] {
                    true => keys.text(WITHOUT_NAMES),
                    false => keys.text(&readable(data.text(func.name))),
                },
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
