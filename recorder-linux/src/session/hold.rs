//! A program that runs for a while before it is recorded: a build tool, until what it has built runs.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use recording::session::{Held, ProgramExit, RecordError, StopReason, Target as _};

use super::{Recording, Who};
use crate::open::Wanted;
use crate::processes::launch;
use crate::processes::stop::Target;
use crate::processes::watched::Watched;
use crate::session::attach;
use crate::session::backend::Backend;
use crate::sys::process::Child;
use crate::sys::signals;

/// Nothing happens by itself: whatever comes is readable.
const ROUND: Duration = Duration::from_secs(60);
/// How long the end of a program may take that was there no more when events were to be opened.
const ENDING: Duration = Duration::from_secs(1);

impl Recording {
    /// Lets the launched program run unrecorded until `begin` is readable, then opens the events for it and all below it, as
    /// if sprof attached. With ptrace the program is recorded from its start instead: then this returns at once.
    ///
    /// Whoever makes `begin` readable waits until [`run`](recording::session::Session::run) is about to be called, and misses nothing.
    pub(super) fn hold(mut self, begin: BorrowedFd<'_>) -> Result<Held<Recording>, RecordError> {
        let stopped = match std::mem::replace(&mut self.who, Who::Nobody) {
            Who::Stopped(stopped) if matches!(self.backend, Backend::PerfEvent(_)) => stopped,
            who => {
                self.who = who;
                return Ok(Held::Begins(Box::new(self)));
            }
        };
        // These were opened for the program's exec, which showed that they are allowed. Others take their place.
        let announcements = match std::mem::replace(&mut self.backend, Backend::NotYet) {
            Backend::PerfEvent(opened) => opened.announcements,
            Backend::Ptrace { .. } | Backend::NotYet => Vec::new(),
        };
        let child = stopped
            .start()
            .map_err(|error| launch::exec_error(&self.options, &error))?;
        let child = match self.wait_for(begin, child)? {
            Waited::ToBegin(child) => child,
            Waited::Ended(exit) => return Ok(Held::Ended(exit)),
        };
        match attach::to_processes(&[child.pid], &Wanted::of(&self.options, &self.events)) {
            Ok((mut opened, running)) => {
                // What is meant for those who attach is not said.
                opened.announcements = announcements;
                self.backend = Backend::PerfEvent(Box::new(opened));
                self.who = Who::Launched(child, running);
                Ok(Held::Begins(Box::new(self)))
            }
            Err(message) => {
                let ended = signals::wait_readable([child.pidfd().as_fd()], ENDING);
                let has_ended = ended.is_ok_and(|[ended]| ended);
                let stop = match has_ended {
                    true => StopReason::ProgramEnded,
                    false => StopReason::Terminated,
                };
                let exit = Target::after(child, stop, false, [].into()).wait();
                match has_ended {
                    true => Ok(Held::Ended(exit)),
                    false => Err(RecordError::Failed(message)),
                }
            }
        }
    }

    fn wait_for(&self, begin: BorrowedFd<'_>, child: Child) -> Result<Waited, RecordError> {
        let watched = Watched::Program(child);
        let mut interrupts = 0;
        let (stop, begins) = loop {
            let Some(pidfd) = watched.pidfd() else {
                break (StopReason::ProgramEnded, false);
            };
            let fds = [pidfd.as_fd(), self.signals.fd().as_fd(), begin];
            let [ended, signalled, begins] = signals::wait_readable(fds, ROUND)
                .map_err(|error| RecordError::Failed(format!("cannot wait for the program: {error}")))?;
            if ended {
                break (Watched::stop_at_end(&self.signals), false);
            }
            if signalled && let Some(stop) = watched.take_signals(&self.signals, &mut interrupts) {
                break (stop, false);
            }
            if begins {
                break (StopReason::ProgramEnded, true);
            }
        };
        let Watched::Program(child) = watched else {
            return Err(RecordError::Failed("there is no program to wait for".to_owned()));
        };
        Ok(match begins {
            true => Waited::ToBegin(child),
            false => Waited::Ended(Target::after(child, stop, false, [].into()).wait()),
        })
    }
}

enum Waited {
    ToBegin(Child),
    Ended(ProgramExit),
}
