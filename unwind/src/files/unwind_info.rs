//! Looks up entries of `__unwind_info`, as `<mach-o/compact_unwind_encoding.h>` describes it: pages of entries, behind
//! an index of pages.
//!
//! The published reader, macho-unwind-info 0.5, panics on indices and offsets that lead out of the section.

use recording::little_endian::{u16_at, u32_at};

/// `UNWIND_SECTION_VERSION`
const VERSION: u32 = 1;
const INDEX_ENTRY: usize = 12;
const SECOND_LEVEL_REGULAR: u32 = 2;
const SECOND_LEVEL_COMPRESSED: u32 = 3;

/// An entry. Linkers make one entry of neighbouring functions with equal encodings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompactEntry {
    /// Relative start address. The entry holds up to the next entry's start.
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) encoding: u32,
}

/// The section `__unwind_info`.
pub(crate) struct UnwindInfo {
    bytes: Box<[u8]>,
}

impl UnwindInfo {
    /// `None` for another version.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<UnwindInfo> {
        (u32_at(&bytes, 0) == Some(VERSION)).then(|| UnwindInfo { bytes: bytes.into() })
    }

    /// The entry that holds a relative address. `None` if there is none, or if it can't be read.
    pub(crate) fn find(&self, relative: u32) -> Option<CompactEntry> {
        let index = usize::try_from(u32_at(&self.bytes, 20)?).ok()?;
        let count = usize::try_from(u32_at(&self.bytes, 24)?).ok()?;
        let page = |at: usize, field: usize| {
            u32_at(
                &self.bytes,
                index.checked_add(at.checked_mul(INDEX_ENTRY)?)?.checked_add(field)?,
            )
        };
        // The last page is the end of the others.
        let at = last_at_or_below(count, relative, |at| page(at, 0))?;
        let (first, next) = (page(at, 0)?, page(at + 1, 0).filter(|_| at + 1 < count)?);
        let page_at = usize::try_from(page(at, 4)?).ok().filter(|at| *at != 0)?;
        let page = self.bytes.get(page_at..)?;
        let (entries_at, count) = (usize::from(u16_at(page, 4)?), usize::from(u16_at(page, 6)?));
        let word = |at: usize, size: usize| u32_at(page, entries_at + at * size);
        let (start, end, encoding) = match u32_at(page, 0)? {
            SECOND_LEVEL_REGULAR => {
                let at = last_at_or_below(count, relative, |at| word(at, 8))?;
                let end = word(at + 1, 8).filter(|_| at + 1 < count).unwrap_or(next);
                (word(at, 8)?, end, u32_at(page, entries_at + at * 8 + 4)?)
            }
            SECOND_LEVEL_COMPRESSED => {
                // The upper 8 bits are the encoding. The others are an offset from the page's first address.
                let start = |at| first.checked_add(word(at, 4)? & 0xff_ffff);
                let at = last_at_or_below(count, relative, start)?;
                let end = start(at + 1).filter(|_| at + 1 < count).unwrap_or(next);
                (start(at)?, end, self.encoding(page, (word(at, 4)? >> 24) as usize)?)
            }
            _ => return None,
        };
        (start..end)
            .contains(&relative)
            .then_some(CompactEntry { start, end, encoding })
    }

    /// An encoding by its number: the common encodings come first, then those of the page.
    fn encoding(&self, page: &[u8], at: usize) -> Option<u32> {
        let (common_at, common) = (u32_at(&self.bytes, 4)?, usize::try_from(u32_at(&self.bytes, 8)?).ok()?);
        match at.checked_sub(common) {
            None => u32_at(self.bytes.get(usize::try_from(common_at).ok()?..)?, at * 4),
            Some(own) if own < usize::from(u16_at(page, 10)?) => u32_at(page, usize::from(u16_at(page, 8)?) + own * 4),
            Some(_) => None,
        }
    }
}

/// Index of the last of `count` ascending values that is not above `wanted`.
fn last_at_or_below(count: usize, wanted: u32, value: impl Fn(usize) -> Option<u32>) -> Option<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        // A value behind the section counts as the largest.
        match value(middle).is_some_and(|value| value <= wanted) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low.checked_sub(1)
}
