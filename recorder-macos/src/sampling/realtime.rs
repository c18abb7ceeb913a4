//! The priority of the sampling thread.
//!
//! With an ordinary priority the kernel wakes the thread up late: timers have a leeway of more than a tenth of a
//! millisecond, and busy CPUs are given away at the end of a time slice. With a realtime policy, the thread takes a CPU
//! at once. So the policy is only for ticks that are short: of many threads, or on a slow machine, ticks would take the
//! CPUs from the program.

use crate::kernel::{CpuBudget, Mach};

/// The part of an interval that a tick may take.
const SHARE: u64 = 10;

/// The policy is given up after this many more ticks over the budget than within.
const PATIENCE: u32 = 16;

/// The realtime policy of the sampling thread, while it has one.
#[derive(Debug)]
pub(super) struct RealtimePriority {
    budget: CpuBudget,
    is_realtime: bool,
    ticks_over: u32,
    was_given_up: bool,
}

impl RealtimePriority {
    /// Asks for the policy.
    pub(super) fn ask(mach: &impl Mach, interval_ns: u64) -> RealtimePriority {
        let budget = CpuBudget {
            interval_ns,
            work_ns: interval_ns / SHARE,
        };
        RealtimePriority {
            budget,
            is_realtime: mach.set_realtime(Some(budget)),
            ticks_over: 0,
            was_given_up: false,
        }
    }

    /// Records a tick that took `work_ns` of CPU time. Gives the policy up after too many long ticks.
    pub(super) fn after_tick(&mut self, mach: &impl Mach, work_ns: u64) {
        if !self.is_realtime {
            return;
        }
        self.ticks_over = if work_ns > self.budget.work_ns {
            self.ticks_over + 1
        } else {
            self.ticks_over.saturating_sub(1)
        };
        if self.ticks_over >= PATIENCE {
            self.is_realtime = mach.set_realtime(None);
            self.was_given_up = true;
        }
    }

    /// True if ticks took too long for the policy.
    pub(super) fn was_given_up(&self) -> bool {
        self.was_given_up
    }
}
