//! Tries in this process whether the kernel can put a probe on an instruction.
//!
//! The kernel accepts a definition for any place. In a program that maps the file later the kernel fails in silence,
//! and the probe is never hit. So sprof maps the page for a moment, and opens the probe for itself alone.

use std::fs::File;
use std::path::Path;

use crate::machine::cpus;
use crate::sys::perf_event::{Attr, EventFd, THIS_THREAD, flag};
use crate::sys::probe::MappedPage;
use perf_data::events::names::TRACEPOINT;

/// ENOTSUPP of include/linux/errno.h. It is not meant for user programs, and still reaches them.
const ENOTSUPP: i32 = 524;

/// An event that was put into this process. It lasts until dropped.
#[derive(Debug)]
pub(super) struct Trial {
    _event: EventFd,
    _pages: Vec<MappedPage>,
}

/// Tries out an event with its places, files and offsets. The error is the index of the place, as far as that is known,
/// and a reason for the user.
pub(super) fn run<'a>(event_id: u64, places: impl Iterator<Item = (&'a File, u64)>) -> Result<Trial, (usize, String)> {
    let pages = places
        .enumerate()
        .map(|(at, (file, file_offset))| map(file, file_offset).map_err(|reason| (at, reason)))
        .collect::<Result<Vec<MappedPage>, _>>()?;
    let attr = Attr {
        kind: TRACEPOINT,
        config: event_id,
        sample_period_or_freq: 1,
        flags: flag::DISABLED,
        ..Attr::default()
    };
    // The probe is put into this process's memory whatever the CPU.
    let cpu = cpus::online(Path::new("/")).map_err(|reason| (0, reason))?;
    let cpu = cpu.first().copied().unwrap_or(0);
    let event = EventFd::open(&attr, THIS_THREAD, cpu).map_err(|error| {
        let reason = match error.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP | ENOTSUPP) => {
                "the kernel can't put a probe on the instruction there".to_owned()
            }
            _ => format!("cannot open it as a perf event: {error}"),
        };
        (0, reason)
    })?;
    Ok(Trial {
        _event: event,
        _pages: pages,
    })
}

/// Maps the page of a place. Where the file may not be mapped executable (a mount with noexec), no program runs from it
/// either.
fn map(file: &File, file_offset: u64) -> Result<MappedPage, String> {
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    if file_offset >= len {
        return Err(format!("the file has only {len:#x} bytes"));
    }
    MappedPage::of(file, file_offset).map_err(|error| format!("the file can't be mapped: {error}"))
}
