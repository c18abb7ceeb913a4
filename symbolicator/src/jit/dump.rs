//! The functions and lines of a jitdump file.

use std::ops::Range;

use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use names::v8;
use recording::little_endian::{u32_at, u64_at};
use recording::module::BuildId;
use recording::sink::ReadAt;
use rustc_hash::FxHashMap;
use unwind::jitdump::{Header, Record, Records};

use super::timeline::{self, PlacedCode, Timeline};

/// V8 writes the addresses of lines for the ELF file that `perf inject` makes: behind its header.
const ELF_HEADER: u64 = 0x40;

/// Limits: a browser's or a server's dump has some 100,000 functions with a million lines.
const MAX_FUNCTIONS: usize = 2_000_000;
const MAX_NAMES: usize = 512 << 20;
const MAX_NAME: u64 = 16 << 10;
/// Larger records of lines are left out.
const WINDOW_BYTES: u64 = 256 << 10;
const MAX_LINES: usize = 16_000_000;
/// Longest path of a source file: PATH_MAX of limits.h.
const MAX_PATH: usize = 4096;

/// A jitdump in memory, without the code.
pub(super) struct JitDump {
    header: Header,
    functions: Vec<DumpedFunction>,
    placed: Vec<PlacedCode>,
    names: String,
    lines: Vec<CodeLine>,
    files: Vec<String>,
    left_out: u64,
}

struct DumpedFunction {
    /// Offset of the code in the dump. Ascending.
    offset: u64,
    size: u64,
    /// End of the name in `names`; the name starts at the end of the previous one.
    name_end: usize,
    /// End of the lines in `lines`, likewise.
    lines_end: usize,
}

#[derive(Clone, Copy)]
struct CodeLine {
    /// Bytes from the start of the function.
    offset: u32,
    line: u32,
    /// The discriminator, which V8 and others use for the column.
    column: u32,
    file: u32,
}

impl JitDump {
    /// Reads all whole records. The compiler may still be writing the rest.
    pub(super) fn read(file: &dyn ReadAt) -> Result<JitDump, String> {
        let header = Header::read(file)?;
        let mut dump = JitDump {
            header,
            functions: Vec::new(),
            placed: Vec::new(),
            names: String::new(),
            lines: Vec::new(),
            files: Vec::new(),
            left_out: 0,
        };
        let mut records = Records::new(file, header.end, WINDOW_BYTES);
        // The last function that was loaded under an index, and the lines of the next function.
        let mut by_index: FxHashMap<u64, usize> = FxHashMap::default();
        let mut lines = LineRecord::default();
        while let Some(record) = records.next() {
            let whole = match record {
                Record::Load {
                    time_ns,
                    start,
                    index,
                    name,
                    code,
                } => {
                    let name = name.start..name.end.min(name.start + MAX_NAME);
                    let lines = std::mem::take(&mut lines);
                    let function = dump.functions.len();
                    let loaded = records
                        .bytes(name)
                        .and_then(|name| dump.load(time_ns, start, name, code, &lines));
                    if loaded.is_some() {
                        by_index.insert(index, function);
                    }
                    loaded
                }
                Record::Move {
                    time_ns,
                    old,
                    new,
                    index,
                } => by_index
                    .get(&index)
                    .and_then(|function| dump.move_code(time_ns, old, new, *function)),
                Record::Lines(range) => {
                    let read = records.bytes(range).and_then(LineRecord::read);
                    let whole = read.is_some();
                    lines = read.unwrap_or_default();
                    whole.then_some(())
                }
                Record::Damaged => {
                    lines = LineRecord::default();
                    None
                }
                Record::Close => break,
                Record::Rules(_) | Record::Other => Some(()),
            };
            dump.left_out += u64::from(whole.is_none());
        }
        // Several threads may write records out of order.
        dump.placed.sort_by_key(|placed| placed.from_ns);
        Ok(dump)
    }

    /// Adds a function; `None` if it has no code, or there are too many.
    fn load(&mut self, time_ns: u64, start: u64, name: &[u8], code: Range<u64>, lines: &LineRecord) -> Option<()> {
        if self.functions.len() >= MAX_FUNCTIONS || self.names.len() >= MAX_NAMES || code.is_empty() {
            return None;
        }
        let size = code.end - code.start;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        self.names.push_str(&name);
        if lines.code_address == start && lines.count > 0 && self.lines.len() < MAX_LINES {
            self.add_lines(lines, &name, size);
        }
        self.placed.push(PlacedCode {
            from_ns: self.time(time_ns),
            start,
            size,
            relative: code.start,
            moved_from: None,
        });
        self.functions.push(DumpedFunction {
            offset: code.start,
            size,
            name_end: self.names.len(),
            lines_end: self.lines.len(),
        });
        Some(())
    }

    fn move_code(&mut self, time_ns: u64, old: u64, new: u64, function: usize) -> Option<()> {
        let function = self.functions.get(function)?;
        if self.placed.len() >= 2 * MAX_FUNCTIONS {
            return None;
        }
        self.placed.push(PlacedCode {
            from_ns: self.time(time_ns),
            start: new,
            size: function.size,
            relative: function.offset,
            moved_from: Some(old),
        });
        Some(())
    }

    /// Adds the lines of the last function, if they are plausible.
    fn add_lines(&mut self, info: &LineRecord, name: &str, code_size: u64) {
        let entries = info.entries().filter(|entries| info.fits(entries, code_size));
        let entries = entries.or_else(|| {
            info.entries_of_one_file(name)
                .filter(|entries| info.fits(entries, code_size))
        });
        let Some(entries) = entries else {
            self.left_out += 1;
            return;
        };
        let start = info.start_of(&entries);
        let from = self.lines.len();
        let mut last: Option<&[u8]> = None;
        for entry in entries {
            // Consecutive entries mostly refer to the same bytes for the file name.
            if !last.is_some_and(|last| std::ptr::eq(last, entry.file)) {
                last = Some(entry.file);
                let file = String::from_utf8_lossy(entry.file);
                if self.files.last().is_none_or(|known| *known != file) {
                    self.files.push(file.into_owned());
                }
            }
            self.lines.push(CodeLine {
                offset: u32::try_from(entry.address.saturating_sub(start)).unwrap_or(u32::MAX),
                line: entry.line,
                column: entry.column,
                file: (self.files.len() - 1) as u32,
            });
        }
        self.lines[from..].sort_by_key(|line| line.offset);
    }

    fn time(&self, time_ns: u64) -> u64 {
        if self.has_times() { time_ns } else { 0 }
    }

    pub(super) fn has_times(&self) -> bool {
        self.header.has_times
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// An id made of process and time of creation, which are different for each dump.
    pub(super) fn id(&self) -> BuildId {
        let mut id = b"jitd".to_vec();
        id.extend(self.header.pid.to_le_bytes());
        id.extend(self.header.created_ns.to_le_bytes());
        BuildId(id)
    }

    /// True if the file with these bytes is of the same process and time.
    pub(super) fn is_header_of(&self, bytes: &[u8]) -> bool {
        // `struct jitheader`: magic, version, total_size, elf_mach, pad1, pid, timestamp.
        u32_at(bytes, 20) == Some(self.header.pid) && u64_at(bytes, 24) == Some(self.header.created_ns)
    }

    pub(super) fn arch(&self) -> Option<&'static str> {
        // e_machine.
        match self.header.machine {
            62 => Some("x86_64"),
            183 => Some("aarch64"),
            _ => None,
        }
    }

    pub(super) fn timelines(&self, addresses: &[u64]) -> Vec<Timeline> {
        timeline::timelines(self.placed.iter().copied(), addresses)
    }

    /// Looks up an offset in the dump.
    pub(super) fn find(&self, offset: u64) -> Option<AddressInfo> {
        let at = self
            .functions
            .partition_point(|function| function.offset <= offset)
            .checked_sub(1)?;
        let function = &self.functions[at];
        let into = offset - function.offset;
        if into >= function.size {
            return None;
        }
        let before = at.checked_sub(1).and_then(|before| self.functions.get(before));
        let (name_start, lines_start) = before.map_or((0, 0), |before| (before.name_end, before.lines_end));
        let name = self.names.get(name_start..function.name_end)?.to_owned();
        let lines = self.lines.get(lines_start..function.lines_end)?;
        let line = lines
            .partition_point(|line| u64::from(line.offset) <= into)
            .checked_sub(1)
            .and_then(|at| lines.get(at));
        let frame = line.map(|line| SourceFrame {
            function: Some(name.clone()),
            file: self.files.get(line.file as usize).cloned(),
            line: Some(line.line),
            column: Some(line.column),
            ..SourceFrame::default()
        });
        Some(AddressInfo {
            function: Some(FunctionSymbol::named(name, function.offset, Some(function.size))),
            frames: frame.into_iter().collect(),
        })
    }
}

/// `struct jr_code_debug_info`: address, count, then entries of address, line, discriminator and file name.
#[derive(Default)]
struct LineRecord {
    code_address: u64,
    count: u64,
    body: Vec<u8>,
}

struct LineEntry<'a> {
    address: u64,
    line: u32,
    column: u32,
    /// The name of the file. An entry may refer to the previous entry's name, so that 17 bytes stand for a name of any
    /// length.
    file: &'a [u8],
}

impl LineRecord {
    /// What follows the header of a record.
    fn read(record: &[u8]) -> Option<LineRecord> {
        Some(LineRecord {
            code_address: u64_at(record, 0)?,
            count: u64_at(record, 8)?,
            body: record.get(16..)?.to_vec(),
        })
    }

    /// The entries as specified: the name 0xff means the name of the previous entry.
    fn entries(&self) -> Option<Vec<LineEntry<'_>>> {
        let mut rest = self.body.as_slice();
        let mut entries: Vec<LineEntry<'_>> = Vec::new();
        for _ in 0..self.count {
            let (address, line, column) = (u64_at(rest, 0)?, u32_at(rest, 8)?, u32_at(rest, 12)?);
            rest = rest.get(16..)?;
            let end = memchr::memchr(0, rest)?;
            let file = match (&rest[..end], entries.last()) {
                ([0xff], Some(last)) => last.file,
                (name, _) => name,
            };
            rest = &rest[end + 1..];
            entries.push(LineEntry {
                address,
                line,
                column,
                file,
            });
        }
        Some(entries)
    }

    /// The entries of a function whose file name V8 wrote after freeing it (version 11.3, of Node.js 20: only its
    /// length is right). The name of the function also has the file name: `JS:*name /path/file.js:LINE:COLUMN`.
    fn entries_of_one_file<'a>(&'a self, function: &'a str) -> Option<Vec<LineEntry<'a>>> {
        let count = usize::try_from(self.count).ok().filter(|count| *count > 0)?;
        let size = self.body.len() / count;
        let file = v8::parse(function)?.script;
        // Each entry has 16 bytes, the name and a 0; all together are padded to 8.
        if size != file.len() + 17 || self.body.len() - size * count >= 8 {
            return None;
        }
        let entry = |bytes: &[u8]| {
            Some(LineEntry {
                address: u64_at(bytes, 0)?,
                line: u32_at(bytes, 8)?,
                column: u32_at(bytes, 12)?,
                file: file.as_bytes(),
            })
        };
        self.body.chunks_exact(size).take(count).map(entry).collect()
    }

    /// The address that stands for the function's first byte.
    fn start_of(&self, entries: &[LineEntry<'_>]) -> u64 {
        let first = entries.iter().map(|entry| entry.address).min().unwrap_or_default();
        let after_header = self.code_address.saturating_add(ELF_HEADER);
        if first >= after_header {
            after_header
        } else {
            self.code_address
        }
    }

    fn fits(&self, entries: &[LineEntry<'_>], code_size: u64) -> bool {
        let start = self.start_of(entries);
        let end = start.saturating_add(code_size);
        let mut last: Option<&[u8]> = None;
        entries.iter().all(|entry| {
            let is_same = last
                .replace(entry.file)
                .is_some_and(|last| std::ptr::eq(last, entry.file));
            (start..=end).contains(&entry.address) && (is_same || is_path(entry.file))
        })
    }
}

fn is_path(name: &[u8]) -> bool {
    let text = std::str::from_utf8(name).ok().filter(|text| text.len() < MAX_PATH);
    text.is_some_and(|text| !text.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER))
}

#[cfg(test)]
#[path = "../../../unwind/tests/suite/common/jitdump.rs"]
#[allow(dead_code, reason = "the unwinder's tests use the rest")]
mod jitdump;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::jitdump::{header, lines, load, moved};
    use super::*;
    use recording::sink::InMemory;

    fn name_of(dump: &JitDump, address: u64, time: u64) -> Option<String> {
        let timeline = dump.timelines(&[address]).remove(0);
        let at = timeline.iter().rev().find(|at| at.from_ns <= time)?;
        Some(dump.find(at.relative?)?.function?.name)
    }

    #[test]
    fn a_moved_function_is_where_it_was_at_each_time() {
        let dump = [
            header(0),
            load(100, 0x1000, 1, "first", &[0x90; 32]),
            load(110, 0x2000, 2, "second", &[0x90; 16]),
            moved(200, 0x1000, 0x3000, 32, 1),
            load(300, 0x1000, 3, "third", &[0x90; 16]),
        ]
        .concat();
        let dump = JitDump::read(&InMemory(&dump)).unwrap();
        assert_eq!(name_of(&dump, 0x1004, 99), None);
        assert_eq!(name_of(&dump, 0x1004, 100).as_deref(), Some("first"));
        assert_eq!(name_of(&dump, 0x1004, 250), None);
        assert_eq!(name_of(&dump, 0x3004, 250).as_deref(), Some("first"));
        assert_eq!(name_of(&dump, 0x1004, 300).as_deref(), Some("third"));
        assert_eq!(name_of(&dump, 0x2004, 300).as_deref(), Some("second"));
        assert_eq!((dump.left_out(), dump.arch()), (0, Some("x86_64")));
    }

    #[test]
    fn lines_are_found_with_and_without_the_elf_header_that_v8_adds() {
        for shift in [0, 0x40] {
            let dump = [
                header(0),
                lines(0x1000, &[(0x1000 + shift, 7, b"a.js"), (0x1010 + shift, 9, b"\xff")]),
                load(100, 0x1000, 1, "f", &[0x90; 64]),
                load(100, 0x2000, 2, "g", &[0x90; 64]),
            ]
            .concat();
            let dump = JitDump::read(&InMemory(&dump)).unwrap();
            let at = |address| {
                let relative = dump.timelines(&[address])[0][0].relative.unwrap();
                let frame = dump.find(relative).unwrap().frames.pop()?;
                Some((frame.file?, frame.line?))
            };
            assert_eq!(at(0x1008), Some(("a.js".to_owned(), 7)));
            assert_eq!(at(0x1010), Some(("a.js".to_owned(), 9)));
            assert_eq!(at(0x2010), None);
        }
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out_and_counted() {
        let dump = [
            header(0),
            lines(0x1000, &[(0x1000, 7, b"\x14@\x03"), (0xa9f7_cf9a_9fff_a480, 4024, b"")]),
            load(100, 0x1000, 1, "f", &[0x90; 64]),
        ]
        .concat();
        let dump = JitDump::read(&InMemory(&dump)).unwrap();
        let relative = dump.timelines(&[0x1000])[0][0].relative.unwrap();
        assert!(dump.find(relative).unwrap().frames.is_empty());
        assert_eq!(dump.left_out(), 1);
    }

    #[test]
    fn lines_whose_file_name_v8_had_freed_have_that_of_the_function() {
        // As Node.js 20.20 writes them: of `/tmp/dir/work.js`, the heap has overwritten 16 bytes.
        let freed = b"\x14@\x03\0\0\0\0\0\x80\xa4\xff\x9f\x9a\xcf\xf7\xa9";
        let dump = [
            header(0),
            lines(0x1000, &[(0x1040, 7, freed), (0x1050, 9, freed)]),
            load(100, 0x1000, 1, "JS:*f /tmp/dir/work.js:7:3", &[0x90; 64]),
        ]
        .concat();
        let dump = JitDump::read(&InMemory(&dump)).unwrap();
        let relative = dump.timelines(&[0x1010])[0][0].relative.unwrap();
        let frame = dump.find(relative).unwrap().frames.pop().unwrap();
        assert_eq!((frame.file.as_deref(), frame.line), (Some("/tmp/dir/work.js"), Some(9)));
        assert_eq!(dump.left_out(), 0);
    }

    #[test]
    fn a_dump_that_is_cut_anywhere_gives_what_is_whole() {
        let whole = [
            header(0),
            load(100, 0x1000, 1, "f", &[0x90; 64]),
            load(101, 0x2000, 2, "g", &[0x90; 8]),
        ]
        .concat();
        for len in 0..whole.len() {
            let read = JitDump::read(&InMemory(&whole[..len]));
            match read {
                Ok(dump) => assert_eq!(name_of(&dump, 0x1000, 100).is_some(), len >= 40 + 56 + 2 + 64),
                Err(_) => assert!(len < 40),
            }
        }
    }

    #[test]
    fn with_the_processors_own_times_none_is_relied_on() {
        let dump = [header(1), load(u64::MAX, 0x1000, 1, "f", &[0x90; 64])].concat();
        let dump = JitDump::read(&InMemory(&dump)).unwrap();
        assert!(!dump.has_times());
        assert_eq!(name_of(&dump, 0x1000, 1).as_deref(), Some("f"));
    }

    proptest! {
        // The same cases in each run.
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn hostile_bytes_never_panic(
            mut tail in prop::collection::vec(any::<u8>(), 0..400),
            kinds in prop::collection::vec((0u32..5, 0u32..90), 1..8),
            address: u64,
        ) {
            let mut bytes = header(0);
            for (kind, size) in kinds {
                bytes.extend(kind.to_le_bytes());
                bytes.extend(size.to_le_bytes());
                bytes.extend(tail.iter().take(60));
                let shift = 7.min(tail.len());
                tail.rotate_left(shift);
            }
            let dump = JitDump::read(&InMemory(&bytes)).unwrap();
            dump.timelines(&[address.min(address / 2), u64::MAX]);
            dump.find(address);
            dump.find(address % bytes.len() as u64);
        }
    }
}
