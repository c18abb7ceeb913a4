//! DHAT profiles of valgrind and the Rust crate dhat: allocations, copies or counts by place. JSON of version 2:
//! <https://valgrind.org/docs/manual/dh-manual.html>, dhat/dh_main.c, dhat/dh_view.js.
//!
//! A program point has a call path and several sums; one of them is read. Bytes and blocks equal those of DHAT's own
//! viewer.

use serde::Deserialize;

use super::json::{self, LimitedList};
use super::source::ForeignFile;
use super::tables::ForeignTables;
use super::{Foreign, ReadError, choose, others};
use crate::data::blocks::variance_of_sum;
use crate::data::{NONE, Samples, Thread, WeightUnit, Weights};

/// True if these bytes begin an object whose first key is the version: both writers put it there.
pub(super) fn is_dhat(start: &[u8]) -> bool {
    let mut words = start.trim_ascii_start();
    for part in [&b"{"[..], b"\"dhatFileVersion\""] {
        words = match words.strip_prefix(part) {
            Some(rest) => rest.trim_ascii_start(),
            None => return false,
        };
    }
    true
}

/// The only known version.
const VERSION: u32 = 2;
const MAX_PATH: usize = 1 << 16;

/// The fields that views need.
#[derive(Deserialize)]
struct DhatFile {
    #[serde(rename = "dhatFileVersion")]
    version: u32,
    #[serde(default)]
    mode: String,
    /// `Allocated`, `Copied`, `Occurred`
    #[serde(default)]
    verb: String,
    /// True if blocks have lifetimes. Only then do peaks and ends exist.
    #[serde(rename = "bklt", default)]
    has_lifetimes: bool,
    /// Units of bytes and of blocks, if they differ from bytes and blocks.
    #[serde(rename = "bu")]
    unit: Option<String>,
    #[serde(rename = "bksu")]
    blocks_unit: Option<String>,
    #[serde(rename = "cmd", default)]
    command: String,
    #[serde(default)]
    pid: u64,
    /// Of sprof's export, whose sums are estimates: the mean distance of the bytes that chose blocks.
    #[serde(rename = "sprofHeapInterval")]
    interval: Option<u64>,
    #[serde(rename = "pps")]
    points: LimitedList<ProgramPoint>,
    #[serde(rename = "ftbl")]
    frames: LimitedList<String>,
}

/// A program point.
#[derive(Deserialize)]
struct ProgramPoint {
    #[serde(rename = "tb")]
    total: u64,
    #[serde(rename = "tbk")]
    total_blocks: u64,
    #[serde(rename = "mb", default)]
    max: u64,
    #[serde(rename = "mbk", default)]
    max_blocks: u64,
    #[serde(rename = "gb", default)]
    at_peak: u64,
    #[serde(rename = "gbk", default)]
    at_peak_blocks: u64,
    #[serde(rename = "eb", default)]
    at_end: u64,
    #[serde(rename = "ebk", default)]
    at_end_blocks: u64,
    /// Leaf first.
    #[serde(rename = "fs")]
    path: Vec<u32>,
}

type DhatSums = fn(&ProgramPoint) -> [u64; 2];

/// The readable sums: name, whether they need lifetimes of blocks, bytes and blocks.
const SUMS: [(&str, bool, DhatSums); 4] = [
    ("total", false, |point| [point.total, point.total_blocks]),
    ("at-gmax", true, |point| [point.at_peak, point.at_peak_blocks]),
    ("at-end", true, |point| [point.at_end, point.at_end_blocks]),
    ("max", true, |point| [point.max, point.max_blocks]),
];

/// Reads the file.
pub(super) fn read(source: &mut ForeignFile, event: Option<&str>) -> Result<Foreign, ReadError> {
    let path = source.path.clone();
    let file: DhatFile = json::parse(source)?;
    let inconsistent = |what: String| ReadError::Inconsistent {
        path: path.clone(),
        what,
    };
    if file.version != VERSION {
        return Err(inconsistent(format!(
            "expected dhatFileVersion {VERSION}, found {}",
            file.version
        )));
    }
    let bytes = file.unit.clone().unwrap_or_else(|| "bytes".to_owned());
    let blocks = file.blocks_unit.clone().unwrap_or_else(|| "blocks".to_owned());
    let sums: Vec<_> = { SUMS.iter() }
        .filter(|(_, of_lifetimes, _)| file.has_lifetimes || !of_lifetimes)
        .collect();
    let names = sums
        .iter()
        .flat_map(|(name, ..)| [&bytes, &blocks].map(|unit| format!("{name}-{unit}")));
    let names: Vec<String> = names.collect();
    let chosen = choose(&path, event, &names, 0)?;
    let is_blocks = chosen % 2 == 1;
    let (_, _, sums) = sums[chosen / 2];

    let mut tables = ForeignTables::default();
    let frames: Vec<u32> = file
        .frames
        .0
        .iter()
        .map(|text| valgrind_frame(&mut tables, text))
        .collect();
    let mut samples = Samples::default();
    let (mut weights, mut variances) = (Vec::new(), Vec::new());
    for (at, point) in file.points.0.iter().enumerate() {
        if point.path.len() > MAX_PATH {
            return Err(inconsistent(format!(
                "pps[{at}].fs has {} frames; expected at most {MAX_PATH}",
                point.path.len()
            )));
        }
        let mut stack = NONE;
        for &frame in point.path.iter().rev() {
            let frame = *frames.get(frame as usize).ok_or_else(|| {
                inconsistent(format!(
                    "pps[{at}].fs has the frame {frame}; expected one of the {} frames of ftbl",
                    frames.len()
                ))
            })?;
            stack = tables.stack(stack, frame);
        }
        samples.stack.push(stack);
        samples.time_ms.push(0.0);
        let [bytes, number] = sums(point).map(|sum| sum as f64);
        weights.push(if is_blocks { number } else { bytes });
        variances.extend(
            file.interval
                .map(|interval| variance_of_sum(number, bytes, interval as f64, !is_blocks)),
        );
        source.keeps(tables.values() + 5 * weights.len() as u64)?;
    }
    samples.weight = Some(weights);
    samples.variance = file.interval.map(|_| variances);
    let program = file.command.split_whitespace().next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program).to_owned();
    let mut data = tables.into_data();
    data.imported_from = match file.mode.as_str() {
        "" => "DHAT".to_owned(),
        mode => format!("DHAT, {mode}"),
    };
    data.arguments = file
        .command
        .split_once(' ')
        .map_or("", |(_, rest)| rest.trim())
        .to_owned();
    data.threads = vec![Thread {
        process_name: program.clone(),
        pid: file.pid.to_string(),
        samples,
        ..Thread::default()
    }];
    data.product = program;
    data.unit = match (is_blocks, file.unit.is_none()) {
        (false, true) => WeightUnit::Bytes,
        _ => WeightUnit::Counts,
    };
    data.is_summed = true;
    data.symbolicated = true;
    data.weights = Some(Weights {
        name: names[chosen].clone(),
        unit: match file.verb.as_str() {
            "" => String::new(),
            verb => format!("{} {}", if is_blocks { &blocks } else { &bytes }, verb.to_lowercase()),
        },
        others: others(&names, chosen),
        is_exact: true,
    });
    let mut notes = Vec::new();
    if names[chosen].starts_with("max-") {
        notes.push("each place has its own maximum, at a time of its own: their sum was never in use at once; at-gmax is the peak".to_owned());
    }
    Ok(Foreign { data, notes })
}

/// `0x109248: keep (calls.c:37)`, `0x48417B4: malloc (in /usr/lib/libc.so.6)`, `[root]`; from the Rust crate `0x55...:
/// core::f (core/src/a.rs:12:5)`.
pub(super) fn valgrind_frame(tables: &mut ForeignTables, text: &str) -> u32 {
    let address = text.split_once(": ").filter(|(address, _)| address.starts_with("0x"));
    let rest = address.map_or(text, |(_, rest)| rest);
    let place = rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    let (name, file, line) = match place {
        None => (rest, "", 0),
        Some((name, place)) => match place.strip_prefix("in ") {
            Some(library) => (name, library, 0),
            None => file_and_line(place).map_or((rest, "", 0), |(file, line)| (name, file, line)),
        },
    };
    let func = tables.func(name, NONE, file);
    tables.frame(func, line, NONE, None, false)
}

/// `a.c:37`, `a.rs:12:5`
fn file_and_line(place: &str) -> Option<(&str, u32)> {
    let (rest, last) = place.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    match rest.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
        Some((file, Ok(line))) => Some((file, line)),
        _ => Some((rest, last)),
    }
}

#[cfg(test)]
mod tests {
    use super::file_and_line;

    #[test]
    fn places_have_a_line_and_maybe_a_column() {
        assert_eq!(file_and_line("a.c:37"), Some(("a.c", 37)));
        assert_eq!(file_and_line("src/a.rs:12:5"), Some(("src/a.rs", 12)));
        assert_eq!(file_and_line("C:a.c:3"), Some(("C:a.c", 3)));
        assert_eq!(file_and_line("int"), None);
    }
}
