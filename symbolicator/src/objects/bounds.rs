//! Where functions begin and end, beside symbols and debug info.

use std::ops::Range;

use unwind::Functions;

use super::file::ObjectFile;
use super::mach_o::FunctionStarts;

/// The functions of a file, also those without a symbol, by relative address.
pub(super) enum Bounds {
    /// By unwind rules.
    Rules(Functions),
    /// By the list of a Mach-O file.
    Starts(FunctionStarts),
}

impl Bounds {
    pub(super) fn read(file: &ObjectFile) -> Bounds {
        let starts = FunctionStarts::read(file);
        match starts.is_empty() {
            true => Bounds::Rules(Functions::read(file)),
            false => Bounds::Starts(starts),
        }
    }

    /// The function that holds an address.
    pub(super) fn at(&self, address: u64) -> Option<Range<u64>> {
        match self {
            Bounds::Rules(functions) => functions.at(address),
            Bounds::Starts(starts) => starts.at(address),
        }
    }

    /// The start of the first function behind an address.
    pub(super) fn next_start(&self, address: u64) -> Option<u64> {
        match self {
            Bounds::Rules(functions) => functions.next_start(address),
            Bounds::Starts(starts) => starts.next_start(address),
        }
    }

    /// Heap bytes.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Bounds::Rules(functions) => functions.held_bytes(),
            Bounds::Starts(starts) => starts.held_bytes(),
        }
    }
}
