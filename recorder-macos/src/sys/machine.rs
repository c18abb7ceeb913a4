//! The machine, as the profile shows it, and the user.

use std::ffi::{CStr, OsStr, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

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

/// With whose rights this process runs.
pub(super) fn user() -> u32 {
    // SAFETY: takes nothing, and returns an integer.
    unsafe { libc::geteuid() }
}

/// The user's folder for caches, which macOS makes for this user alone and keeps.
pub(super) fn cache_folder() -> Option<PathBuf> {
    // MAXPATHLEN.
    let mut bytes = vec![0u8; 1024];
    // SAFETY: libSystem writes at most `bytes.len()` bytes.
    let len = unsafe { libc::confstr(libc::_CS_DARWIN_USER_CACHE_DIR, bytes.as_mut_ptr().cast(), bytes.len()) };
    // With the 0 at the end. 0 is an error, and a longer path does not fit.
    let path = bytes.get(..len.checked_sub(1)?)?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

pub(super) fn is_readable(file: BorrowedFd<'_>) -> bool {
    let mut entry = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the kernel reads and writes one entry, a local that outlives the call.
    let ready = unsafe { libc::poll(&raw mut entry, 1, 0) };
    ready == 1
}

/// The function of libsystem_kernel.dylib at an address of dyld's shared cache, which is at one place for all
/// processes.
pub(super) fn system_call(address: u64) -> Option<String> {
    // SAFETY: `Dl_info` has pointers alone, and null is a value of each.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let at = std::ptr::without_provenance(usize::try_from(address).ok()?);
    // SAFETY: writes `info`, a local that outlives the call. `at` is compared with addresses, and never read.
    let found = unsafe { libc::dladdr(at, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() || info.dli_sname.is_null() {
        return None;
    }
    // SAFETY: not null, and a C string of dyld's that lasts as long as its library. No library of this process is
    // unloaded.
    let file = unsafe { CStr::from_ptr(info.dli_fname) };
    // SAFETY: not null, and a C string in the symbol table of the same library.
    let name = unsafe { CStr::from_ptr(info.dli_sname) };
    let is_it = file.to_bytes().ends_with(b"/libsystem_kernel.dylib");
    is_it.then(|| name.to_string_lossy().into_owned())
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
