//! A cache of demangled names: the same inlined functions are at very many addresses.

use recording::rust_name;
use rustc_hash::FxHashMap;

use super::units::EntryName;
use crate::demangle::demangle;

/// Names in the cache at most; a full cache is emptied.
const MAX_NAMES: usize = 100_000;

/// Demangled names by address and length of the mangled name in the mapped file.
#[derive(Default)]
pub(super) struct Names(FxHashMap<(usize, usize), Option<String>>);

impl Names {
    /// The demangled name; `None` if it is not text or is empty.
    ///
    /// The owner must keep the name in memory as long as this object lives: its address is the key.
    pub(super) fn demangled(&mut self, name: &EntryName<'_>) -> Option<String> {
        let raw = name.best.slice();
        if self.0.len() >= MAX_NAMES {
            self.0.clear();
        }
        self.0
            .entry((raw.as_ptr() as usize, raw.len()))
            .or_insert_with(|| {
                let raw = String::from_utf8_lossy(raw);
                if raw.is_empty() {
                    return None;
                }
                let full = demangle(&raw);
                // What a closure is stands in the plain name alone.
                let plain = name.plain.filter(|plain| plain.slice().starts_with(b"{"));
                let plain = plain.map(|plain| String::from_utf8_lossy(plain.slice()));
                Some(
                    plain
                        .and_then(|plain| rust_name::with_path(&plain, &full))
                        .unwrap_or(full),
                )
            })
            .clone()
    }
}
