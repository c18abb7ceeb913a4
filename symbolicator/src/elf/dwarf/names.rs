//! A cache of demangled names: the same inlined functions are at very many addresses.

use rustc_hash::FxHashMap;

use crate::demangle::demangle;

/// Names in the cache at most; a full cache is emptied.
const MAX_NAMES: usize = 100_000;

/// Demangled names by address and length of the mangled name in the mapped file.
#[derive(Default)]
pub(super) struct Names(FxHashMap<(usize, usize), Option<String>>);

impl Names {
    /// The demangled name; `None` if it is not text or is empty.
    ///
    /// The owner must keep `raw` in memory as long as this object lives: its address is the key.
    pub(super) fn demangled(&mut self, raw: &[u8]) -> Option<String> {
        if self.0.len() >= MAX_NAMES {
            self.0.clear();
        }
        self.0
            .entry((raw.as_ptr() as usize, raw.len()))
            .or_insert_with(|| {
                let raw = String::from_utf8_lossy(raw);
                (!raw.is_empty()).then(|| demangle(&raw))
            })
            .clone()
    }
}
