//! Memory for large tables with random look-ups. In usual pages, each look-up also misses the TLB, which takes as long
//! as the look-up itself, and several times as long on a virtual machine. So tables of 2 MiB and more are in huge
//! pages, where the system has some (Documentation/admin-guide/mm/transhuge.rst; "madvise" is the usual setting).

use std::ops::{Deref, DerefMut, Range};

use memmap2::MmapMut;

/// A huge page of x86_64, and of aarch64 with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// The bytes of a table.
pub(crate) enum TableBytes {
    Heap(Box<[u8]>),
    /// The table's bytes are this range of the mapping.
    Mapped(MmapMut, Range<usize>),
}

impl TableBytes {
    /// `len` bytes that are 0.
    pub(crate) fn new(len: usize) -> TableBytes {
        match mapped(len) {
            Some((map, range)) => TableBytes::Mapped(map, range),
            None => TableBytes::Heap(vec![0; len].into()),
        }
    }
}

/// A mapping for a table, and the table's range in it. `None` if the table is small, or if mmap fails: the heap may
/// still have room.
fn mapped(len: usize) -> Option<(MmapMut, Range<usize>)> {
    if len < HUGE_PAGE {
        return None;
    }
    // Kernels before 6.7 begin a mapping at any page. Untouched pages take no memory.
    let map = MmapMut::map_anon(len.checked_add(HUGE_PAGE)?).ok()?;
    let start = map.as_ptr().addr().wrapping_neg() % HUGE_PAGE;
    // A kernel without huge pages refuses; the table is then in usual pages.
    #[cfg(target_os = "linux")]
    let _ = map.advise_range(memmap2::Advice::HugePage, start, len);
    Some((map, start..start + len))
}

impl Default for TableBytes {
    fn default() -> TableBytes {
        TableBytes::Heap(Box::default())
    }
}

impl From<Vec<u8>> for TableBytes {
    fn from(bytes: Vec<u8>) -> TableBytes {
        TableBytes::Heap(bytes.into())
    }
}

impl Deref for TableBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            TableBytes::Heap(bytes) => bytes,
            TableBytes::Mapped(map, range) => &map[range.clone()],
        }
    }
}

impl DerefMut for TableBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            TableBytes::Heap(bytes) => bytes,
            TableBytes::Mapped(map, range) => &mut map[range.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_bytes_that_it_was_made_for() {
        for len in [0, 1, HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 1, 3 * HUGE_PAGE + 4097] {
            let mut table = TableBytes::new(len);
            assert_eq!(table.len(), len);
            assert!(table.iter().all(|byte| *byte == 0));
            assert_eq!(matches!(table, TableBytes::Mapped(..)), len >= HUGE_PAGE);
            if len >= HUGE_PAGE {
                assert_eq!(table.as_ptr().addr() % HUGE_PAGE, 0);
            }
            table.fill(7);
            assert!(table.iter().all(|byte| *byte == 7));
        }
    }
}
