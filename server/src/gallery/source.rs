//! Where the files of a page are: in a folder ([`FolderSource`](super::folder::FolderSource)) or in a bucket
//! ([`BucketSource`](super::bucket::BucketSource)).
//!
//! [`ProfileSource`] is what the rest knows of it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tempfile::TempPath;

/// Entries that a list is made of: of a larger source it shows a part, and says so.
pub(super) const ENTRIES: usize = 200_000;

/// Files that are listed, the newest first.
pub(super) const FILES: usize = 5_000;

/// Endings of names of profiles. The content decides what a file is; without these a scan would open every file.
const ENDS: [&str; 13] = [
    ".json.gz",
    ".json",
    ".pb.gz",
    ".pprof",
    ".prof",
    ".perf",
    ".data",
    ".folded",
    ".collapsed",
    ".callgrind",
    ".partial",
    ".perf.txt",
    ".perf.gz",
];

/// Beginnings of names that other profilers give their files.
const BEGINNINGS: [&str; 6] = [
    "perf.data",
    "callgrind.out",
    "cachegrind.out",
    "dhat.out",
    "massif.out",
    "heaptrack.",
];

/// A place with files.
pub(super) trait ProfileSource: Send + Sync {
    /// Its name for people.
    fn name(&self) -> String;

    /// A list that is younger is not made again: many may load the page at once.
    fn fresh(&self) -> Duration;

    /// All files that may be profiles, the newest first.
    ///
    /// # Errors
    ///
    /// Nothing of it can be read.
    fn list(&self) -> Result<Listing, String>;

    /// Opens a listed file, if it has not changed since it was listed.
    ///
    /// # Errors
    ///
    /// The file is gone, can't be read, or is another one by now.
    fn open(&self, found: &FoundFile) -> Result<OpenedFile, NotOpened>;
}

/// Why a file could not be opened.
#[derive(Debug)]
pub(super) struct NotOpened {
    pub(super) why: String,
    /// It may have more luck later, and nothing is wrong with the file.
    pub(super) is_passing: bool,
}

impl From<String> for NotOpened {
    fn from(why: String) -> NotOpened {
        NotOpened { why, is_passing: false }
    }
}

/// The files of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<FoundFile>,
    /// What is not in the list, a sentence each.
    pub(super) notes: Vec<String>,
}

impl Listing {
    /// The newest files, and a note for what is left out.
    pub(super) fn of(mut files: Vec<FoundFile>, left_out: &[(usize, &str)]) -> Listing {
        files.sort_by(|a, b| (b.version.modified, &a.key).cmp(&(a.version.modified, &b.key)));
        let older = (files.len().saturating_sub(FILES), "older files are not listed");
        files.truncate(FILES);
        let left_out = [older].into_iter().chain(left_out.iter().copied());
        let notes = left_out
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{number} {what}"));
        Listing {
            files,
            notes: notes.collect(),
        }
    }
}

/// A file of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundFile {
    /// Its name in addresses, the same for the same path after a restart. No path comes from a request.
    pub(super) id: String,
    /// Its path below the source.
    pub(super) key: PathBuf,
    pub(super) version: FileVersion,
}

impl FoundFile {
    pub(super) fn new(key: PathBuf, version: FileVersion) -> FoundFile {
        let hash = Sha256::digest(key.as_os_str().as_encoded_bytes());
        let id = hash.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
        FoundFile { id, key, version }
    }
}

/// A file with another version has another content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    pub(super) modified: SystemTime,
    pub(super) bytes: u64,
    /// Distinguishes files at one path: device and inode, or what the server says.
    pub(super) mark: (u64, u64),
}

/// An open file, and a path that leads to it as long as it is open.
pub(super) struct OpenedFile {
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    /// The file is removed when the last copy is dropped.
    _temporary: Option<TempPath>,
}

impl OpenedFile {
    pub(super) fn new(file: File, named: PathBuf) -> OpenedFile {
        let path = path_of(&file).unwrap_or(named);
        OpenedFile {
            file: Arc::new(file),
            path,
            _temporary: None,
        }
    }

    /// A file that nobody else needs. It has no name where it is found without one.
    pub(super) fn temporary(file: File, named: TempPath) -> OpenedFile {
        match path_of(&file) {
            Some(path) => OpenedFile {
                file: Arc::new(file),
                path,
                _temporary: None,
            },
            None => OpenedFile {
                file: Arc::new(file),
                path: named.to_path_buf(),
                _temporary: Some(named),
            },
        }
    }
}

/// A path to an open file, whatever is at its name by now. Only Linux has one: macOS's /dev/fd shares the position in
/// the file.
pub(super) fn path_of(file: &File) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    path.exists().then_some(path)
}

/// True if a file of this name is looked at.
pub(super) fn may_be_profile(name: &OsStr) -> bool {
    let name: OsString = name.to_ascii_lowercase();
    let name = name.as_bytes();
    ENDS.iter().any(|end| name.ends_with(end.as_bytes()))
        || BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning.as_bytes()))
}
