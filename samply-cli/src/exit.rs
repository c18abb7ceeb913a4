//! The one place where sprof exits, and what its exit statuses mean.
//!
//! | status | meaning |
//! |---|---|
//! | the program's own | `record` ran the program and saved the profile |
//! | 128+N | the recorded program was ended by signal N |
//! | 127 | no such program |
//! | 126 | the program cannot be executed |
//! | 125 | sprof itself failed |
//! | 2 | wrong usage |
//! | 1, 3 | `check`: a rule is broken; none is, and some are unknown |

use std::fmt::Display;
use std::process::ExitCode;

use crate::term::{Term, Verbosity};

/// sprof itself failed.
const FAILED: u8 = 125;
/// The program cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
const NOT_FOUND: u8 = 127;

/// Why a command did not do what was asked. The message names what was attempted, on what, and the next step.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage; clap writes the message. Also `--help` and `--version`, which are no failures.
    Usage(clap::Error),
    /// There is no such program.
    NotFound(String),
    /// The program cannot be executed.
    NotExecutable(String),
    /// The program ended and left nothing to record: nothing of sprof's failed, and the status is the program's own.
    NothingRan {
        /// What there is to say.
        message: String,
        /// The program's status.
        status: Status,
    },
    /// Anything else.
    Failed(String),
    /// Who reads our stdout has left. Nothing to say.
    BrokenPipe,
}

impl Failure {
    /// sprof could not do something.
    pub(crate) fn failed(message: impl Display) -> Failure {
        Failure::Failed(message.to_string())
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        Failure::Usage(error)
    }
}

/// A command's end.
pub(crate) type Outcome = Result<Status, Failure>;

/// The status to exit with when nothing went wrong in sprof itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(u8);

impl Status {
    /// 0.
    pub(crate) const SUCCESS: Status = Status(0);
    /// 125: the command went on after a failure that it has reported.
    pub(crate) const PARTIAL: Status = Status(FAILED);

    /// The recorded program's own: `exit(code)` keeps 8 bits.
    pub(crate) fn of_code(code: i32) -> Status {
        Status((code & 0xff) as u8)
    }

    /// 128+N.
    pub(crate) fn of_signal(signal: i32) -> Status {
        Status((128 + (signal & 0x7f)) as u8)
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
                // Help, which has nothing from outside.
                false => drop(error.print()),
            }
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
        Failure::NotFound(message) => {
            term.error(message);
            ExitCode::from(NOT_FOUND)
        }
        Failure::NotExecutable(message) => {
            term.error(message);
            ExitCode::from(NOT_EXECUTABLE)
        }
        Failure::Failed(message) => {
            term.error(message);
            ExitCode::from(FAILED)
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
