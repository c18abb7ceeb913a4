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
use crate::images::jit_files::JitFiles;

/// A thread that has used the CPU time of so many intervals without a sample gets one while it waits for a CPU. It is where it lost its
/// CPU, or in a system call that has ended. With 2 intervals instead, the simulated 12 threads on 2 CPUs had 3 % of their samples in waits.
/// By chance a thread misses so many ticks once in 10,000,000 times, and once in 3,000 if the recorder takes its CPU at each other tick.
const PATIENCE: u64 = 16;

/// The code of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    images: Images,
    jit: JitFiles,
    /// The list of images was read in this look.
    is_fresh: bool,
}

impl Code {
    /// The next sample reads the list of images.
    pub(super) fn begin_look(&mut self) {
        self.is_fresh = false;
    }

    /// True if no list of images was read.
    pub(super) fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// True if a task has the images that were read last.
    pub(super) fn is_that_of<M: Mach>(&self, mach: &M, task: &M::Task) -> bool {
        self.images.are_those_of(mach, task)
    }

    /// Reports what was mapped since the last look, before a stack with this innermost address.
    pub(super) fn report<M: Mach>(&mut self, pid: i32, task: &M::Task, time: u64, ip: u64, tick: &mut Tick<'_, M>) {
        for code in self.changes(tick.mach, pid, task, ip) {
            tick.out.send(Message::Map {
                time: Timestamp(time),
                pid: Pid(pid),
                code,
            });
        }
    }

    fn changes<M: Mach>(&mut self, mach: &M, pid: i32, task: &M::Task, ip: u64) -> Vec<OwnedMapping> {
        let mut changes = Vec::new();
        if !self.is_fresh || !self.images.holds(ip) {
            self.is_fresh = true;
            changes = self.images.refresh(mach, task);
            changes.extend(self.images.code_at(mach, task, ip));
        }
        if self.images.is_anonymous(ip) {
            changes.extend(self.jit.look(mach, pid));
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
    code.report(pid, task, taken.time, taken.registers.ip(), tick);
    tick.totals.samples += 1;
    match taken.place {
        Place::OnCpu => tick.found.on_cpu += 1,
        Place::Displaced => tick.totals.displaced_samples += 1,
        Place::Queued => tick.totals.queued_samples += 1,
    }
    tick.out.send_sample(OwnedSample {
        time: taken.time,
        pid,
        tid: thread.tid,
        // XNU does not report on which CPU a thread runs.
        cpu: 0,
        period: thread.account.sample(taken.reading),
        registers: Some(taken.registers),
        stack: tick.stack.bytes(taken.stack_bytes).into(),
        waits_for: None,
    });
}

/// What was read while a thread was suspended.
struct Taken {
    time: u64,
    reading: Reading,
    registers: Registers,
    stack_bytes: usize,
    place: Place,
}

/// Where a sampled thread was.
enum Place {
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
) -> Option<Taken> {
    let reading = reading(&tick.mach.thread_state(right).ok()?);
    let has_run = account.has_run(reading);
    let place = if reading.cpu_ns != asked.cpu_ns {
        Place::OnCpu
    } else if has_run && tick.is_second {
        Place::Displaced
    } else if account.is_owed(reading, tick.interval_ns.saturating_mul(PATIENCE)) {
        Place::Queued
    } else {
        tick.found.lost_cpu += u64::from(has_run);
        tick.totals.queued += 1;
        return None;
    };
    let time = tick.mach.now_ns();
    let registers = tick.mach.registers(right).ok()?;
    let stack_bytes = tick.stack.copy(tick.mach, task, region, registers.sp());
    Some(Taken {
        time,
        reading,
        registers,
        stack_bytes,
        place,
    })
}
