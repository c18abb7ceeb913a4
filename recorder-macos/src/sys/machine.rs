//! The machine, as the profile shows it, and the user.

use std::ffi::{CStr, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};

use recording::info::Host;

/// What sysctl says; what it does not say stays `None`.
pub(super) fn describe() -> Host {
    let version = text(c"kern.osproductversion");
    Host {
        cpu_name: text(c"machdep.cpu.brand_string"),
        logical_cpus: number(c"hw.logicalcpu").and_then(|cpus| u32::try_from(cpus).ok()),
        physical_cpus: number(c"hw.physicalcpu").and_then(|cpus| u32::try_from(cpus).ok()),
        memory_bytes: number(c"hw.memsize"),
        os: version.map(|version| {
            let release = text(c"kern.osrelease").unwrap_or_default();
            format!("macOS {version} {}, Darwin {release}", std::env::consts::ARCH)
        }),
    }
}

pub(super) fn is_root() -> bool {
    // SAFETY: reads the user's id.
    unsafe { libc::geteuid() == 0 }
}

pub(super) fn is_readable(file: BorrowedFd<'_>) -> bool {
    let mut entry = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, which is valid.
    let ready = unsafe { libc::poll(&raw mut entry, 1, 0) };
    ready == 1
}

fn text(name: &CStr) -> Option<String> {
    let bytes = value(name)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// A number of 4 or 8 bytes.
fn number(name: &CStr) -> Option<u64> {
    let bytes = value(name)?;
    match bytes.len() {
        4 => bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes).into()),
        8 => bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
        _ => None,
    }
}

fn value(name: &CStr) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; 256];
    let mut len = bytes.len();
    let to = bytes.as_mut_ptr().cast::<c_void>();
    // SAFETY: the kernel writes at most `len` bytes.
    let result = unsafe { libc::sysctlbyname(name.as_ptr(), to, &raw mut len, std::ptr::null_mut(), 0) };
    bytes.truncate(len);
    (result == 0).then_some(bytes)
}
