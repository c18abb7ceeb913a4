//! Standard streams that are sprof's: the recorded program gets others.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::exit::Failure;

/// Streams of sprof, while a program is started with others. They are sprof's again when this is dropped.
#[derive(Default)]
pub(crate) struct OwnStreams {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

impl OwnStreams {
    /// Programs that are started from here on write to stderr what they write to stdout.
    pub(crate) fn keep_stdout() -> Result<OwnStreams, Failure> {
        let mut kept = OwnStreams::default();
        kept.replace_stdout().map_err(failed)?;
        Ok(kept)
    }

    /// Programs that are started from here on neither write to the terminal nor take its keys.
    pub(crate) fn keep_terminal() -> Result<OwnStreams, Failure> {
        let mut kept = OwnStreams::default();
        kept.replace_terminals().map_err(failed)?;
        Ok(kept)
    }

    fn replace_stdout(&mut self) -> io::Result<()> {
        self.stdout = Some(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(dup2_stdout(io::stderr())?)
    }

    fn replace_terminals(&mut self) -> io::Result<()> {
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        if io::stdin().is_terminal() {
            self.stdin = Some(io::stdin().as_fd().try_clone_to_owned()?);
            dup2_stdin(&null)?;
        }
        if io::stdout().is_terminal() {
            self.stdout = Some(io::stdout().as_fd().try_clone_to_owned()?);
            dup2_stdout(&null)?;
        }
        if io::stderr().is_terminal() {
            self.stderr = Some(io::stderr().as_fd().try_clone_to_owned()?);
            dup2_stderr(&null)?;
        }
        Ok(())
    }
}

impl Drop for OwnStreams {
    fn drop(&mut self) {
        // Where one can't be restored, nothing can be said about it.
        let _ = self.stdin.as_ref().map(dup2_stdin);
        let _ = self.stdout.as_ref().map(dup2_stdout);
        let _ = self.stderr.as_ref().map(dup2_stderr);
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::failed(format_args!("cannot keep the terminal from the program: {error}"))
}
