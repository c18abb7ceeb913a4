//! `.debug_aranges`: the address ranges of units.

use gimli::{ArangeHeader, UnitHeader};

use super::budget::Flaw;
use super::store::Slice;

/// Padding between two functions is shorter: they are aligned to at most 16 bytes.
const MAX_PADDING: u64 = 16;

/// The lists of all units, by unit. Usually a unit has one.
pub(super) struct Aranges<'a> {
    lists: Vec<(usize, ArangeHeader<Slice<'a>>)>,
    lowest_code: u64,
}

impl<'a> Aranges<'a> {
    /// Reads the headers of the lists, up to a damaged one. No code lies below `lowest_code`.
    pub(super) fn read(dwarf: &gimli::Dwarf<Slice<'a>>, lowest_code: u64, flaws: &mut Vec<Flaw>) -> Aranges<'a> {
        let mut lists = Vec::new();
        let mut headers = dwarf.debug_aranges.headers();
        while let Some(header) = headers.next().unwrap_or_else(|error| {
            flaws.push(error.into());
            None
        }) {
            lists.push((header.debug_info_offset().0, header));
        }
        lists.sort_by_key(|(unit, _)| *unit);
        Aranges { lists, lowest_code }
    }

    /// Calls `each` with each range [begin, end) of a unit, without damaged ranges and ranges of code that the linker
    /// dropped.
    pub(super) fn for_each(&self, unit: &UnitHeader<Slice<'a>>, mut each: impl FnMut(u64, u64)) {
        let Some(offset) = unit.debug_info_offset() else { return };
        let from = self.lists.partition_point(|(unit, _)| *unit < offset.0);
        for (_, list) in self.lists[from..].iter().take_while(|(unit, _)| *unit == offset.0) {
            let mut entries = list.entries();
            // A damaged entry ends nothing but itself, or the list.
            while let Some(entry) = entries.next().transpose() {
                let Ok(range) = entry.map(|entry| entry.range()) else {
                    continue;
                };
                if (self.lowest_code..range.end).contains(&range.begin) {
                    each(range.begin, range.end);
                }
            }
        }
    }

    /// [`Aranges::for_each`], with functions that lie side by side in one range. A debug build of 182 MB has 98,000
    /// functions in 1,800 ranges.
    pub(super) fn runs(&self, unit: &UnitHeader<Slice<'a>>, mut each: impl FnMut(u64, u64)) {
        let mut run: Option<(u64, u64)> = None;
        self.for_each(unit, |begin, end| match &mut run {
            Some((_, until)) if (*until..until.saturating_add(MAX_PADDING)).contains(&begin) => *until = end,
            _ => {
                if let Some((begin, end)) = run.replace((begin, end)) {
                    each(begin, end);
                }
            }
        });
        if let Some((begin, end)) = run {
            each(begin, end);
        }
    }
}
