//! Times: one monotonic clock for events, and the wall-clock time of its origin.

use std::time::{Duration, SystemTime};

/// Nanoseconds on the recording's clock (Linux: `CLOCK_MONOTONIC`, macOS: `mach_absolute_time` in ns).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub fn nanos_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One instant read on both clocks, so that event times can be shown as wall-clock times.
#[derive(Clone, Copy, Debug)]
pub struct ClockReference {
    /// The instant on the recording's clock.
    pub timestamp: Timestamp,
    /// The same instant on the wall clock.
    pub wall: SystemTime,
}

impl ClockReference {
    /// The same clocks at a later instant.
    pub fn later(self, timestamp: Timestamp) -> ClockReference {
        let since = Duration::from_nanos(timestamp.nanos_since(self.timestamp));
        ClockReference {
            timestamp: timestamp.max(self.timestamp),
            wall: self.wall + since,
        }
    }
}
