//! A quick turn on the CPU for the loop that empties the rings.
//!
//! With 200 busy threads on 2 CPUs (Linux 6.18) the recorder was seen to wait up to 250 ms for its turn, whatever its nice
//! value or its slice; a ring of 2 MiB lasts 126 ms at 1 kHz. With SCHED_RR it waited less than 40 ms.

/// This thread under SCHED_RR, put back to SCHED_OTHER when dropped. Its owner sleeps at least as long as it works, so
/// it can't take a CPU for itself.
pub(crate) struct QuickTurns(());

impl QuickTurns {
    /// Asks for them. Needs CAP_SYS_NICE or RLIMIT_RTPRIO; ordinary users do without.
    pub(crate) fn ask() -> Option<QuickTurns> {
        // SAFETY: asks for this thread's policy.
        let policy = unsafe { libc::sched_getscheduler(0) };
        (policy == libc::SCHED_OTHER && set(libc::SCHED_RR, 1)).then_some(QuickTurns(()))
    }
}

impl Drop for QuickTurns {
    fn drop(&mut self) {
        set(libc::SCHED_OTHER, 0);
    }
}

fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `param` is live; pid 0 is this thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const param) == 0 }
}
