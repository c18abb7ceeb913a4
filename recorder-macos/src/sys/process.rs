//! What libproc says of a process by its id.

use std::ffi::{OsString, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::time::TimeBase;
use crate::kernel::{ProcessIdentity, Signal, TaskCounts};
use crate::processes::host::ProcessEnd;

/// Children asked for at first.
const CHILDREN: usize = 64;

/// The children of a process.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let mut pids = vec![0i32; CHILDREN];
    loop {
        pids.fill(0);
        let bytes = c_int::try_from(pids.len() * size_of::<i32>()).unwrap_or(c_int::MAX);
        // SAFETY: libproc writes at most `bytes` bytes, the size of `pids`.
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
pub(super) fn identity(pid: i32) -> Option<ProcessIdentity> {
    let info: libc::proc_bsdinfo = pid_info(pid, libc::PROC_PIDTBSDINFO)?;
    Some(ProcessIdentity {
        started_us: info
            .pbi_start_tvsec
            .saturating_mul(1_000_000)
            .saturating_add(info.pbi_start_tvusec),
        parent: i32::try_from(info.pbi_ppid).ok()?,
        user: info.pbi_uid,
    })
}

/// The name of a process.
pub(super) fn name(pid: i32) -> Option<String> {
    // 2 * MAXCOMLEN + 1 (sys/proc_info.h).
    let mut bytes = [0u8; 33];
    // SAFETY: libproc writes at most `bytes.len()` bytes.
    let len = unsafe { libc::proc_name(pid, bytes.as_mut_ptr().cast::<c_void>(), bytes.len() as u32) };
    let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
    Some(String::from_utf8_lossy(bytes.get(..len)?).into_owned())
}

/// The file that a process executes.
pub(super) fn program(pid: i32) -> Option<PathBuf> {
    // PROC_PIDPATHINFO_MAXSIZE (sys/proc_info.h).
    let mut bytes = vec![0u8; 4 * 1024];
    // SAFETY: libproc writes at most `bytes.len()` bytes.
    let len = unsafe { libc::proc_pidpath(pid, bytes.as_mut_ptr().cast::<c_void>(), bytes.len() as u32) };
    let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
    bytes.truncate(len);
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

/// Open files that are asked for at most.
const OPEN_FILES: usize = 1 << 14;

/// The files that a process has open.
pub(super) fn open_files(pid: i32) -> Vec<PathBuf> {
    let mut files = vec![[0u32; 2]; 256];
    loop {
        let bytes = c_int::try_from(size_of_val(&files[..])).unwrap_or(c_int::MAX);
        let to = files.as_mut_ptr().cast::<c_void>();
        // SAFETY: libproc writes at most `bytes` bytes, the size of `files`. A `proc_fdinfo` has two integers, the
        // descriptor and its type (sys/proc_info.h).
        let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDLISTFDS, 0, to, bytes) };
        let count = usize::try_from(written).unwrap_or(0) / size_of::<libc::proc_fdinfo>();
        if count < files.len() || files.len() >= OPEN_FILES {
            files.truncate(count);
            break;
        }
        files.resize(files.len() * 4, [0; 2]);
    }
    let is_file = |[_, kind]: &&[u32; 2]| *kind == libc::PROX_FDTYPE_VNODE.cast_unsigned();
    let files = files.iter().filter(is_file);
    files.filter_map(|[fd, _]| open_file(pid, fd.cast_signed())).collect()
}

/// The path of an open file.
fn open_file(pid: i32, fd: c_int) -> Option<PathBuf> {
    /// `PROC_PIDFDVNODEPATHINFO`, and `vnode_fdinfowithpath`, which ends with a path of `MAXPATHLEN` bytes
    /// (sys/proc_info.h).
    const FLAVOR: c_int = 2;
    const PATH: usize = 24 + 152;
    const SIZE: usize = PATH + 1024;

    let mut bytes = [0u8; SIZE];
    // SAFETY: libproc writes at most `SIZE` bytes, the size of `bytes`.
    let written = unsafe { libc::proc_pidfdinfo(pid, fd, FLAVOR, bytes.as_mut_ptr().cast::<c_void>(), SIZE as c_int) };
    let path = bytes.get(PATH..).filter(|_| written == SIZE as c_int)?;
    let len = path.iter().position(|byte| *byte == 0).filter(|len| *len > 0)?;
    Some(PathBuf::from(OsString::from_vec(path[..len].to_vec())))
}

/// True if Rosetta translates the process.
pub(super) fn is_translated(pid: i32) -> bool {
    /// `P_TRANSLATED` in the flags of `extern_proc`, which `kinfo_proc` begins with (sys/proc.h, sys/sysctl.h).
    const P_TRANSLATED: u32 = 0x0002_0000;
    const FLAGS: usize = 32;
    const SIZE: usize = 648;

    let mut bytes = [0u8; SIZE];
    let mut len = SIZE;
    let mut name = [libc::CTL_KERN, libc::KERN_PROC, libc::KERN_PROC_PID, pid];
    let (name_at, name_len) = (name.as_mut_ptr(), name.len() as u32);
    let to = bytes.as_mut_ptr().cast::<c_void>();
    // SAFETY: the kernel reads `name_len` integers of `name`, and writes at most `len` bytes, the size of `bytes`.
    let result = unsafe { libc::sysctl(name_at, name_len, to, &raw mut len, std::ptr::null_mut(), 0) };
    let flags = bytes[FLAGS..]
        .first_chunk()
        .map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    result == 0 && len > FLAGS && flags & P_TRANSLATED != 0
}

/// Sends a signal, if the process is there.
pub(super) fn send(pid: i32, signal: Signal) {
    let signal = match signal {
        Signal::Interrupt => libc::SIGINT,
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
        Signal::Continue => libc::SIGCONT,
    };
    // 0 and less are groups of processes.
    if pid > 0 {
        // SAFETY: takes two integers. `pid` is a single other process: the recorder sends itself nothing.
        let _ = unsafe { libc::kill(pid, signal) };
    }
}

/// How a child has ended.
pub(super) fn reap(pid: i32) -> Option<ProcessEnd> {
    let mut status = 0;
    // SAFETY: writes an int to `status`, a local that outlives the call.
    let reaped = unsafe { libc::waitpid(pid.max(1), &raw mut status, libc::WNOHANG) };
    if reaped != pid {
        return None;
    }
    if libc::WIFSIGNALED(status) {
        return Some(ProcessEnd::Signaled(libc::WTERMSIG(status)));
    }
    libc::WIFEXITED(status).then(|| ProcessEnd::Exited(libc::WEXITSTATUS(status)))
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
        resident_bytes: info.pti_resident_size,
    })
}

/// One of libproc's structures, which are numbers and bytes: any bits are valid.
trait ProcInfo: Sized {
    fn zeroed() -> Self;
}

impl ProcInfo for libc::proc_bsdinfo {
    fn zeroed() -> Self {
        // SAFETY: `proc_bsdinfo` has integers and arrays of bytes alone (sys/proc_info.h): all zeros is a value.
        unsafe { std::mem::zeroed() }
    }
}

impl ProcInfo for libc::proc_taskinfo {
    fn zeroed() -> Self {
        // SAFETY: `proc_taskinfo` has integers alone (sys/proc_info.h): all zeros is a value.
        unsafe { std::mem::zeroed() }
    }
}

fn pid_info<T: ProcInfo>(pid: i32, flavor: c_int) -> Option<T> {
    let mut info = T::zeroed();
    let size = size_of::<T>() as c_int;
    // SAFETY: libproc writes at most `size` bytes, the size of the local structure, in which any bits are a value.
    let written = unsafe { libc::proc_pidinfo(pid, flavor, 0, (&raw mut info).cast::<c_void>(), size) };
    (written == size).then_some(info)
}
