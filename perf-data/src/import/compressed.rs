//! Compressed records (`perf record -z`): one zstd stream for the whole file, in pieces that end at any place.

use std::io;

use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Bytes of decompressed data for each compressed one that are believed. Stack dumps reach 130; zeros would reach
/// 20,000.
const MAX_RATIO: u64 = 4096;
/// The first bytes may be of any ratio.
const FREE_BYTES: u64 = 64 << 20;

/// The decompressed stream. Whole records are taken from its front.
pub(super) struct Decompressor {
    context: DCtx<'static>,
    output: Box<[u8]>,
    read: u64,
    written: u64,
}

impl Decompressor {
    pub(super) fn new() -> io::Result<Decompressor> {
        let context = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Decompressor {
            context,
            output: vec![0; 1 << 17].into(),
            read: 0,
            written: 0,
        })
    }

    /// Decompresses one piece onto the end of `plain`, as far as `plain` has fewer than `limit` bytes. Returns how many
    /// bytes of `piece` were used, and whether that was all of it, with all that it holds.
    pub(super) fn feed(&mut self, piece: &[u8], plain: &mut Vec<u8>, limit: usize) -> io::Result<(usize, bool)> {
        let mut input = InBuffer::around(piece);
        loop {
            let mut output = OutBuffer::around(&mut self.output[..]);
            self.context
                .decompress_stream(&mut output, &mut input)
                .map_err(|error| io::Error::other(zstd_safe::get_error_name(error)))?;
            let written = output.pos();
            plain.extend_from_slice(&self.output[..written]);
            self.written += written as u64;
            // All of the input is read before all of the output is written.
            let done = written < self.output.len() && input.pos() == piece.len();
            if done || plain.len() >= limit {
                self.read += input.pos() as u64;
                return self.check().map(|()| (input.pos(), done));
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        let believed = self.read.saturating_mul(MAX_RATIO).saturating_add(FREE_BYTES);
        match self.written <= believed {
            true => Ok(()),
            false => Err(io::Error::other("its compressed records hold too much")),
        }
    }
}
