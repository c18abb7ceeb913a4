//! An open file that can be read after its path is gone.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use recording::sink::ReadAt;

/// An open file.
pub(crate) struct OnDisk(pub(crate) File);

impl ReadAt for OnDisk {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn len(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }

    fn own_path(&self) -> Option<PathBuf> {
        Some(PathBuf::from(format!("/dev/fd/{}", self.0.as_raw_fd())))
    }
}
