//! The system calls, and all of this crate's `unsafe`. Every function here is safe to call with any arguments.

pub(crate) mod backlog;
pub(crate) mod memory;
pub(crate) mod perf_event;
pub(crate) mod priority;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod ptrace;
pub(crate) mod ring;
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
