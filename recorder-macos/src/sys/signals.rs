//! Signals as data: a handler writes them to a pipe, which the queue reports.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::kernel::StopSignal;

/// What ends a recording.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Where the handler writes to; -1: nowhere.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// The signals, taken over until dropped.
#[derive(Debug)]
pub(super) struct Signals {
    read: OwnedFd,
    write: OwnedFd,
    before: Vec<(libc::c_int, SavedAction)>,
}

struct SavedAction(libc::sigaction);

impl std::fmt::Debug for SavedAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SavedAction")
    }
}

impl Signals {
    pub(super) fn take() -> io::Result<Signals> {
        let (read, write) = pipe()?;
        PIPE.store(write.as_raw_fd(), Ordering::Release);
        let mut signals = Signals {
            read,
            write,
            before: Vec::new(),
        };
        for signal in SIGNALS {
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
            let before = set(
                signal,
                handler as libc::sighandler_t,
                libc::SA_SIGINFO | libc::SA_RESTART,
            )?;
            signals.before.push((signal, SavedAction(before)));
        }
        Ok(signals)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Makes a call while the signals are ignored that were ignored before. A program that the call starts also ignores
    /// them, as `nohup` and background jobs of shells want: an exec keeps what is ignored, and replaces handlers by the
    /// default (sigaction(2)).
    pub(super) fn ignoring<T>(&self, call: impl FnOnce() -> T) -> T {
        let is_ignored = |(_, before): &&(libc::c_int, SavedAction)| before.0.sa_sigaction == libc::SIG_IGN;
        let ignored = { self.before.iter() }.filter(is_ignored);
        let hidden: Vec<_> = ignored
            .filter_map(|(signal, _)| Some((*signal, set(*signal, libc::SIG_IGN, 0).ok()?)))
            .collect();
        let result = call();
        for (signal, own) in hidden {
            // SAFETY: `own` is an action that sigaction(2) returned, a local that outlives the call.
            let _ = unsafe { libc::sigaction(signal, &raw const own, ptr::null_mut()) };
        }
        result
    }

    /// The next signal; `None` if there is none.
    pub(super) fn next(&self) -> Option<StopSignal> {
        let mut bytes = [0u8; 2];
        // SAFETY: the kernel writes at most `bytes.len()` bytes.
        let read = unsafe { libc::read(self.read.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        (read == 2).then(|| match libc::c_int::from(bytes[0]) {
            libc::SIGINT => StopSignal::Interrupt {
                from_terminal: bytes[1] != 0,
            },
            _ => StopSignal::Terminate,
        })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: `before` is an action that sigaction(2) returned, and outlives the call.
            let _ = unsafe { libc::sigaction(*signal, &raw const before.0, ptr::null_mut()) };
        }
        // Another one may have been taken since.
        let _ = PIPE.compare_exchange(self.write.as_raw_fd(), -1, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// A pipe whose ends never block.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: writes two integers to `fds`, which has two.
    if unsafe { libc::pipe(fds.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: pipe(2) has just opened the descriptor, and nothing else owns it.
    let read = unsafe { OwnedFd::from_raw_fd(fds[0]) };
    // SAFETY: pipe(2) has just opened the descriptor, and nothing else owns it.
    let write = unsafe { OwnedFd::from_raw_fd(fds[1]) };
    for fd in [&read, &write] {
        // SAFETY: takes integers; the descriptor is open.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        // SAFETY: takes integers; the descriptor is open.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    }
    Ok((read, write))
}

/// Sets what a signal does, and returns what it did.
fn set(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) -> io::Result<libc::sigaction> {
    let action = libc::sigaction {
        sa_sigaction: handler,
        sa_mask: 0,
        sa_flags: flags,
    };
    let mut before = libc::sigaction {
        sa_sigaction: libc::SIG_DFL,
        sa_mask: 0,
        sa_flags: 0,
    };
    // SAFETY: both structures are locals that outlive the call. Handlers of this file call only what sigaction(2)
    // permits.
    match unsafe { libc::sigaction(signal, &raw const action, &raw mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: null, or the kernel's structure, which lives until the handler returns.
    let sender = unsafe { info.as_ref() }.map_or(1, |info| info.si_pid);
    // The terminal driver is not a process: it has id 0.
    let bytes = [signal as u8, u8::from(sender == 0)];
    // SAFETY: takes nothing, and returns a pointer to the last error of this thread, which lives as long as the thread.
    let errno = unsafe { libc::__error() };
    // SAFETY: `errno` is the last error of this thread, which is running.
    let before = unsafe { *errno };
    // SAFETY: write(2) may be called in handlers. A full or closed pipe is an error, which does no harm.
    let _ = unsafe { libc::write(PIPE.load(Ordering::Acquire), bytes.as_ptr().cast(), bytes.len()) };
    // SAFETY: `errno` is the last error of this thread. The interrupted code may be about to read its own.
    unsafe { *errno = before };
}

/// What SIGQUIT writes to stderr before it ends the process; null: nothing. Points to leaked memory.
static LAST_WORDS: AtomicPtr<String> = AtomicPtr::new(ptr::null_mut());

/// From here on SIGQUIT (Ctrl-\\) writes these words to stderr, if there are any, then ends the process as usual. Each
/// call leaks a few bytes: the handler may be reading the previous words.
pub fn say_if_quit(words: Option<String>) {
    let words = words.map_or(ptr::null_mut(), |words| Box::into_raw(Box::new(words)));
    LAST_WORDS.store(words, Ordering::Release);
    let handler: extern "C" fn(libc::c_int) = on_quit;
    // The default action is back when the handler runs. SIGQUIT is a signal, so this can't fail.
    let _ = set(libc::SIGQUIT, handler as libc::sighandler_t, libc::SA_RESETHAND);
}

extern "C" fn on_quit(signal: libc::c_int) {
    // SAFETY: the pointer is null, or points to a leaked String that never changes.
    if let Some(words) = unsafe { LAST_WORDS.load(Ordering::Acquire).as_ref() } {
        // SAFETY: write(2) may be called in handlers. errno need not be kept: the process ends.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
    }
    // SAFETY: may be called in handlers. The signal is blocked in its own one, and delivered when that returns.
    let _ = unsafe { libc::raise(signal) };
}
