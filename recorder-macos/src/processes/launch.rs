//! Starts the program, and reports why it can't be executed.

use recording::program::ProgramImage;
use recording::session::{RecordError, RecordOptions};

use super::host::{Host, ProcessEnd};
use crate::kernel::Signal;

/// errno of a file that is in no form that the kernel executes: `ENOEXEC`, and `EBADARCH` and its kin of XNU
/// (sys/errno.h).
const NOT_FOR_THIS_SYSTEM: [i32; 5] = [8, 85, 86, 87, 88];
/// `ENOENT`.
const NO_FILE: i32 = 2;
/// `ENOEXEC`: a script without `#!`, which the shell executes, as execvp(3) and every shell do.
const NO_FORMAT: i32 = 8;

/// A started program, which does not run before [`Signal::Continue`]. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct StartedProgram<M: Host> {
    pid: i32,
    /// `None` once somebody else is to wait for it.
    host: Option<M>,
}

impl<M: Host + Clone> StartedProgram<M> {
    /// Starts a program.
    pub(crate) fn start(
        host: &M,
        image: &ProgramImage,
        options: &RecordOptions,
    ) -> Result<StartedProgram<M>, RecordError> {
        let started = host.spawn(image).or_else(|errno| match errno {
            NO_FORMAT => host.spawn(&by_shell(image)).map_err(|_| errno),
            _ => Err(errno),
        });
        match started {
            Ok(pid) => Ok(StartedProgram {
                pid,
                host: Some(host.clone()),
            }),
            Err(errno) => Err(error(options, errno)),
        }
    }
}

impl<M: Host> StartedProgram<M> {
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The program is [`Target`](super::stop::MachTarget)'s from now on.
    pub(crate) fn release(mut self) -> i32 {
        self.host = None;
        self.pid
    }
}

impl<M: Host> Drop for StartedProgram<M> {
    fn drop(&mut self) {
        if let Some(host) = &self.host {
            end(host, self.pid);
        }
    }
}

/// Kills a child and waits for its end.
fn end(host: &impl Host, pid: i32) {
    host.send(pid, Signal::Kill);
    for _ in 0..100 {
        if host.reap(pid).is_some() {
            return;
        }
        host.sleep(host.now_ns().saturating_add(10_000_000));
    }
}

fn by_shell(image: &ProgramImage) -> ProgramImage {
    let words = [c"/bin/sh".to_owned(), image.path.clone()];
    ProgramImage {
        path: c"/bin/sh".to_owned(),
        args: words.into_iter().chain(image.args.iter().skip(1).cloned()).collect(),
        env: image.env.clone(),
    }
}

fn error(options: &RecordOptions, errno: i32) -> RecordError {
    let program = options.command.first();
    let program = program.map_or_else(String::new, |program| program.to_string_lossy().into_owned());
    let reason = match errno {
        NO_FILE => "the interpreter that it names in its `#!` line does not exist".to_owned(),
        errno if NOT_FOR_THIS_SYSTEM.contains(&errno) => {
            "it is not a program for this Mac; `file` shows what it is".to_owned()
        }
        errno => std::io::Error::from_raw_os_error(errno).to_string(),
    };
    RecordError::NotExecutable { program, reason }
}

/// How the program ended, as the contract has it.
impl From<ProcessEnd> for recording::session::ProgramExit {
    fn from(end: ProcessEnd) -> Self {
        match end {
            ProcessEnd::Exited(code) => Self::Code(code),
            ProcessEnd::Signaled(signal) => Self::Signal(signal),
        }
    }
}
