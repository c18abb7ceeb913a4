//! Pieces of a file, read by offset and never mapped. Every size in a file is a claim: it is checked against the file's
//! length and a limit before anything is allocated.

use recording::sink::ReadAt;

use crate::files::huge_pages::TableBytes;

/// Unwind sections: the largest seen (a debug build of a browser) is 130 MB.
const MAX_SECTION: u64 = 1 << 30;

/// A piece of the file and the address that the file states for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSlice {
    pub(crate) svma: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl FileSlice {
    /// The file offset of an address in this piece, and the number of bytes from there to its end. `None` if the
    /// address is outside.
    pub(crate) fn offset_of(&self, svma: u64) -> Option<(u64, u64)> {
        let into = svma.checked_sub(self.svma)?;
        let rest = self.size.checked_sub(into).filter(|rest| *rest > 0)?;
        Some((self.offset.checked_add(into)?, rest))
    }

    /// The part of this piece from an address to its end.
    pub(crate) fn rest_from(&self, svma: u64) -> Option<FileSlice> {
        let (offset, size) = self.offset_of(svma)?;
        Some(FileSlice { svma, offset, size })
    }
}

/// Reads a piece of the file as far as it is there.
pub(crate) fn read_slice(file: &dyn ReadAt, piece: FileSlice) -> Option<Vec<u8>> {
    read_range(file, piece.offset, piece.size, MAX_SECTION)
}

/// Reads a piece of the file that will be searched at random addresses.
pub(crate) fn read_table(file: &dyn ReadAt, piece: FileSlice) -> Option<TableBytes> {
    let mut bytes = TableBytes::new(checked_len(file, piece.offset, piece.size, MAX_SECTION)?);
    file.read_exact_at(&mut bytes, piece.offset).ok()?;
    Some(bytes)
}

/// Reads a range of the file. `None` if it is larger than `limit`, or not all there.
pub(crate) fn read_range(file: &dyn ReadAt, offset: u64, size: u64, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; checked_len(file, offset, size, limit)?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn checked_len(file: &dyn ReadAt, offset: u64, size: u64, limit: u64) -> Option<usize> {
    let is_there = size <= limit && offset.checked_add(size)? <= file.len();
    usize::try_from(size).ok().filter(|_| is_there)
}
