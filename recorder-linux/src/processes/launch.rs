//! Starts the program, stops it at its exec where that is necessary, and reports why it can't be executed.

use std::ffi::OsString;
use std::io;

use recording::program::ProgramImage;
use recording::session::RecordError;

use crate::sys::process::{self, Stopped};
use crate::sys::ptrace::{self, Stop};
use crate::sys::signals::Signals;

/// Forks the program, stopped before its exec. Call it while the signals of [`Signals`] are blocked in all threads.
pub(crate) fn fork(image: &ProgramImage, signals: &Signals) -> Result<Stopped, RecordError> {
    process::fork_stopped(image, signals)
        .map_err(|error| RecordError::Failed(format!("cannot fork the program: {error}")))
}

/// The error for an execve(2) that failed though the file looked right before.
pub(crate) fn exec_error(command: &[OsString], error: &io::Error) -> RecordError {
    let program = command
        .first()
        .map(|program| program.to_string_lossy().into_owned())
        .unwrap_or_default();
    let reason = match error.raw_os_error() {
        // The file itself was found: ENOENT means the interpreter of its `#!` line or its ELF PT_INTERP.
        Some(libc::ENOENT) => {
            "the interpreter that it names (its `#!` line, or the dynamic loader it was linked for) does not exist"
                .into()
        }
        Some(libc::ENOEXEC) => "it is not a program for this machine; `file` shows what it is".into(),
        Some(libc::ETXTBSY) => "it is being written to; run it again when the build has finished".into(),
        _ => error.to_string(),
    };
    RecordError::NotExecutable { program, reason }
}

/// A child that waits for its exec, where ptrace will stop it.
#[derive(Debug)]
pub(crate) struct ExecStop {
    pid: i32,
}

impl ExecStop {
    /// Takes hold of the child. An error: the system refuses ptrace(2).
    pub(crate) fn seize(pid: i32) -> io::Result<ExecStop> {
        ptrace::seize_until_exec(pid)?;
        Ok(ExecStop { pid })
    }

    /// Waits for the exec, does this while the program is stopped, and lets it run. From the thread that has seized it.
    /// `None`: there was no exec.
    pub(crate) fn at_exec<T>(self, act: impl FnOnce() -> T) -> io::Result<Option<T>> {
        loop {
            match ptrace::wait_for_stop(self.pid)? {
                Some(Stop::Exec) => break,
                Some(Stop::Signal(signal)) => drop(ptrace::resume(self.pid, signal)),
                Some(Stop::Group) => drop(ptrace::listen(self.pid)),
                Some(_) => drop(ptrace::resume(self.pid, 0)),
                None => return Ok(None),
            }
        }
        let done = act();
        // It fails where the program was killed.
        let _ = ptrace::detach(self.pid);
        Ok(Some(done))
    }
}
