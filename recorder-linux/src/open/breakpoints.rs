//! Breakpoint registers of the processor, which ordinary users may have: at instructions of a program, for its threads
//! and the processes that it forks.
//!
//! The address of an instruction is known once its file is mapped. So a launched program is stopped at its exec
//! ([`ExecStop`]), before its first instruction, and where a library is meant, once the dynamic loader has loaded it
//! ([`run_to_entry`]). A process that executes another program loses its breakpoints there: the other program has other
//! code at these addresses.
//!
//! [`ExecStop`]: crate::processes::launch::ExecStop
//! [`run_to_entry`]: crate::processes::launch::run_to_entry

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recording::doctor::{CheckState, Finding};
use recording::probe::FilePlace;

use super::scope::OpenError;
use crate::processes::procfs;
use crate::sys::perf_event::{Attr, EventFd, THIS_THREAD, flag};

/// `PERF_TYPE_BREAKPOINT`, include/uapi/linux/perf_event.h.
const TYPE_BREAKPOINT: u32 = 5;
/// `HW_BREAKPOINT_X`, include/uapi/linux/hw_breakpoint.h.
const EXECUTE: u32 = 4;
/// x86 takes only sizeof(long) (arch_build_bp_info in arch/x86/kernel/hw_breakpoint.c), arm64 the size of an
/// instruction.
const LENGTH: u64 = if cfg!(target_arch = "aarch64") { 4 } else { 8 };

/// An address in user space.
pub(super) const ANY_ADDRESS: u64 = 0x1_0000;

/// A finding of `sprof doctor`.
pub(crate) fn examine() -> Finding {
    let disabled = Attr {
        sample_period_or_freq: 1,
        flags: flag::DISABLED | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV,
        ..Attr::default()
    };
    let finding = Finding::works("breakpoints", "breakpoints in programs (-e breakpoint:...)", "");
    match EventFd::open_on_all_cpus(&attr(disabled, ANY_ADDRESS), THIS_THREAD) {
        Ok(_) => match danger() {
            None => finding,
            Some(danger) => finding.because(CheckState::Works, danger),
        },
        Err(error) => finding.because(CheckState::Limited, failed(1, &error)),
    }
}

/// Said where a breakpoint can end the program: in a virtual machine. The exception of a breakpoint was seen to arrive
/// without its cause (DR6 was 0), as under a KVM that loads an old DR6, mended in Linux 6.14. `exc_debug_user` in
/// arch/x86/kernel/traps.c takes it for the instruction INT1, and sends SIGTRAP.
pub(super) fn danger() -> Option<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = cpus.lines().find_map(|line| line.strip_prefix("flags"))?;
    let is_virtual = flags.split_whitespace().any(|flag| flag == "hypervisor");
    is_virtual.then(|| {
        "in this virtual machine a breakpoint can end the program with SIGTRAP (3 of 13 million hits did); \
         root needs none, with -e uprobe:FILE:FUNCTION or with --span"
            .to_owned()
    })
}

/// The attributes of a point event as those of a breakpoint.
pub(super) fn attr(point: Attr, address: u64) -> Attr {
    Attr {
        kind: TYPE_BREAKPOINT,
        bp_type: EXECUTE,
        // `bp_addr` and `bp_len`.
        config1: address,
        config2: LENGTH,
        flags: (point.flags & !flag::ENABLE_ON_EXEC) | flag::REMOVE_ON_EXEC,
        ..point
    }
}

/// Where a process has an instruction of a file. `None` if it has not mapped it.
pub(super) fn address(pid: i32, place: &FilePlace) -> Option<u64> {
    let wanted = file_of(&place.path)?;
    let exe = format!("/proc/{pid}/exe");
    let program = fs::read_link(&exe).ok()?;
    let mappings = procfs::executable_mappings(pid, pid).ok()?;
    mappings.iter().find_map(|mapping| {
        let within = place.file_offset.checked_sub(mapping.file_offset)?;
        let path = Path::new(OsStr::from_bytes(&mapping.path));
        // The program's file may have no path any more.
        let path = match path == program {
            true => PathBuf::from(&exe),
            false => Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").ok()?),
        };
        (within < mapping.len && file_of(&path) == Some(wanted)).then(|| mapping.start + within)
    })
}

/// True if the file is the one that a process runs.
pub(super) fn is_program(pid: i32, place: &FilePlace) -> bool {
    let program = file_of(Path::new(&format!("/proc/{pid}/exe")));
    program.is_some() && program == file_of(&place.path)
}

fn file_of(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Refuses a program that would get fewer rights than usual: ptrace holds it at its exec.
pub(crate) fn check_program(path: &Path) -> Result<(), String> {
    let has_bits = fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o6000 != 0);
    let has_rights = has_bits || rustix::fs::getxattr(path, c"security.capability", &mut [0_u8; 64][..]).is_ok();
    match has_rights && !rustix::process::geteuid().is_root() {
        false => Ok(()),
        true => Err(format!(
            "cannot set breakpoints in {}: it gets rights of its own when it starts, which it would lose; run sprof as root",
            path.display()
        )),
    }
}

/// Why a breakpoint did not open. `wanted`: how many there are in all.
pub(super) fn failed(wanted: usize, error: &io::Error) -> OpenError {
    let instead = "root needs none, with -e uprobe:FILE:FUNCTION or with --span";
    let reason = match error.raw_os_error() {
        Some(libc::ESRCH) => return OpenError::NoSuchTask,
        Some(libc::ENOSPC) => format!(
            "the processor has too few breakpoint registers for {wanted} (x86_64 has 4; each end of a function of --span takes \
             one): name fewer functions, or end the debugger that uses them; {instead}"
        ),
        Some(libc::EINVAL) => format!("the kernel takes no such breakpoint (it needs Linux 5.13): {instead}"),
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => {
            format!("this kernel or virtual machine has no breakpoint registers ({error}): {instead}")
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            format!("{error}; each needs an open file per CPU (and with -p per thread): raise `ulimit -Hn`")
        }
        _ => format!("{error}; {instead}"),
    };
    OpenError::Refused(format!("cannot set breakpoints: {reason}"))
}

/// The launched program does not run the file in which the function was found.
pub(super) fn other_program() -> OpenError {
    "cannot set breakpoints: what runs is another file than the command (a script?), or has not loaded the library when \
     it starts; name the program itself, or record it with -p once it has"
        .to_owned()
        .into()
}
