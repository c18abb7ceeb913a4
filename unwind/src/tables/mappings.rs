//! The executable mappings of one process.

use recording::address::Avma;
use recording::space::{AddressSpace, MappedRange};

/// Index of a module in the stage's list; [`ANONYMOUS`] for executable memory without a file.
pub(crate) type ModuleIndex = u32;
/// Executable memory without a file: JIT code, for example.
pub(crate) const ANONYMOUS: ModuleIndex = ModuleIndex::MAX;

/// One executable mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where relative address 0 of the module is.
    pub(crate) base: u64,
    pub(crate) module: ModuleIndex,
}

impl MappedRange for Region {
    fn range(&self) -> (Avma, Avma) {
        (Avma(self.start), Avma(self.end))
    }

    fn with_range(&self, start: Avma, end: Avma) -> Region {
        Region {
            start: start.0,
            end: end.0,
            ..*self
        }
    }
}

/// The executable mappings of one process.
pub(crate) type Mappings = AddressSpace<Region>;
