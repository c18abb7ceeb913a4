//! A streaming JSON parser for serde, fast for columns of short numbers, which are most of a profile. Skipped values
//! are checked too.
//!
//! 1. `input`: blocks of the file, the position in them, and white space.
//! 2. `number`, `text`: the two kinds of value with a length.
//! 3. `skip`: values without a reader.
//! 4. `de`: serde's interface.
//!
//! Measured with the examples `large` and `whole` of `profile`, on 2 CPUs, five runs each. Of 584 MB of JSON with 24
//! million samples and 3.5 million call paths, a report took 0.66 to 1.17 times (median 0.84) as long as gunzip with
//! serde_json's scan of the stream, and 0.93 to 1.73 times (1.16) as long as both with the whole file in memory. Of 674
//! MB in samply's shape it was 1.00 to 1.47 (1.06) and 1.08 to 2.11 (1.34). `sprof report` of the first took 2.2 to 2.6
//! s, and on a busy machine, where inflating has no CPU of its own, up to 2.5 times that. Reading keeps 1.5 to 1.9
//! times the memory of the columns.

mod de;
mod error;
mod input;
mod number;
mod skip;
#[cfg(test)]
mod tests;
mod text;

use serde::de::DeserializeSeed;

pub(super) use error::{Error, ParseFault, ReadLimit, Result};
pub(super) use input::{Blocks, InputBlock};

use super::{DISPROPORTIONATE, ReadLimits, proportionate_bytes};
use input::JsonInput;

/// Deepest nesting. No profile has more. Each open bracket takes a byte.
const MAX_DEPTH: usize = 1000;
/// Deepest nesting of values that are read: each level takes stack.
const MAX_READ_DEPTH: usize = 128;

/// A parser of one JSON value.
pub(super) struct Parser<'a> {
    input: JsonInput<'a>,
    /// A text or number that spans two blocks or has escapes.
    scratch: Vec<u8>,
    /// Closing brackets of the skipped value.
    closers: Vec<u8>,
    /// Nesting of the value that is read.
    depth: usize,
    values: u64,
    max_values: u64,
    /// Bytes of list elements and texts returned so far, and the amount at which `may_keep` checks the limit again.
    kept_bytes: u64,
    allowed_bytes: u64,
    max_text_bytes: u64,
}

impl<'a> Parser<'a> {
    pub(super) fn new(blocks: &'a mut dyn Blocks, limits: ReadLimits) -> Self {
        Parser {
            input: JsonInput::new(blocks, limits.json_bytes),
            scratch: Vec::new(),
            closers: Vec::new(),
            depth: 0,
            values: 0,
            max_values: limits.values,
            kept_bytes: 0,
            allowed_bytes: 0,
            // The buffer doubles as it grows, and a copy is returned.
            max_text_bytes: limits.memory_bytes / 8,
        }
    }

    /// The whole input as one value.
    pub(super) fn read<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        let value = seed.deserialize(&mut *self)?;
        match self.input.token()? {
            _ if self.input.is_at_end() => Ok(value),
            _ => Err(self.wrong("trailing characters")),
        }
    }

    /// Bytes of JSON consumed so far.
    pub(super) fn bytes(&self) -> u64 {
        self.input.taken()
    }

    /// An error: the next byte is not an expected one.
    #[cold]
    fn wrong(&self, what: &'static str) -> Error {
        let why = match self.input.is_at_end() {
            true => ParseFault::End,
            false => ParseFault::Syntax(what),
        };
        Error::new(why).at(self.input.next_place())
    }

    #[cold]
    fn limit(&self, what: &'static str, bytes: u64) -> Error {
        Error::new(ParseFault::Limit(ReadLimit { what, bytes })).at(self.input.next_place())
    }

    /// Counts a comma: one more value in a list or object.
    fn count_value(&mut self) -> Result<()> {
        self.values += 1;
        match self.values > self.max_values {
            true => Err(self.limit("its number of values", self.max_values)),
            false => Ok(()),
        }
    }

    /// Counts additional bytes that the caller keeps. In a list of structures, `{}` takes two bytes of the file and a
    /// thousand in memory.
    #[inline]
    fn keep(&mut self, bytes: usize) -> Result<()> {
        self.kept_bytes += bytes as u64;
        match self.kept_bytes > self.allowed_bytes {
            true => self.may_keep(),
            false => Ok(()),
        }
    }

    #[cold]
    fn may_keep(&mut self) -> Result<()> {
        self.allowed_bytes = proportionate_bytes(self.input.taken());
        match self.kept_bytes > self.allowed_bytes {
            true => Err(self.limit(DISPROPORTIONATE, self.allowed_bytes)),
            false => Ok(()),
        }
    }

    fn check_depth(&self, depth: usize) -> Result<()> {
        match depth > MAX_DEPTH {
            true => Err(self.limit("its nesting of brackets", MAX_DEPTH as u64)),
            false => Ok(()),
        }
    }

    /// Goes past `true`, `false` or `null`.
    fn literal(&mut self, literal: &'static [u8]) -> Result<()> {
        for byte in literal {
            if self.input.peek()? != *byte {
                return Err(self.wrong("expected value"));
            }
            self.input.bump();
        }
        Ok(())
    }
}
