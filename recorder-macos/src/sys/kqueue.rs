//! One queue for the timer of the ticks and for what happens to processes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::kevent64_s;
use mach2::port::mach_port_name_t;

use crate::kernel::{KernelEvent, MachError};

/// The number of the timer.
const TIMER: u64 = 1;

/// Events taken at once.
const EVENTS: usize = 64;

const EMPTY: kevent64_s = kevent64_s {
    ident: 0,
    filter: 0,
    flags: 0,
    fflags: 0,
    data: 0,
    udata: 0,
    ext: [0; 2],
};

/// A kqueue.
#[derive(Debug)]
pub(super) struct EventQueue(OwnedFd);

impl EventQueue {
    pub(super) fn open() -> io::Result<EventQueue> {
        // SAFETY: takes nothing, and returns a descriptor or -1.
        let fd = unsafe { libc::kqueue() };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: kqueue(2) has just opened the descriptor, and nothing else owns it.
        Ok(EventQueue(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Reports forks, execs and the end of a process from now on.
    pub(super) fn watch(&self, pid: i32) -> Result<(), MachError> {
        let change = kevent64_s {
            ident: u64::try_from(pid).map_err(|_| MachError::Gone)?,
            filter: libc::EVFILT_PROC,
            flags: libc::EV_ADD | libc::EV_CLEAR,
            fflags: libc::NOTE_FORK | libc::NOTE_EXEC | libc::NOTE_EXIT,
            ..EMPTY
        };
        match self.exchange(&[change], &mut [], None) {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(MachError::Gone),
            Err(error) => Err(MachError::Code(error.raw_os_error().unwrap_or(0))),
        }
    }

    /// Reports that there is something to read in a file, from now until the file is closed.
    pub(super) fn watch_file(&self, file: BorrowedFd<'_>) -> Result<(), i32> {
        let change = kevent64_s {
            ident: file.as_raw_fd().cast_unsigned().into(),
            filter: libc::EVFILT_READ,
            flags: libc::EV_ADD | libc::EV_CLEAR,
            ..EMPTY
        };
        let added = self.exchange(&[change], &mut [], None);
        added.map(drop).map_err(|error| error.raw_os_error().unwrap_or(0))
    }

    /// Reports that there are messages at a port, as long as there are, until the port is closed.
    pub(super) fn watch_port(&self, name: mach_port_name_t) -> Result<(), MachError> {
        let change = kevent64_s {
            ident: name.into(),
            filter: libc::EVFILT_MACHPORT,
            flags: libc::EV_ADD,
            ..EMPTY
        };
        let added = self.exchange(&[change], &mut [], None);
        added
            .map(drop)
            .map_err(|error| MachError::Code(error.raw_os_error().unwrap_or(0)))
    }

    /// Sleeps until `until_ticks` of the clock `mach_absolute_time`, or until there are events. Returns at once where
    /// the timer fails.
    pub(super) fn wait(&self, until_ticks: u64) -> Vec<KernelEvent> {
        let timer = kevent64_s {
            ident: TIMER,
            filter: libc::EVFILT_TIMER,
            flags: libc::EV_ADD | libc::EV_ONESHOT,
            // The kernel delays timers that are not critical, to wake up less often.
            fflags: libc::NOTE_ABSOLUTE | libc::NOTE_MACHTIME | libc::NOTE_CRITICAL,
            data: i64::try_from(until_ticks).unwrap_or(i64::MAX),
            ..EMPTY
        };
        let mut events = [EMPTY; EVENTS];
        let mut reported = Vec::new();
        let mut taken = self.exchange(&[timer], &mut events, None).unwrap_or(0);
        // All that there is: what happened first may be in the second part.
        while taken > 0 {
            events[..taken].iter().for_each(|event| report(event, &mut reported));
            // A timer that the kernel refuses is such an event (kqueue(2)). What has happened meanwhile may not be
            // among these.
            let is_refused = |event: &kevent64_s| event.flags & libc::EV_ERROR != 0;
            if taken < EVENTS && !events[..taken].iter().any(is_refused) {
                break;
            }
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            taken = self.exchange(&[], &mut events, Some(now)).unwrap_or(0);
        }
        reported
    }

    fn exchange(
        &self,
        changes: &[kevent64_s],
        events: &mut [kevent64_s],
        timeout: Option<libc::timespec>,
    ) -> io::Result<usize> {
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (changes_len, events_len) = (changes.len() as libc::c_int, events.len() as libc::c_int);
        let fd = self.0.as_raw_fd();
        // SAFETY: the kernel reads `changes_len` and writes at most `events_len` entries, the lengths of the slices,
        // and reads the time unless it is null. All outlive the call.
        let taken = unsafe {
            libc::kevent64(
                fd,
                changes.as_ptr(),
                changes_len,
                events.as_mut_ptr(),
                events_len,
                0,
                timeout,
            )
        };
        usize::try_from(taken).map_err(|_| io::Error::last_os_error())
    }
}

fn report(event: &kevent64_s, reported: &mut Vec<KernelEvent>) {
    if event.filter == libc::EVFILT_MACHPORT && event.flags & libc::EV_ERROR == 0 {
        reported.push(KernelEvent::Messages);
        return;
    }
    let Ok(pid) = i32::try_from(event.ident) else { return };
    if event.filter != libc::EVFILT_PROC || event.flags & libc::EV_ERROR != 0 {
        return;
    }
    let kinds = [
        (libc::NOTE_FORK, KernelEvent::Forked(pid)),
        (libc::NOTE_EXEC, KernelEvent::Exec(pid)),
        (libc::NOTE_EXIT, KernelEvent::Ended(pid)),
    ];
    reported.extend(
        kinds
            .iter()
            .filter(|(note, _)| event.fflags & note != 0)
            .map(|(_, reported)| *reported),
    );
}
