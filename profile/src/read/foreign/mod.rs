//! What other profilers write, for the views alone: the same [`Data`] as of a saved profile, with what such a file holds and no more.
//!
//! [`kind`] tells by the content which format a file has. `source` reads bytes and lines of it within limits, inflated where it is
//! compressed, `tables` makes numbers of names, and each format has a file of its own.

mod callgrind;
mod dhat;
mod folded;
mod perf_script;
mod pprof;
mod source;
mod tables;

use std::path::{Path, PathBuf};

use super::{Position, ReadError, ReadLimits};
use crate::data::Data;
use source::Source;

/// Which format a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// pprof's, of Go, gperftools and many others: protobuf, mostly in gzip.
    Pprof,
    /// callgrind's, also of our own export: text, with calls between functions.
    Callgrind,
    /// cachegrind's: text, without calls.
    Cachegrind,
    /// DHAT's, of valgrind and of the Rust crate: JSON.
    Dhat,
    /// What `perf script` prints: text, with threads, times and call paths.
    PerfScript,
    /// Folded stacks, of `stackcollapse-*.pl`, inferno and others: text, with call paths.
    Folded,
}

impl Kind {
    /// What its files are called, with an article.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pprof => "a pprof profile",
            Kind::Callgrind => "a callgrind file",
            Kind::Cachegrind => "a cachegrind file",
            Kind::Dhat => "a DHAT file",
            Kind::PerfScript => "text of perf script",
            Kind::Folded => "folded stacks",
        }
    }
}

/// What was read of a file.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    /// Its samples, or what it counts.
    pub data: Data,
    /// What it lacks, and what of it is not shown, a sentence each.
    pub notes: Vec<String>,
}

/// Bytes that tell a format.
const SNIFFED_BYTES: usize = 4096;

/// The format of a file, by its first bytes. `None` for any other, and for what is no file or can't be read.
pub fn kind(path: &Path) -> Option<Kind> {
    let mut source = Source::open(path, ReadLimits::default()).ok()?;
    let start = source.start(SNIFFED_BYTES)?;
    if dhat::is_dhat(&start) {
        return Some(Kind::Dhat);
    }
    if let Some(kind) = callgrind::kind(&start) {
        return Some(kind);
    }
    if perf_script::is_perf_script(&start) {
        return Some(Kind::PerfScript);
    }
    if pprof::is_pprof(&start) {
        return Some(Kind::Pprof);
    }
    // The first stack alone may be longer than all that tells another format.
    let start = source.start(source::MAX_LINE_BYTES)?;
    folded::is_folded(&start).then_some(Kind::Folded)
}

/// Reads a file of this kind. `event` names one of several things that it counts; without it, it is the one that the file itself
/// prefers.
///
/// Errors name the file, what was expected, where, and what to do.
pub fn foreign(path: &Path, kind: Kind, event: Option<&str>, limits: ReadLimits) -> Result<Foreign, ReadError> {
    let mut source = Source::open(path, limits)?;
    match kind {
        Kind::Pprof => pprof::read(&mut source, event),
        Kind::Dhat => dhat::read(&mut source, event),
        Kind::PerfScript => perf_script::read(&mut source, event),
        Kind::Folded => folded::read(&mut source),
        Kind::Callgrind | Kind::Cachegrind => callgrind::read(&mut source, kind, event),
    }
}

/// The place of the event of this name among those that a file has, `default` if none is asked for.
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

/// All but the one that was chosen.
fn others(known: &[String], chosen: usize) -> Vec<String> {
    let others = known.iter().enumerate().filter(|(at, _)| *at != chosen);
    others.map(|(_, name)| name.clone()).collect()
}
