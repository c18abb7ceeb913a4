//! Errors of reading a saved profile. Each names the file, the expected content, the place, and the next step.

use std::io;
use std::path::{Path, PathBuf};

use super::position::FilePosition;

/// A kind of file that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKind {
    /// With an article.
    pub name: &'static str,
    /// The command to type, or the tool that reads it.
    pub way: &'static str,
}

/// Why [`open`](super::open) failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system could not open or read the file.
    #[error("cannot read {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The first bytes are of another format.
    #[error("{} is {found}; expected a Firefox profile: JSON, or JSON in gzip", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: &'static str,
    },
    /// The file ends early: an interrupted copy, download or recording.
    #[error("{} is cut off: it ends at {at}, in the middle of the profile; copy or record it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its end.
        at: FilePosition,
    },
    /// The gzip or JSON is not valid at this place, or a field has a wrong type or value.
    #[error("{} is damaged or no profile: {what} at {at}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault, and the expected content.
        what: String,
        /// Where.
        at: FilePosition,
    },
    /// The file is valid JSON and not a profile.
    #[error("{} is JSON, but not a Firefox profile: expected {expected}", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The missing part.
        expected: &'static str,
    },
    /// The version of the format is not known.
    #[error(
        "{} has version {version} of the Firefox Profiler's format; versions {} to {} are read: {}",
        path.display(), known.start(), known.end(),
        if version > known.end() { "update sprof" } else { "open it in the Firefox Profiler and save it from there" }
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The versions that can be read.
        known: std::ops::RangeInclusive<u32>,
    },
    /// The JSON is valid, but its tables contradict each other.
    #[error("{} is damaged: {what}", path.display())]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// The fault and its place.
        what: String,
    },
    /// The file is of a kind that is known and not read.
    #[error("{} is {}, which sprof does not read: {}", path.display(), kind.name, kind.way.replace("FILE", &path.display().to_string()))]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// What it is, and how to get something that is read.
        kind: OtherKind,
    },
    /// Some weights are negative.
    #[error(
        "{} is the difference of two profiles: {negative} of its {rows} rows are negative, so its shares mean nothing; \
         expected one profile: compare the two with `sprof diff OLD NEW`",
        path.display()
    )]
    Difference {
        /// The file.
        path: PathBuf,
        /// Rows with a negative weight.
        negative: u64,
        /// All rows.
        rows: u64,
    },
    /// The file lacks the requested count.
    #[error("{} counts no {asked:?}; it counts {known}: name one of these, or none", path.display())]
    NoEvent {
        /// The file.
        path: PathBuf,
        /// The requested count.
        asked: String,
        /// The file's counts.
        known: String,
    },
    /// Reading would cost more than the caller allows.
    #[error("{} is too large: {what} exceeds the limit of {limit_bytes}; record a shorter time or at a lower rate", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The part that is too large.
        what: &'static str,
        /// The limit: bytes, or levels for nesting.
        limit_bytes: u64,
    },
}

/// `packed` is the format that the file is compressed with.
pub(super) fn io_error(path: &Path, packed: Option<&str>, byte: u64, source: io::Error) -> ReadError {
    let path = path.to_owned();
    let at = FilePosition::Compressed { byte };
    match (source.kind(), packed) {
        (io::ErrorKind::UnexpectedEof, Some(_)) => ReadError::Truncated { path, at },
        // Errors for data that is no such stream, and for a wrong checksum.
        (io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData, Some(packed)) => ReadError::Damaged {
            path,
            what: format!("broken {packed} stream ({source})"),
            at,
        },
        _ => ReadError::Open { path, source },
    }
}
