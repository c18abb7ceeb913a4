//! Ends the program, when recording ends before it does.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use recording::session::{self, ProgramExit, StopReason};

use crate::processes::procfs;
use crate::sys::process::{Child, HeldProcess, Signal};
use crate::sys::signals::{self, Signals};

/// Time from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// The launched program after recording.
#[derive(Debug)]
pub struct Target {
    program: Child,
    /// Processes it started that were alive when recording ended.
    others: Vec<HeldProcess>,
    asked_to_end: Option<Instant>,
    keep_running: bool,
}

impl session::Target for Target {
    fn wait(mut self) -> ProgramExit {
        if self.keep_running && !ended(self.program.pidfd()) {
            return ProgramExit::StillRunning;
        }
        if let Some(asked) = self.asked_to_end {
            self.wait_or_kill(asked);
        }
        self.program.wait().into()
    }
}

impl Target {
    /// Sends SIGTERM to the program and to all recorded processes that are alive, unless the program ended by itself,
    /// or `keep_running`.
    pub(crate) fn after(program: Child, stop: StopReason, keep_running: bool, live: HashSet<i32>) -> Target {
        let mut target = Target {
            program,
            others: Vec::new(),
            asked_to_end: None,
            keep_running,
        };
        if stop.is_end_of_program() || keep_running {
            // A program may leave processes behind on purpose (a daemon).
            return target;
        }
        target.hold_others(live);
        target.program.signal(Signal::TERM);
        for other in &target.others {
            other.signal(Signal::TERM);
        }
        target.asked_to_end = Some(Instant::now());
        target
    }

    fn wait_or_kill(&mut self, asked: Instant) {
        // Another Ctrl-C kills the rest at once.
        let impatience = Signals::block().ok();
        loop {
            self.others.retain(|other| !ended(other.pidfd()));
            let program_ended = ended(self.program.pidfd());
            if program_ended && self.others.is_empty() {
                return;
            }
            let left = GRACE.saturating_sub(asked.elapsed());
            if left.is_zero() || impatience.as_ref().and_then(Signals::next).is_some() {
                break;
            }
            let mut fds: Vec<_> = self.others.iter().map(|other| other.pidfd().as_fd()).collect();
            if !program_ended {
                fds.push(self.program.pidfd().as_fd());
            }
            if let Some(impatience) = &impatience {
                fds.push(impatience.fd());
            }
            // On an error (EINVAL: too many descriptors) go on after a moment.
            if signals::wait_any_readable(&fds, left).is_err() {
                std::thread::sleep(left.min(Duration::from_millis(50)));
            }
        }
        // Processes that started after the recording ended are children of the held ones.
        self.hold_others(HashSet::new());
        for other in &self.others {
            other.signal(Signal::KILL);
        }
        self.program.signal(Signal::KILL);
    }

    /// Holds these processes and all processes below the program.
    fn hold_others(&mut self, mut pids: HashSet<i32>) {
        pids.extend(procfs::with_descendants(&[self.program.pid()]));
        pids.remove(&self.program.pid());
        self.others.extend(pids.into_iter().filter_map(HeldProcess::open));
    }
}

/// A launched program that is not recorded yet. Dropped, the program and all that it started are ended.
#[derive(Debug)]
pub(crate) struct HeldProgram(Option<Child>);

impl HeldProgram {
    pub(crate) fn new(program: Child) -> HeldProgram {
        HeldProgram(Some(program))
    }

    /// The program, for a recording that ends it.
    pub(crate) fn release(mut self) -> Option<Child> {
        self.0.take()
    }
}

impl Drop for HeldProgram {
    fn drop(&mut self) {
        if let Some(program) = self.0.take() {
            session::Target::wait(Target::after(program, StopReason::Terminated, false, HashSet::new()));
        }
    }
}

/// True if the process of this pidfd has ended.
pub(crate) fn ended(pidfd: &OwnedFd) -> bool {
    signals::wait_readable([pidfd.as_fd()], Duration::ZERO).is_ok_and(|[readable]| readable)
}
