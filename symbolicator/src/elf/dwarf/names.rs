//! Demangled names, remembered: the same inlined functions appear at very many addresses.

use rustc_hash::FxHashMap;

use crate::demangle::demangle;

/// Names kept at once; then it starts anew, so that memory stays bounded.
const MAX_NAMES: usize = 100_000;

/// A memory of demangled names, by where the mangled name lies in the mapped file.
#[derive(Default)]
pub(super) struct Names(FxHashMap<(usize, usize), Option<String>>);

impl Names {
    /// The name demangled; `None` if it is not text or is empty.
    ///
    /// `raw` must lie in memory that this object's owner keeps for as long as the object lives: its address is the key.
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
