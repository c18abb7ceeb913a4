//! The processes whose end ends the recording, and the effect of Ctrl-C while recording.

use std::os::fd::OwnedFd;

use crate::sys::process::{Child, HeldProcess, Signal};
use crate::sys::signals::{Received, Signals};
use recording::session::StopReason;

/// What the recording waits for.
#[derive(Debug)]
pub(crate) enum Watched {
    /// A launched program. Ctrl-C on a terminal reaches the program itself.
    Program(Child),
    /// Attached processes. They get no signals.
    Others(Vec<HeldProcess>),
    /// The whole machine, which does not end.
    Machine,
    /// A command whose end ends the recording of others or of the machine: `-a -- sleep 10`.
    Timer(Child),
}

impl Watched {
    /// Readable when the process that is waited for next has ended. `None` if there is none.
    pub(crate) fn pidfd(&self) -> Option<&OwnedFd> {
        match self {
            Watched::Program(program) | Watched::Timer(program) => Some(program.pidfd()),
            Watched::Others(others) => others.last().map(HeldProcess::pidfd),
            Watched::Machine => None,
        }
    }

    /// Notes that the process of [`Watched::pidfd`] has ended. True if it was the last.
    pub(crate) fn one_has_ended(&mut self) -> bool {
        match self {
            Watched::Program(_) | Watched::Timer(_) => true,
            Watched::Others(others) => {
                others.pop();
                others.is_empty()
            }
            Watched::Machine => false,
        }
    }

    /// The recorded program, if sprof launched it.
    pub(crate) fn program(&self) -> Option<&Child> {
        match self {
            Watched::Program(program) => Some(program),
            Watched::Others(_) | Watched::Machine | Watched::Timer(_) => None,
        }
    }
}

/// Returns why recording ended, once everything that is watched has ended. `interrupts`: Ctrl-C so far. A Ctrl-C that
/// came together with the end was for the program, and does not cut the look-up of names short.
pub(crate) fn stop_at_end(signals: &Signals, mut interrupts: u32) -> StopReason {
    while let Some(received) = signals.next() {
        if received.signal != libc::SIGINT {
            return StopReason::Terminated;
        }
        interrupts += 1;
    }
    match interrupts {
        0 => StopReason::ProgramEnded,
        _ => StopReason::ProgramInterrupted,
    }
}

/// Takes the signals that came, and says whether recording ends.
///
/// Ctrl-C on a terminal reaches a launched program by itself; a SIGINT that someone sent to sprof alone is passed on.
/// The second SIGINT ends the recording. Without a launched program the first one does.
pub(crate) fn take_signals(signals: &Signals, interrupts: &mut u32, program: Option<&Child>) -> Option<StopReason> {
    while let Some(Received { signal, from_kernel }) = signals.next() {
        if signal != libc::SIGINT {
            return Some(StopReason::Terminated);
        }
        *interrupts += 1;
        match program {
            Some(program) if *interrupts == 1 => {
                if !from_kernel {
                    program.signal(Signal::INT);
                }
            }
            _ => return Some(StopReason::Interrupted),
        }
    }
    None
}
