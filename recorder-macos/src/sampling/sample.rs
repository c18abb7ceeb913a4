//! One sample of a thread that is on a CPU.

use std::ops::Range;

use recording::outbox::OwnedSample;
use recording::pace::{Account, ThreadReading};
use recording::stack::Registers;

use super::code::ProcessCode;
use super::suspended::SuspendedThread;
use super::threads::{KnownThread, reading};
use super::tick::Tick;
use crate::kernel::{Mach, ThreadState};

/// A thread that has used the CPU time of this many intervals without a sample gets one while it waits for a CPU. It is
/// where it lost its CPU, or in a system call that has ended. With 2 intervals instead, the simulated 12 threads on 2
/// CPUs had 3 % of their samples in waits. By chance a thread misses this many ticks once in 10,000,000 times, and once
/// in 3,000 if the recorder takes its CPU at each other tick.
const PATIENCE: u64 = 16;

/// Samples a thread that is on a CPU or waits for one, if it is on one.
///
/// XNU reports not which, and not how much CPU time a running thread has used since its last entry into the kernel.
/// Suspending makes the thread enter the kernel. So CPU time that has grown by then shows that the thread was on a CPU,
/// and the time is exact.
pub(super) fn sample<M: Mach>(
    pid: i32,
    task: &M::Task,
    thread: &mut KnownThread<M>,
    code: &mut ProcessCode,
    asked: ThreadState,
    tick: &mut Tick<'_, M>,
) {
    let Ok(suspended) = SuspendedThread::new(tick.mach, &thread.right) else {
        return;
    };
    let taken = take(task, &thread.right, &mut thread.account, &mut thread.stack, asked, tick);
    tick.totals.suspended(suspended.resume());
    let Some(taken) = taken else {
        return;
    };
    code.report(pid, task, taken.time, taken.registers.ip(), tick);
    tick.totals.samples += 1;
    match taken.place {
        CpuPlace::OnCpu => tick.found.on_cpu += 1,
        CpuPlace::Displaced => tick.totals.displaced_samples += 1,
        CpuPlace::Queued => tick.totals.queued_samples += 1,
    }
    tick.out.send_sample(OwnedSample {
        time: taken.time,
        pid,
        tid: thread.tid,
        // XNU does not report on which CPU a thread runs.
        cpu: 0,
        period: thread.account.sample(taken.reading),
        registers: Some(taken.registers),
        further: Default::default(),
        stack: tick.stack.bytes(taken.stack_bytes).into(),
        waits_for: None,
    });
}

/// What was read while a thread was suspended.
struct SampleReading {
    time: u64,
    reading: ThreadReading,
    registers: Registers,
    stack_bytes: usize,
    place: CpuPlace,
}

/// Where a sampled thread was.
enum CpuPlace {
    OnCpu,
    /// Waiting for the CPU that the recorder took from it right now.
    Displaced,
    /// Waiting for a CPU, for any time.
    Queued,
}

/// Reads a suspended thread, if it was on a CPU.
fn take<M: Mach>(
    task: &M::Task,
    right: &M::Thread,
    account: &mut Account,
    region: &mut Range<u64>,
    asked: ThreadState,
    tick: &mut Tick<'_, M>,
) -> Option<SampleReading> {
    let reading = reading(&tick.mach.thread_state(right).ok()?);
    let has_run = account.has_run(reading);
    let place = if reading.cpu_ns != asked.cpu_ns {
        CpuPlace::OnCpu
    } else if has_run && tick.is_second {
        CpuPlace::Displaced
    } else if account.is_owed(reading, tick.interval_ns.saturating_mul(PATIENCE)) {
        CpuPlace::Queued
    } else {
        tick.found.lost_cpu += u64::from(has_run);
        tick.totals.queued += 1;
        return None;
    };
    let time = tick.mach.now_ns();
    let registers = tick.mach.registers(right).ok()?;
    let stack_bytes = tick.stack.copy(tick.mach, task, region, registers.sp());
    Some(SampleReading {
        time,
        reading,
        registers,
        stack_bytes,
        place,
    })
}
