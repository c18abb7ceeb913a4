//! When memory was read.

use recording::clock::Timestamp;

/// A reading of a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Its beginning tells readings of a thread apart.
    pub(crate) begun: Timestamp,
    pub(crate) ended: Timestamp,
}

impl Reading {
    /// A sample's own bytes.
    pub(crate) fn of_sample(time: Timestamp) -> Reading {
        Reading {
            begun: time,
            ended: time,
        }
    }
}
