//! Stands between a file and the JSON parser, and stops what would make the parser use memory without bound.

use std::io::{self, Read};

use super::ReadLimits;

/// Nesting that no profile has. The parser keeps a byte for each open bracket.
const MAX_DEPTH: u32 = 1000;

/// The limit that was hit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) what: &'static str,
    pub(super) bytes: u64,
}

/// Passes bytes on, following the JSON only as far as to know strings and nesting.
pub(super) struct Guard<R> {
    inner: R,
    bytes: u64,
    max_bytes: u64,
    in_string: bool,
    escaped: bool,
    string_bytes: u64,
    max_string_bytes: u64,
    depth: u32,
    values: u64,
    max_values: u64,
    tripped: Option<Limit>,
}

impl<R: Read> Guard<R> {
    pub(super) fn new(inner: R, limits: ReadLimits) -> Self {
        Guard {
            inner,
            bytes: 0,
            max_bytes: limits.json_bytes,
            in_string: false,
            escaped: false,
            string_bytes: 0,
            // The parser's buffer doubles while it grows, and hands out a copy.
            max_string_bytes: limits.memory_bytes / 8,
            depth: 0,
            values: 0,
            max_values: limits.values,
            tripped: None,
        }
    }

    /// Bytes passed on.
    pub(super) fn passed(&self) -> u64 {
        self.bytes
    }

    pub(super) fn tripped(&self) -> Option<Limit> {
        self.tripped
    }

    fn trip(&mut self, what: &'static str, bytes: u64) -> io::Error {
        self.tripped = Some(Limit { what, bytes });
        io::Error::other(what)
    }

    fn follow(&mut self, bytes: &[u8]) -> io::Result<()> {
        for &byte in bytes {
            if self.in_string {
                self.string_bytes += 1;
                if self.string_bytes > self.max_string_bytes {
                    return Err(self.trip("one string of it", self.max_string_bytes));
                }
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.string_bytes = 0;
                }
                b'[' | b'{' => {
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Err(self.trip("its nesting of brackets", u64::from(MAX_DEPTH)));
                    }
                }
                b',' => {
                    self.values += 1;
                    if self.values > self.max_values {
                        return Err(self.trip("its number of values", self.max_values));
                    }
                }
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        if self.bytes > self.max_bytes {
            return Err(self.trip("its JSON", self.max_bytes));
        }
        self.follow(&buffer[..read])?;
        Ok(read)
    }
}
