//! Reading ranges of a file.

use std::io;

use recording::sink::ReadAt;

/// Why a file has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// It can't be read, or ends too early.
    #[error("cannot read the code signature: {0}")]
    Io(#[from] io::Error),
    /// It is of another kind, for example a script.
    #[error("it is not a Mach-O file")]
    NotMachO,
    /// It contradicts itself.
    #[error("its code signature is malformed: {0}")]
    Malformed(&'static str),
}

/// A range of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileRange {
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl FileRange {
    /// A part of it, which begins and ends within.
    pub(super) fn part(self, offset: u32, len: u64) -> Result<FileRange, SignatureError> {
        let end = u64::from(offset).checked_add(len);
        if end.is_none_or(|end| end > self.len) {
            return Err(SignatureError::Malformed("a blob does not lie in its signature"));
        }
        Ok(FileRange {
            offset: self.offset.saturating_add(u64::from(offset)),
            len,
        })
    }
}

pub(super) fn bytes<const N: usize>(file: &dyn ReadAt, offset: u64) -> Result<[u8; N], SignatureError> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// The big-endian number at this offset of a header; 0 beyond its end.
pub(super) fn be32(header: &[u8], at: usize) -> u32 {
    let bytes = header.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
