//! The functions of a Mach-O file: their first addresses, and the sections that hold them.

use std::ops::Range;

use crate::files::macho::{CodeSection, MachO};
use recording::sink::ReadAt;

/// The functions of a file. Addresses are relative to its `__TEXT`.
pub(crate) struct MachOFunctions {
    /// First addresses, ascending.
    starts: Vec<u32>,
    sections: Vec<CodeSection>,
    base_svma: u64,
}

impl MachOFunctions {
    /// Reads the list of functions. Without a list, the result has none.
    pub(crate) fn read(object: &MachO, file: &dyn ReadAt) -> MachOFunctions {
        let mut starts = object.function_starts(file);
        starts.shrink_to_fit();
        MachOFunctions {
            starts,
            sections: object.code.clone(),
            base_svma: object.base_svma,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.starts.len() * size_of::<u32>()
    }

    /// The section of code that holds an address.
    pub(crate) fn section(&self, relative: u64) -> Option<&CodeSection> {
        let svma = self.base_svma.checked_add(relative)?;
        self.sections.iter().find(|section| section.range.contains(&svma))
    }

    /// The function that holds an address, up to the next function or to the end of the section. `None` outside of
    /// functions.
    pub(crate) fn at(&self, relative: u64) -> Option<Range<u64>> {
        let next = self.starts.partition_point(|start| u64::from(*start) <= relative);
        let start = u64::from(*self.starts.get(next.checked_sub(1)?)?);
        let section = self.section(relative).filter(|section| !section.is_stubs)?;
        let start_svma = self.base_svma.checked_add(start)?;
        section.range.contains(&start_svma).then_some(())?;
        let end = section.range.end.checked_sub(self.base_svma)?;
        Some(start..self.starts.get(next).map_or(end, |next| end.min(u64::from(*next))))
    }

    /// The start of the first function above an address.
    pub(crate) fn next_start(&self, relative: u64) -> Option<u64> {
        let next = self.starts.partition_point(|start| u64::from(*start) <= relative);
        self.starts.get(next).map(|start| u64::from(*start))
    }

    /// All functions, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = Range<u64>> {
        self.starts.iter().filter_map(|start| self.at(u64::from(*start)))
    }
}
