//! Signals, which the standard library does not send.

use core::ffi::c_int;

const SIGINT: c_int = 2;

extern "C" {
    fn kill(pid: c_int, signal: c_int) -> c_int;
}

/// Asks a process to end.
pub(super) fn interrupt(pid: u32) {
    if let Some(pid) = c_int::try_from(pid).ok().filter(|pid| *pid > 0) {
        // SAFETY: it changes nothing of this process.
        unsafe { kill(pid, SIGINT) };
    }
}
