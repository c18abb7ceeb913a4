//! The CPU profile that gperftools writes (`CPUPROFILE=`): words of the machine, then the text of `/proc/PID/maps`.
//! <https://gperftools.github.io/gperftools/cpuprofile-fileformat.html>.
//!
//! The file has addresses and no names.

use recording::proc;
use rustc_hash::FxHashMap;

use super::source::{ForeignFile, ForeignReader};
use super::tables::ForeignTables;
use super::{Foreign, ReadError, count};
use crate::data::SavedLib;
use crate::data::{NONE, Samples, Thread, WeightUnit, Weights};

/// Words of the header behind the first two: version, sampling period in us, padding.
const HEADER_WORDS: u64 = 3;
/// Longest call chain; gperftools itself takes at most 254 calls.
const MAX_DEPTH: u64 = 1 << 16;
/// Longest text of mappings.
const MAX_MAPS_BYTES: u64 = 64 << 20;

/// How a machine writes a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WordFormat {
    bytes: usize,
    is_big_endian: bool,
}

impl WordFormat {
    fn parse(self, bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        if self.is_big_endian {
            word[8 - self.bytes..].copy_from_slice(&bytes[..self.bytes]);
            u64::from_be_bytes(word)
        } else {
            word[..self.bytes].copy_from_slice(&bytes[..self.bytes]);
            u64::from_le_bytes(word)
        }
    }

    /// The words of a file that begins with a header: 0, 3, version 0, a period, 0.
    fn detect(start: &[u8]) -> Option<WordFormat> {
        let all = [(8, false), (8, true), (4, false), (4, true)];
        let all = all.map(|(bytes, is_big_endian)| WordFormat { bytes, is_big_endian });
        all.into_iter().find(|words| {
            let word = |at: usize| {
                start
                    .get(at * words.bytes..(at + 1) * words.bytes)
                    .map(|bytes| words.parse(bytes))
            };
            let header = [0, 1, 2, 4].map(word);
            header == [Some(0), Some(HEADER_WORDS), Some(0), Some(0)] && word(3).is_some_and(|period| period > 0)
        })
    }
}

/// True if these bytes begin such a file.
pub(super) fn is_cpu_profile(start: &[u8]) -> bool {
    WordFormat::detect(start).is_some()
}

/// Reads one thread: the format has no threads and no times.
pub(super) fn read(source: &mut ForeignFile) -> Result<Foreign, ReadError> {
    let start = source.start(64).unwrap_or_default();
    let Some(words) = WordFormat::detect(&start) else {
        return Err(source
            .read()?
            .wrong_at(0, "expected the header of a CPU profile of gperftools"));
    };
    let period_us = words.parse(&start[3 * words.bytes..]);
    // The mappings come last, so the file is read twice.
    let mut reader = source.read()?;
    each_sample(&mut reader, words, |_, _| Ok(0))?;
    let mut maps = Vec::new();
    if reader.bytes(MAX_MAPS_BYTES + 1, &mut maps)? {
        return Err(reader.too_large("its list of mappings", MAX_MAPS_BYTES));
    }
    drop(reader);
    let mut tables = ForeignTables::default();
    let places = MappedRanges::new(&maps, &mut tables.data.libs);
    source.keeps(40 * tables.data.libs.len() as u64 + maps.len() as u64 / 4)?;
    let mut samples = Samples::default();
    let (mut weights, mut counts) = (Vec::new(), Vec::new());
    let mut frames: FxHashMap<u64, u32> = FxHashMap::default();
    let mut outside = 0u64;
    let mut reader = source.read()?;
    each_sample(&mut reader, words, |count, addresses| {
        let mut stack = NONE;
        for (depth, &address) in addresses.iter().enumerate().rev() {
            // All but the first are return addresses: the call is before them.
            let address = if depth == 0 { address } else { address.saturating_sub(1) };
            let frame = *frames.entry(address).or_insert_with(|| {
                let (lib, relative) = places.find(address);
                let func = tables.func(&format!("0x{:x}", relative.unwrap_or(address)), lib, "");
                tables.frame(func, 0, lib, relative, false)
            });
            stack = tables.stack(stack, frame);
        }
        outside += if addresses.first().is_some_and(|leaf| places.find(*leaf).0 == NONE) {
            count
        } else {
            0
        };
        samples.stack.push(stack);
        samples.time_ms.push(0.0);
        weights.push(count as f64 * period_us as f64 / 1e3);
        counts.push(count);
        Ok(tables.values() + 5 * counts.len() as u64 + 2 * frames.len() as u64)
    })?;
    drop(reader);
    let total: u64 = counts.iter().fold(0, |sum, count| sum.saturating_add(*count));
    (samples.weight, samples.count) = (Some(weights), Some(counts));
    let mut data = tables.into_data();
    data.product = places.program();
    data.imported_from = "a CPU profile of gperftools".to_owned();
    data.unit = WeightUnit::Milliseconds;
    data.is_summed = true;
    data.interval_ms = period_us as f64 / 1e3;
    data.weights = Some(Weights {
        name: "cpu".to_owned(),
        unit: "microseconds".to_owned(),
        others: Vec::new(),
        is_exact: false,
    });
    data.threads = vec![Thread {
        process_name: data.product.clone(),
        is_main: true,
        unit: WeightUnit::Milliseconds,
        samples,
        ..Thread::default()
    }];
    let mut notes = Vec::new();
    if outside > 0 {
        notes.push(format!(
            "{} of {total} ran code that no mapping of the file holds",
            count(outside, "sample")
        ));
    }
    if maps.is_empty() {
        notes.push("the file ends without its list of mappings, so its addresses have no names".to_owned());
    }
    Ok(Foreign { data, notes })
}

/// Calls `each` with the count and the addresses of each sample, leaf first. `each` returns the memory kept, in units
/// of 8 bytes. Leaves the reader behind the trailer.
fn each_sample(
    reader: &mut ForeignReader<'_>,
    words: WordFormat,
    mut each: impl FnMut(u64, &[u64]) -> Result<u64, ReadError>,
) -> Result<(), ReadError> {
    let mut bytes = Vec::new();
    let mut word = |reader: &mut ForeignReader<'_>| match reader.bytes(words.bytes as u64, &mut bytes)? {
        true => Ok(words.parse(&bytes)),
        false => Err(reader.cut_off()),
    };
    for _ in 0..HEADER_WORDS + 2 {
        word(reader)?;
    }
    let mut addresses = Vec::new();
    loop {
        let start = reader.at();
        let (count, depth) = (word(reader)?, word(reader)?);
        if depth > MAX_DEPTH {
            return Err(reader.wrong_at(
                start,
                format!("expected a stack of at most {MAX_DEPTH} calls, found {depth}"),
            ));
        }
        addresses.clear();
        for _ in 0..depth {
            addresses.push(word(reader)?);
        }
        // The trailer is a sample that counts 0 at address 0.
        if count == 0 && addresses == [0] {
            return Ok(());
        }
        let kept = each(count, &addresses)?;
        reader.keeps(kept)?;
    }
}

/// What was mapped where.
struct MappedRanges {
    /// Start, end, library, and where the library's relative address 0 is, if known. By start.
    ranges: Vec<(u64, u64, u32, Option<u64>)>,
    program: String,
}

impl MappedRanges {
    fn new(maps: &[u8], libs: &mut Vec<SavedLib>) -> MappedRanges {
        let mut lib_of: FxHashMap<Vec<u8>, (u32, Option<u64>)> = FxHashMap::default();
        let mut ranges = Vec::new();
        let mut program = String::new();
        for mapping in proc::mappings(maps) {
            let is_file = mapping.path.starts_with(b"/") || mapping.path == b"[vdso]";
            if !is_file {
                continue;
            }
            let path = String::from_utf8_lossy(&mapping.path).into_owned();
            let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
            // The lowest segment has the file's start.
            let base = (mapping.file_offset == 0).then_some(mapping.start);
            if program.is_empty() {
                path.rsplit('/').next().unwrap_or_default().clone_into(&mut program);
            }
            let next = libs.len() as u32;
            let (lib, base) = *lib_of.entry(mapping.path.clone()).or_insert((next, base));
            if lib == next {
                libs.push(SavedLib::of_path(path));
            }
            if mapping.is_executable {
                ranges.push((mapping.start, mapping.end(), lib, base));
            }
        }
        ranges.sort_unstable();
        MappedRanges { ranges, program }
    }

    /// The library, and the address in it.
    fn find(&self, address: u64) -> (u32, Option<u64>) {
        let after = self.ranges.partition_point(|range| range.0 <= address);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        match range {
            Some((_, end, lib, base)) if address < *end => (*lib, base.and_then(|base| address.checked_sub(base))),
            _ => (NONE, None),
        }
    }

    fn program(&self) -> String {
        self.program.clone()
    }
}
