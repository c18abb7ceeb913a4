//! Files with results of look-ups, for the next start.
//!
//! An entry is used only if all its bytes are as they were written, by this user and for this form: else what it holds
//! is made again. It appears whole or not at all, also where several sprofs write at once or one is killed, because it
//! is written beside its name and renamed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Magic number and version of an entry. Another layout has another number.
const FORM: &[u8; 8] = b"sprof\0c1";

/// `FORM`, length of the content and checksum (CRC-32) of name and content, little-endian.
const HEADER_BYTES: usize = 8 + 8 + 4;

/// The largest entry. Symbols of a distribution's kernel take 3 MB.
const MAX_ENTRY_BYTES: u64 = 64 << 20;

/// All entries together. The oldest go first.
const MAX_BYTES: u64 = 256 << 20;

/// Entries that were used in this time stay; unfinished ones that are older are of a sprof that was killed.
const RECENT: Duration = Duration::from_secs(3600);

/// What names of entries end in. Other files in the folder are not the cache's.
const SUFFIX: &str = ".sprof-cache";

/// A folder of entries.
pub(crate) struct Cache<'a> {
    dir: &'a Path,
}

impl Cache<'_> {
    /// The folder is made when the first entry is written.
    pub(crate) fn new(dir: &Path) -> Cache<'_> {
        Cache { dir }
    }

    /// The content of an entry. `None` if it is absent, damaged, or another user's.
    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        let file = OpenOptions::new()
            .read(true)
            // A FIFO would wait for a writer.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(self.path(name))
            .ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || !is_own(&metadata) || metadata.len() > MAX_ENTRY_BYTES {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).take(MAX_ENTRY_BYTES).read_to_end(&mut bytes).ok()?;
        let (header, content) = bytes.split_at_checked(HEADER_BYTES)?;
        if header != header_of(name, content) {
            return None;
        }
        // Those that are in use stay. Without the right to say so, they go by their age.
        let _ = file.set_modified(SystemTime::now());
        bytes.drain(..HEADER_BYTES);
        Some(bytes)
    }

    /// Writes an entry, and removes the oldest ones where there are too many bytes.
    ///
    /// # Errors
    ///
    /// The folder is another user's, can't be written to, or has no room. Nothing is lost: the entry is made again next
    /// time.
    pub(crate) fn put(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let bytes = (content.len() + HEADER_BYTES) as u64;
        if !Cache::takes(content.len()) {
            return Err(io::Error::other("too large to be kept"));
        }
        self.make_folder()?;
        self.make_room(MAX_BYTES - bytes)?;
        let unfinished = self.dir.join(unfinished_name());
        let written = write_new(&unfinished, name, content).and_then(|()| fs::rename(&unfinished, self.path(name)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{SUFFIX}"))
    }

    pub(crate) fn make_folder(&self) -> io::Result<()> {
        let other_user = || io::Error::other("the folder belongs to another user");
        if fs::symlink_metadata(self.dir).is_err() {
            // Root makes no folder in a user's home, where the user could not use it.
            let mut around = self
                .dir
                .ancestors()
                .skip(1)
                .filter_map(|folder| fs::metadata(folder).ok());
            if rustix::process::geteuid().is_root() && !around.next().is_some_and(|metadata| is_own(&metadata)) {
                return Err(other_user());
            }
            DirBuilder::new().recursive(true).mode(0o700).create(self.dir)?;
        }
        let metadata = fs::symlink_metadata(self.dir)?;
        (metadata.is_dir() && is_own(&metadata))
            .then_some(())
            .ok_or_else(other_user)
    }

    /// True if an entry of `size` bytes may be kept.
    pub(crate) fn takes(size: usize) -> bool {
        (size + HEADER_BYTES) as u64 <= MAX_ENTRY_BYTES
    }

    /// Removes the oldest entries until the others have at most this many bytes. Those that were used in this hour
    /// stay: removing them for each other would be work for nothing.
    fn make_room(&self, limit: u64) -> io::Result<()> {
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(self.dir)?.flatten() {
            let (name, metadata) = (entry.file_name(), entry.metadata());
            let Some(metadata) = metadata.ok().filter(|metadata| metadata.is_file() && is_own(metadata)) else {
                continue;
            };
            let Ok(modified) = metadata.modified() else { continue };
            let name = name.as_encoded_bytes();
            if name.ends_with(SUFFIX.as_bytes()) {
                entries.push((modified, metadata.len(), entry.path()));
            } else if name.ends_with(UNFINISHED.as_bytes()) && !is_recent(modified) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        entries.sort_unstable();
        for (modified, size, path) in entries {
            if bytes <= limit || is_recent(modified) {
                break;
            }
            if fs::remove_file(path).is_ok() {
                bytes -= size;
            }
        }
        if bytes <= limit {
            Ok(())
        } else {
            Err(io::Error::other("there is no room"))
        }
    }
}

/// What names of unfinished entries end in.
const UNFINISHED: &str = ".sprof-new";

/// Another one for each call, also in containers that share a folder and number their processes alike.
fn unfinished_name() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    format!(".{}-{call}-{}{UNFINISHED}", std::process::id(), now.as_nanos())
}

fn is_recent(modified: SystemTime) -> bool {
    let age = match modified.elapsed() {
        Ok(age) => age,
        // A clock was set back.
        Err(ahead) => ahead.duration(),
    };
    age < RECENT
}

fn write_new(path: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&header_of(name, content))?;
    file.write_all(content)
}

fn header_of(name: &str, content: &[u8]) -> [u8; HEADER_BYTES] {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(name.as_bytes());
    checksum.update(content);
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(FORM);
    header[8..16].copy_from_slice(&(content.len() as u64).to_le_bytes());
    header[16..].copy_from_slice(&checksum.finalize().to_le_bytes());
    header
}

/// Root must not believe what a user wrote, and a user can't replace what root wrote.
fn is_own(metadata: &fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_damaged_anywhere_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        assert_eq!(cache.get("a"), None);
        let content: Vec<u8> = (0..300u32).map(|n| (n * 7) as u8).collect();
        cache.put("a", &content).unwrap();
        assert_eq!(cache.get("a").as_ref(), Some(&content));
        let path = dir.path().join("a.sprof-cache");
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.get("a"), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(cache.get("a"), None, "cut at {at}");
        }
        fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(cache.get("a"), None, "longer");
        cache.put("a", &content).unwrap();
        fs::copy(&path, dir.path().join("b.sprof-cache")).unwrap();
        assert_eq!(cache.get("b"), None, "under another name");
        assert_eq!(cache.get("a"), Some(content), "written again");
    }

    #[test]
    fn entries_are_the_users_alone_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("deep/sprof");
        let cache = Cache::new(&folder);
        cache.put("a", b"text").unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(
            fs::metadata(folder.join("a.sprof-cache")).unwrap().mode() & 0o777,
            0o600
        );
        fs::rename(folder.join("a.sprof-cache"), dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), folder.join("a.sprof-cache")).unwrap();
        assert_eq!(cache.get("a"), None);
        cache.put("a", b"text").unwrap();
        assert_eq!(
            cache.get("a").as_deref(),
            Some(&b"text"[..]),
            "the link was replaced, not followed"
        );
        assert!(fs::symlink_metadata(folder.join("a.sprof-cache")).unwrap().is_file());
    }

    #[test]
    fn the_oldest_entries_go_first_and_nothing_else_goes() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        let now = SystemTime::now();
        let age = |path: PathBuf, hours: u64| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.set_modified(now - Duration::from_secs(hours * 3600 + 60)).unwrap();
        };
        for (hours, name) in [(9, "oldest"), (8, "old"), (7, "used"), (6, "new")] {
            cache.put(name, &[0; 1000]).unwrap();
            age(cache.path(name), hours);
        }
        for (hours, name) in [
            (9, ".bashrc"),
            (9, "sprof-app.json.gz"),
            (9, ".1-0-2.sprof-new"),
            (0, ".1-0-3.sprof-new"),
        ] {
            fs::write(dir.path().join(name), [0; 1000]).unwrap();
            age(dir.path().join(name), hours);
        }
        fs::remove_file(cache.path("oldest")).unwrap();
        fs::create_dir(cache.path("oldest")).unwrap();
        File::open(dir.path().join(".1-0-3.sprof-new"))
            .unwrap()
            .set_modified(now)
            .unwrap();
        assert!(cache.get("used").is_some());
        cache.make_room(2100).unwrap();
        let mut left: Vec<String> = (fs::read_dir(dir.path()).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let expected = [
            ".1-0-3.sprof-new",
            ".bashrc",
            "new.sprof-cache",
            "oldest.sprof-cache",
            "sprof-app.json.gz",
            "used.sprof-cache",
        ];
        assert_eq!(left, expected);
        assert!(cache.make_room(100).is_err(), "what is in use stays");
        assert!(cache.get("used").is_some() && cache.get("new").is_none());
    }

    #[test]
    fn a_folder_that_is_a_link_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("real")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
        assert!(Cache::new(&dir.path().join("link")).put("a", b"text").is_err());
        assert!(Cache::new(&dir.path().join("real")).put("a", b"text").is_ok());
    }

    #[test]
    fn several_writers_leave_one_whole_entry() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let dir = dir.path();
                scope.spawn(move || {
                    for round in 0..50 {
                        let name = format!("a{}", (writer + round) % 2);
                        Cache::new(dir).put(&name, &vec![writer; 50_000]).unwrap();
                        if let Some(content) = Cache::new(dir).get(&name) {
                            assert!(content.len() == 50_000 && content.iter().all(|byte| *byte == content[0]));
                        }
                    }
                });
            }
        });
    }
}
