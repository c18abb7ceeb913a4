//! Whether the kernel can put a probe on an instruction: found out in this process.
//!
//! A definition is accepted wherever it points to. In a program that maps the file later the kernel fails in silence, and the probe
//! would just never be hit. So the page is mapped here for a moment, and the probe opened for this process alone.

use std::fs::File;
use std::path::Path;

use crate::cpus;
use crate::sys::perf_event::{Attr, EventFd, THIS_THREAD, flag};
use crate::sys::probe::MappedPage;

/// PERF_TYPE_TRACEPOINT.
const TYPE_TRACEPOINT: u32 = 2;
/// ENOTSUPP of include/linux/errno.h, which is not for user programs and yet reaches them.
const ENOTSUPP: i32 = 524;

/// Tries out the event; the error is a reason for the user.
pub(super) fn run(event_id: u64, file: &File, file_offset: u64) -> Result<(), String> {
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    if file_offset >= len {
        return Err(format!("the file has only {len:#x} bytes"));
    }
    // Where the file may not be mapped executable (a mount with noexec), no program runs from it either.
    let _page = MappedPage::of(file, file_offset).map_err(|error| format!("the file can't be mapped: {error}"))?;
    let attr = Attr {
        kind: TYPE_TRACEPOINT,
        config: event_id,
        sample_period_or_freq: 1,
        flags: flag::DISABLED,
        ..Attr::default()
    };
    // The probe is put into this process's memory whatever the CPU.
    let cpu = cpus::online(Path::new("/"))?.first().copied().unwrap_or(0);
    match EventFd::open(&attr, THIS_THREAD, cpu) {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP | ENOTSUPP) => {
                "the kernel can't put a probe on the instruction there".to_owned()
            }
            _ => format!("cannot open it as a perf event: {error}"),
        }),
    }
}
