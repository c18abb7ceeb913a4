//! An open file that can be read after its path is gone.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use recording::module::FileId;
use recording::sink::ReadAt;

/// A path of this process that leads to an open file, also after the file was renamed or deleted.
pub(super) fn own_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// An open file.
pub(super) struct OnDisk {
    pub(super) file: File,
    /// `None` where no id is needed.
    pub(super) id: Option<FileId>,
}

impl ReadAt for OnDisk {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn file_id(&self) -> Option<FileId> {
        self.id
    }

    fn own_path(&self) -> Option<PathBuf> {
        Some(own_path(&self.file))
    }
}
