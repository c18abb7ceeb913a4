//! Signals as data: blocked for the recording's duration and read from a signalfd.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, raise, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec};

/// A signal that reached this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) signal: i32,
    /// The kernel sent it. A SIGINT of the kernel is a key on the terminal, and reached the whole foreground group.
    pub(crate) from_kernel: bool,
}

/// Some signals, blocked in this thread until dropped. Every other thread must have them blocked (a thread inherits the
/// mask of the thread that started it): a thread that has not would receive them with their default action.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: SignalFd,
    before: SigSet,
}

impl Signals {
    /// SIGINT, SIGTERM and SIGHUP: what ends a recording.
    pub(crate) fn block() -> io::Result<Signals> {
        Signals::block_these(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
    }

    /// SIGCHLD: a child or a traced thread has changed its state.
    pub(crate) fn block_child_news() -> io::Result<Signals> {
        Signals::block_these(&[Signal::SIGCHLD])
    }

    fn block_these(signals: &[Signal]) -> io::Result<Signals> {
        let set: SigSet = signals.iter().copied().collect();
        let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .inspect_err(|_| restore(&before))?;
        Ok(Signals { fd, before })
    }

    /// The next pending signal.
    pub(crate) fn next(&self) -> Option<Received> {
        // EINTR can't be: the descriptor does not block.
        let info = self.fd.read_signal().ok().flatten()?;
        Some(Received {
            signal: info.ssi_signo as i32,
            from_kernel: info.ssi_code == libc::SI_KERNEL,
        })
    }

    pub(super) fn mask_before(&self) -> SigSet {
        self.before
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

/// What SIGQUIT writes to stderr before it ends the process; null: nothing. Points to leaked memory.
static LAST_WORDS: AtomicPtr<String> = AtomicPtr::new(ptr::null_mut());

/// From here on SIGQUIT (Ctrl-\) writes these words to stderr, if there are any, then ends the process as usual. Each
/// call leaks a few bytes: the handler may be reading the previous words.
pub fn say_if_quit(words: Option<String>) {
    let words = words.map_or(ptr::null_mut(), |words| Box::into_raw(Box::new(words)));
    LAST_WORDS.store(words, Ordering::Release);
    // The default action is back when the handler runs.
    let action = SigAction::new(SigHandler::Handler(on_quit), SaFlags::SA_RESETHAND, SigSet::empty());
    // SAFETY: the handler calls only what signal-safety(7) permits; the action before is not used. SIGQUIT is a valid
    // signal, so this can't fail.
    let _ = unsafe { sigaction(Signal::SIGQUIT, &action) };
}

extern "C" fn on_quit(_: libc::c_int) {
    // SAFETY: the pointer is null or points to a leaked, never changed String.
    if let Some(words) = unsafe { LAST_WORDS.load(Ordering::Acquire).as_ref() } {
        // write(2) is async-signal-safe. errno need not be kept: the process ends.
        let _ = rustix::io::write(rustix::stdio::stderr(), words.as_bytes());
    }
    // raise(3) is async-signal-safe. The signal is blocked in its own handler, and delivered when that returns.
    let _ = raise(Signal::SIGQUIT);
}

fn restore(mask: &SigSet) {
    // The kernel refuses no mask.
    let _ = mask.thread_set_mask();
}

/// Waits until one of the descriptors is readable or the time is over; says which are. For a pidfd, readable means that
/// the process has ended.
pub(crate) fn wait_readable<const N: usize>(fds: [BorrowedFd<'_>; N], timeout: Duration) -> io::Result<[bool; N]> {
    let mut polls = fds.map(poll_entry);
    poll(&mut polls, timeout)?;
    Ok(polls.map(|poll| !poll.revents().is_empty()))
}

/// Waits until any of the descriptors is readable or the time is over.
pub(crate) fn wait_any_readable(fds: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<()> {
    let mut polls: Vec<PollFd<'_>> = fds.iter().copied().map(poll_entry).collect();
    poll(&mut polls, timeout)
}

fn poll_entry(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// An interrupted wait returns that nothing is readable.
fn poll(polls: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    // A time that is too long for a timespec never ends.
    match rustix::event::poll(polls, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_read_once_and_the_mask_is_restored() {
        let before = SigSet::thread_get_mask().unwrap();
        let signals = Signals::block().unwrap();
        assert_eq!(signals.next(), None);
        assert_eq!(wait_readable([signals.fd()], Duration::ZERO).unwrap(), [false]);
        raise(Signal::SIGHUP).unwrap();
        assert_eq!(wait_readable([signals.fd()], Duration::MAX).unwrap(), [true]);
        let received = Received {
            signal: libc::SIGHUP,
            from_kernel: false,
        };
        assert_eq!(signals.next(), Some(received));
        assert_eq!(signals.next(), None);
        drop(signals);
        assert!(SigSet::thread_get_mask().unwrap() == before);
    }
}
