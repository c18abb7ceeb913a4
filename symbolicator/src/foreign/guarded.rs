//! Panics of the published readers.

use std::panic::{self, AssertUnwindSafe};

/// Runs code of a published reader. `None` if it panicked, as pdb2 0.9.2 does where line records of a PDB file are
/// longer than the file's section of them (`modi/c13.rs`). The panic's message is on stderr.
pub(super) fn guarded<T>(task: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(task)).ok()
}
