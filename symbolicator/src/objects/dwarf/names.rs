//! A cache of demangled names: the same inlined functions are at very many addresses.

use std::borrow::Cow;

use names::rust_name;
use rustc_hash::FxHashMap;

use super::super::symbol::MAX_NAME_BYTES;
use super::store::Slice;
use crate::demangle::demangle;

/// Names in the cache, and their bytes; a full cache is emptied.
const MAX_NAMES: usize = 100_000;
const MAX_BYTES: usize = 64 << 20;

/// The names that the debug info has for a function.
pub(super) struct EntryName<'a> {
    /// The linkage name if there is one, because it has the whole path. The plain name where the linkage name can't be
    /// demangled.
    pub(super) best: Slice<'a>,
    /// Without path. `{async_fn#0}` is a closure by its linkage name.
    pub(super) plain: Option<Slice<'a>>,
    /// The namespaces and classes around a function whose best name has no path.
    pub(super) scope: Option<String>,
}

/// Demangled names by address and length of the mangled name in the mapped file.
#[derive(Default)]
pub(super) struct DemangledNames {
    known: FxHashMap<(usize, usize), Option<String>>,
    /// Size of the names.
    bytes: usize,
}

impl DemangledNames {
    /// Heap bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.known.capacity() * size_of::<((usize, usize), Option<String>)>() + self.bytes
    }

    /// The demangled name; `None` if it is not text or is empty.
    ///
    /// The owner must keep the name in memory as long as this object lives: its address is the key.
    pub(super) fn demangled(&mut self, name: &EntryName<'_>) -> Option<String> {
        let raw = name.best.slice();
        if let Some(scope) = &name.scope {
            return (!raw.is_empty()).then(|| format!("{scope}::{}", text(name.best)));
        }
        if self.known.len() >= MAX_NAMES || self.bytes >= MAX_BYTES {
            *self = DemangledNames::default();
        }
        let DemangledNames { known, bytes } = self;
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
    let raw = text(name.best);
    if raw.is_empty() {
        return None;
    }
    let full = demangle(&raw);
    // What a closure is stands in the plain name alone.
    let plain = name.plain.filter(|plain| plain.slice().starts_with(b"{"));
    let plain = plain.map(text);
    let with_path = plain.and_then(|plain| rust_name::with_path(&plain, &full));
    Some(with_path.unwrap_or(full))
}

/// The name, or the start of one that is in a damaged section.
pub(super) fn text(name: Slice<'_>) -> Cow<'_, str> {
    let bytes = name.slice();
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_NAME_BYTES)])
}
