//! What starting and ending programs asks of the system.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use recording::info;
use recording::program::ProgramImage;

use crate::kernel::{Mach, MachError};

/// Calls of the system, in addition to [`Mach`].
pub trait Host: Mach {
    /// [`Mach::sleep`] reports SIGINT, SIGTERM and SIGHUP to this process from now on: they end nothing else.
    ///
    /// # Errors
    ///
    /// errno.
    fn hear_signals(&self) -> Result<(), i32>;

    /// Undoes [`Host::hear_signals`]: the signals do what they did before.
    fn forget_signals(&self);

    /// Starts a program that does not run before [`Signal::Continue`](crate::kernel::Signal::Continue). Returns its
    /// process id.
    ///
    /// # Errors
    ///
    /// errno.
    fn spawn(&self, image: &ProgramImage) -> Result<i32, i32>;

    /// Opens a port to which programs announce themselves ([`Mach::messages`]): those that are started from now on, and
    /// all below them. Returns its name for launchd.
    ///
    /// # Errors
    ///
    /// A port is open, or the kernel makes none.
    fn listen(&self) -> Result<String, MachError>;

    /// Closes the port, gives back what was [kept](Mach::keep_task), and lets all go on that wait.
    fn stop_listening(&self);

    /// A folder for files that stay, which only the user may enter. `None` if macOS names none.
    fn own_folder(&self) -> Option<PathBuf>;

    /// How a child has ended. Its id is free from then on. `None` if it has not ended, or is not a child.
    fn reap(&self, pid: i32) -> Option<ProcessEnd>;

    /// True if Rosetta translates the process's program.
    fn is_translated(&self, pid: i32) -> bool;

    /// True if the file has something to read.
    fn is_readable(&self, file: BorrowedFd<'_>) -> bool;

    /// The machine, as the profile shows it.
    fn describe(&self) -> info::Host;

    /// True if this process runs as root.
    fn is_root(&self) -> bool;
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// With this status.
    Exited(i32),
    /// Killed by this signal.
    Signaled(i32),
}
