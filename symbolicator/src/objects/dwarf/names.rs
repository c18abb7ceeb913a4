//! A cache of demangled names: the same inlined functions are at very many addresses.

use recording::rust_name;
use rustc_hash::FxHashMap;

use super::units::EntryName;
use crate::demangle::demangle;

/// Names in the cache at most; a full cache is emptied.
const MAX_NAMES: usize = 100_000;

/// Demangled names by address and length of the mangled name in the mapped file.
#[derive(Default)]
pub(super) struct Names {
    known: FxHashMap<(usize, usize), Option<String>>,
    /// Of the texts.
    bytes: usize,
}

impl Names {
    /// Heap bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.known.capacity() * size_of::<((usize, usize), Option<String>)>() + self.bytes
    }

    /// The demangled name; `None` if it is not text or is empty.
    ///
    /// The owner must keep the name in memory as long as this object lives: its address is the key.
    pub(super) fn demangled(&mut self, name: &EntryName<'_>) -> Option<String> {
        let raw = name.best.slice();
        if self.known.len() >= MAX_NAMES {
            *self = Names::default();
        }
        let Names { known, bytes } = self;
        let made = || {
            let made = readable(name);
            *bytes += made.as_ref().map_or(0, String::len);
            made
        };
        (known.entry((raw.as_ptr() as usize, raw.len())))
            .or_insert_with(made)
            .clone()
    }
}

fn readable(name: &EntryName<'_>) -> Option<String> {
    let raw = String::from_utf8_lossy(name.best.slice());
    if raw.is_empty() {
        return None;
    }
    let full = demangle(&raw);
    // What a closure is stands in the plain name alone.
    let plain = name.plain.filter(|plain| plain.slice().starts_with(b"{"));
    let plain = plain.map(|plain| String::from_utf8_lossy(plain.slice()));
    let with_path = plain.and_then(|plain| rust_name::with_path(&plain, &full));
    Some(with_path.unwrap_or(full))
}
