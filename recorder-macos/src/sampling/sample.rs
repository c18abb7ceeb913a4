//! One sample of a thread that is on a CPU, and the code that it was in.

use std::ops::Range;

use recording::clock::Timestamp;
use recording::event::Pid;
use recording::outbox::{Message, OwnedMapping, OwnedSample};
use recording::pace::{Account, Reading};
use recording::stack::Registers;

use super::kernel::{Mach, ThreadState};
use super::process::Tick;
use super::suspended::Suspended;
use super::threads::{Thread, reading};
use crate::images::Images;

/// A thread that has used the CPU time of so many intervals without a sample gets one while it waits for a CPU: on a machine with one CPU, the
/// recorder has that CPU at each tick, and no thread is ever found on one. Such a thread may have had its last CPU time long ago, and
/// wait since the end of a system call. With 2 intervals instead, the simulated 12 threads on 2 CPUs had 3 % of their samples in waits.
/// By chance a thread misses so many ticks once in 10,000,000 times, and once in 3,000 if the recorder takes its CPU at each other tick.
const PATIENCE: u64 = 16;

/// The code of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    images: Images,
    /// The list of images was read in this look.
    is_fresh: bool,
}

impl Code {
    /// The next sample reads the list of images.
    pub(super) fn begin_look(&mut self) {
        self.is_fresh = false;
    }

    /// True if a task has the images that were read last.
    pub(super) fn is_that_of<M: Mach>(&self, mach: &M, task: &M::Task) -> bool {
        self.images.are_those_of(mach, task)
    }

    /// What was mapped since the last look, for a sample at this address.
    fn changes<M: Mach>(&mut self, mach: &M, task: &M::Task, ip: u64) -> Vec<OwnedMapping> {
        let mut changes = Vec::new();
        if !self.is_fresh || !self.images.holds(ip) {
            self.is_fresh = true;
            changes = self.images.refresh(mach, task);
            changes.extend(self.images.code_at(mach, task, ip));
        }
        changes
    }
}

/// Samples a thread that is on a CPU or waits for one, if it is on one.
///
/// XNU reports not which, and not how much CPU time a running thread has used since its last entry into the kernel. Suspending makes
/// the thread enter the kernel. So CPU time that has grown by then shows that the thread was on a CPU, and the time is exact.
pub(super) fn sample<M: Mach>(
    pid: i32,
    task: &M::Task,
    thread: &mut Thread<M>,
    code: &mut Code,
    asked: ThreadState,
    tick: &mut Tick<'_, M>,
) {
    let Ok(suspended) = Suspended::new(tick.mach, &thread.right) else {
        return;
    };
    let taken = take(task, &thread.right, &mut thread.account, &mut thread.stack, asked, tick);
    tick.totals.suspended(suspended.resume());
    let Some(taken) = taken else {
        return;
    };
    for code in code.changes(tick.mach, task, taken.registers.ip()) {
        tick.out.send(Message::Map {
            time: Timestamp(taken.time),
            pid: Pid(pid),
            code,
        });
    }
    tick.totals.samples += 1;
    tick.totals.queued_samples += u64::from(taken.is_queued);
    tick.out.send_sample(OwnedSample {
        time: taken.time,
        pid,
        tid: thread.tid,
        // XNU does not report on which CPU a thread runs.
        cpu: 0,
        period: thread.account.sample(taken.reading),
        registers: Some(taken.registers),
        stack: tick.stack.bytes(taken.stack_bytes).into(),
    });
}

/// What was read while a thread was suspended.
struct Taken {
    time: u64,
    reading: Reading,
    registers: Registers,
    stack_bytes: usize,
    is_queued: bool,
}

/// Reads a suspended thread, if it was on a CPU.
fn take<M: Mach>(
    task: &M::Task,
    right: &M::Thread,
    account: &mut Account,
    region: &mut Range<u64>,
    asked: ThreadState,
    tick: &mut Tick<'_, M>,
) -> Option<Taken> {
    let reading = reading(&tick.mach.thread_state(right).ok()?);
    let is_owed = account.is_owed(reading, tick.interval_ns.saturating_mul(PATIENCE));
    let is_queued = reading.cpu_ns == asked.cpu_ns;
    if is_queued && !is_owed {
        account.see(reading);
        tick.totals.queued += 1;
        return None;
    }
    let time = tick.mach.now_ns();
    let registers = tick.mach.registers(right).ok()?;
    let stack_bytes = tick.stack.copy(tick.mach, task, region, registers.sp());
    Some(Taken {
        time,
        reading,
        registers,
        stack_bytes,
        is_queued,
    })
}
