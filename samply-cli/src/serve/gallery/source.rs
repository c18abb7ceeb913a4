//! Where the files of a page are: a folder.
//!
//! [`Source`] is what the rest knows of it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, open, openat, statat};
use sha2::{Digest, Sha256};

/// Levels of folders below the named one.
const DEPTH: usize = 12;

/// Entries of folders that a scan looks at: of a larger tree it shows a part, and says so.
const ENTRIES: usize = 200_000;

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
const BEGINNINGS: [&str; 4] = ["perf.data", "callgrind.out", "cachegrind.out", "dhat.out"];

/// A place with files.
pub(super) trait Source: Send + Sync {
    /// Its name for people.
    fn name(&self) -> String;

    /// All files that may be profiles, the newest first.
    ///
    /// # Errors
    ///
    /// Nothing of it can be read.
    fn list(&self) -> Result<Listing, String>;

    /// Opens a listed file, if its version is still that of the list.
    ///
    /// # Errors
    ///
    /// The file is gone, can't be read, or is another one by now.
    fn open(&self, found: &Found) -> Result<Opened, String>;
}

/// The files of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<Found>,
    /// What is not in the list, a sentence each.
    pub(super) notes: Vec<String>,
}

/// A file of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its name in addresses, the same for the same path after a restart. No path comes from a request.
    pub(super) id: String,
    /// Its path below the source.
    pub(super) key: PathBuf,
    pub(super) version: Version,
}

impl Found {
    fn new(key: PathBuf, version: Version) -> Found {
        let hash = Sha256::digest(key.as_os_str().as_encoded_bytes());
        let id = hash.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
        Found { id, key, version }
    }
}

/// A file with another version has another content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) modified: SystemTime,
    pub(super) bytes: u64,
    /// Tells files at one path apart: device and inode.
    mark: (u64, u64),
}

impl Version {
    fn of(stat: &rustix::fs::Stat) -> Version {
        #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
        let (seconds, nanos) = (stat.st_mtime as i64, stat.st_mtime_nsec as u32);
        let since = Duration::new(seconds.unsigned_abs(), nanos);
        let modified = match seconds {
            0.. => SystemTime::UNIX_EPOCH.checked_add(since),
            _ => SystemTime::UNIX_EPOCH.checked_sub(since),
        };
        #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
        Version {
            modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
            bytes: stat.st_size.max(0) as u64,
            mark: (stat.st_dev as u64, stat.st_ino as u64),
        }
    }
}

/// An open file, and a path that leads to it as long as it is open.
pub(super) struct Opened {
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
}

impl Opened {
    fn new(file: File, named: PathBuf) -> Opened {
        let path = path_of(&file).unwrap_or(named);
        Opened {
            file: Arc::new(file),
            path,
        }
    }
}

/// A path to an open file, whatever is at its name by now. Only Linux has one: macOS's /dev/fd shares the position in the file.
pub(super) fn path_of(file: &File) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    path.exists().then_some(path)
}

/// A folder and all below it. No symbolic link is followed: a link of someone who may write there could lead to any file of the
/// user who serves.
pub(super) struct Folder {
    path: PathBuf,
    root: OwnedFd,
}

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder {
            path: path.to_owned(),
            root: open(path, FOLDER - OFlags::NOFOLLOW, Mode::empty())?,
        })
    }

    /// Opens what is at this path, one name after another.
    fn below(&self, path: &Path, last: OFlags) -> io::Result<OwnedFd> {
        let mut names = path.components().peekable();
        let mut at = self.root.try_clone()?;
        while let Some(name) = names.next() {
            let Component::Normal(name) = name else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let flags = if names.peek().is_some() { FOLDER } else { last };
            at = openat(&at, name, flags, Mode::empty())?;
        }
        Ok(at)
    }

    /// Adds the files of one folder, and its folders to those that are open.
    fn scan(&self, folder: &Path, scan: &mut Scan) -> io::Result<()> {
        let fd = self.below(folder, FOLDER)?;
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name.as_bytes().starts_with(b".") {
                continue;
            }
            scan.entries += 1;
            if scan.entries > ENTRIES {
                return Ok(());
            }
            let Ok(stat) = statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let key = folder.join(name);
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if folder.components().count() < DEPTH => scan.open.push(key),
                FileType::Directory => scan.too_deep += 1,
                FileType::RegularFile if may_be_profile(name) => scan.files.push(Found::new(key, Version::of(&stat))),
                _ => {}
            }
        }
        Ok(())
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opening a pipe would wait for its other end.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// A scan in work.
#[derive(Default)]
struct Scan {
    open: Vec<PathBuf>,
    files: Vec<Found>,
    entries: usize,
    too_deep: usize,
    unreadable: usize,
}

impl Source for Folder {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn list(&self) -> Result<Listing, String> {
        let mut scan = Scan::default();
        self.scan(Path::new(""), &mut scan)
            .map_err(|error| format!("reading {} failed: {error}", self.path.display()))?;
        while let Some(folder) = scan.open.pop() {
            if scan.entries > ENTRIES {
                break;
            }
            // A folder may be gone by now, or be another user's.
            scan.unreadable += usize::from(self.scan(&folder, &mut scan).is_err());
        }
        let mut files = scan.files;
        files.sort_by(|a, b| (b.version.modified, &a.key).cmp(&(a.version.modified, &b.key)));
        let left_out = files.len().saturating_sub(FILES);
        files.truncate(FILES);
        let mut notes = Vec::new();
        for (number, what) in [
            (left_out, "older files are not listed"),
            (scan.too_deep, "folders are too deep, and were not looked at"),
            (scan.unreadable, "folders can't be read"),
        ] {
            if number > 0 {
                notes.push(format!("{number} {what}"));
            }
        }
        if scan.entries > ENTRIES {
            notes.push(format!(
                "the folder has more than {ENTRIES} entries: the rest was not looked at"
            ));
        }
        Ok(Listing { files, notes })
    }

    fn open(&self, found: &Found) -> Result<Opened, String> {
        let fd = self.below(&found.key, FILE).map_err(|error| error.to_string())?;
        let stat = fstat(&fd).map_err(|error| error.to_string())?;
        if Version::of(&stat) != found.version || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err("the file has changed: load the page again".to_owned());
        }
        Ok(Opened::new(File::from(fd), self.path.join(&found.key)))
    }
}

fn may_be_profile(name: &OsStr) -> bool {
    let name: OsString = name.to_ascii_lowercase();
    let name = name.as_bytes();
    ENDS.iter().any(|end| name.ends_with(end.as_bytes()))
        || BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    /// A folder with these files; the first is the newest.
    fn folder(names: &[&str]) -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        for (age, name) in (0..).zip(names) {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, *name).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
        let folder = Folder::open(dir.path()).unwrap();
        (dir, folder)
    }

    fn keys(listing: &Listing) -> Vec<&str> {
        listing.files.iter().map(|found| found.key.to_str().unwrap()).collect()
    }

    #[test]
    fn files_of_all_folders_are_listed_the_newest_first() {
        let names = ["b/new.json.gz", "a.JSON", "b/c/perf.data.old", "x.folded"];
        let (dir, folder) = folder(&[&names[..], &["notes.md", ".git/x.json", ".x.json"]].concat());
        assert_eq!(keys(&folder.list().unwrap()), names);
        let deep = dir.path().join("d/".repeat(DEPTH + 1));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("x.json"), "{}").unwrap();
        let listing = folder.list().unwrap();
        assert_eq!(keys(&listing), names);
        assert_eq!(listing.notes.len(), 1, "{:?}", listing.notes);
    }

    #[test]
    fn no_link_leads_out_of_the_folder() {
        let (dir, folder) = folder(&["a/one.json"]);
        let (outside, _) = self::folder(&["two.json"]);
        symlink(outside.path(), dir.path().join("out")).unwrap();
        symlink(outside.path().join("two.json"), dir.path().join("two.json")).unwrap();
        let listing = folder.list().unwrap();
        assert_eq!(keys(&listing), ["a/one.json"]);
        // Between the list and the request, someone puts a link in its place.
        let found = &listing.files[0];
        fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        symlink(dir.path().join("b"), dir.path().join("a")).unwrap();
        assert!(folder.open(found).is_err());
        for key in [
            "../two.json",
            "/etc/passwd",
            "out/two.json",
            "two.json",
            "./a/../a/one.json",
        ] {
            let found = Found {
                key: key.into(),
                ..found.clone()
            };
            assert!(folder.open(&found).is_err(), "{key}");
        }
    }

    #[test]
    fn a_file_is_opened_in_the_version_of_the_list() {
        let (dir, folder) = folder(&["one.json"]);
        let found = folder.list().unwrap().files.remove(0);
        let mut text = String::new();
        let opened = folder.open(&found).unwrap();
        // Its path leads to it, whatever its name is.
        fs::rename(dir.path().join("one.json"), dir.path().join("other")).unwrap();
        assert!(folder.open(&found).is_err());
        if opened.path.starts_with("/proc") {
            File::open(&opened.path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "one.json");
        }
        fs::write(dir.path().join("one.json"), "other").unwrap();
        assert!(folder.open(&found).is_err_and(|error| error.contains("changed")));
    }
}
