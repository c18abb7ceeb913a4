//! Samples of a long recording in a file, instead of in memory.
//!
//! A thread writes the file: a write may wait for the disk, and meanwhile the recorder's rings would overflow.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Most blocks that wait for the disk. Further ones stay in memory.
const WAITING_BLOCKS: usize = 64;

/// Bytes that are written at once: some 2,000 samples. 200 threads have 3 MB in memory.
const SPILL_BYTES: usize = 16 << 10;
/// Room for the last row of a block, reserved in advance: at most seven numbers of ten bytes.
const ROW_BYTES: usize = 70;

/// Bytes whose beginning may be in a file.
#[derive(Clone, Default)]
pub(crate) struct SpillableBytes {
    /// The first bytes, while they are in a file. [`SpillableBytes::read_back`] ends that.
    pub(super) spilled: Vec<SpilledBlock>,
    last: Vec<u8>,
}

impl SpillableBytes {
    /// The bytes that are in memory, to append to.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }

    /// All bytes. They have been read back.
    pub(crate) fn all(&self) -> &[u8] {
        debug_assert!(self.spilled.is_empty(), "bytes were not read back");
        &self.last
    }

    /// Moves the bytes so far into the file, if they are many.
    pub(crate) fn spill(&mut self, file: &mut SpillFile) {
        if self.last.len() >= SPILL_BYTES
            && let Some(block) = file.take(&mut self.last)
        {
            self.spilled.push(block);
            self.last.reserve(SPILL_BYTES + ROW_BYTES);
        }
    }

    /// Reads what is in the file into memory again.
    ///
    /// # Errors
    ///
    /// The file can't be read. All is as before.
    pub(crate) fn read_back(&mut self, file: &SpilledFile) -> io::Result<()> {
        if !self.spilled.is_empty() {
            self.last = file.read(&self.spilled, &self.last)?;
            self.spilled.clear();
        }
        Ok(())
    }
}

/// A file that is to be written.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: Option<File>,
    /// From the first block on. The thread has the signal mask of the one that records, which is set by then.
    writer: Option<(SyncSender<Vec<u8>>, JoinHandle<SpilledFile>)>,
    end: u64,
}

/// A part of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpilledBlock {
    offset: u64,
    bytes: usize,
}

impl SpillFile {
    /// Takes an empty file.
    pub(crate) fn new(file: File) -> SpillFile {
        SpillFile {
            file: Some(file),
            writer: None,
            end: 0,
        }
    }

    /// Takes a block, to be written behind the others. It stays where it is if too many wait for the disk.
    fn take(&mut self, bytes: &mut Vec<u8>) -> Option<SpilledBlock> {
        if let Some(file) = self.file.take() {
            let (sender, blocks) = sync_channel(WAITING_BLOCKS);
            let thread = std::thread::Builder::new().name("sprof-spill".into());
            // Without a thread all stays in memory.
            let thread = thread.spawn(move || write(file, &blocks)).ok()?;
            self.writer = Some((sender, thread));
        }
        let (sender, _) = self.writer.as_ref()?;
        let block = SpilledBlock {
            offset: self.end,
            bytes: bytes.len(),
        };
        match sender.try_send(std::mem::take(bytes)) {
            Ok(()) => {
                self.end += block.bytes as u64;
                Some(block)
            }
            Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                *bytes = back;
                None
            }
        }
    }

    /// Waits until all is written.
    pub(crate) fn finish(self) -> SpilledFile {
        let written = self.writer.and_then(|(sender, thread)| {
            drop(sender);
            thread.join().ok()
        });
        written.unwrap_or_default()
    }
}

/// Writes blocks, one after the other, until no more come.
fn write(file: File, blocks: &Receiver<Vec<u8>>) -> SpilledFile {
    let (mut written, mut unwritten) = (0, Vec::new());
    for block in blocks {
        // On a full disk all that comes stays in memory.
        if unwritten.is_empty() && file.write_all_at(&block, written).is_ok() {
            written += block.len() as u64;
        } else {
            unwritten.extend(block);
        }
    }
    SpilledFile {
        file: Some(file),
        written,
        unwritten,
    }
}

/// All blocks.
#[derive(Debug, Default)]
pub(crate) struct SpilledFile {
    file: Option<File>,
    written: u64,
    /// Bytes behind the written ones, which stay in memory.
    unwritten: Vec<u8>,
}

impl SpilledFile {
    /// The bytes of some blocks, and `rest` behind them.
    ///
    /// # Errors
    ///
    /// The file can't be read.
    fn read(&self, blocks: &[SpilledBlock], rest: &[u8]) -> io::Result<Vec<u8>> {
        let bytes: usize = blocks.iter().map(|block| block.bytes).sum();
        let mut all = Vec::with_capacity(bytes + rest.len());
        for block in blocks {
            match block.offset.checked_sub(self.written) {
                Some(behind) => {
                    let part = self
                        .unwritten
                        .get(behind as usize..)
                        .and_then(|part| part.get(..block.bytes));
                    all.extend_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
                }
                None => {
                    let start = all.len();
                    all.resize(start + block.bytes, 0);
                    let file = self.file.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?;
                    file.read_exact_at(&mut all[start..], block.offset)?;
                }
            }
        }
        all.extend_from_slice(rest);
        Ok(all)
    }
}
