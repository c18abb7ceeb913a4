//! Samples of a long recording in a file, instead of in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The file: blocks of all threads, one after the other.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: File,
    end: u64,
    /// A block could not be written. What comes stays in memory.
    is_closed: bool,
}

/// A part of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    offset: u64,
    bytes: usize,
}

impl SpillFile {
    /// Takes an empty file.
    pub(crate) fn new(file: File) -> SpillFile {
        SpillFile {
            file,
            end: 0,
            is_closed: false,
        }
    }

    /// Writes a block. `None` if the file takes no more, because the disk is full, for example.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Option<Block> {
        if self.is_closed {
            return None;
        }
        let offset = self.end;
        if self.file.write_all_at(bytes, offset).is_err() {
            self.is_closed = true;
            return None;
        }
        self.end += bytes.len() as u64;
        Some(Block {
            offset,
            bytes: bytes.len(),
        })
    }

    /// The bytes of some blocks, and `rest` behind them.
    ///
    /// # Errors
    ///
    /// The file can't be read.
    pub(crate) fn read(&self, blocks: &[Block], rest: &[u8]) -> io::Result<Vec<u8>> {
        let written: usize = blocks.iter().map(|block| block.bytes).sum();
        let mut all = Vec::with_capacity(written + rest.len());
        for block in blocks {
            let start = all.len();
            all.resize(start + block.bytes, 0);
            self.file.read_exact_at(&mut all[start..], block.offset)?;
        }
        all.extend_from_slice(rest);
        Ok(all)
    }
}
