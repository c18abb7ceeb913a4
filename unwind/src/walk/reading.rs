//! When memory was read.

use recording::clock::Timestamp;

/// A reading of a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryReading {
    /// When reading began. Identifies a reading of a thread: no two begin at the same time.
    pub(crate) begun: Timestamp,
    pub(crate) ended: Timestamp,
}

impl MemoryReading {
    /// A sample's own bytes.
    pub(crate) fn of_sample(time: Timestamp) -> MemoryReading {
        MemoryReading {
            begun: time,
            ended: time,
        }
    }
}
