//! The inflated bytes of a file, within limits.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;

use super::encoding::Encoding;
use super::zstandard::{self, ZstdReader};
use super::{FilePosition, ReadError, ReadLimits};
use crate::read::error::io_error;
use crate::read::{DISPROPORTIONATE, open_regular, proportionate_bytes, read_up_to};

/// Longest line: a hundred generated names of ten thousand characters.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;
/// Bytes that show the encoding of a text.
const ENCODING_BYTES: usize = 4096;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packed {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// A file that can be read several times.
pub(super) struct ForeignFile {
    pub(super) path: PathBuf,
    pub(super) limits: ReadLimits,
    pub(super) packed: Option<Packed>,
    file: File,
    encoding: Encoding,
    /// The largest number of inflated bytes read so far.
    has_bytes: Cell<u64>,
}

impl ForeignFile {
    pub(super) fn open(path: &Path, limits: ReadLimits) -> Result<ForeignFile, ReadError> {
        let unreadable = |source| ReadError::Open {
            path: path.to_owned(),
            source,
        };
        let mut file = open_regular(path)?;
        let mut start = [0u8; 4];
        let len = read_up_to(&mut file, &mut start).map_err(unreadable)?;
        let mut source = ForeignFile {
            path: path.to_owned(),
            limits,
            packed: match &start[..len] {
                // RFC 1952, section 2.3.1.
                [0x1f, 0x8b, ..] => Some(Packed::Gzip),
                start if *start == zstandard::MAGIC => Some(Packed::Zstd),
                _ => None,
            },
            file,
            encoding: Encoding::PLAIN,
            has_bytes: Cell::new(0),
        };
        source.encoding = source
            .start(ENCODING_BYTES)
            .map_or(Encoding::PLAIN, |start| Encoding::detect(&start));
        Ok(source)
    }

    /// The first bytes, up to this number.
    pub(super) fn start(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut start = Vec::new();
        let mut reader = self.read().ok()?;
        let read = (&mut reader.inner).take(bytes as u64).read_to_end(&mut start);
        // The start of a damaged file is still enough to identify its format.
        (read.is_ok() || !start.is_empty()).then_some(start)
    }

    /// Like [`ForeignReader::keeps`], when the file was read.
    pub(super) fn keeps(&self, values: u64) -> Result<(), ReadError> {
        check_kept(&self.path, self.limits, self.has_bytes.get(), values)
    }

    /// A reader from the start.
    pub(super) fn read(&mut self) -> Result<ForeignReader<'_>, ReadError> {
        let unreadable = |source| ReadError::Open {
            path: self.path.clone(),
            source,
        };
        self.file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        let raw_bytes = Rc::new(Cell::new(0));
        let raw = CountedBytes {
            inner: &mut self.file,
            bytes: Rc::clone(&raw_bytes),
        };
        Ok(ForeignReader {
            path: &self.path,
            limits: self.limits,
            packed: self.packed,
            inner: match self.packed {
                Some(Packed::Gzip) => self.encoding.utf8(MultiGzDecoder::new(BufReader::new(raw))),
                Some(Packed::Zstd) => {
                    let inflated = ZstdReader::new(BufReader::new(raw)).map_err(unreadable)?;
                    self.encoding.utf8(inflated)
                }
                None => self.encoding.utf8(raw),
            },
            raw_bytes,
            bytes: 0,
            lines: 0,
            has_bytes: &self.has_bytes,
        })
    }
}

impl Packed {
    fn name(self) -> &'static str {
        match self {
            Packed::Gzip => "gzip",
            Packed::Zstd => "zstd",
        }
    }
}

fn check_kept(path: &Path, limits: ReadLimits, bytes: u64, values: u64) -> Result<(), ReadError> {
    let proportionate = proportionate_bytes(bytes);
    if values > limits.values {
        return Err(too_large(path, "its number of values", limits.values));
    }
    match values.saturating_mul(8) > proportionate {
        true => Err(too_large(path, DISPROPORTIONATE, proportionate)),
        false => Ok(()),
    }
}

fn too_large(path: &Path, what: &'static str, limit_bytes: u64) -> ReadError {
    ReadError::TooLarge {
        path: path.to_owned(),
        what,
        limit_bytes,
    }
}

struct CountedBytes<'a> {
    inner: &'a mut File,
    bytes: Rc<Cell<u64>>,
}

impl Read for CountedBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

/// Reads a file once, and counts bytes and lines.
pub(super) struct ForeignReader<'a> {
    path: &'a Path,
    limits: ReadLimits,
    packed: Option<Packed>,
    inner: Box<dyn BufRead + 'a>,
    raw_bytes: Rc<Cell<u64>>,
    /// Inflated bytes read so far.
    bytes: u64,
    lines: u64,
    has_bytes: &'a Cell<u64>,
}

impl ForeignReader<'_> {
    /// Inflated bytes read so far.
    pub(super) fn at(&self) -> u64 {
        self.bytes
    }

    /// The number of the last line, from 1.
    pub(super) fn line_number(&self) -> u64 {
        self.lines
    }

    /// The next byte; `None` at the end.
    pub(super) fn byte(&mut self) -> Result<Option<u8>, ReadError> {
        let byte = match self.inner.fill_buf() {
            Ok(buffer) => buffer.first().copied(),
            Err(error) => return Err(self.failed(error)),
        };
        if byte.is_some() {
            self.inner.consume(1);
            self.passed(1)?;
        }
        Ok(byte)
    }

    /// Reads some bytes; 0 at the end.
    pub(super) fn some(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let read = self.inner.read(buffer).map_err(|error| self.failed(error))?;
        self.passed(read as u64)?;
        Ok(read)
    }

    /// Reads this many bytes into an empty buffer. False if there are fewer.
    pub(super) fn bytes(&mut self, count: u64, buffer: &mut Vec<u8>) -> Result<bool, ReadError> {
        buffer.clear();
        match (&mut self.inner).take(count).read_to_end(buffer) {
            Ok(read) => {
                self.passed(read as u64)?;
                Ok(read as u64 == count)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Skips this many bytes. False if there are fewer.
    pub(super) fn skip(&mut self, count: u64) -> Result<bool, ReadError> {
        match io::copy(&mut (&mut self.inner).take(count), &mut io::sink()) {
            Ok(read) => {
                self.passed(read)?;
                Ok(read == count)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The next line without its end. False at the end of the file.
    pub(super) fn line(&mut self, line: &mut Vec<u8>) -> Result<bool, ReadError> {
        line.clear();
        let read = (&mut self.inner)
            .take(MAX_LINE_BYTES as u64 + 1)
            .read_until(b'\n', line);
        let read = read.map_err(|error| self.failed(error))?;
        self.passed(read as u64)?;
        if read == 0 {
            return Ok(false);
        }
        self.lines += 1;
        if read > MAX_LINE_BYTES {
            return Err(self.too_large("one line of it", MAX_LINE_BYTES as u64));
        }
        while line.last().is_some_and(|last| b"\r\n".contains(last)) {
            line.pop();
        }
        Ok(true)
    }

    fn passed(&mut self, bytes: u64) -> Result<(), ReadError> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.has_bytes.set(self.has_bytes.get().max(self.bytes));
        match self.bytes > self.limits.json_bytes {
            true => Err(self.too_large("its content", self.limits.json_bytes)),
            false => Ok(()),
        }
    }

    /// Checks that this many kept values of 8 bytes are within the limit and in proportion to the bytes read.
    pub(super) fn keeps(&self, values: u64) -> Result<(), ReadError> {
        check_kept(self.path, self.limits, self.has_bytes.get(), values)
    }

    pub(super) fn too_large(&self, what: &'static str, limit_bytes: u64) -> ReadError {
        too_large(self.path, what, limit_bytes)
    }

    fn failed(&self, error: io::Error) -> ReadError {
        io_error(self.path, self.packed.map(Packed::name), self.raw_bytes.get(), error)
    }

    /// An error at this byte.
    pub(super) fn wrong_at(&self, byte: u64, what: impl Into<String>) -> ReadError {
        ReadError::Damaged {
            path: self.path.to_owned(),
            what: what.into(),
            at: FilePosition::Byte {
                byte,
                is_inflated: self.packed.is_some(),
            },
        }
    }

    /// An error for a file that ends early.
    pub(super) fn cut_off(&self) -> ReadError {
        ReadError::Truncated {
            path: self.path.to_owned(),
            at: FilePosition::Byte {
                byte: self.bytes,
                is_inflated: self.packed.is_some(),
            },
        }
    }

    /// An error in the last line.
    pub(super) fn wrong_line(&self, what: impl Into<String>) -> ReadError {
        ReadError::Damaged {
            path: self.path.to_owned(),
            what: what.into(),
            at: FilePosition::Line { line: self.lines },
        }
    }
}
