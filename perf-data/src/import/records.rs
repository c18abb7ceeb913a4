//! One record after the other, from a file that may end or go wrong anywhere.

use std::io::{self, Read, Seek, SeekFrom};

use crate::abi::record_type;
use crate::decode::{HEADER_BYTES, RecordHeader};

/// How the records of a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordsEnd {
    /// After the last one.
    Whole,
    /// In the middle of one, or before the end that the file's header promises. Bytes that were read.
    CutOff(u64),
    /// The bytes at this place are not a record.
    Damaged(u64),
}

/// Reads records.
#[derive(Debug)]
pub(super) struct RecordReader<R> {
    reader: R,
    at: u64,
    /// One past the last record; `None`: up to the end of the file.
    end: Option<u64>,
    record: Vec<u8>,
}

impl<R: Read + Seek> RecordReader<R> {
    /// Reads from `start` to `end`.
    pub(super) fn new(mut reader: R, start: u64, end: Option<u64>) -> io::Result<Self> {
        reader.seek(SeekFrom::Start(start))?;
        Ok(RecordReader {
            reader,
            at: start,
            end,
            record: Vec::new(),
        })
    }

    /// The next record.
    pub(super) fn next(&mut self) -> io::Result<Result<&[u8], RecordsEnd>> {
        let mut bytes = [0; HEADER_BYTES];
        let size = loop {
            if self.end.is_some_and(|end| self.at >= end) {
                return Ok(Err(RecordsEnd::Whole));
            }
            match read_up_to(&mut self.reader, &mut bytes)? {
                0 if self.end.is_none() => return Ok(Err(RecordsEnd::Whole)),
                HEADER_BYTES => {}
                _ => return Ok(Err(RecordsEnd::CutOff(self.at))),
            }
            let header = RecordHeader::parse(&bytes);
            if header.kind < record_type::FIRST_OF_SIMPLEPERF {
                break usize::from(header.size);
            }
            // Not needed: the sections at the end say the same.
            let size = u64::from(header.misc) << 16 | u64::from(header.size);
            if size < HEADER_BYTES as u64 {
                return Ok(Err(RecordsEnd::Damaged(self.at)));
            }
            self.skip(size)?;
        };
        if size < HEADER_BYTES {
            return Ok(Err(RecordsEnd::Damaged(self.at)));
        }
        self.record.clear();
        self.record.extend_from_slice(&bytes);
        self.record.resize(size, 0);
        if read_up_to(&mut self.reader, &mut self.record[HEADER_BYTES..])? < size - HEADER_BYTES {
            return Ok(Err(RecordsEnd::CutOff(self.at)));
        }
        self.at += size as u64;
        Ok(Ok(&self.record))
    }

    /// Passes over bytes that follow a record without being one.
    pub(super) fn skip(&mut self, bytes: u64) -> io::Result<()> {
        // A place beyond the end of the file is its end; `seek` takes no larger number than this.
        let to = self.at.saturating_add(bytes).min(i64::MAX as u64);
        self.at = self.reader.seek(SeekFrom::Start(to))?;
        Ok(())
    }

    /// Where the next record begins.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// The file again.
    pub(super) fn into_reader(self) -> R {
        self.reader
    }
}

/// Fills the buffer, as far as the file has bytes left.
pub(super) fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
