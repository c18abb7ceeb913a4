//! A saved profile in version 55 of its format, for front ends that read nothing newer.
//!
//! Until version 55 each thread had its own texts, stacks, frames and functions; since then all threads share them. So each thread
//! gets those that it uses, under new indexes, and the rest of the file is copied as it is, unknown fields included.
//!
//! 1. `shared`: a first pass over the file, for what all threads share.
//! 2. `document`: a second pass that copies, and stops at each thread.
//! 3. `thread`: a thread's own tables, from what its samples and markers use.
//!
//! Versions: docs-developer/CHANGELOG-formats.md of the front end, 56 to 70.

mod columns;
mod document;
mod shared;
mod thread;

use std::io::{self, Read, Write};

/// The version that is written.
pub const VERSION: u32 = 55;
/// The versions that can be written so; those up to [`VERSION`] can be read by whoever reads that one.
pub const FROM: std::ops::RangeInclusive<u32> = 56..=70;

/// What a profile of version 55 can't hold, and how much of it there was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Ids, start positions and source maps of source files: entries that had some.
    pub source_details: u64,
    /// Frames with a position that a source map gave.
    pub original_positions: u64,
}

/// Why a profile was not written.
#[derive(Debug, thiserror::Error)]
pub enum V55Error {
    /// The file can't be read, or the output not written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has another form than expected.
    #[error("{0}")]
    Json(serde_json::Error),
    /// Parts of the file contradict each other.
    #[error("{0}")]
    Inconsistent(String),
    /// Another version.
    #[error("it is of format version {0}; expected one of {start} to {end}", start = FROM.start(), end = FROM.end())]
    Version(u64),
}

impl From<serde_json::Error> for V55Error {
    fn from(error: serde_json::Error) -> V55Error {
        match error.is_io() {
            true => V55Error::Io(error.into()),
            false => V55Error::Json(error),
        }
    }
}

/// Writes the profile whose JSON `open` gives, which it is asked for twice.
pub fn write<R: Read>(mut open: impl FnMut() -> io::Result<R>, out: impl Write) -> Result<Lost, V55Error> {
    let shared = shared::Shared::read(open()?)?;
    document::write(open()?, &shared, out)?;
    Ok(shared.lost())
}
