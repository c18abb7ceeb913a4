//! A thread that is suspended for a sample.
//!
//! A thread that stays suspended hangs its program, and the kernel does not resume it when its suspender ends. So a
//! guard resumes, whatever happens in between.

use crate::kernel::{Mach, MachError};

/// A resume that fails, other than for a thread that has ended, is tried again: nothing else would resume the thread.
const RESUME_TRIES: u32 = 5;

/// A suspended thread. Resumes the thread when dropped.
pub(super) struct SuspendedThread<'m, M: Mach> {
    mach: &'m M,
    thread: &'m M::Thread,
    since_ns: u64,
}

impl<'m, M: Mach> SuspendedThread<'m, M> {
    pub(super) fn new(mach: &'m M, thread: &'m M::Thread) -> Result<SuspendedThread<'m, M>, MachError> {
        let since_ns = mach.now_ns();
        mach.suspend(thread)?;
        Ok(SuspendedThread { mach, thread, since_ns })
    }

    /// Resumes the thread. Returns for how long it was suspended, the calls included, ns.
    pub(super) fn resume(self) -> u64 {
        let (mach, since_ns) = (self.mach, self.since_ns);
        drop(self);
        mach.now_ns().saturating_sub(since_ns)
    }
}

impl<M: Mach> Drop for SuspendedThread<'_, M> {
    fn drop(&mut self) {
        for _ in 0..RESUME_TRIES {
            match self.mach.resume(self.thread) {
                Ok(()) | Err(MachError::Gone) => return,
                Err(MachError::Code(_)) => {}
            }
        }
    }
}
