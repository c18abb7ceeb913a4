//! The debug info of a module: in one file, or in the object files that it was linked from.

use std::ops::Range;

use names::symbol::{FunctionSymbol, SourceFrame};

use super::dwarf::Dwarf;
use super::mach_o::debug_map::DebugMap;
use crate::files::object_file::ObjectFile;

/// What answers for the addresses of a module.
pub(super) enum DebugInfo {
    /// Debug info in the linked file, with its addresses.
    Linked(Box<Dwarf>),
    Objects(Box<DebugMap>),
}

impl DebugInfo {
    /// Starts a batch of look-ups, which may do a bounded amount of work.
    pub(super) fn begin_batch(&mut self) {
        match self {
            DebugInfo::Linked(dwarf) => dwarf.begin_batch(),
            DebugInfo::Objects(map) => map.begin_batch(),
        }
    }

    /// Looks up relative addresses of a batch on several threads, where that is possible, so that [`DebugInfo::find`]
    /// has their answers. Runs `first` meanwhile.
    pub(super) fn prepare(&mut self, addresses: &[u64], first: impl FnOnce()) {
        match self {
            DebugInfo::Linked(dwarf) => dwarf.prepare(addresses, first),
            DebugInfo::Objects(_) => first(),
        }
    }

    /// The frames at a relative address, innermost first, and the outer function.
    pub(super) fn find(&mut self, address: u64) -> (Vec<SourceFrame>, Option<FunctionSymbol>) {
        match self {
            DebugInfo::Linked(dwarf) => dwarf.find(address),
            DebugInfo::Objects(map) => map.find(address),
        }
    }

    /// The relative addresses of the other parts of a function. On Mach-O these are functions of their own, with
    /// symbols.
    pub(super) fn other_parts(&mut self, address: u64) -> Vec<Range<u64>> {
        match self {
            DebugInfo::Linked(dwarf) => dwarf.other_parts(address),
            DebugInfo::Objects(_) => Vec::new(),
        }
    }

    /// How many calls of a function were inlined: for probes, which Mach-O files get none of.
    pub(super) fn inlined_copies(&mut self, is_meant: impl Fn(&str) -> bool) -> u64 {
        match self {
            DebugInfo::Linked(dwarf) => dwarf.inlined_copies(is_meant),
            DebugInfo::Objects(_) => 0,
        }
    }

    /// Damage found since the last call, each as a sentence.
    pub(super) fn take_flaws(&mut self) -> Vec<String> {
        match self {
            DebugInfo::Linked(dwarf) => dwarf.take_flaws(),
            DebugInfo::Objects(map) => map.take_flaws(),
        }
    }

    /// True if a part of the debug info is in files that the module's own files do not identify.
    pub(super) fn is_split(&self) -> bool {
        match self {
            DebugInfo::Linked(dwarf) => dwarf.is_split(),
            DebugInfo::Objects(_) => false,
        }
    }

    /// Which files were needed and not found, a sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            DebugInfo::Linked(dwarf) => {
                let missing = dwarf.missing_dwo();
                let note = missing.first().map(|first| {
                    format!(
                        "{} split debug info files were not found, the first is {}; give their folder with --symbol-dir",
                        missing.len(),
                        first.display()
                    )
                });
                note.into_iter().collect()
            }
            DebugInfo::Objects(map) => map.note().into_iter().collect(),
        }
    }

    /// Files with debug info, other than the module's own files.
    pub(super) fn files_beside(&self) -> Vec<&ObjectFile> {
        match self {
            DebugInfo::Linked(dwarf) => dwarf.files_beside().collect(),
            DebugInfo::Objects(map) => map.files().collect(),
        }
    }

    /// Heap bytes, about.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            DebugInfo::Linked(dwarf) => dwarf.held_bytes(),
            DebugInfo::Objects(map) => map.held_bytes(),
        }
    }
}
