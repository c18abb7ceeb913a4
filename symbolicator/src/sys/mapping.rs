//! Read-only mappings of object files.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use recording::regular_file;

use super::fault;

/// A file mapped read-only.
///
/// Copying 158 MB instead takes 0.15 s of CPU time and as much memory, where looking up 100 addresses takes 0.04 s.
/// When the file is truncated meanwhile (`cp` over it, `objcopy` onto itself; linkers, package managers and cargo
/// unlink or rename, which does not change the mapped inode), the cut part reads as zeros (see [`fault`]), and
/// [`Mapping::check_unchanged`] becomes false.
pub(crate) struct Mapping {
    guard: &'static fault::MappingGuard,
    map: memmap2::Mmap,
    file: File,
    seen: FileStamp,
}

/// Properties of a file that change when it is written to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    size: u64,
    modified: (i64, i64),
}

impl FileStamp {
    fn new(metadata: &Metadata) -> FileStamp {
        FileStamp {
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Bytes that differ between two files, and between two states of one: device, inode, size, and the times of the last
/// write to content and properties. The latter is the kernel's own: a write can't be hidden from it by setting times
/// back (inode(7)).
pub(crate) fn identity_of(file: &Metadata) -> Vec<u8> {
    let parts = [file.dev(), file.ino(), file.len()].map(u64::to_le_bytes);
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()].map(i64::to_le_bytes);
    [parts.as_flattened(), times.as_flattened()].concat()
}

impl Mapping {
    /// Maps a regular file.
    pub(crate) fn open(path: &Path) -> io::Result<Mapping> {
        let file = regular_file::open(path)?;
        let metadata = file.metadata()?;
        // SAFETY: the mapping is private and read-only, and lives no longer than `Mapping`. `Mmap` asks that the file
        // does not change under it. We can't forbid that: by the letter of Rust's rules, a slice whose bytes others
        // change is undefined behaviour, and no rule makes it defined. What follows is bounded: a write in place
        // changes bytes that every reader here treats as hostile input anyway (plain integers and UTF-8 checked on
        // use), and a truncation makes zeros of them (see `fault`). Neither breaks memory safety by
        // way of the parsers, which hold no invariant across two reads of the same byte that memory safety needs.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Mapping {
            guard: fault::MappingGuard::new(&map),
            map,
            seen: FileStamp::new(&metadata),
            file,
        })
    }

    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// See [`identity_of`]; `None` if the file's properties can't be read.
    pub(crate) fn identity(&self) -> Option<Vec<u8>> {
        self.file.metadata().ok().as_ref().map(identity_of)
    }

    /// True if this path still names the file that was mapped.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let place = |file: &Metadata| (file.dev(), file.ino());
        let here = self.file.metadata().ok();
        let there = regular_file::metadata(path).ok();
        here.as_ref().map(place) == there.as_ref().map(place) && here.is_some()
    }

    /// False if the file was written to since it was mapped.
    pub(crate) fn check_unchanged(&self) -> bool {
        let is_same = |metadata: Metadata| FileStamp::new(&metadata) == self.seen;
        !self.guard.is_cut() && self.file.metadata().is_ok_and(is_same)
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Fields are dropped, and the file unmapped, after this.
        self.guard.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_wait_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [&*pipe, dir.path(), Path::new("/dev/zero")] {
            let kind = Mapping::open(path).map(|_| ()).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidInput, "{}", path.display());
        }
    }

    #[test]
    fn what_is_cut_off_reads_as_zeros_and_is_noticed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes = 1 << 20;
        let fill = || std::fs::write(file.path(), vec![7; bytes]).unwrap();
        // More than once: guards are used again.
        for kept in [0, 10, 70_000] {
            fill();
            let (cut, whole) = (Mapping::open(file.path()).unwrap(), Mapping::open(file.path()).unwrap());
            assert!(cut.check_unchanged());
            file.as_file().set_len(kept).unwrap();
            let read = cut.bytes();
            // Backwards, in steps that touch each page once, from several threads.
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let last_page = (kept as usize).next_multiple_of(65536);
                        assert!((last_page..bytes).rev().step_by(4000).all(|at| read[at] == 0));
                    });
                }
            });
            assert!(kept == 0 || read[0] == 7);
            assert!(!cut.check_unchanged());
            // By its time and size, although nobody read it.
            assert!(!whole.check_unchanged());
            fill();
            assert!(!cut.check_unchanged(), "zeros were read, whatever the file is now");
        }
    }
}
