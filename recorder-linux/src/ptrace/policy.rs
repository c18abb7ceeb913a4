//! When to sample which thread: arithmetic, no system calls.
//!
//! A tick samples the threads that are on a CPU when sprof wakes up for it. Each such sample stands for an interval of
//! CPU time, whatever the number of threads and CPUs, and however short a thread lives.
//!
//! Linux does not report directly which threads are on a CPU. A thread in state R may also wait for a CPU, and must not
//! be sampled then: a kernel that preempts lazily (PREEMPT_LAZY, Linux 6.12) takes the CPU away at the end of a system
//! call, so the stacks of waiting threads are mostly in system calls. With two processes and a busy CPU, 70 % of the
//! samples of a loop were in the clock_gettime that took 2 % of its time. The scheduler's counts before and after the
//! stop distinguish three cases:
//!
//! - No slice more: the thread was on a CPU all the time, and stopped where it was.
//! - A slice more, after a wait that began before the tick: it was not on a CPU at the tick. No sample.
//! - A slice more, after a wait that began later: the thread was on a CPU at the tick, and had to leave it, most likely
//!   to sprof. Where sprof has a priority that takes the CPU at once, the thread left at the tick. Elsewhere it
//!   left at its next system call. So it is stopped again a moment later, when sprof is on another CPU.
//!
//! Where hundreds of threads compete, sprof itself waits for a CPU, and a tick hardly finds threads on a CPU. So a
//! thread that has used two intervals of CPU time without a sample, or one when sprof is late, gets a sample wherever
//! it is. The profile shows that the rate was not reached.
//!
//! A bias remains: on a busy machine a loop with a system call every 25 us had 5 to 25 % of its samples in that call,
//! and beside 200 busy threads, for an ordinary user, 87 %. So sprof announces the bias when recording starts.
//!
//! Sleeping threads are not stopped. A stop costs time, and ends some system calls with EINTR (epoll_wait(2) and
//! the others in signal(7), "Interruption of system calls and library functions by stop signals").

use recording::pace::ThreadReading;

/// Longest time from the moment when a thread leaves its CPU to sprof until sprof reads the clock: a switch of tasks.
pub(super) const WAKE_UP_NS: u64 = 50_000;

/// Where a thread was at the tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceAtTick {
    /// On a CPU until it stopped.
    OnCpu,
    /// On a CPU at the tick; it had to leave the CPU before it stopped.
    MadeWay,
    /// In the queue for a CPU.
    Waiting,
}

impl PlaceAtTick {
    /// Decides by two readings of the counts: `asked` when the thread was asked to stop, `stopped` when it had stopped,
    /// `since_tick_ns` after the tick.
    pub(super) fn of(asked: ThreadReading, stopped: ThreadReading, since_tick_ns: u64) -> PlaceAtTick {
        if stopped.slices == asked.slices {
            PlaceAtTick::OnCpu
        } else if stopped.waited_ns.saturating_sub(asked.waited_ns) <= since_tick_ns {
            PlaceAtTick::MadeWay
        } else {
            PlaceAtTick::Waiting
        }
    }
}

/// CPU time without a sample after which a thread gets one wherever it is, ns.
pub(super) fn patience_ns(interval_ns: u64, we_are_late: bool) -> u64 {
    interval_ns.saturating_mul(if we_are_late { 1 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(cpu_ns: u64, waited_ns: u64, slices: u64) -> ThreadReading {
        ThreadReading {
            cpu_ns,
            waited_ns,
            slices,
        }
    }

    #[test]
    fn on_a_cpu_is_who_did_not_wait_at_the_tick() {
        let asked = reading(0, 1_000, 5);
        assert_eq!(PlaceAtTick::of(asked, reading(1, 1_000, 5), 30_000), PlaceAtTick::OnCpu);
        assert_eq!(
            PlaceAtTick::of(asked, reading(1, 21_000, 6), 30_000),
            PlaceAtTick::MadeWay
        );
        assert_eq!(
            PlaceAtTick::of(asked, reading(1, 3_000_000, 6), 30_000),
            PlaceAtTick::Waiting
        );
        // It stopped late, because it waited long.
        assert_eq!(
            PlaceAtTick::of(asked, reading(1, 9_000_000, 6), 8_000_000),
            PlaceAtTick::Waiting
        );
        // A kernel that does not count slices: nothing is known.
        assert_eq!(
            PlaceAtTick::of(reading(10, 0, 0), reading(20, 0, 0), 0),
            PlaceAtTick::OnCpu
        );
    }
}
