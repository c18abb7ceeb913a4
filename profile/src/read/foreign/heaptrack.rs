//! Files of heaptrack: a line for each block of memory that was taken or freed, and for each call path and function
//! before it is first named. Numbers are hexadecimal, and tables begin at 1. Learned from files of heaptrack 1.4.0:
//! `src/interpret` writes them, `src/analyze` reads them.
//!
//! Blocks are added up by their kind: call path and size. So memory is in proportion to the call paths, not to the
//! blocks; and bytes are exact.

use rustc_hash::FxHashMap;

use super::source::{ForeignFile, ForeignReader};
use super::tables::ForeignTables;
use super::{Foreign, ReadError, choose, encoding, others};
use crate::data::{NONE, Samples, SavedLib, Thread, WeightUnit, Weights};

/// True if these bytes begin such a file: `v 10400 3`, the versions of heaptrack and of its format.
pub(super) fn is_heaptrack(start: &[u8]) -> bool {
    has_version(start) && !is_raw(start)
}

/// True if these bytes begin a raw recording, which has modules (`m`) and addresses in the place of functions.
pub(super) fn is_raw(start: &[u8]) -> bool {
    let is_raw_line = |line: &[u8]| line.starts_with(b"x ") || line.starts_with(b"m ");
    has_version(start) && start.split(|byte| *byte == b'\n').any(is_raw_line)
}

fn has_version(start: &[u8]) -> bool {
    let Some(end) = start.iter().position(|byte| *byte == b'\n') else {
        return false;
    };
    let mut words = start[..end].trim_ascii_end().split(|byte| *byte == b' ');
    let is_hex = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_hexdigit);
    words.next() == Some(b"v") && words.next().is_some_and(is_hex) && words.next().is_some_and(is_hex)
}

/// The known versions of the format. The first one has addresses of blocks in the place of their kinds; heaptrack 1.0
/// wrote version 1.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=3;
/// In this version and later ones a text has its length before it.
const VERSION_WITH_LENGTHS: u64 = 3;
/// Longest call path; heaptrack takes at most 64 addresses.
const MAX_DEPTH: u32 = 1 << 16;
/// They take memory for their callers. heaptrack_print also leaves them out.
const NEW: [&str; 4] = [
    "operator new(unsigned long)",
    "operator new[](unsigned long)",
    "operator new(unsigned int)",
    "operator new[](unsigned int)",
];

/// An address in code.
struct HeaptrackPlace {
    /// Leafmost first.
    frames: Vec<u32>,
    is_new: bool,
}

/// A call path: its stack, and the number of its frames.
#[derive(Clone, Copy)]
struct CallPath {
    stack: u32,
    depth: u32,
}

/// Blocks of one call path and one size.
struct BlockKind {
    stack: u32,
    size: u64,
    taken: u64,
    living: u64,
    /// Those that lived at the peak [`BlockKind::peak`].
    at_peak: u64,
    /// The number of peaks when a block was last taken or freed.
    peak: u64,
    temporary: u64,
}

impl BlockKind {
    /// Notes what lived at the last peak, before this changes.
    fn settle(&mut self, peaks: u64) {
        if self.peak != peaks {
            (self.at_peak, self.peak) = (self.living, peaks);
        }
    }
}

type BlockFigure = fn(&BlockKind) -> u64;

/// The readable sums: name, whether it counts blocks, and the number of blocks.
const FIGURES: [(&str, bool, BlockFigure); 6] = [
    ("allocated", false, |kind| kind.taken),
    ("retained", false, |kind| kind.living),
    ("peak", false, |kind| kind.at_peak),
    // heaptrack's: the next call for memory freed it, or a block of the same kind.
    ("temporary", false, |kind| kind.temporary),
    ("blocks", true, |kind| kind.taken),
    ("temporary-blocks", true, |kind| kind.temporary),
];

/// Reads the file.
pub(super) fn read(source: &mut ForeignFile, event: Option<&str>) -> Result<Foreign, ReadError> {
    let names = FIGURES.map(|(name, ..)| name.to_owned());
    let chosen = choose(&source.path, event, &names, 0)?;
    let (name, is_blocks, figure) = FIGURES[chosen];
    let mut reader = source.read()?;
    let mut file = HeaptrackFile::default();
    let mut line = Vec::new();
    let mut before = 0;
    while reader.line(&mut line)? {
        let has_end = reader.at() - before > line.len() as u64;
        before = reader.at();
        // A number may be cut.
        if has_end {
            file.line(&line, &reader)?;
        }
    }
    let (samples, weights) = file.samples(is_blocks, figure);
    reader.keeps(file.values() + 4 * weights.len() as u64)?;
    let notes = file.notes();
    let HeaptrackFile {
        tables,
        command,
        version,
        ..
    } = file;
    let program = command.split_whitespace().next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program).to_owned();
    let mut data = tables.into_data();
    data.imported_from = format!("heaptrack {}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
    let arguments = command.split_once(' ').map_or("", |(_, rest)| rest.trim());
    data.arguments = arguments.to_owned();
    data.threads = vec![Thread {
        process_name: program.clone(),
        samples: Samples {
            weight: Some(weights),
            ..samples
        },
        ..Thread::default()
    }];
    data.product = program;
    data.unit = match is_blocks {
        true => WeightUnit::Counts,
        false => WeightUnit::Bytes,
    };
    data.is_summed = true;
    data.symbolicated = true;
    data.weights = Some(Weights {
        name: name.to_owned(),
        unit: if is_blocks { "blocks" } else { "bytes" }.to_owned(),
        others: others(&names, chosen),
        is_exact: false,
    });
    Ok(Foreign { data, notes })
}

/// What the lines so far say.
#[derive(Default)]
struct HeaptrackFile {
    tables: ForeignTables,
    /// Version of heaptrack, a byte for each part.
    version: u64,
    /// Version of the format; 0 before it is known.
    format: u64,
    command: String,
    /// Of each text its number in the tables.
    texts: Vec<u32>,
    /// By the number of a path in the tables.
    libs: FxHashMap<u32, u32>,
    places: Vec<HeaptrackPlace>,
    paths: Vec<CallPath>,
    /// By the caller's stack and the place.
    stacks: FxHashMap<(u32, u64), u32>,
    kinds: Vec<BlockKind>,
    /// The kind of the block that the last line took.
    last_taken: Option<usize>,
    allocated: u64,
    living: u64,
    highest: u64,
    /// How often `highest` rose.
    peaks: u64,
    suppressions: u64,
    is_attached: bool,
    /// True after heaptrack's last lines.
    is_whole: bool,
    /// Memory beside the tables in units of 8 bytes.
    kept: u64,
}

impl HeaptrackFile {
    fn values(&self) -> u64 {
        self.tables.values() + self.kept
    }

    fn line(&mut self, line: &[u8], reader: &ForeignReader<'_>) -> Result<(), ReadError> {
        let (Some(letter), rest) = (line.first(), line.get(2..).unwrap_or_default()) else {
            return Ok(());
        };
        let mut numbers = HexNumbers { rest, reader };
        if self.format == 0 && *letter != b'v' {
            return Err(reader.wrong_line("expected the version of the format, `v 10400 3`"));
        }
        match letter {
            b'+' => return self.take(numbers.next()?, reader),
            b'-' => return self.free(numbers.next()?, reader),
            // Times and pages: figures of places need neither.
            b'c' | b'R' | b'I' => {}
            b'v' => {
                (self.version, self.format) = (numbers.next()?, numbers.next()?);
                if !VERSIONS.contains(&self.format) {
                    return Err(reader.wrong_line(format!(
                        "version {} of heaptrack's format; expected {} to {}",
                        self.format,
                        VERSIONS.start(),
                        VERSIONS.end()
                    )));
                }
            }
            b'X' => self.command = encoding::text(rest).into_owned(),
            b'A' => self.is_attached = true,
            b'S' => self.suppressions += 1,
            b's' => {
                let text = match self.format >= VERSION_WITH_LENGTHS {
                    true => rest.splitn(2, |byte| *byte == b' ').nth(1).unwrap_or_default(),
                    false => rest,
                };
                self.texts.push(self.tables.text(&encoding::text(text)));
                self.kept += 1;
            }
            b'i' => self.place(numbers)?,
            b't' => self.path(numbers)?,
            b'a' => {
                let (size, path) = (numbers.next()?, numbers.next()?);
                let stack = match entry(&self.paths, path) {
                    Some(path) => path.map_or(NONE, |path| path.stack),
                    None => return Err(unknown(reader, "call path", path, self.paths.len())),
                };
                self.kinds.push(BlockKind {
                    stack,
                    size,
                    taken: 0,
                    living: 0,
                    at_peak: 0,
                    peak: 0,
                    temporary: 0,
                });
                self.kept += 8;
            }
            b'#' => self.is_whole |= line.starts_with(b"# strings:"),
            b'x' | b'm' => {
                return Err(reader.wrong_line(
                    "a raw recording; expected what `zstd -dc raw.zst | heaptrack_interpret` (in heaptrack's folder \
                     libexec) makes of it",
                ));
            }
            _ => return Err(reader.wrong_line("expected a line of heaptrack's, `+ 1a`")),
        }
        reader.keeps(self.values())
    }

    /// A block is taken.
    fn take(&mut self, kind: u64, reader: &ForeignReader<'_>) -> Result<(), ReadError> {
        let (at, taken) = self.kind(kind, reader)?;
        taken.taken += 1;
        taken.living += 1;
        let size = taken.size;
        self.allocated = (self.allocated.checked_add(size))
            .ok_or_else(|| reader.wrong_line("more bytes were taken than a number holds; expected fewer"))?;
        self.living += size;
        if self.living > self.highest {
            self.highest = self.living;
            self.peaks += 1;
        }
        self.last_taken = Some(at);
        Ok(())
    }

    /// A block is freed.
    fn free(&mut self, kind: u64, reader: &ForeignReader<'_>) -> Result<(), ReadError> {
        let last_taken = self.last_taken.take();
        let (at, freed) = self.kind(kind, reader)?;
        if freed.living == 0 {
            return Err(reader.wrong_line(format!("a block of kind {kind:x} is freed; expected that one lives")));
        }
        freed.living -= 1;
        freed.temporary += u64::from(last_taken == Some(at));
        self.living -= freed.size;
        Ok(())
    }

    /// The kind of blocks with this number, before it changes.
    fn kind(&mut self, kind: u64, reader: &ForeignReader<'_>) -> Result<(usize, &mut BlockKind), ReadError> {
        let known = self.kinds.len();
        // Only these numbers begin at 0.
        match usize::try_from(kind)
            .ok()
            .and_then(|at| Some((at, self.kinds.get_mut(at)?)))
        {
            Some((at, kind)) => {
                kind.settle(self.peaks);
                Ok((at, kind))
            }
            None => Err(unknown(reader, "kind of blocks", kind, known)),
        }
    }

    /// `i 7fd7fef3aa1d 8 e d 4a e d 1a`: an address, its file, then function, source and line of each function there,
    /// leafmost first: the later ones have the earlier ones inlined.
    fn place(&mut self, mut numbers: HexNumbers<'_, '_>) -> Result<(), ReadError> {
        let reader = numbers.reader;
        let text = |file: &HeaptrackFile, number| match entry(&file.texts, number) {
            Some(text) => Ok(text.map_or(NONE, |text| *text)),
            None => Err(unknown(reader, "text", number, file.texts.len())),
        };
        let (_address, file) = (numbers.next()?, numbers.next()?);
        let file = text(self, file)?;
        let lib = self.lib(file);
        let mut found = Vec::new();
        let mut is_new = false;
        while !numbers.rest.is_empty() || found.is_empty() {
            // Source and function are left out where they are not known.
            let name = text(self, numbers.next_or_zero()?)?;
            let source = text(self, numbers.next_or_zero()?)?;
            let line = u32::try_from(numbers.next_or_zero()?).unwrap_or(0);
            if found.is_empty() {
                is_new = NEW.contains(&self.tables.text_of(name));
            }
            // The address is one of the process: without the mappings, nobody can look it up in the file.
            let name = match name {
                NONE => self.tables.text("[unknown]"),
                name => name,
            };
            found.push((self.tables.func_of(name, lib, source), line));
        }
        let outermost = found.len() - 1;
        let frames = found.into_iter().enumerate();
        let frames = frames.map(|(at, (func, line))| self.tables.frame(func, line, lib, None, at < outermost));
        let frames: Vec<u32> = frames.collect();
        self.kept += 4 + frames.len() as u64 / 2;
        self.places.push(HeaptrackPlace { frames, is_new });
        Ok(())
    }

    /// The library whose path has this number.
    fn lib(&mut self, path: u32) -> u32 {
        if path == NONE {
            return NONE;
        }
        let next = self.libs.len() as u32;
        let lib = *self.libs.entry(path).or_insert(next);
        if lib == next {
            let lib = SavedLib::of_path(self.tables.text_of(path));
            self.kept += 24 + self.tables.text_of(path).len() as u64 / 2;
            self.tables.data.libs.push(lib);
        }
        lib
    }

    /// `t 1a 19`: a place, and the path of its caller.
    fn path(&mut self, mut numbers: HexNumbers<'_, '_>) -> Result<(), ReadError> {
        let reader = numbers.reader;
        let (place, caller) = (numbers.next()?, numbers.next()?);
        let root = CallPath { stack: NONE, depth: 0 };
        let caller = match entry(&self.paths, caller) {
            Some(path) => path.copied().unwrap_or(root),
            None => return Err(unknown(reader, "call path", caller, self.paths.len())),
        };
        let path = match entry(&self.places, place) {
            Some(Some(at)) if !at.is_new => {
                let depth = caller.depth.saturating_add(at.frames.len() as u32);
                if depth > MAX_DEPTH {
                    return Err(
                        reader.wrong_line(format!("a call path of {depth} frames; expected at most {MAX_DEPTH}"))
                    );
                }
                let stack = *self.stacks.entry((caller.stack, place)).or_insert_with(|| {
                    self.kept += 4;
                    let frames = at.frames.iter().rev();
                    frames.fold(caller.stack, |stack, frame| self.tables.stack(stack, *frame))
                });
                CallPath { stack, depth }
            }
            Some(_) => caller,
            None => return Err(unknown(reader, "address", place, self.places.len())),
        };
        self.paths.push(path);
        self.kept += 1;
        Ok(())
    }

    /// A sample for each kind of blocks that the figure counts, and their weights.
    fn samples(&mut self, is_blocks: bool, figure: BlockFigure) -> (Samples, Vec<f64>) {
        let mut samples = Samples::default();
        let mut weights = Vec::new();
        for kind in &mut self.kinds {
            kind.settle(self.peaks);
            let blocks = figure(kind);
            if blocks > 0 {
                samples.stack.push(kind.stack);
                samples.time_ms.push(0.0);
                weights.push((if is_blocks { blocks } else { blocks * kind.size }) as f64);
            }
        }
        (samples, weights)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.is_whole {
            notes.push(
                "heaptrack did not write it to its end: blocks that were taken or freed later are missing".to_owned(),
            );
        }
        if self.is_attached {
            notes.push(
                "heaptrack was attached to the running program: blocks that were taken before are missing".to_owned(),
            );
        }
        if self.suppressions > 0 {
            notes.push("it suppresses leaks, which heaptrack_print leaves out; retained has all blocks".to_owned());
        }
        notes
    }
}

/// The row with this number, which begins at 1; 0 is no row. `None` if there is none yet.
fn entry<T>(rows: &[T], number: u64) -> Option<Option<&T>> {
    match usize::try_from(number) {
        Ok(0) => Some(None),
        number => rows.get(number.ok()? - 1).map(Some),
    }
}

fn unknown(reader: &ForeignReader<'_>, what: &str, number: u64, known: usize) -> ReadError {
    reader.wrong_line(format!("{what} {number:x}; expected one of the {known:x} before"))
}

/// Hexadecimal numbers with a space between them.
struct HexNumbers<'a, 'r> {
    rest: &'a [u8],
    reader: &'a ForeignReader<'r>,
}

impl HexNumbers<'_, '_> {
    fn next(&mut self) -> Result<u64, ReadError> {
        let space = self.rest.iter().position(|byte| *byte == b' ');
        let word = &self.rest[..space.unwrap_or(self.rest.len())];
        self.rest = space.map_or(&[], |space| &self.rest[space + 1..]);
        let number = std::str::from_utf8(word).ok().filter(|word| !word.starts_with('+'));
        let number = number.and_then(|word| u64::from_str_radix(word, 16).ok());
        number.ok_or_else(|| self.reader.wrong_line("expected a hexadecimal number"))
    }

    /// 0 at the end of the line.
    fn next_or_zero(&mut self) -> Result<u64, ReadError> {
        if self.rest.is_empty() { Ok(0) } else { self.next() }
    }
}
