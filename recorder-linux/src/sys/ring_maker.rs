//! Rings that a child process had the kernel make.
//!
//! The kernel clears the memory of a ring within mmap(2), at up to 20 us a page on a virtual machine (64 MiB: 330 ms),
//! and holds the lock of the address space meanwhile (`mmap_lock`). Whatever thread of the recorder maps a ring, the
//! others wait as long for memory, and for a look into their own with `-a`: samples of that time were completed late,
//! and not verified. So a child does it, which has another address space. The ring is the event's: the recorder maps
//! the one that is there (`perf_mmap` in kernel/events/core.c).
//!
//! Whoever drops the [`RingMaker`] waits for the child, so that nothing of it outlives a recording: the next run forks
//! its program while this process has one thread and no other child.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::last_error;
use super::perf_event::EventFd;
use super::priority::set_policy;
use super::ring::{Mapped, Ring};

/// A child that has rings made. Dropped, the child ends and is reaped, and the rings are those of the recorder alone,
/// or gone.
#[derive(Debug)]
pub(crate) struct RingMaker {
    child: Pid,
    data_bytes: usize,
    /// Has a byte when all rings are there, or is closed if one could not be had.
    made: OwnedFd,
    /// The child keeps the rings mapped until this is closed. `None`: they were taken, or could not be had.
    keep: Option<OwnedFd>,
}

impl RingMaker {
    /// Begins to make a ring of `data_bytes` for each event, as [`Ring::map`] does. An error: no pipe, or no process.
    ///
    /// The child has this thread's signal mask: call it when signals are blocked that would end it.
    pub(crate) fn begin(events: &[&EventFd], data_bytes: usize) -> io::Result<RingMaker> {
        let (made, tell) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (until, keep) = pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: until it ends, the child calls async-signal-safe functions alone (system calls), and allocates
        // nothing.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(last_error());
        }
        let Some(child) = Pid::from_raw(pid) else {
            make(events, data_bytes, &tell, &until, keep)
        };
        Ok(RingMaker {
            child,
            data_bytes,
            made,
            keep: Some(keep),
        })
    }

    /// Returns the rings of the same events once, when they are made; `None` before and after. An error: there is not
    /// enough memory, or not enough that this user may lock.
    pub(crate) fn take(&mut self, events: &[&EventFd]) -> Option<io::Result<Vec<Ring>>> {
        // Closed at the end of this call, so that the child ends.
        let _keep = match (&self.keep, read(&self.made, &mut [0u8])) {
            (None, _) | (Some(_), Err(Errno::AGAIN | Errno::INTR)) => return None,
            (Some(_), Ok(1)) => self.keep.take(),
            (Some(_), ended) => {
                self.keep = None;
                return Some(Err(ended
                    .err()
                    .map_or(io::ErrorKind::OutOfMemory.into(), io::Error::from)));
            }
        };
        Some(events.iter().map(|event| Ring::map(event, self.data_bytes)).collect())
    }
}

impl Drop for RingMaker {
    fn drop(&mut self) {
        // Closing `keep` does not suffice: a process that was forked meanwhile may also have it. The child is not
        // reaped yet, so its number belongs to no other process. Within mmap(2) it ends after that call, which takes as
        // long as one ring, and only if the recording ends in the half second after larger copies came into use.
        let _ = kill_process(self.child, Signal::KILL);
        let _ = retry_on_intr(|| waitpid(Some(self.child), WaitOptions::empty()));
    }
}

/// What the child does. It has the usual priority: until there are larger rings, others serve.
fn make(events: &[&EventFd], data_bytes: usize, tell: &OwnedFd, until: &OwnedFd, keep: OwnedFd) -> ! {
    // Else the end of the recorder would not be seen.
    drop(keep);
    set_policy(libc::SCHED_OTHER, 0);
    let are_made = { events.iter() }.all(|event| Mapped::new(event, data_bytes).map(std::mem::forget).is_ok());
    if are_made {
        let _ = write(tell, &[1]);
        let _ = retry_on_intr(|| read(until, &mut [0u8]));
    }
    // SAFETY: _exit is async-signal-safe.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::sys::perf_event::{Attr, SW_DUMMY, THIS_THREAD, TYPE_SOFTWARE, flag};

    fn dummy() -> Option<EventFd> {
        let attr = Attr {
            kind: TYPE_SOFTWARE,
            config: SW_DUMMY,
            flags: flag::DISABLED | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV,
            ..Attr::default()
        };
        match EventFd::open(&attr, THIS_THREAD, 0) {
            Ok(event) => Some(event),
            Err(error) => {
                // Not by `eprintln!`, which a test that passes does not show.
                let _ = writeln!(io::stderr(), "skipped: no perf events: {error}");
                None
            }
        }
    }

    fn wait<T>(mut what: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            match what() {
                Some(there) => return there,
                None if begun.elapsed() > Duration::from_secs(60) => panic!("not after a minute"),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    #[test]
    fn the_recorder_maps_the_rings_that_the_child_had_made() {
        let Some(event) = dummy() else { return };
        let mut maker = RingMaker::begin(&[&event], 64 << 10).unwrap();
        let rings = wait(|| maker.take(&[&event])).unwrap();
        assert_eq!(rings.len(), 1);
        assert!(maker.take(&[&event]).is_none(), "taken once");
        drop(maker);
        // Another size is refused while the event has a ring (EINVAL): it is still there.
        let other = Ring::map(&event, 128 << 10).unwrap_err();
        assert_eq!(other.raw_os_error(), Some(libc::EINVAL));
        drop(rings);
        // The child has ended.
        wait(|| Ring::map(&event, 128 << 10).ok());
    }

    /// The child may be still within mmap(2).
    #[test]
    fn no_child_outlives_its_ring_maker() {
        let Some(event) = dummy() else { return };
        let maker = RingMaker::begin(&[&event], 4 << 20).unwrap();
        let child = maker.child;
        drop(maker);
        let waited = waitpid(Some(child), WaitOptions::NOHANG).map(|_| ());
        assert_eq!(waited, Err(Errno::CHILD), "it was reaped");
    }

    #[test]
    fn rings_that_can_not_be_had_are_an_error_once() {
        let Some(event) = dummy() else { return };
        // More pages than the kernel has an array for.
        let mut maker = RingMaker::begin(&[&event], 1 << 46).unwrap();
        assert!(wait(|| maker.take(&[&event])).is_err());
        assert!(maker.take(&[&event]).is_none());
    }
}
