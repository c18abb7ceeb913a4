//! Starts the program, stops it at its exec where that is necessary, and reports why it can't be executed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

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
    pub(crate) fn at_exec<T>(self, act: impl FnOnce(i32) -> T) -> io::Result<Option<T>> {
        loop {
            match ptrace::wait_for_stop(self.pid)? {
                Some(Stop::Exec) => break,
                Some(Stop::Signal(signal)) => drop(ptrace::resume(self.pid, signal)),
                Some(Stop::Group) => drop(ptrace::listen(self.pid)),
                Some(_) => drop(ptrace::resume(self.pid, 0)),
                None => return Ok(None),
            }
        }
        let done = act(self.pid);
        // It fails where the program was killed.
        let _ = ptrace::detach(self.pid);
        Ok(Some(done))
    }
}

/// Lets a program that is stopped at its exec run until its dynamic loader has loaded the libraries: to the program's
/// entry, where a trap is put for that long.
pub(crate) fn run_to_entry(pid: i32) -> io::Result<()> {
    let vector = fs::read(format!("/proc/{pid}/auxv"))?;
    let words: Vec<u64> = vector
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .collect();
    let entry = words.as_chunks().0.iter().find(|[kind, _]| *kind == libc::AT_ENTRY);
    let [_, entry] = *entry.ok_or(io::ErrorKind::NotFound)?;
    // Also what the program itself may not write.
    let memory = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/mem"))?;
    let mut code = ptrace::TRAP;
    memory.read_exact_at(&mut code, entry)?;
    memory.write_all_at(&ptrace::TRAP, entry)?;
    let reached = run_to_trap(pid, entry);
    memory.write_all_at(&code, entry)?;
    reached
}

fn run_to_trap(pid: i32, entry: u64) -> io::Result<()> {
    let is_at_trap = || {
        let registers = ptrace::registers(pid).ok().flatten();
        registers.is_some_and(|registers| registers.usual.ip() == entry + ptrace::TRAP_SKIPS)
    };
    ptrace::resume(pid, 0)?;
    loop {
        match ptrace::wait_for_stop(pid)? {
            Some(Stop::Signal(libc::SIGTRAP)) if is_at_trap() => return ptrace::set_instruction_pointer(pid, entry),
            Some(Stop::Signal(signal)) => ptrace::resume(pid, signal)?,
            Some(Stop::Group) => ptrace::listen(pid)?,
            Some(Stop::Exec) | None => return Err(io::ErrorKind::NotFound.into()),
            Some(_) => ptrace::resume(pid, 0)?,
        }
    }
}
