//! A program that runs for a while before it is recorded: a build tool, until what it has built runs.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use recording::session::{HoldOutcome, RecordError, StopReason, Target as _};

use super::attach;
use super::perf::{Begin, PerfSession};
use crate::open::WantedEvents;
use crate::processes::launch;
use crate::processes::stop::{HeldProgram, Target};
use crate::processes::watched::{stop_at_end, take_signals};
use crate::sys::process::Child;
use crate::sys::signals::{self, Signals};

/// Longest sleep. It only needs a limit: every event makes a descriptor readable.
const ROUND: Duration = Duration::from_secs(60);
/// Longest time for an ended program to be reaped, when its events are to be opened.
const ENDING: Duration = Duration::from_secs(1);

/// Lets the launched program run unrecorded until `begin` is readable, then opens the events for it and all below it,
/// as if sprof attached. A session of running processes begins at once.
///
/// The writer of `begin` waits until the session is about to run, and misses nothing.
pub(super) fn until(session: PerfSession, begin: BorrowedFd<'_>) -> Result<HoldOutcome<PerfSession>, RecordError> {
    let Begin::Launch(stopped) = session.begin else {
        return Ok(HoldOutcome::Begins(Box::new(session)));
    };
    let (common, events, probes) = (session.common, session.events, session.probes);
    // The events for the program's exec showed that they are allowed. Other events take their place.
    let mut opened = session.opened;
    let announcements = std::mem::take(&mut opened.announcements);
    drop(opened);
    let child = stopped
        .start()
        .map_err(|error| launch::exec_error(&common.options.command, &error))?;
    if let Some(stop) = wait_for(begin, &child, &common.signals)? {
        return Ok(HoldOutcome::Ended(Target::after(child, stop, false, [].into()).wait()));
    }
    match attach::to_processes(&[child.pid()], &WantedEvents::of(&common.options, &events)) {
        Ok((mut opened, running)) => {
            // The announcements for attached processes are not for a launched one.
            opened.announcements = announcements;
            Ok(HoldOutcome::Begins(Box::new(PerfSession {
                opened,
                probes,
                events,
                begin: Begin::Held(HeldProgram::new(child), running),
                common,
            })))
        }
        Err(message) => {
            let ended = signals::wait_readable([child.pidfd().as_fd()], ENDING);
            match ended.is_ok_and(|[ended]| ended) {
                true => Ok(HoldOutcome::Ended(
                    Target::after(child, StopReason::ProgramEnded, false, [].into()).wait(),
                )),
                false => {
                    Target::after(child, StopReason::Terminated, false, [].into()).wait();
                    Err(RecordError::Failed(message))
                }
            }
        }
    }
}

/// Waits for `begin`. If the program ends first, or a signal ends sprof, returns the reason.
fn wait_for(begin: BorrowedFd<'_>, child: &Child, signals: &Signals) -> Result<Option<StopReason>, RecordError> {
    let mut interrupts = 0;
    loop {
        let fds = [child.pidfd().as_fd(), signals.fd(), begin];
        let [ended, signalled, begins] = signals::wait_readable(fds, ROUND)
            .map_err(|error| RecordError::Failed(format!("cannot wait for the program: {error}")))?;
        if ended {
            return Ok(Some(stop_at_end(signals, interrupts)));
        }
        if signalled && let Some(stop) = take_signals(signals, &mut interrupts, Some(child)) {
            return Ok(Some(stop));
        }
        if begins {
            return Ok(None);
        }
    }
}
