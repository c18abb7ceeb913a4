//! The start of a process or thread, on the recording's clock.
//!
//! /proc/PID/stat counts ticks after the boot, and the time that the machine was suspended is part of them. The
//! recording's clock (CLOCK_MONOTONIC) does not count that time.

use recording::clock::Timestamp;

use crate::sys::process;

/// Turns ticks after the boot into times of the recording.
pub(crate) struct StartClock {
    now: Timestamp,
    /// How far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC: the time that the machine was suspended.
    suspended_ns: u64,
    ticks_per_second: u64,
}

impl StartClock {
    pub(crate) fn new(now: Timestamp) -> StartClock {
        StartClock {
            now,
            suspended_ns: process::boottime_ns().saturating_sub(process::monotonic_ns()),
            ticks_per_second: process::ticks_per_second(),
        }
    }

    /// Not later than now: a thread may have started while /proc was being read.
    pub(crate) fn at(&self, ticks: u64) -> Timestamp {
        let boottime_ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        let boottime_ns = u64::try_from(boottime_ns).unwrap_or(u64::MAX);
        Timestamp(boottime_ns.saturating_sub(self.suspended_ns)).min(self.now)
    }
}
