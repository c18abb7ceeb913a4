//! The system calls, and all of this crate's `unsafe`. Every function here is safe to call with any arguments.
//!
//! rustix makes the calls that it has, and nix those of signals, clocks and another process's memory. The rest are
//! ours: fork and exec, ptrace (nix's can't pass real-time signals on, nor see that a thread is a 32-bit one),
//! perf_event_open and the mappings, SCHED_RR, the peer of a socket, and waitid with the child's usage.

pub(crate) mod backlog;
pub(crate) mod counter;
pub(crate) mod memory;
pub(crate) mod peer;
pub(crate) mod perf_event;
pub(crate) mod priority;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod ptrace;
pub(crate) mod ring;
pub(crate) mod ring_maker;
pub(crate) mod signals;

use std::io;

/// The error of the system call that just returned `-1`.
fn last_error() -> io::Error {
    io::Error::last_os_error()
}

/// Runs a system call again while it is interrupted by signals.
fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(value) => return Ok(value),
            Err(_) => {
                let error = last_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
