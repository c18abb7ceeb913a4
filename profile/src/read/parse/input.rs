//! Blocks of bytes and the parser's position in them.

use std::io::{self, Read};

use super::error::{Error, ParseFault, ReadLimit, Result};
use crate::read::position::FilePosition;

/// Bytes that [`JsonInput::look_ahead`] provides. A value that is cut at a block's end is moved in front of the next
/// block, which has this much room there.
pub(super) const AHEAD: usize = 64;
/// Zeros after a block: eight bytes can be loaded at any position, and the end is a zero byte.
const BEHIND: usize = 8;
/// Large, so that the inflating thread and the parser seldom wait for each other. Not measured against smaller blocks.
const BLOCK_BYTES: usize = 1 << 20;

/// A part of the input.
pub(in crate::read) struct InputBlock {
    bytes: Vec<u8>,
    end: usize,
}

impl InputBlock {
    pub(in crate::read) fn new() -> InputBlock {
        InputBlock {
            bytes: vec![0; AHEAD + BLOCK_BYTES + BEHIND],
            end: AHEAD,
        }
    }

    /// Fills the block as far as possible. Bytes read before an error are kept.
    pub(in crate::read) fn fill(&mut self, mut from: impl Read) -> io::Result<()> {
        self.end = AHEAD;
        let limit = AHEAD + BLOCK_BYTES;
        let filled = loop {
            match from.read(&mut self.bytes[self.end..limit]) {
                Ok(0) => break Ok(()),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.bytes[self.end..self.end + BEHIND].fill(0);
        filled
    }

    pub(in crate::read) fn is_empty(&self) -> bool {
        self.end == AHEAD
    }
}

/// A source of blocks.
pub(in crate::read) trait Blocks {
    /// Exchanges a used block for the next one, which is empty at the end of the input.
    fn next(&mut self, used: InputBlock) -> io::Result<InputBlock>;
}

/// The input from the parser's position.
pub(super) struct JsonInput<'a> {
    blocks: &'a mut dyn Blocks,
    bytes: Vec<u8>,
    at: usize,
    end: usize,
    /// True if no block follows.
    is_last: bool,
    /// Bytes of all blocks up to `end`.
    taken: u64,
    max_bytes: u64,
    /// Line breaks occur only in white space, where they are counted.
    line: usize,
    line_start: u64,
}

impl<'a> JsonInput<'a> {
    pub(super) fn new(blocks: &'a mut dyn Blocks, max_bytes: u64) -> Self {
        let InputBlock { bytes, end } = InputBlock::new();
        JsonInput {
            blocks,
            bytes,
            at: end,
            end,
            is_last: false,
            taken: 0,
            max_bytes,
            line: 1,
            line_start: 0,
        }
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// The next byte that is not white space, without consuming it; 0 at the end.
    #[inline]
    pub(super) fn token(&mut self) -> Result<u8> {
        match self.bytes[self.at] {
            byte if byte > b' ' => Ok(byte),
            _ => self.token_after_space(),
        }
    }

    fn token_after_space(&mut self) -> Result<u8> {
        loop {
            let byte = self.peek()?;
            match byte {
                b' ' | b'\t' | b'\r' => {}
                b'\n' => {
                    self.line += 1;
                    self.line_start = self.offset() + 1;
                }
                _ => return Ok(byte),
            }
            self.at += 1;
        }
    }

    /// The next byte; 0 at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<u8> {
        if self.at == self.end {
            self.refill()?;
        }
        Ok(self.bytes[self.at])
    }

    /// Consumes a byte that was peeked.
    #[inline]
    pub(super) fn bump(&mut self) {
        self.skip(1);
    }

    /// Consumes bytes that were seen.
    #[inline]
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at = self.end.min(self.at + bytes);
    }

    /// Loads the next [`AHEAD`] bytes, or all remaining bytes.
    #[inline]
    pub(super) fn look_ahead(&mut self) -> Result<()> {
        match self.end - self.at < AHEAD {
            true => self.refill(),
            false => Ok(()),
        }
    }

    /// The loaded bytes from the position.
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..self.end]
    }

    /// Like [`rest`](Self::rest), with at least 8 bytes: zeros follow the end of the input.
    #[inline]
    pub(super) fn rest_padded(&self) -> &[u8] {
        &self.bytes[self.at..self.end + BEHIND]
    }

    /// The last consumed bytes of those that [`rest`](Self::rest) returned.
    #[inline]
    pub(super) fn before(&self, bytes: usize) -> &[u8] {
        &self.bytes[self.at - bytes..self.at]
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.is_last && self.at == self.end
    }

    #[cold]
    fn refill(&mut self) -> Result<()> {
        while !self.is_last && self.end - self.at < AHEAD {
            let mut kept = [0; AHEAD];
            let left = self.end - self.at;
            kept[..left].copy_from_slice(&self.bytes[self.at..self.end]);
            let used = InputBlock {
                bytes: std::mem::take(&mut self.bytes),
                end: self.end,
            };
            let (mut block, failed) = match self.blocks.next(used) {
                Ok(block) => (block, None),
                Err(error) => (InputBlock::new(), Some(error)),
            };
            self.is_last = block.is_empty();
            self.taken += (block.end - AHEAD) as u64;
            self.at = AHEAD - left;
            self.end = block.end;
            block.bytes[self.at..AHEAD].copy_from_slice(&kept[..left]);
            self.bytes = block.bytes;
            if let Some(error) = failed {
                return Err(Error::new(ParseFault::Io(error)).at(self.next_place()));
            }
            if self.taken > self.max_bytes {
                let (what, bytes) = ("its JSON", self.max_bytes);
                return Err(Error::new(ParseFault::Limit(ReadLimit { what, bytes })).at(self.next_place()));
            }
        }
        Ok(())
    }

    /// Bytes before the position.
    fn offset(&self) -> u64 {
        self.taken - (self.end - self.at) as u64
    }

    /// The place of the next byte, or at the end of the last byte.
    pub(super) fn next_place(&self) -> FilePosition {
        self.place(self.offset() + u64::from(!self.is_at_end()))
    }

    /// The place of the last consumed byte.
    pub(super) fn last_place(&self) -> FilePosition {
        self.place(self.offset())
    }

    fn place(&self, bytes: u64) -> FilePosition {
        FilePosition::Json {
            line: self.line,
            column: bytes.saturating_sub(self.line_start) as usize,
        }
    }
}
