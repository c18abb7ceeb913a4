//! Signals as data: blocked for the recording's duration and read from a signalfd.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use super::{last_error, retry};

/// A signal that reached this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) signal: i32,
    /// The kernel sent it. A SIGINT of the kernel is a key on the terminal, and reached the whole foreground group.
    pub(crate) from_kernel: bool,
}

/// Some signals, blocked in this thread until dropped. No other thread may exist before this: it would receive them with
/// their default action.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// SIGINT, SIGTERM and SIGHUP: what ends a recording.
    pub(crate) fn block() -> io::Result<Signals> {
        Signals::block_these(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
    }

    /// SIGCHLD: a child or a traced thread has changed its state.
    pub(crate) fn block_child_news() -> io::Result<Signals> {
        Signals::block_these(&[libc::SIGCHLD])
    }

    fn block_these(signals: &[i32]) -> io::Result<Signals> {
        let mut set = empty_set();
        for &signal in signals {
            // SAFETY: `set` is an initialised set and the number is a valid signal.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        let mut before = empty_set();
        // SAFETY: both sets are initialised and live.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: `set` is live; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            let error = last_error();
            restore(&before);
            return Err(error);
        }
        // SAFETY: a new descriptor that nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Signals { fd, before })
    }

    /// The next pending signal.
    pub(crate) fn next(&self) -> Option<Received> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is `bytes` long and writable.
        let got = retry(|| unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), bytes) }).ok()?;
        if got != bytes {
            return None;
        }
        // SAFETY: a plain-data structure, zeroed and then wholly written by the kernel.
        let info = unsafe { info.assume_init() };
        Some(Received {
            signal: info.ssi_signo as i32,
            from_kernel: info.ssi_code == libc::SI_KERNEL,
        })
    }

    pub(super) fn mask_before(&self) -> libc::sigset_t {
        self.before
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

/// What SIGQUIT writes to stderr before it ends the process; null: nothing. Points to leaked memory.
static LAST_WORDS: AtomicPtr<String> = AtomicPtr::new(ptr::null_mut());

/// From here on SIGQUIT (Ctrl-\) writes these words to stderr, if there are any, then ends the process as usual. Each call leaks a few
/// bytes: the handler may be reading the previous words.
pub fn say_if_quit(words: Option<String>) {
    let words = words.map_or(ptr::null_mut(), |words| Box::into_raw(Box::new(words)));
    LAST_WORDS.store(words, Ordering::Release);
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: sigaction is plain data for which all zeros are valid: the default action, an empty mask, no flags.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = on_quit as *const () as usize;
    // The default action is back when the handler runs.
    action.sa_flags = libc::SA_RESETHAND;
    // SAFETY: `action` is initialised, its handler takes one int (no SA_SIGINFO) and calls only what signal-safety(7) permits; the
    // action before is not asked for. SIGQUIT is a valid signal, so this can't fail.
    unsafe { libc::sigaction(libc::SIGQUIT, action, ptr::null_mut()) };
}

extern "C" fn on_quit(signal: libc::c_int) {
    // SAFETY: the pointer is null or that of a leaked, never changed String.
    if let Some(words) = unsafe { LAST_WORDS.load(Ordering::Acquire).as_ref() } {
        // SAFETY: write(2) is async-signal-safe, and the buffer lives as long as the process. errno need not be kept: the process
        // ends.
        unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
    }
    // SAFETY: raise(3) is async-signal-safe. The signal is blocked in its own handler, and delivered when that returns.
    unsafe { libc::raise(signal) };
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset initialises the set it is given, and zeroed memory is a valid sigset_t anyway.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: see above.
    unsafe { set.assume_init() }
}

fn restore(mask: &libc::sigset_t) {
    // SAFETY: `mask` came from pthread_sigmask; the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}

/// Waits until one of the descriptors is readable or the time is over; says which are. For a pidfd, readable means that
/// the process has ended.
pub(crate) fn wait_readable<const N: usize>(fds: [BorrowedFd<'_>; N], timeout: Duration) -> io::Result<[bool; N]> {
    let mut polls = fds.map(poll_entry);
    poll(&mut polls, timeout)?;
    Ok(polls.map(|poll| poll.revents != 0))
}

/// Waits until any of the descriptors is readable or the time is over.
pub(crate) fn wait_any_readable(fds: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<()> {
    let mut polls: Vec<libc::pollfd> = fds.iter().copied().map(poll_entry).collect();
    poll(&mut polls, timeout)
}

fn poll_entry(fd: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }
}

/// An interrupted wait is no error: nothing is readable yet.
fn poll(polls: &mut [libc::pollfd], timeout: Duration) -> io::Result<()> {
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: `polls` holds as many live entries as stated, `timeout` is a valid timespec, no signal mask is passed.
    let got = unsafe {
        libc::ppoll(
            polls.as_mut_ptr(),
            polls.len() as libc::nfds_t,
            &raw const timeout,
            std::ptr::null(),
        )
    };
    if got < 0 {
        let error = last_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}
