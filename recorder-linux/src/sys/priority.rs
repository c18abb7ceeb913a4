//! A quick turn on the CPU for the loop that empties the rings.
//!
//! With 200 busy threads on 2 CPUs (Linux 6.18) the recorder was seen to wait up to 250 ms for its turn, whatever its
//! nice value or its slice; a ring of 2 MiB lasts 126 ms at 1 kHz. With SCHED_RR it waited less than 40 ms.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread under SCHED_RR; dropped, the thread is under SCHED_OTHER again. Once it has reported the running
/// processes, the thread sleeps at least as long as it works, so it cannot take a CPU for itself.
#[derive(Debug)]
pub(crate) struct RealtimePriority(());

impl RealtimePriority {
    /// Asks for SCHED_RR, which needs CAP_SYS_NICE or RLIMIT_RTPRIO. `None` for ordinary users.
    pub(crate) fn ask() -> Option<RealtimePriority> {
        // SAFETY: asks for this thread's policy.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        let is_usual = policy == libc::SCHED_OTHER.into();
        (is_usual && set_policy(libc::SCHED_RR, 1)).then_some(RealtimePriority(()))
    }
}

impl Drop for RealtimePriority {
    fn drop(&mut self) {
        set_policy(libc::SCHED_OTHER, 0);
    }
}

/// Sets the policy of this thread by the system call: musl's functions for it fail with ENOSYS, because POSIX has them
/// set the policy of all threads (`src/sched/sched_setscheduler.c` of musl 1.2.5). False if the kernel refuses.
pub(super) fn set_policy(policy: libc::c_int, priority: libc::c_int) -> bool {
    // SAFETY: the kernel's `struct sched_param` is one int, which is live; pid 0 is this thread.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

/// The priority and the CPUs of the tracing thread.
#[derive(Debug)]
pub(crate) struct TracerPriority {
    is_quick: bool,
    /// CPUs that this thread may use.
    allowed: Option<CpuSet>,
}

impl TracerPriority {
    /// Asks for SCHED_RR until this thread ends.
    pub(crate) fn ask() -> TracerPriority {
        let quick = RealtimePriority::ask();
        let is_quick = quick.is_some();
        std::mem::forget(quick);
        TracerPriority {
            is_quick,
            // Fails on machines with more than 1024 CPUs.
            allowed: sched_getaffinity(None).ok(),
        }
    }

    /// True where this thread takes a CPU at once when it wakes up.
    pub(crate) fn are_quick(&self) -> bool {
        self.is_quick
    }

    /// Moves this thread away from a CPU; false if it has no other.
    pub(crate) fn leave_cpu(&self, cpu: u32) -> bool {
        let Some(mut cpus) = self.allowed else { return false };
        let cpu = cpu as usize;
        if cpu >= CpuSet::MAX_CPU {
            return false;
        }
        cpus.unset(cpu);
        // An empty set is refused (EINVAL).
        sched_setaffinity(None, &cpus).is_ok()
    }
}
