//! Reads saved profiles of sprof and of other profilers.
//!
//! Reading checks the file as a stream from first byte to last. Memory stays within the caller's limit, whatever the
//! file's size or compression. [`open`] reads what serving needs and [`whole()`] what views need. [`foreign()`] reads
//! the same from folded stacks and other profilers' files.

mod error;
mod foreign;
mod inflate;
mod parse;
mod position;
mod serving;
mod whole;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

pub use error::{OtherKind, ReadError};
pub use foreign::{Foreign, ForeignFormat, NOTE_OF_COUNT, foreign, kind};
use inflate::with_blocks;
use parse::Parser;
pub use position::FilePosition;
pub use whole::NotKept;
use whole::{AllFields, FieldChoice, ViewFields};

use recording::regular_file;

use crate::data::{Data, ForViews, SavedData, SavedLib, prepare};
use crate::tracks::Tracks;

/// Limits of reading. In addition, memory must stay in proportion to the bytes read: a few bytes that expand to large
/// structures or refer to one long text many times are refused.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Approximate bytes of memory. Default 128 MiB.
    pub memory_bytes: u64,
    /// Bytes of inflated JSON. Default 4 GiB; browsers fail well below.
    pub json_bytes: u64,
    /// Values in lists and objects. [`whole()`] keeps 8 bytes of each. Default 400 million.
    pub values: u64,
}

/// Bytes of memory that any file may use, however small it is.
const FREE_BYTES: u64 = 64 << 20;
/// Bytes of memory for each byte of the inflated file. Each `0,` in a column of addresses takes 16.
const BYTES_FOR_ONE: u64 = 16;

/// The memory allowed for this many bytes read.
fn proportionate_bytes(read_bytes: u64) -> u64 {
    FREE_BYTES.saturating_add(read_bytes.saturating_mul(BYTES_FOR_ONE))
}

/// The name of the limit [`proportionate_bytes`] in messages.
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

/// The two forms of Firefox profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The front end's form, with `meta.preprocessedProfileVersion`: written by sprof, samply and the front end.
    Processed {
        /// That version. A front end refuses versions newer than its own.
        version: u32,
    },
    /// Firefox's form, which the front end converts.
    Gecko {
        /// `meta.version`.
        version: u32,
    },
}

impl Form {
    /// True for forms that [`whole()`] and [`everything`] read.
    pub fn is_for_views(self) -> bool {
        matches!(self, Form::Processed { version } if whole::VERSIONS.contains(&version))
    }
}

/// A saved profile whose JSON is valid to its end and has the parts that the front end needs.
#[derive(Debug)]
pub struct SavedProfile {
    /// Its form.
    pub form: Form,
    /// `meta.product`: the recorded program.
    pub product: Option<String>,
    /// `meta.importedFrom`: the program that wrote the file, if named.
    pub imported_from: Option<String>,
    /// `meta.symbolicated`: true if functions have names.
    pub symbolicated: Option<bool>,
    /// Libraries without duplicates, including those of subprocesses and threads.
    pub libs: Vec<SavedLib>,
    /// Number of threads, including those of subprocesses.
    pub threads: u64,
    /// The rows of the timeline; `None` if the file does not list the initially visible ones.
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
    /// The file that was read, positioned at its first byte, to serve it unchanged. It is the same file even if its
    /// path now names another.
    ///
    /// # Errors
    ///
    /// The file can't be rewound.
    pub fn into_file(self) -> Result<File, std::io::Error> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }
}

/// Reads and checks the profile in `path`.
///
/// # Errors
///
/// The file can't be read, is damaged, is not a profile of the Firefox Profiler in a known version, or exceeds the
/// limits. The text names the file, the place, the expected content and the next step.
pub fn open(path: &Path, limits: ReadLimits) -> Result<SavedProfile, ReadError> {
    let opened = Opened::open(path)?;
    let (found, json_bytes) = opened.parse(path, limits, |json| serving::read(json, limits))?;
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

/// Reads everything that views need: the front end's form, versions 49 to 75.
///
/// # Errors
///
/// The file can't be read, is damaged, is not a profile of the Firefox Profiler in such a version, or exceeds the
/// limits. The text names the file, the place, the expected content and the next step.
pub fn whole(path: &Path, limits: ReadLimits) -> Result<Data, ReadError> {
    Ok(prepared(tables::<ViewFields>(path, limits)?))
}

/// Like [`whole()`], with the data of markers and what else the viewer shows.
///
/// # Errors
///
/// The file can't be read, is damaged, is not a profile of the Firefox Profiler in a known version, or exceeds the
/// limits.
pub fn for_page(path: &Path, limits: ReadLimits) -> Result<Data, ReadError> {
    Ok(prepared(tables::<AllFields>(path, limits)?))
}

/// Like [`for_page`], for an open file, whatever its path names now. `path` is for errors.
///
/// # Errors
///
/// As of [`for_page`].
pub fn file_for_page(file: File, path: &Path, limits: ReadLimits) -> Result<Data, ReadError> {
    let (raw, _) = Opened::from_file(file, path)?.parse(path, limits, whole::parse::<AllFields>)?;
    Ok(prepared(whole::to_data(raw).map_err(|error| error.of(path))?))
}

fn prepared((mut data, for_views, _): (Data, ForViews, NotKept)) -> Data {
    prepare(&mut data, for_views);
    data
}

/// Reads everything needed to write the profile again: data of markers, counters, unknown fields.
///
/// # Errors
///
/// The file can't be read, is damaged, is not a profile of the Firefox Profiler in a known version, or exceeds the
/// limits.
pub fn everything(path: &Path, limits: ReadLimits) -> Result<SavedData, ReadError> {
    everything_but(path, limits).map(|(data, _)| data)
}

/// Like [`everything`], and returns what could not be kept.
///
/// # Errors
///
/// The file can't be read, is damaged, is not a profile of the Firefox Profiler in a known version, or exceeds the
/// limits.
pub fn everything_but(path: &Path, limits: ReadLimits) -> Result<(SavedData, NotKept), ReadError> {
    let (mut data, for_views, not_kept) = tables::<AllFields>(path, limits)?;
    data.recorded = for_views.facts.into_recorded();
    Ok((SavedData(data), not_kept))
}

fn tables<E: FieldChoice>(path: &Path, limits: ReadLimits) -> Result<(Data, ForViews, NotKept), ReadError> {
    let read = Opened::open(path)?.parse(path, limits, whole::parse::<E>);
    // Tables in Firefox's own form are lists of rows. The first row's error would call a sound file damaged.
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

/// An open file that may be a profile, at its first byte.
struct Opened {
    file: File,
    is_gzip: bool,
    file_bytes: u64,
}

impl Opened {
    fn open(path: &Path) -> Result<Opened, ReadError> {
        match open_regular(path) {
            Ok(file) => Opened::from_file(file, path),
            Err(error) => Err(foreign::other_kind(path).map_or(error, |kind| ReadError::OtherKind {
                path: PathBuf::from(path),
                kind,
            })),
        }
    }

    /// A regular file, from its first byte.
    fn from_file(mut file: File, path: &Path) -> Result<Opened, ReadError> {
        let path_buf = || PathBuf::from(path);
        let unreadable = |source| ReadError::Open {
            path: path_buf(),
            source,
        };
        let metadata = file.metadata().map_err(unreadable)?;
        file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        let mut start = [0u8; 16];
        let len = read_up_to(&mut file, &mut start).map_err(unreadable)?;
        let start = &start[..len];
        file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        // RFC 1952, section 2.3.1.
        let is_gzip = start.starts_with(&[0x1f, 0x8b]);
        if let Some(kind) = foreign::other_kind(path) {
            return Err(ReadError::OtherKind { path: path_buf(), kind });
        }
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

    /// Inflates the JSON and passes it to `parse`. Returns the answer and the number of bytes of JSON.
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
                Err(parse_error(path, error, compressed, json_bytes))
            }
        }
    }
}

/// A parse error with the file's path. `compressed` is the offset in a compressed file; `json_bytes` is 0 for an empty
/// file.
fn parse_error(path: &Path, error: parse::Error, compressed: Option<u64>, json_bytes: u64) -> ReadError {
    let (why, at) = error.into_parts();
    let damaged = |what: String| ReadError::Damaged {
        path: path.to_owned(),
        what,
        at,
    };
    match why {
        parse::ParseFault::Io(error) => {
            error::io_error(path, compressed.map(|_| "gzip"), compressed.unwrap_or(0), error)
        }
        parse::ParseFault::Limit(limit) => ReadError::TooLarge {
            path: path.to_owned(),
            what: limit.what,
            limit_bytes: limit.bytes,
        },
        _ if json_bytes == 0 => truncated(path, at),
        parse::ParseFault::End => truncated(path, at),
        parse::ParseFault::Syntax(what) => damaged(what.to_owned()),
        parse::ParseFault::Data(what) => damaged(what),
    }
}

fn truncated(path: &Path, at: FilePosition) -> ReadError {
    ReadError::Truncated {
        path: path.to_owned(),
        at,
    }
}

/// Opens a file, but no pipe and no device.
fn open_regular(path: &Path) -> Result<File, ReadError> {
    regular_file::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => ReadError::NotAProfile {
            path: path.to_owned(),
            found: NO_FILE,
        },
        _ => ReadError::Open {
            path: path.to_owned(),
            source: error,
        },
    })
}

const NO_FILE: &str = "not a regular file (what comes through a pipe is read with `-` in the place of the file)";

/// The file's actual format, if its first bytes identify one.
fn not_a_profile(start: &[u8]) -> Option<&'static str> {
    // From tools/perf/util/header.c and the front end's importers.
    const MAGICS: &[(&[u8], &str)] = &[
        (b"PERFILE2", "a perf.data file"),
        (b"JSLB", "a binary profile (JSLB), which this version does not read"),
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
