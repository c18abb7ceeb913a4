//! A folder of profiles.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, open, openat, statat};

use super::source::{ENTRIES, FileVersion, FoundFile, Listing, NotOpened, OpenedFile, ProfileSource, may_be_profile};

/// Levels of folders below the named one.
const DEPTH: usize = 12;

/// A list that is younger is not made again.
const FRESH: Duration = Duration::from_secs(2);

/// A folder and all below it. No symbolic link is followed: a link of someone who may write there could lead to any
/// file of the user who serves.
pub(super) struct FolderSource {
    path: PathBuf,
    root: OwnedFd,
}

impl FolderSource {
    pub(super) fn open(path: &Path) -> io::Result<FolderSource> {
        Ok(FolderSource {
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
                FileType::RegularFile if may_be_profile(name) => scan.files.push(FoundFile::new(key, version(&stat))),
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
    files: Vec<FoundFile>,
    entries: usize,
    too_deep: usize,
    unreadable: usize,
}

impl ProfileSource for FolderSource {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn fresh(&self) -> Duration {
        FRESH
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
        let left_out = [
            (scan.too_deep, "folders are too deep, and were not looked at"),
            (scan.unreadable, "folders can't be read"),
        ];
        let mut listing = Listing::of(scan.files, &left_out);
        if scan.entries > ENTRIES {
            listing.notes.push(format!(
                "the folder has more than {ENTRIES} entries: the rest was not looked at"
            ));
        }
        Ok(listing)
    }

    fn open(&self, found: &FoundFile) -> Result<OpenedFile, NotOpened> {
        let fd = self.below(&found.key, FILE).map_err(|error| error.to_string())?;
        let stat = fstat(&fd).map_err(|error| error.to_string())?;
        if version(&stat) != found.version || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err("the file has changed: load the page again".to_owned().into());
        }
        Ok(OpenedFile::new(File::from(fd), self.path.join(&found.key)))
    }
}

fn version(stat: &rustix::fs::Stat) -> FileVersion {
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    let (seconds, nanos) = (stat.st_mtime as i64, stat.st_mtime_nsec as u32);
    let since = Duration::new(seconds.unsigned_abs(), nanos);
    let modified = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(since),
        _ => SystemTime::UNIX_EPOCH.checked_sub(since),
    };
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    FileVersion {
        modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
        bytes: stat.st_size.max(0) as u64,
        mark: (stat.st_dev as u64, stat.st_ino as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    /// A folder with these files; the first is the newest.
    fn folder(names: &[&str]) -> (tempfile::TempDir, FolderSource) {
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
        let folder = FolderSource::open(dir.path()).unwrap();
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
            let found = FoundFile {
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
        assert!(folder.open(&found).is_err_and(|error| error.why.contains("changed")));
    }
}
