//! What libproc says of a process by its id.

use std::ffi::{c_int, c_void};

use super::time::TimeBase;
use crate::sampling::kernel::{Identity, TaskCounts};

/// Children asked for at first.
const CHILDREN: usize = 64;

/// The children of a process.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let mut pids = vec![0i32; CHILDREN];
    loop {
        pids.fill(0);
        let bytes = c_int::try_from(pids.len() * size_of::<i32>()).unwrap_or(c_int::MAX);
        // SAFETY: libproc writes at most so many bytes.
        let _ = unsafe { libc::proc_listchildpids(pid, pids.as_mut_ptr().cast::<c_void>(), bytes) };
        // The result counts bytes or processes, by version of libproc. What is there is not 0.
        if pids.last() == Some(&0) || pids.len() > 1 << 20 {
            pids.retain(|pid| *pid > 0);
            return pids;
        }
        pids.resize(pids.len() * 4, 0);
    }
}

/// Which process this is.
pub(super) fn identity(pid: i32) -> Option<Identity> {
    let info: libc::proc_bsdinfo = pid_info(pid, libc::PROC_PIDTBSDINFO)?;
    Some(Identity {
        started_us: info
            .pbi_start_tvsec
            .saturating_mul(1_000_000)
            .saturating_add(info.pbi_start_tvusec),
        parent: i32::try_from(info.pbi_ppid).ok()?,
    })
}

/// The name of a process.
pub(super) fn name(pid: i32) -> Option<String> {
    // 2 * MAXCOMLEN + 1 (sys/proc_info.h).
    let mut bytes = [0u8; 33];
    // SAFETY: libproc writes at most so many bytes.
    let len = unsafe { libc::proc_name(pid, bytes.as_mut_ptr().cast::<c_void>(), bytes.len() as u32) };
    let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
    Some(String::from_utf8_lossy(bytes.get(..len)?).into_owned())
}

/// What the kernel has counted for the task of a process.
pub(super) fn counts(pid: i32, time: TimeBase) -> Option<TaskCounts> {
    let info: libc::proc_taskinfo = pid_info(pid, libc::PROC_PIDTASKINFO)?;
    Some(TaskCounts {
        // In ticks of mach_absolute_time (fill_taskprocinfo in osfmk/kern/bsd_kern.c).
        cpu_ns: time.ns(info.pti_total_user.saturating_add(info.pti_total_system)),
        switches: info.pti_csw.cast_unsigned(),
        threads: u32::try_from(info.pti_threadnum).ok()?,
        runnable: u32::try_from(info.pti_numrunning).unwrap_or(0),
    })
}

/// One of libproc's structures, which are numbers and bytes: any bits are valid.
trait Info: Sized {
    fn zeroed() -> Self;
}

impl Info for libc::proc_bsdinfo {
    fn zeroed() -> Self {
        // SAFETY: numbers and bytes.
        unsafe { std::mem::zeroed() }
    }
}

impl Info for libc::proc_taskinfo {
    fn zeroed() -> Self {
        // SAFETY: numbers.
        unsafe { std::mem::zeroed() }
    }
}

fn pid_info<T: Info>(pid: i32, flavor: c_int) -> Option<T> {
    let mut info = T::zeroed();
    let size = size_of::<T>() as c_int;
    // SAFETY: libproc writes at most so many bytes of a structure that may have any.
    let written = unsafe { libc::proc_pidinfo(pid, flavor, 0, (&raw mut info).cast::<c_void>(), size) };
    (written == size).then_some(info)
}
