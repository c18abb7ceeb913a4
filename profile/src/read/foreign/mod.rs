//! Reads files of other profilers for views: the same [`Data`] as of a saved profile, with only what the file holds.
//!
//! [`kind`] detects the format by content. `source` reads bytes and lines within limits, inflates them (`zstandard`),
//! and makes UTF-8 of other encodings (`encoding`). `json` reads JSON, `tables` assigns numbers to names. Each format
//! has a file of its own. `other_kinds` names the formats that are not read.

mod callgrind;
mod cpuprofile;
mod dhat;
mod encoding;
mod folded;
mod gperftools;
mod heaptrack;
mod json;
mod kinds;
mod massif;
mod other_kinds;
mod perf_script;
mod pprof;
mod source;
mod speedscope;
mod tables;
mod zstandard;

use std::path::{Path, PathBuf};

use super::error::{OtherKind, ReadError};
use super::{FilePosition, ReadLimits};
use crate::data::Data;
use crate::data::v8_names::readable_names;
pub use callgrind::NOTE_OF_COUNT;
use source::{ForeignFile, Packed};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignFormat {
    /// pprof, of Go, gperftools and many others: protobuf, mostly in gzip.
    Pprof,
    /// callgrind, also sprof's export: text, with calls between functions.
    Callgrind,
    /// cachegrind: text, without calls.
    Cachegrind,
    /// DHAT, of valgrind and of the Rust crate: JSON.
    Dhat,
    /// massif of valgrind: text, with trees of the heap.
    Massif,
    /// heaptrack: text, with each block of memory that was taken and freed; mostly in zstd.
    Heaptrack,
    /// `perf script`: text, with threads, times and call paths.
    PerfScript,
    /// Folded stacks, of `stackcollapse-*.pl`, inferno and others: text, with call paths.
    Folded,
    /// speedscope's own format, which many profilers write: JSON.
    Speedscope,
    /// `.cpuprofile` of V8, of Node.js and Chrome: JSON.
    CpuProfile,
    /// The CPU profile of gperftools: addresses, in words of the machine.
    Gperftools,
}

impl ForeignFormat {
    /// The name of such files, with an article.
    pub fn name(self) -> &'static str {
        match self {
            ForeignFormat::Pprof => "a pprof profile",
            ForeignFormat::Callgrind => "a callgrind file",
            ForeignFormat::Cachegrind => "a cachegrind file",
            ForeignFormat::Dhat => "a DHAT file",
            ForeignFormat::Massif => "a file of massif",
            ForeignFormat::Heaptrack => "a file of heaptrack",
            ForeignFormat::PerfScript => "text of perf script",
            ForeignFormat::Folded => "folded stacks",
            ForeignFormat::Speedscope => "a file of speedscope",
            ForeignFormat::CpuProfile => "a .cpuprofile of V8",
            ForeignFormat::Gperftools => "a CPU profile of gperftools",
        }
    }
}

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    /// Its samples or counts.
    pub data: Data,
    /// Sentences on missing and ignored content.
    pub notes: Vec<String>,
}

/// Bytes that identify a format.
const SNIFFED_BYTES: usize = 4096;

/// The format of a file, by its first bytes. `None` for an unknown format, and for a file that cannot be read.
pub fn kind(path: &Path) -> Option<ForeignFormat> {
    let mut source = ForeignFile::open(path, ReadLimits::default()).ok()?;
    let start = source.start(SNIFFED_BYTES)?;
    if dhat::is_dhat(&start) {
        return Some(ForeignFormat::Dhat);
    }
    if speedscope::is_speedscope(&start) {
        return Some(ForeignFormat::Speedscope);
    }
    if cpuprofile::is_cpu_profile(&start) {
        return Some(ForeignFormat::CpuProfile);
    }
    if gperftools::is_cpu_profile(&start) {
        return Some(ForeignFormat::Gperftools);
    }
    if massif::is_massif(&start) {
        return Some(ForeignFormat::Massif);
    }
    if heaptrack::is_heaptrack(&start) {
        return Some(ForeignFormat::Heaptrack);
    }
    if let Some(kind) = callgrind::kind(&start) {
        return Some(kind);
    }
    if perf_script::is_perf_script(&start) {
        return Some(ForeignFormat::PerfScript);
    }
    if pprof::is_pprof(&start) {
        return Some(ForeignFormat::Pprof);
    }
    // Some lines of such files are also folded stacks: `goroutine profile: total 7`.
    if other_kinds::by_content(&start).is_some() {
        return None;
    }
    // The first stack alone may be longer than the start that identifies the other formats.
    let start = source.start(source::MAX_LINE_BYTES)?;
    folded::is_folded(&start).then_some(ForeignFormat::Folded)
}

/// Reads a file of this kind. `event` chooses one of its counts by name; the default is the file's own choice.
///
/// # Errors
///
/// The file can't be read, is damaged, does not have the event, or exceeds the limits. The text names the file, the
/// place, the expected content and the next step.
pub fn foreign(
    path: &Path,
    kind: ForeignFormat,
    event: Option<&str>,
    limits: ReadLimits,
) -> Result<Foreign, ReadError> {
    let mut source = ForeignFile::open(path, limits)?;
    let mut foreign = match kind {
        ForeignFormat::Pprof => pprof::read(&mut source, event),
        ForeignFormat::Dhat => dhat::read(&mut source, event),
        ForeignFormat::Massif => massif::read(&mut source, event),
        ForeignFormat::Heaptrack => heaptrack::read(&mut source, event),
        ForeignFormat::PerfScript => perf_script::read(&mut source, event),
        ForeignFormat::Folded => folded::read(&mut source),
        ForeignFormat::Speedscope => speedscope::read(&mut source, event),
        ForeignFormat::CpuProfile => cpuprofile::read(&mut source),
        ForeignFormat::Gperftools => gperftools::read(&mut source),
        ForeignFormat::Callgrind | ForeignFormat::Cachegrind => callgrind::read(&mut source, kind, event),
    }?;
    check_signs(path, &foreign.data)?;
    foreign.data.use_profile_paths();
    kinds::set(&mut foreign.data);
    readable_names(&mut foreign.data);
    Ok(foreign)
}

/// Refuses the difference of two profiles (`pprof -base`, `pprof -diff_base`, `difffolded.pl`): its rows add up to less
/// than some of them, so that no share of it is true.
fn check_signs(path: &Path, data: &Data) -> Result<(), ReadError> {
    let weights = data.threads.iter().filter_map(|thread| thread.samples.weight.as_ref());
    let is_negative = |weight: &&f64| **weight < 0.0;
    let (negative, rows) = weights.fold((0, 0), |(negative, rows), weights| {
        (
            negative + weights.iter().filter(is_negative).count() as u64,
            rows + weights.len() as u64,
        )
    });
    match negative {
        0 => Ok(()),
        negative => Err(ReadError::Difference {
            path: PathBuf::from(path),
            negative,
            rows,
        }),
    }
}

/// What a file is that no reader takes, if that is known.
pub(super) fn other_kind(path: &Path) -> Option<OtherKind> {
    let mut source = ForeignFile::open(path, ReadLimits::default()).ok();
    let start = source.as_mut().and_then(|source| source.start(SNIFFED_BYTES));
    let is_zstd = source.is_some_and(|source| source.packed == Some(Packed::Zstd));
    // Other readers do not unpack it.
    other_kinds::other_kind(path, &start.unwrap_or_default()).or(is_zstd.then_some(other_kinds::ZSTD))
}

/// The index of the requested event, `default` without a request.
fn choose(path: &Path, asked: Option<&str>, known: &[String], default: usize) -> Result<usize, ReadError> {
    let Some(asked) = asked else {
        return Ok(default.min(known.len().saturating_sub(1)));
    };
    let exact = known.iter().position(|name| name == asked);
    let by_case = || known.iter().position(|name| name.eq_ignore_ascii_case(asked));
    exact.or_else(by_case).ok_or_else(|| ReadError::NoEvent {
        path: PathBuf::from(path),
        asked: asked.to_owned(),
        known: known.join(", "),
    })
}

/// `1 sample`, `2 samples`.
fn count(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// All names except the chosen one.
fn others(known: &[String], chosen: usize) -> Vec<String> {
    let others = known.iter().enumerate().filter(|(at, _)| *at != chosen);
    others.map(|(_, name)| name.clone()).collect()
}
