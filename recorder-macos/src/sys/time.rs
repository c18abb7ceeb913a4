//! Clocks.

use mach2::mach_time::{mach_absolute_time, mach_timebase_info};

/// The unit of `mach_absolute_time`: `numer / denom` ns, which is 1 on Intel's processors and 125 / 3 on Apple's.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeBase {
    numer: u32,
    denom: u32,
}

impl TimeBase {
    pub(super) fn read() -> TimeBase {
        let mut info = mach_timebase_info::default();
        // SAFETY: writes a local structure that outlives the call.
        let _ = unsafe { mach2::mach_time::mach_timebase_info(&raw mut info) };
        TimeBase {
            numer: info.numer.max(1),
            denom: info.denom.max(1),
        }
    }

    pub(super) fn now_ns(self) -> u64 {
        // SAFETY: takes nothing, and returns an integer.
        self.ns(unsafe { mach_absolute_time() })
    }

    /// Ticks of the clock in ns.
    pub(super) fn ns(self, ticks: u64) -> u64 {
        scale(ticks, self.numer, self.denom)
    }

    /// ns in ticks of the clock.
    pub(super) fn ticks(self, ns: u64) -> u64 {
        scale(ns, self.denom, self.numer)
    }
}

fn scale(value: u64, by: u32, over: u32) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(over);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Sleeps until this time, in ticks of the clock.
pub(super) fn wait_until(ticks: u64) {
    // SAFETY: takes an integer.
    let _ = unsafe { mach2::mach_time::mach_wait_until(ticks) };
}

/// CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a local structure that outlives the call.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}
