//! Opens the memory of a program that did not send it: one that ran before, or that is in another network namespace.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use recording::event::{Mapping, Pid};
use rustix::fs::{Mode, OFlags, fstat};
use spans::format::NAME;

/// True for the mapping by which the memory is found.
pub(super) fn is_of_spans(mapping: &Mapping<'_>) -> bool {
    let name = mapping.path.strip_prefix(b"/memfd:").unwrap_or_default();
    name.strip_suffix(b" (deleted)").unwrap_or(name) == NAME.as_bytes()
}

/// The memory that a process has mapped from `start` to `end`.
///
/// # Errors
///
/// The process has ended, may not be looked into, or has closed the descriptor where sprof is not root.
pub(super) fn open(pid: Pid, start: u64, end: u64) -> io::Result<OwnedFd> {
    let maps = fs::read(format!("/proc/{}/maps", pid.0))?;
    let mapping =
        recording::proc::mappings(&maps).find(|mapping| mapping.start == start && is_of_spans(&mapping.as_mapping()));
    let (.., inode) = mapping
        .and_then(|mapping| mapping.inode)
        .ok_or(io::ErrorKind::NotFound)?;
    let descriptors = fs::read_dir(format!("/proc/{}/fd", pid.0))?
        .flatten()
        .map(|entry| entry.path());
    let mapped = PathBuf::from(format!("/proc/{}/map_files/{start:x}-{end:x}", pid.0));
    for path in descriptors.chain([mapped]) {
        let is_named = fs::read_link(&path).is_ok_and(|to| to.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"));
        // What is opened first can neither be waited for nor written; the program may change the link meanwhile.
        if is_named
            && let Ok(place) = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            && fstat(&place)?.st_ino == inode
        {
            let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place));
            return Ok(rustix::fs::open(
                own,
                OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC,
                Mode::empty(),
            )?);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}
