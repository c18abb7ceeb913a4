//! Read-only mappings of object files.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file mapped read-only.
///
/// Hazard, taken knowingly: when someone truncates the file while we read it, the pages past its new end are gone
/// and reading them raises SIGBUS, which ends this process. Linkers, package managers and cargo replace files by
/// unlinking or renaming, which leaves the mapped inode alone; only a tool that truncates in place (`cp` over an
/// existing file, `objcopy` onto itself) does harm. Copying 200 MB on every load would cost more CPU than the whole
/// look-up does, so we map, and [`Mapping::check_unchanged`] before every batch keeps the window short.
pub(crate) struct Mapping {
    map: memmap2::Mmap,
    file: File,
    seen: Stamp,
}

/// What changes when a file is written to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Mapping {
    /// Maps the whole of a regular file.
    pub(crate) fn open(path: &Path) -> io::Result<Mapping> {
        // Ask before opening: opening a FIFO would wait for a writer, and some devices act on being opened.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        // SAFETY: the mapping is private and read-only, and lives no longer than `Mapping`. `Mmap` asks that the file
        // does not change under it. We can't forbid that; what follows is bounded: a write in place changes bytes
        // that every reader here treats as hostile input anyway (plain integers and UTF-8 checked on use), and a
        // truncation ends the process by SIGBUS (see the type's documentation). Neither breaks memory safety by
        // way of the parsers, which hold no invariant across two reads of the same byte that memory safety needs.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Mapping {
            map,
            seen: Stamp::of(&metadata),
            file,
        })
    }

    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// False if the file was written to since it was mapped: what is known of it is void.
    pub(crate) fn check_unchanged(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|metadata| Stamp::of(&metadata) == self.seen)
    }
}
