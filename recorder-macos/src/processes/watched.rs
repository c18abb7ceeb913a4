//! Whose end ends the recording, and what Ctrl-C means meanwhile.

use std::collections::BTreeSet;

use recording::session::StopReason;

use crate::kernel::{KernelEvent, Mach, Signal, StopSignal};

/// The processes that the recording waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// The launched program. It is recorded, and gets each Ctrl-C.
    pub program: Option<i32>,
    /// Attached processes, which are never sent anything. If there is a command that only ends the recording, it alone
    /// is here.
    pub others: BTreeSet<i32>,
}

impl Watched {
    /// A process has ended. Returns whether it was the last to be waited for.
    pub(crate) fn is_last(&mut self, pid: i32) -> bool {
        match self.program {
            Some(program) => program == pid,
            None => self.others.remove(&pid) && self.others.is_empty(),
        }
    }
}

/// Why recording ended, once all watched processes have ended, after `interrupts` signals. A Ctrl-C that came with the
/// end was for the program. It must not end what sprof does afterwards: the look-up of names.
pub(crate) fn stop_at_end(events: &[KernelEvent], interrupts: u32) -> StopReason {
    let is_interrupt = |event: &KernelEvent| matches!(event, KernelEvent::Signal(StopSignal::Interrupt { .. }));
    if events.contains(&KernelEvent::Signal(StopSignal::Terminate)) {
        return StopReason::Terminated;
    }
    if interrupts > 0 || events.iter().any(is_interrupt) {
        StopReason::ProgramInterrupted
    } else {
        StopReason::ProgramEnded
    }
}

/// Takes a signal. Returns why recording ends; `None` if it goes on.
///
/// Ctrl-C on a terminal reaches a launched program by itself; a SIGINT that someone sent to sprof alone is passed on.
/// The second SIGINT ends the recording. Without a launched program the first one does.
pub(crate) fn take_signal(
    mach: &impl Mach,
    signal: StopSignal,
    interrupts: &mut u32,
    program: Option<i32>,
) -> Option<StopReason> {
    let StopSignal::Interrupt { from_terminal } = signal else {
        return Some(StopReason::Terminated);
    };
    *interrupts += 1;
    match program {
        Some(program) if *interrupts == 1 => {
            if !from_terminal {
                mach.send(program, Signal::Interrupt);
            }
            None
        }
        _ => Some(StopReason::Interrupted),
    }
}
