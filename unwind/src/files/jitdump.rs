//! Records of jitdump files, which JIT compilers write: functions with times, addresses, machine code, lines and unwind
//! rules. See tools/perf/Documentation/jitdump-specification.txt in the Linux sources, and the structures in
//! tools/perf/util/jitdump.h.
//!
//! A compiler may still be writing the file: [`Records`] ends where a record is not whole yet, and can be continued
//! from there.

use std::ops::Range;

use recording::sink::ReadAt;

use recording::little_endian::{u32_at, u64_at};

/// `JiTD` as the writer's processor stores it. Only little-endian dumps are read.
const MAGIC: u32 = 0x4A69_5444;
/// Flag: times are the processor's own counter, which cannot be converted to the clock of the recording.
const FLAG_ARCH_TIMESTAMP: u64 = 1;
const HEADER: usize = 40;
const RECORD_HEADER: u64 = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const CODE_DEBUG_INFO: u32 = 2;
const CODE_CLOSE: u32 = 3;
const CODE_UNWINDING_INFO: u32 = 4;
/// The longest fixed part of a record, with its header: `struct jr_code_move`.
const FIXED: u64 = 64;

/// Facts of a dump.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// `e_machine` of ELF.
    pub machine: u32,
    /// Process that wrote the dump, by its number in its own pid namespace.
    pub pid: u32,
    /// Creation time of the dump, ns.
    pub created_ns: u64,
    /// False if the times cannot be used.
    pub has_times: bool,
    /// Offset of the first record.
    pub end: u64,
}

impl Header {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// The file is shorter than a header, or is not a jitdump of version 1 of a little-endian processor. The text is
    /// for the user.
    pub fn read(file: &dyn ReadAt) -> Result<Header, &'static str> {
        let mut bytes = [0; HEADER];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|_| "shorter than the header of a jitdump")?;
        let word = |at| u32_at(&bytes, at).unwrap_or_default();
        let double = |at| u64_at(&bytes, at).unwrap_or_default();
        if (word(0), word(4)) != (MAGIC, 1) {
            return Err("not a jitdump of version 1 of a little-endian processor");
        }
        Ok(Header {
            machine: word(12),
            pid: word(20),
            created_ns: double(24),
            has_times: double(32) & FLAG_ARCH_TIMESTAMP == 0,
            end: u64::from(word(8)).max(HEADER as u64),
        })
    }
}

/// One record. Ranges are offsets in the dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A function was compiled.
    Load {
        /// Time on the clock of the dump.
        time_ns: u64,
        /// First address.
        start: u64,
        /// Number of the function. Moves refer to the function by this number.
        index: u64,
        /// Range of the name; a 0 byte follows it.
        name: Range<u64>,
        /// The machine code.
        code: Range<u64>,
    },
    /// A function was moved.
    Move {
        /// Time on the clock of the dump.
        time_ns: u64,
        /// First address before.
        old: u64,
        /// First address after.
        new: u64,
        /// Number of the function.
        index: u64,
    },
    /// Lines of the function that the next `Load` record loads: the whole record but its header.
    Lines(Range<u64>),
    /// The `.eh_frame` of the function that the next `Load` record loads.
    Rules(Range<u64>),
    /// A record that is shorter than its own fields say.
    Damaged,
    /// The compiler has closed the dump.
    Close,
    /// A record of another kind.
    Other,
}

/// Reads records one after the other, in larger pieces: most records have a few dozen bytes.
pub struct Records<'f> {
    file: &'f dyn ReadAt,
    file_len: u64,
    /// Offset of the next record.
    at: u64,
    window_bytes: u64,
    window_start: u64,
    window: Vec<u8>,
}

impl<'f> Records<'f> {
    /// Reads records from offset `at` on, up to the present end of the file.
    pub fn new(file: &'f dyn ReadAt, at: u64, window_bytes: u64) -> Records<'f> {
        Records {
            file,
            file_len: file.len(),
            at,
            window_bytes: window_bytes.max(FIXED),
            window_start: 0,
            window: Vec::new(),
        }
    }

    /// Offset of the record that [`Records::next`] reads next.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next record. `None` if the file ends before the record does: a compiler may still write it.
    #[expect(
        clippy::should_implement_trait,
        reason = "the bytes of a record are read between two of them"
    )]
    pub fn next(&mut self) -> Option<Record> {
        let at = self.at;
        let header = self.bytes(at..at.checked_add(RECORD_HEADER)?)?;
        let (kind, size) = (u32_at(header, 0)?, u64::from(u32_at(header, 4)?));
        let end = at.checked_add(size).filter(|end| *end <= self.file_len)?;
        if size < RECORD_HEADER {
            return None;
        }
        self.at = end;
        Some(self.parse(kind, at, end).unwrap_or(Record::Damaged))
    }

    fn parse(&mut self, kind: u32, at: u64, end: u64) -> Option<Record> {
        let fixed = self.bytes(at..end.min(at.saturating_add(FIXED)))?;
        let word = |at| u64_at(fixed, at);
        let time_ns = word(8)?;
        let within = |range: Range<u64>| (range.start <= range.end && range.end <= end).then_some(range);
        Some(match kind {
            // pid, tid, vma, code_addr, code_size, code_index; then the name and the code.
            CODE_LOAD => {
                let code_at = end.checked_sub(word(40)?)?;
                Record::Load {
                    time_ns,
                    start: word(32)?,
                    index: word(48)?,
                    name: within(at + 56..code_at)?,
                    code: code_at..end,
                }
            }
            // pid, tid, vma, old_code_addr, new_code_addr, code_size, code_index.
            CODE_MOVE => Record::Move {
                time_ns,
                old: word(32)?,
                new: word(40)?,
                index: word(56)?,
            },
            CODE_DEBUG_INFO => Record::Lines(at + RECORD_HEADER..end),
            CODE_CLOSE => Record::Close,
            // unwinding_size, eh_frame_hdr_size, mapped_size; then the `.eh_frame` and its index.
            CODE_UNWINDING_INFO => {
                let bytes = word(16)?.checked_sub(word(24)?)?;
                Record::Rules(within(at + 40..(at + 40).checked_add(bytes)?)?)
            }
            _ => Record::Other,
        })
    }

    /// Bytes of the dump. `None` if the range ends behind the dump, or is larger than a window.
    pub fn bytes(&mut self, range: Range<u64>) -> Option<&[u8]> {
        let len = range.end.checked_sub(range.start)?;
        if range.end > self.file_len || len > self.window_bytes {
            return None;
        }
        if range.start < self.window_start || range.end > self.window_start + self.window.len() as u64 {
            let wanted = self.window_bytes.min(self.file_len - range.start);
            self.window.resize(usize::try_from(wanted).ok()?, 0);
            self.window_start = range.start;
            if self.file.read_exact_at(&mut self.window, range.start).is_err() {
                // The file was cut short since its size was read.
                self.window.clear();
                return None;
            }
        }
        let at = usize::try_from(range.start - self.window_start).ok()?;
        self.window.get(at..at + usize::try_from(len).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use recording::sink::InMemory;

    use super::*;

    proptest! {
        // The same cases in each run.
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        /// The reader ends, and every range lies in the file, whatever the bytes and the window are.
        #[test]
        fn hostile_bytes_never_panic(
            mut tail in prop::collection::vec(any::<u8>(), 0..400),
            kinds in prop::collection::vec((0u32..6, 0u32..90), 1..8),
            window_bytes in 0u64..200,
        ) {
            let mut bytes = Vec::new();
            for (kind, size) in kinds {
                bytes.extend(kind.to_le_bytes());
                bytes.extend(size.to_le_bytes());
                bytes.extend(tail.iter().take(60));
                let shift = 7.min(tail.len());
                tail.rotate_left(shift);
            }
            let len = bytes.len() as u64;
            let file = InMemory(bytes);
            let mut records = Records::new(&file, 0, window_bytes);
            while let Some(record) = records.next() {
                let ranges = match record {
                    Record::Load { name, code, .. } => vec![name, code],
                    Record::Lines(range) | Record::Rules(range) => vec![range],
                    _ => Vec::new(),
                };
                prop_assert!(ranges.iter().all(|range| range.start <= range.end && range.end <= records.position()));
                prop_assert!(records.position() <= len);
            }
        }
    }
}
