//! Reads saved profiles, whoever wrote them: what `sprof load` has to know before it serves one untouched.
//!
//! The file is checked from its first byte to its last, as a stream: memory stays within what the caller allows, however
//! large the file or however far it inflates. [`open`] reads what serving needs, [`whole()`] what views need, [`foreign()`] the
//! same from folded stacks and files of other profilers.

mod error;
mod foreign;
mod inflate;
mod known;
mod parse;
mod whole;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

pub use error::{Position, ReadError};
pub use foreign::{Foreign, Kind, foreign, kind};
use inflate::with_blocks;
use parse::Parser;
pub use whole::NotKept;
use whole::{Everything, Extent, ForViews};
pub(crate) use whole::{Loose, prepare};

pub use crate::data::SavedLib;
use crate::data::{Data, Saved};
use crate::tracks::Tracks;

/// What reading may cost. Beside these limits, what is kept in memory must stand in a proportion to what was read: a few bytes
/// that stand for large structures, or refer to one long text again and again, are refused.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Bytes of memory, roughly. Default 128 MiB.
    pub memory_bytes: u64,
    /// Bytes of JSON after inflating. Default 4 GiB; browsers give up well below.
    pub json_bytes: u64,
    /// Values in lists and objects: 8 bytes each where [`whole()`] keeps them. Default 400 million.
    pub values: u64,
}

/// Bytes in memory that need no proportion to the file.
const FREE_BYTES: u64 = 64 << 20;
/// Bytes in memory for each byte of the inflated file. A column of `0,` takes 16 where each is an address.
const BYTES_FOR_ONE: u64 = 16;

/// Bytes that may be kept in memory of so many that were read.
fn proportionate_bytes(read_bytes: u64) -> u64 {
    FREE_BYTES.saturating_add(read_bytes.saturating_mul(BYTES_FOR_ONE))
}

/// What exceeds [`proportionate_bytes`].
const DISPROPORTIONATE: &str = "the memory that its content would take";

impl Default for ReadLimits {
    fn default() -> Self {
        ReadLimits {
            memory_bytes: 128 << 20,
            json_bytes: 4 << 30,
            values: 400_000_000,
        }
    }
}

/// Which of the two forms of the Firefox Profiler a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The front end's own, with `meta.preprocessedProfileVersion`: sprof, samply, saved from the front end.
    Processed {
        /// That version. A front end refuses one newer than its own.
        version: u32,
    },
    /// As Firefox itself hands it out; the front end converts it.
    Gecko {
        /// `meta.version`.
        version: u32,
    },
}

/// A saved profile that is sound as far as a file goes: JSON to its end, with the parts that the front end looks for.
#[derive(Debug)]
pub struct SavedProfile {
    /// Which form.
    pub form: Form,
    /// `meta.product`: the program.
    pub product: Option<String>,
    /// `meta.importedFrom`: who wrote it, where it says so.
    pub imported_from: Option<String>,
    /// `meta.symbolicated`: whether it has function names already.
    pub symbolicated: Option<bool>,
    /// Libraries, those of subprocesses and threads included, each once.
    pub libs: Vec<SavedLib>,
    /// Threads, those of subprocesses included.
    pub threads: u64,
    /// The rows of the timeline; `None` where the file does not say which are shown at first.
    pub tracks: Option<Tracks>,
    /// True if the file is compressed with gzip.
    pub is_gzip: bool,
    /// File size in bytes.
    pub file_bytes: u64,
    /// JSON size in bytes.
    pub json_bytes: u64,
    file: File,
}

impl SavedProfile {
    /// The file that was read, at its first byte: to serve it untouched. Still the same one if its path now names another.
    pub fn into_file(self) -> Result<File, std::io::Error> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }
}

/// Reads and checks the profile in `path`.
///
/// Errors name the file, what was expected, where, and what to do.
pub fn open(path: &Path, limits: ReadLimits) -> Result<SavedProfile, ReadError> {
    let opened = Opened::open(path)?;
    let (found, json_bytes) = opened.parse(path, limits, |json| known::read(json, limits))?;
    let form = found.form().map_err(|expected| ReadError::Incomplete {
        path: path.to_owned(),
        expected,
    })?;
    let (threads, visible) = (found.tracks, found.meta.initial_visible_threads.0);
    let is_known = !visible.is_empty() && threads.len() as u64 == found.threads;
    let tracks = is_known.then_some(Tracks { threads, visible });
    let mut libs = found.libs;
    libs.sort();
    libs.dedup();
    Ok(SavedProfile {
        form,
        product: found.meta.product,
        imported_from: found.meta.imported_from,
        symbolicated: found.meta.symbolicated,
        libs,
        threads: found.threads,
        tracks,
        is_gzip: opened.is_gzip,
        file_bytes: opened.file_bytes,
        json_bytes,
        file: opened.file,
    })
}

/// Reads the profile in `path` with all that views need: the front end's form, versions 50 to 75.
///
/// Errors name the file, what was expected, where, and what to do.
pub fn whole(path: &Path, limits: ReadLimits) -> Result<Data, ReadError> {
    let (mut data, loose) = tables::<ForViews>(path, limits)?;
    prepare(&mut data, loose);
    Ok(data)
}

/// Reads the profile in `path` with all that is needed to write it again: markers with their data, counters, fields that are not known
/// here.
pub fn everything(path: &Path, limits: ReadLimits) -> Result<Saved, ReadError> {
    everything_but(path, limits).map(|(data, _)| data)
}

/// The same, and what is not there nevertheless.
pub fn everything_but(path: &Path, limits: ReadLimits) -> Result<(Saved, NotKept), ReadError> {
    let (mut data, loose) = tables::<Everything>(path, limits)?;
    data.recorded = loose.facts.into_recorded();
    Ok((Saved(data), loose.not_kept))
}

fn tables<E: Extent>(path: &Path, limits: ReadLimits) -> Result<(Data, Loose), ReadError> {
    let read = Opened::open(path)?.parse(path, limits, whole::parse::<E>);
    // Tables of Firefox's own form are lists of rows. The error of the first one would say that a sound file is damaged.
    if let Err(ReadError::Damaged { .. }) = &read
        && let Ok(SavedProfile {
            form: Form::Gecko { .. },
            ..
        }) = open(path, limits)
    {
        return Err(whole::NoData::GECKO.of(path));
    }
    let (raw, _) = read?;
    whole::to_data(raw).map_err(|error| error.of(path))
}

/// A file that may be a profile, at its first byte.
struct Opened {
    file: File,
    is_gzip: bool,
    file_bytes: u64,
}

impl Opened {
    fn open(path: &Path) -> Result<Opened, ReadError> {
        let path_buf = || PathBuf::from(path);
        let unreadable = |source| ReadError::Open {
            path: path_buf(),
            source,
        };
        // Opening a pipe would wait for its other end.
        let is_file = |metadata: &std::fs::Metadata| metadata.is_file();
        let before = std::fs::metadata(path).map_err(unreadable)?;
        let opened = is_file(&before)
            .then(|| File::open(path))
            .transpose()
            .map_err(unreadable)?;
        let metadata = (opened.as_ref().map(File::metadata).transpose()).map_err(unreadable)?;
        let (Some(mut file), Some(metadata)) = (opened, metadata.filter(is_file)) else {
            return Err(ReadError::NotAProfile {
                path: path_buf(),
                found: NO_FILE,
            });
        };
        let mut start = [0u8; 16];
        let len = read_up_to(&mut file, &mut start).map_err(unreadable)?;
        let start = &start[..len];
        file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        // RFC 1952, section 2.3.1.
        let is_gzip = start.starts_with(&[0x1f, 0x8b]);
        if let (false, Some(found)) = (is_gzip, not_a_profile(start)) {
            return Err(ReadError::NotAProfile {
                path: path_buf(),
                found,
            });
        }
        Ok(Opened {
            file,
            is_gzip,
            file_bytes: metadata.len(),
        })
    }

    /// Hands the JSON to `parse`, inflated. Returns its answer, and how many bytes of JSON there were.
    fn parse<T>(
        &self,
        path: &Path,
        limits: ReadLimits,
        parse: impl FnOnce(&mut Parser<'_>) -> parse::Result<T>,
    ) -> Result<(T, u64), ReadError> {
        let ((parsed, json_bytes), file_bytes) = with_blocks(&self.file, self.is_gzip, |blocks| {
            let mut parser = Parser::new(blocks, limits);
            (parse(&mut parser), parser.bytes())
        });
        match parsed {
            Ok(parsed) => Ok((parsed, json_bytes)),
            Err(error) => {
                let compressed = self.is_gzip.then_some(file_bytes);
                Err(error::of_parsing(path, error, compressed, json_bytes))
            }
        }
    }
}

/// Of a pipe or a device. Opening a pipe would wait for its other end.
const NO_FILE: &str = "not a regular file (what comes through a pipe is read with `-` in the place of the file)";

/// What the file is instead, if its first bytes say so.
fn not_a_profile(start: &[u8]) -> Option<&'static str> {
    // From tools/perf/util/header.c and the front end's importers.
    const MAGICS: &[(&[u8], &str)] = &[
        (b"PERFILE2", "a perf.data file"),
        (b"JSLB", "a binary profile (JSLB), which this version does not read"),
        (b"PK\x03\x04", "a zip archive: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
        (b"\x7fELF", "a program, not a recording of it"),
    ];
    if start.is_empty() {
        return Some("empty");
    }
    if let Some((_, what)) = MAGICS.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Some(what);
    }
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    (first != Some(&b'{')).then_some("neither gzip nor a JSON object")
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..])? {
            0 => break,
            read => len += read,
        }
    }
    Ok(len)
}
