//! The only exit of sprof, and its exit statuses.
//!
//! | status | meaning |
//! |---|---|
//! | the program's own | `record` ran the program and saved the profile |
//! | 128+N | the recorded program was ended by signal N |
//! | 127 | no such program |
//! | 126 | the program cannot be executed |
//! | 125 | sprof itself failed |
//! | 2 | wrong usage |
//! | 1, 3 | `check`: a rule is broken; no rule is broken and some are unknown |

use std::fmt::Display;
use std::process::ExitCode;

use profile::read::ReadError;
use recording::session::{ProgramExit, RecordError};

use crate::terminal::{Term, Verbosity};

/// sprof itself failed.
pub(crate) const FAILED: u8 = 125;
/// The program cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
const NOT_FOUND: u8 = 127;

/// Why a command failed. The message has what was attempted, on what, and the next step.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage, `--help` or `--version`: clap writes the text.
    Usage(clap::Error),
    /// The program ended before anything was recorded. The status is the program's own.
    NothingRan { message: String, status: Status },
    /// Anything else.
    Failed { message: String, status: u8 },
    /// The reader of stdout has closed it; no message.
    BrokenPipe,
}

impl Failure {
    /// A failure of sprof with this message.
    pub(crate) fn failed(message: impl Display) -> Failure {
        Failure::Failed {
            message: message.to_string(),
            status: FAILED,
        }
    }

    /// The message; empty for [`Failure::BrokenPipe`].
    pub(crate) fn message(self) -> String {
        match self {
            Failure::Failed { message, .. } | Failure::NothingRan { message, .. } => message,
            Failure::Usage(error) => error.to_string(),
            Failure::BrokenPipe => String::new(),
        }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        Failure::Usage(error)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::failed(message)
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Failure {
        let status = match error {
            RecordError::NotFound(_) => NOT_FOUND,
            RecordError::NotExecutable { .. } => NOT_EXECUTABLE,
            RecordError::Failed(_) => FAILED,
        };
        Failure::Failed {
            message: error.to_string(),
            status,
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        Failure::failed(error)
    }
}

pub(crate) type Outcome = Result<Status, Failure>;

/// The exit status of a command that sprof completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(u8);

impl Status {
    pub(crate) const SUCCESS: Status = Status(0);
    /// 125: the command reported a failure and continued.
    pub(crate) const PARTIAL: Status = Status(FAILED);

    /// The status of the recorded program: `exit(code)` keeps 8 bits.
    pub(crate) fn of_code(code: i32) -> Status {
        Status((code & 0xff) as u8)
    }

    /// 128+N.
    pub(crate) fn of_signal(signal: i32) -> Status {
        Status((128 + (signal & 0x7f)) as u8)
    }
}

impl From<ProgramExit> for Status {
    fn from(exit: ProgramExit) -> Status {
        match exit {
            ProgramExit::Code(code) => Status::of_code(code),
            ProgramExit::Signal(signal) => Status::of_signal(signal),
            ProgramExit::StillRunning | ProgramExit::NotOurs => Status::SUCCESS,
        }
    }
}

/// Runs `command` and ends the process with its status; a panic is reported as a failure of sprof, not with the status
/// 101 that a recorded Rust program could have.
pub(crate) fn run(command: impl FnOnce() -> Outcome + std::panic::UnwindSafe) -> ExitCode {
    let outcome = std::panic::catch_unwind(command);
    let failure = match outcome {
        Ok(Ok(Status(status))) => return ExitCode::from(status),
        Ok(Err(failure)) => failure,
        Err(_) => Failure::failed("this is a bug in sprof; please report it with the lines above"),
    };
    let term = Term::stderr(Verbosity::Normal);
    match failure {
        Failure::Usage(mut error) => {
            match error.use_stderr() {
                true => term.usage(&mut error),
                // Help holds nothing from outside.
                false => drop(error.print()),
            }
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
        Failure::Failed { message, status } => {
            term.error(message);
            ExitCode::from(status)
        }
        Failure::NothingRan {
            message,
            status: Status(status),
        } => {
            term.line(message);
            ExitCode::from(status)
        }
        Failure::BrokenPipe => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_programs() {
        assert_eq!(Status::of_code(0), Status::SUCCESS);
        assert_eq!(Status::of_code(101), Status(101));
        assert_eq!(Status::of_code(256 + 3), Status(3));
        assert_eq!(Status::of_signal(11), Status(139));
        assert_eq!(Status::of_signal(64), Status(192));
    }
}
