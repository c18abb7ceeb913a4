//! Threads: their state, their registers, suspending them.

use libc::{
    TH_STATE_RUNNING, TH_STATE_STOPPED, TH_STATE_UNINTERRUPTIBLE, THREAD_EXTENDED_INFO, THREAD_EXTENDED_INFO_COUNT,
    THREAD_IDENTIFIER_INFO, THREAD_IDENTIFIER_INFO_COUNT, thread_extended_info, thread_identifier_info, thread_info,
};
use mach2::thread_act::{thread_get_state, thread_resume, thread_suspend};
use mach2::thread_status::thread_state_t;
use recording::stack::Registers;

use super::port::{Port, check};
use crate::kernel::{MachError, ThreadState, WaitMode};

/// A number that no other thread has.
pub(super) fn id(thread: &Port) -> Result<u64, MachError> {
    let mut info = thread_identifier_info {
        thread_id: 0,
        thread_handle: 0,
        dispatch_qaddr: 0,
    };
    let mut count = THREAD_IDENTIFIER_INFO_COUNT;
    // SAFETY: the kernel writes at most `count` words, the size of the local structure, which outlives the call.
    check(unsafe {
        thread_info(
            thread.name(),
            THREAD_IDENTIFIER_INFO as _,
            (&raw mut info).cast(),
            &raw mut count,
        )
    })?;
    Ok(info.thread_id)
}

/// What a thread does, and its CPU time.
pub(super) fn state(thread: &Port) -> Result<ThreadState, MachError> {
    // SAFETY: `thread_extended_info` has integers and an array of bytes alone (mach/thread_info.h): all zeros is a
    // value.
    let mut info: thread_extended_info = unsafe { std::mem::zeroed() };
    let mut count = THREAD_EXTENDED_INFO_COUNT;
    // SAFETY: the kernel writes at most `count` words, the size of the local structure, which outlives the call.
    check(unsafe {
        thread_info(
            thread.name(),
            THREAD_EXTENDED_INFO as _,
            (&raw mut info).cast(),
            &raw mut count,
        )
    })?;
    Ok(ThreadState {
        is_runnable: info.pth_run_state == TH_STATE_RUNNING,
        rest: match info.pth_run_state {
            TH_STATE_UNINTERRUPTIBLE => WaitMode::Uninterruptible,
            TH_STATE_STOPPED => WaitMode::Stopped,
            _ => WaitMode::Interruptible,
        },
        // Both are ns, cut off to us (thread_info_internal in osfmk/kern/thread.c).
        cpu_ns: info.pth_user_time.saturating_add(info.pth_system_time),
        name: info.pth_name.map(|byte| byte.cast_unsigned()),
    })
}

/// How often a thread is suspended.
pub(super) fn suspend_count(thread: &Port) -> Result<u32, MachError> {
    // SAFETY: `thread_basic_info` has integers alone (mach/thread_info.h): all zeros is a value.
    let mut info: libc::thread_basic_info = unsafe { std::mem::zeroed() };
    let mut count = libc::THREAD_BASIC_INFO_COUNT;
    // SAFETY: the kernel writes at most `count` words, the size of the local structure, which outlives the call.
    check(unsafe {
        thread_info(
            thread.name(),
            libc::THREAD_BASIC_INFO as _,
            (&raw mut info).cast(),
            &raw mut count,
        )
    })?;
    Ok(u32::try_from(info.suspend_count).unwrap_or(0))
}

/// Suspends a thread, and waits until it is on no CPU.
pub(super) fn suspend(thread: &Port) -> Result<(), MachError> {
    // SAFETY: takes a port alone. The thread is of another process: the recorder does not sample itself.
    check(unsafe { thread_suspend(thread.name()) })
}

/// Undoes one suspend.
pub(super) fn resume(thread: &Port) -> Result<(), MachError> {
    // SAFETY: takes a port alone, of a thread of another process.
    check(unsafe { thread_resume(thread.name()) })
}

/// User registers. The kernel holds the thread while it reads them (thread_get_state_internal in
/// osfmk/kern/thread_act.c).
#[cfg(target_arch = "aarch64")]
pub(super) fn registers(thread: &Port) -> Result<Registers, MachError> {
    use mach2::structs::arm_thread_state64_t;
    use mach2::thread_status::ARM_THREAD_STATE64;

    /// Addresses of programs have 47 bits. Above these, code of arm64e keeps signatures of pointers.
    const ADDRESS: u64 = (1 << 47) - 1;

    let mut state = arm_thread_state64_t::new();
    let mut count = arm_thread_state64_t::count();
    let to: thread_state_t = (&raw mut state).cast();
    // SAFETY: the kernel writes at most `count` words, the size of the local structure, which outlives the call.
    check(unsafe { thread_get_state(thread.name(), ARM_THREAD_STATE64, to, &raw mut count) })?;
    Ok(Registers::Aarch64 {
        pc: state.__pc & ADDRESS,
        sp: state.__sp & ADDRESS,
        fp: state.__fp & ADDRESS,
        lr: state.__lr & ADDRESS,
    })
}

/// User registers, the same way.
#[cfg(target_arch = "x86_64")]
pub(super) fn registers(thread: &Port) -> Result<Registers, MachError> {
    use mach2::structs::x86_thread_state64_t;
    use mach2::thread_status::x86_THREAD_STATE64;

    let mut state = x86_thread_state64_t::new();
    let mut count = x86_thread_state64_t::count();
    let to: thread_state_t = (&raw mut state).cast();
    // SAFETY: the kernel writes at most `count` words, the size of the local structure, which outlives the call.
    check(unsafe { thread_get_state(thread.name(), x86_THREAD_STATE64, to, &raw mut count) })?;
    Ok(Registers::X86_64 {
        ip: state.__rip,
        sp: state.__rsp,
        bp: state.__rbp,
    })
}
