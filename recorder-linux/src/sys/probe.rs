//! A page of a program file, mapped as the program would have it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::last_error;
use super::ring::page_bytes;

/// One page of a file in this process, executable, never read: the file may become shorter meanwhile.
#[derive(Debug)]
pub(crate) struct MappedPage {
    start: *mut libc::c_void,
    bytes: usize,
}

impl MappedPage {
    /// Maps the page that holds an offset.
    pub(crate) fn of(file: &File, offset: u64) -> io::Result<MappedPage> {
        let bytes = page_bytes();
        let first = offset - offset % bytes as u64;
        let first = libc::off_t::try_from(first).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: a new private mapping at an address of the kernel's choice; nothing of ours is replaced.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_EXEC,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                first,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(last_error());
        }
        Ok(MappedPage { start, bytes })
    }
}

impl Drop for MappedPage {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length, unmapped once, and no reference into it was ever made.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}
