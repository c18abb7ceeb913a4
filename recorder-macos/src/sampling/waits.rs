//! `--off-cpu`: what threads wait for, and with which stack.
//!
//! A look finds a thread waiting or not, so a wait lasts from the first look that finds it to the first that does not.
//! A wait of several ticks is right to a tick. One that is shorter is found by chance, and then lasts a tick: the sum
//! of such waits is right, their number is not.

use recording::event::ThreadEvent;
use recording::outbox::OwnedSample;
use recording::wait::WaitReason::{
    self, Channel, Child, Cpu, Io, Lock, Other, PageFault, Poll, Signal, Sleep, Unknown,
};

use super::code::ProcessCode;
use super::threads::KnownThread;
use super::tick::Tick;
use crate::kernel::{Mach, ThreadState, WaitMode};

/// A look has found a thread waiting.
///
/// The thread is not suspended: where it waits, its registers and its stack stand still. If it has run meanwhile, they
/// are not a stack, and the next look finds what the thread does then.
pub(super) fn see<M: Mach>(
    pid: i32,
    task: &M::Task,
    thread: &mut KnownThread<M>,
    code: &mut ProcessCode,
    state: &ThreadState,
    tick: &mut Tick<'_, M>,
) {
    if tick.system_calls.is_none() || thread.waits_since_cpu_ns == Some(state.cpu_ns) {
        return;
    }
    end(pid, thread, tick);
    let time = tick.mach.now_ns();
    let Ok(registers) = tick.mach.registers(&thread.right) else {
        return;
    };
    let stack_bytes = tick.stack.copy(tick.mach, task, &mut thread.stack, registers.sp());
    let after = tick.mach.thread_state(&thread.right);
    if after.is_ok_and(|after| after.is_runnable || after.cpu_ns != state.cpu_ns) || after.is_err() {
        return;
    }
    code.report(pid, task, time, registers.ip(), tick);
    let calls = tick.system_calls.as_deref_mut();
    let call = calls.and_then(|calls| calls.name_before(tick.mach, registers.ip()));
    tick.out.send_sample(OwnedSample {
        time,
        pid,
        tid: thread.tid,
        cpu: 0,
        period: 0,
        registers: Some(registers),
        further: Default::default(),
        stack: tick.stack.bytes(stack_bytes).into(),
        waits_for: Some(reason(call, state.rest)),
    });
    let preempted = false;
    tick.out
        .thread(time, pid, thread.tid, ThreadEvent::SwitchOut { preempted });
    thread.waits_since_cpu_ns = Some(state.cpu_ns);
}

/// A look has found a thread not waiting, or waiting for something else.
pub(super) fn end<M: Mach>(pid: i32, thread: &mut KnownThread<M>, tick: &mut Tick<'_, M>) {
    if thread.waits_since_cpu_ns.take().is_some() {
        let time = tick.mach.now_ns();
        tick.out.thread(time, pid, thread.tid, ThreadEvent::SwitchIn);
    }
}

/// What a thread waits for, by the system call that it is in and by how it waits.
fn reason(call: Option<&str>, rest: WaitMode) -> WaitReason {
    let Some(call) = call else {
        return match rest {
            WaitMode::Stopped => Signal,
            // In its own code a thread waits for its memory alone.
            WaitMode::Uninterruptible => PageFault,
            WaitMode::Interruptible => Unknown,
        };
    };
    if rest == WaitMode::Stopped {
        return Signal;
    }
    let name = call.trim_start_matches('_');
    let name = ["_nocancel", "$NOCANCEL"]
        .iter()
        .fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    match name {
        "read" | "readv" | "write" | "writev" | "fcntl" | "ioctl" if rest == WaitMode::Uninterruptible => Io,
        "psynch_cvwait"
        | "psynch_mutexwait"
        | "psynch_rw_rdlock"
        | "psynch_rw_longrdlock"
        | "psynch_rw_wrlock"
        | "ulock_wait"
        | "ulock_wait2"
        | "semaphore_wait_trap"
        | "semaphore_timedwait_trap"
        | "semaphore_wait_signal_trap"
        | "semaphore_timedwait_signal_trap"
        | "sem_wait"
        | "workq_kernreturn"
        | "bsdthread_ctl"
        | "flock"
        | "fcntl" => Lock,
        "semwait_signal" | "mach_wait_until" | "mk_timer_arm" => Sleep,
        "swtch" | "swtch_pri" | "thread_switch" => Cpu,
        "kevent" | "kevent64" | "kevent_qos" | "kevent_id" | "poll" | "select" | "pselect" => Poll,
        "mach_msg_trap"
        | "mach_msg2_trap"
        | "mach_msg_overwrite_trap"
        | "read"
        | "readv"
        | "write"
        | "writev"
        | "recvfrom"
        | "recvmsg"
        | "recvmsg_x"
        | "sendto"
        | "sendmsg"
        | "sendmsg_x"
        | "accept"
        | "connect"
        | "connectx"
        | "ioctl" => Channel,
        "wait4" | "waitid" => Child,
        "sigsuspend" | "sigwait" | "pause" => Signal,
        "pread" | "preadv" | "pwrite" | "pwritev" | "fsync" | "fdatasync" | "sync" | "msync" | "open" | "openat"
        | "open_dprotected_np" | "close" | "stat" | "stat64" | "lstat" | "lstat64" | "fstat" | "fstat64"
        | "fstatat" | "fstatat64" | "access" | "faccessat" | "getattrlist" | "getattrlistbulk" | "getdirentries"
        | "getdirentries64" | "rename" | "renameat" | "unlink" | "unlinkat" | "mkdir" | "mkdirat" | "rmdir"
        | "ftruncate" | "truncate" | "clonefileat" | "fclonefileat" | "readlink" | "sendfile" => Io,
        _ => Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_by_system_call_and_by_how_a_thread_waits() {
        let cases = [
            ("__psynch_cvwait", WaitMode::Interruptible, Lock),
            ("__ulock_wait2", WaitMode::Interruptible, Lock),
            ("mach_msg2_trap", WaitMode::Interruptible, Channel),
            ("kevent", WaitMode::Interruptible, Poll),
            ("__select$NOCANCEL", WaitMode::Interruptible, Poll),
            ("__semwait_signal_nocancel", WaitMode::Interruptible, Sleep),
            ("read", WaitMode::Interruptible, Channel),
            ("__read_nocancel", WaitMode::Uninterruptible, Io),
            ("fsync", WaitMode::Uninterruptible, Io),
            ("__wait4", WaitMode::Interruptible, Child),
            ("__sigsuspend", WaitMode::Interruptible, Signal),
            ("kevent", WaitMode::Stopped, Signal),
            ("guarded_kqueue_np", WaitMode::Interruptible, Other),
        ];
        for (call, rest, expected) in cases {
            assert_eq!(reason(Some(call), rest), expected, "{call}");
        }
        let without_call =
            [WaitMode::Uninterruptible, WaitMode::Interruptible, WaitMode::Stopped].map(|rest| reason(None, rest));
        assert_eq!(without_call, [PageFault, Unknown, Signal]);
    }
}
