//! The realtime policy of the calling thread.

use mach2::kern_return::KERN_SUCCESS;
use mach2::thread_policy::{
    THREAD_STANDARD_POLICY, THREAD_STANDARD_POLICY_COUNT, THREAD_TIME_CONSTRAINT_POLICY,
    THREAD_TIME_CONSTRAINT_POLICY_COUNT, thread_policy_set, thread_policy_t, thread_time_constraint_policy,
};

use super::time::TimeBase;
use crate::kernel::CpuBudget;

/// Bounds of the computation time that the kernel takes (`min_rt_quantum` and `max_rt_quantum` in
/// osfmk/kern/sched_prim.c).
const COMPUTATION_NS: (u64, u64) = (50_000, 50_000_000);

/// Asks for a realtime policy. Returns whether the thread has it.
pub(super) fn take_realtime(time: TimeBase, budget: CpuBudget) -> bool {
    let ticks = |ns: u64| u32::try_from(time.ticks(ns)).unwrap_or(u32::MAX);
    let computation_ns = budget.work_ns.clamp(COMPUTATION_NS.0, COMPUTATION_NS.1);
    let mut policy = thread_time_constraint_policy {
        period: ticks(budget.interval_ns),
        computation: ticks(computation_ns),
        constraint: ticks(budget.interval_ns.max(computation_ns)),
        preemptible: 1,
    };
    let policy: thread_policy_t = (&raw mut policy).cast();
    // SAFETY: the kernel reads as many words as the structure has, which lives until the call returns.
    let code = unsafe {
        thread_policy_set(
            own_port(),
            THREAD_TIME_CONSTRAINT_POLICY as _,
            policy,
            THREAD_TIME_CONSTRAINT_POLICY_COUNT,
        )
    };
    code == KERN_SUCCESS
}

/// Goes back to the policy of ordinary threads.
pub(super) fn give_back() {
    let none: thread_policy_t = std::ptr::null_mut();
    // SAFETY: the policy has no words, so null is not read.
    let _ = unsafe {
        thread_policy_set(
            own_port(),
            THREAD_STANDARD_POLICY as _,
            none,
            THREAD_STANDARD_POLICY_COUNT,
        )
    };
}

/// The calling thread's port, without a reference of its own.
fn own_port() -> libc::mach_port_t {
    // SAFETY: takes nothing, and returns the calling thread.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: `thread` is the calling thread, which lives.
    unsafe { libc::pthread_mach_thread_np(thread) }
}
