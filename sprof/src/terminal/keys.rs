//! Keys of the terminal while sprof waits for something else.

use std::fs::File;
use std::io::{self, Read};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// A key or the end of the wait is seen after so long.
const ROUND: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// The terminal, with keys that come without Enter. Ctrl-C and Ctrl-Z keep their meaning.
pub(crate) struct WaitingKeys {
    terminal: File,
    before: Termios,
}

impl WaitingKeys {
    /// Takes the keys. `None` without a terminal, or where another program has it.
    pub(crate) fn take() -> Option<WaitingKeys> {
        let terminal = File::open("/dev/tty").ok()?;
        let before = tcgetattr(&terminal).ok()?;
        let keys = WaitingKeys { terminal, before };
        keys.set_raw().ok()?;
        Some(keys)
    }

    fn set_raw(&self) -> io::Result<()> {
        let mut modes = self.before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        match self.has_terminal() {
            true => Ok(tcsetattr(&self.terminal, OptionalActions::Now, &modes)?),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// False in the background of a shell: using the terminal there would stop sprof (SIGTTIN, SIGTTOU).
    fn has_terminal(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group == getpgrp())
    }

    /// Waits a moment; returns the key that came.
    ///
    /// # Errors
    ///
    /// There is no terminal any more.
    pub(crate) fn wait(&self) -> io::Result<Option<u8>> {
        let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
        let is_ready = poll(&mut fds, Some(&ROUND)).is_ok_and(|ready| ready > 0);
        if !is_ready {
            return Ok(None);
        }
        if !fds[0].revents().contains(PollFlags::IN) || !self.has_terminal() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut key = [0];
        let len = (&self.terminal).read(&mut key)?;
        Ok(key.first().copied().filter(|_| len == 1))
    }
}

impl Drop for WaitingKeys {
    fn drop(&mut self) {
        if self.has_terminal() {
            // A terminal that is gone needs nothing.
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
        }
    }
}
