//! The debuginfod client of elfutils, loaded when it is asked for: the library of gdb and perf, with the same cache.
//!
//! Shapes and errors: debuginfod_find_debuginfo(3), and `debuginfod.h` of elfutils 0.188.

use std::cell::Cell;
use std::ffi::{CStr, OsStr, c_char, c_int, c_long, c_uchar, c_void};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::ptr;

use libloading::Library;

/// The soname of all versions.
const SONAME: &str = "libdebuginfod.so.1";

/// `debuginfod_client *`.
type RawClient = *mut c_void;
type BeginFn = unsafe extern "C" fn() -> RawClient;
type EndFn = unsafe extern "C" fn(RawClient);
type FindDebugInfoFn = unsafe extern "C" fn(RawClient, *const c_uchar, c_int, *mut *mut c_char) -> c_int;
type FindSourceFn = unsafe extern "C" fn(RawClient, *const c_uchar, c_int, *const c_char, *mut *mut c_char) -> c_int;
type ProgressFn = unsafe extern "C" fn(RawClient, c_long, c_long) -> c_int;
type SetProgressFn = unsafe extern "C" fn(RawClient, ProgressFn);

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) enum WantedFile<'a> {
    DebugInfo,
    /// A source file, by its name in the debug info.
    Source(&'a CStr),
}

/// The library calls it about once a second, and for each part that arrives, with (bytes that have arrived, all bytes
/// if they are known). The download ends when the function returns false.
pub(crate) type Progress<'a> = dyn FnMut(u64, Option<u64>) -> bool + 'a;

/// One client. It reads `DEBUGINFOD_URLS` and the other variables of debuginfod-find(1) at each request.
pub(crate) struct DebuginfodClient {
    /// Null until the first request: a client of libcurl has sockets, which a program that is started later would
    /// inherit.
    raw: RawClient,
    begin: BeginFn,
    end: EndFn,
    set_progress: SetProgressFn,
    find_debug_info: FindDebugInfoFn,
    find_source: FindSourceFn,
}

// SAFETY: a client is not bound to a thread. The library forbids concurrent calls with one client; every call takes
// `&mut Client`.
unsafe impl Send for DebuginfodClient {}

thread_local! {
    /// The progress function of the running request of this thread. The library calls back on the thread that asks.
    static PROGRESS: Cell<*mut &'static mut Progress<'static>> = const { Cell::new(ptr::null_mut()) };
}

impl DebuginfodClient {
    /// Loads the library, which is never unloaded: libcurl's TLS libraries register functions for the end of the
    /// process.
    ///
    /// # Errors
    ///
    /// The library is not installed, or lacks a function.
    pub(crate) fn new() -> Result<DebuginfodClient, String> {
        // SAFETY: the initialisers of libdebuginfod and libcurl only set up their own state.
        let library = unsafe { Library::new(SONAME) }.map_err(|error| error.to_string())?;
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: `debuginfod_client *debuginfod_begin (void)` (`debuginfod.h`).
        let begin: BeginFn = unsafe { function(library, c"debuginfod_begin") }?;
        // SAFETY: `void debuginfod_end (debuginfod_client *)` (`debuginfod.h`).
        let end: EndFn = unsafe { function(library, c"debuginfod_end") }?;
        // SAFETY: `int debuginfod_find_debuginfo (debuginfod_client *, const unsigned char *, int, char **)`
        // (`debuginfod.h`).
        let find_debug_info: FindDebugInfoFn = unsafe { function(library, c"debuginfod_find_debuginfo") }?;
        // SAFETY: `int debuginfod_find_source (debuginfod_client *, const unsigned char *, int, const char *, char **)`
        // (`debuginfod.h`).
        let find_source: FindSourceFn = unsafe { function(library, c"debuginfod_find_source") }?;
        // SAFETY: `void debuginfod_set_progressfn (debuginfod_client *, debuginfod_progressfn_t)` (`debuginfod.h`).
        let set_progress: SetProgressFn = unsafe { function(library, c"debuginfod_set_progressfn") }?;
        Ok(DebuginfodClient {
            raw: ptr::null_mut(),
            begin,
            end,
            set_progress,
            find_debug_info,
            find_source,
        })
    }

    /// The path of the file in the client's cache. The library downloads the file if the cache lacks it.
    ///
    /// # Errors
    ///
    /// The library's error number: ENOENT if no server has the file, ENOSYS if `DEBUGINFOD_URLS` is not set.
    pub(crate) fn find(
        &mut self,
        build_id: &[u8],
        wanted: WantedFile<'_>,
        mut progress: &mut Progress<'_>,
    ) -> io::Result<PathBuf> {
        // The library takes an id of length 0 for a string of hex digits.
        let len = c_int::try_from(build_id.len()).ok().filter(|len| *len > 0);
        let len = len.ok_or(io::ErrorKind::NotFound)?;
        self.begin()?;
        let mut path: *mut c_char = ptr::null_mut();
        // The lifetimes end with this function, as the pointer does.
        let around = PROGRESS.replace((&raw mut progress).cast());
        let result = match wanted {
            // SAFETY: `raw` is a live client, the id has `len` bytes, `path` is a place for a pointer.
            WantedFile::DebugInfo => unsafe { (self.find_debug_info)(self.raw, build_id.as_ptr(), len, &raw mut path) },
            WantedFile::Source(name) => {
                let name = name.as_ptr();
                // SAFETY: `raw` is a live client, the id has `len` bytes, `path` is a place for a pointer, and `name`
                // ends in NUL and lives until the call returns.
                unsafe { (self.find_source)(self.raw, build_id.as_ptr(), len, name, &raw mut path) }
            }
        };
        PROGRESS.set(around);
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        // SAFETY: a result of 0 and above is a descriptor that the caller has to close.
        drop(unsafe { OwnedFd::from_raw_fd(result) });
        if path.is_null() {
            return Err(io::Error::other("libdebuginfod gave no path"));
        }
        // SAFETY: the library has allocated this string for the caller. It ends in NUL.
        let text = unsafe { CStr::from_ptr(path) };
        let found = PathBuf::from(OsStr::from_bytes(text.to_bytes()));
        // SAFETY: the string is from malloc(3), and nothing refers to it any more.
        unsafe { libc::free(path.cast()) };
        Ok(found)
    }

    fn begin(&mut self) -> io::Result<()> {
        if !self.raw.is_null() {
            return Ok(());
        }
        // SAFETY: the function takes nothing. It returns a client or NULL.
        self.raw = unsafe { (self.begin)() };
        if self.raw.is_null() {
            return Err(io::Error::other("debuginfod_begin(3) gave no client"));
        }
        // SAFETY: `raw` is a client, and `on_progress` has the type that the library calls.
        unsafe { (self.set_progress)(self.raw, on_progress) };
        Ok(())
    }
}

impl Drop for DebuginfodClient {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the client is live, and nobody uses it after this.
            unsafe { (self.end)(self.raw) };
        }
    }
}

/// # Safety
///
/// `T` is the type of the function.
unsafe fn function<T: Copy + 'static>(library: &'static Library, name: &CStr) -> Result<T, String> {
    // SAFETY: the caller names the type, and the library is never unloaded.
    let symbol = unsafe { library.get::<T>(name) };
    symbol.map(|symbol| *symbol).map_err(|error| error.to_string())
}

/// Nonzero ends the download.
extern "C" fn on_progress(_client: RawClient, done: c_long, all: c_long) -> c_int {
    let progress = PROGRESS.get();
    if progress.is_null() {
        return 0;
    }
    // SAFETY: the pointer is to a local of `Client::find`, which runs further up on this thread's stack and leaves it
    // alone meanwhile.
    let progress = unsafe { &mut *progress };
    // Before an answer has begun, the library gives the number of its rounds, of 0. Of an unknown size it gives -1.
    let done = if all == 0 { 0 } else { u64::try_from(done).unwrap_or(0) };
    let all = u64::try_from(all).ok().filter(|all| *all > 0);
    // A panic ends the download: it must not unwind into C, and would abort the recording here.
    let goes_on = panic::catch_unwind(AssertUnwindSafe(|| progress(done, all)));
    c_int::from(!goes_on.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_while_it_downloads_ends_the_download() {
        let mut calls = 0;
        let mut function = |_: u64, _: Option<u64>| -> bool {
            calls += 1;
            assert!(calls < 2, "as a bug would");
            true
        };
        let mut progress: &mut Progress<'_> = &mut function;
        PROGRESS.set((&raw mut progress).cast());
        let answers = [on_progress(ptr::null_mut(), 1, 2), on_progress(ptr::null_mut(), 2, 2)];
        PROGRESS.set(ptr::null_mut());
        assert_eq!(answers, [0, 1]);
    }
}
