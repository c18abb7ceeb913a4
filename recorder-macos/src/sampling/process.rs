//! One recorded process: a look at its threads, and the samples of those on a CPU.

use std::collections::HashSet;
use std::ops::Range;

use recording::clock::Timestamp;
use recording::event::{Pid, ProcessEvent, ThreadEvent};
use recording::outbox::{Message, Outbox, OwnedSample};
use recording::pace::{Account, Reading};
use recording::stack::Registers;

use super::kernel::{Failure, Mach, TaskCounts, ThreadState};
use super::stack_copy::StackCopy;
use super::suspended::Suspended;
use super::threads::{Thread, reading, tid_of};
use super::totals::Totals;

/// What a tick needs of the whole recording.
pub(super) struct Tick<'s, M: Mach> {
    pub(super) mach: &'s M,
    pub(super) out: &'s mut Outbox,
    pub(super) stack: &'s mut StackCopy,
    pub(super) totals: &'s mut Totals,
    pub(super) interval_ns: u64,
}

/// A thread that has used the CPU time of so many intervals without a sample gets one while it waits for a CPU: on a machine with one CPU, the
/// recorder has that CPU at each tick, and no thread is ever found on one. Such a thread may have had its last CPU time long ago, and
/// wait since the end of a system call. With 2 intervals instead, the simulated 12 threads on 2 CPUs had 3 % of their samples in waits.
/// By chance a thread misses so many ticks once in 10,000,000 times, and once in 3,000 if the recorder takes its CPU at each other tick.
const PATIENCE: u64 = 16;

/// From when on CPU time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// The process's start: it was started while recording, or by the recorder.
    Start,
    /// The first look: it ran before.
    FirstLook,
}

/// A recorded process.
pub(super) struct Process<M: Mach> {
    pub(super) pid: i32,
    pub(super) started_us: u64,
    pub(super) name: String,
    /// `None` while the kernel gives no right to the task, or the last one has died.
    task: Option<M::Task>,
    threads: Vec<Thread<M>>,
    tids: HashSet<i32>,
    since: Since,
    has_main: bool,
    /// The last look's counts.
    seen: Option<TaskCounts>,
    /// CPU time of the task at the first look, ns.
    first_cpu_ns: u64,
    /// CPU time of threads that have ended, ns.
    ended_cpu_ns: u64,
}

impl<M: Mach> Process<M> {
    pub(super) fn new(pid: i32, started_us: u64, name: String, task: M::Task, since: Since) -> Process<M> {
        Process {
            pid,
            started_us,
            name,
            task: Some(task),
            threads: Vec::new(),
            tids: HashSet::new(),
            since,
            has_main: false,
            seen: None,
            first_cpu_ns: 0,
            ended_cpu_ns: 0,
        }
    }

    pub(super) fn has_task(&self, task: Option<&M::Task>) -> bool {
        self.task.as_ref() == task
    }

    /// Looks at the threads, and samples those on a CPU.
    pub(super) fn look(&mut self, tick: &mut Tick<'_, M>) {
        let Some(counts) = tick.mach.task_counts(self.pid) else {
            // Its end will be in the news.
            return;
        };
        let before = self.seen;
        self.note(counts);
        // Switches are counted when a thread gets its CPU. So none has run since, and none has started or ended.
        if counts.runnable == 0 && before == Some(counts) {
            return;
        }
        let is_complete = self.threads.len() == counts.threads as usize;
        self.visit(0, is_complete.then_some(counts.runnable), tick);
        if self.threads.len() != counts.threads as usize {
            let first_new = self.find_new(tick);
            self.visit(first_new, None, tick);
        }
        if self.task.is_none() {
            // The process has ended, and the counts may be those of another one with its id.
            self.seen = before;
        }
        // Threads of processes that ran before are old only at the first look.
        self.since = Since::Start;
    }

    /// Looks at the threads from this index on. Removes those that have ended. Stops where it has found so many threads that run or are
    /// queued: a look costs a call, and of a pool's hundreds of threads, most sleep. Those found come first the next time.
    fn visit(&mut self, first: usize, runnable: Option<u32>, tick: &mut Tick<'_, M>) {
        let (mut index, mut front) = (first, first);
        while let Some(thread) = self.threads.get_mut(index) {
            match tick.mach.thread_state(&thread.right) {
                Err(Failure::Gone) => {
                    let thread = self.threads.remove(index);
                    self.end_thread(&thread, tick);
                    continue;
                }
                Err(Failure::Code(_)) => {}
                Ok(state) => {
                    rename(self.pid, thread, &state, tick);
                    if !state.is_runnable {
                        // Its time is exact. It is not suspended: that would cost time, and end some system calls.
                        thread.account.see(reading(&state));
                    } else {
                        if let Some(task) = &self.task {
                            sample(self.pid, task, thread, state, tick);
                        }
                        self.threads.swap(front, index);
                        front += 1;
                        if runnable.is_some_and(|runnable| front - first >= runnable as usize) {
                            return;
                        }
                    }
                }
            }
            index += 1;
        }
    }

    /// Adds threads that are not known. Returns the index of the first.
    fn find_new(&mut self, tick: &mut Tick<'_, M>) -> usize {
        let known = self.threads.len();
        let Some(found) = self.task.as_ref().map(|task| tick.mach.threads(task)) else {
            return known;
        };
        let Ok(found) = found else {
            // A task that has died: the process called exec, or ended. Either will be in the news.
            if found == Err(Failure::Gone) {
                self.task = None;
            }
            return known;
        };
        for right in found {
            if self.threads[..known].iter().any(|thread| thread.right == right) {
                continue;
            }
            let Ok(thread_id) = tick.mach.thread_id(&right) else {
                continue;
            };
            let from = match self.since {
                Since::Start => Reading::default(),
                Since::FirstLook => match tick.mach.thread_state(&right) {
                    Ok(state) => reading(&state),
                    Err(_) => continue,
                },
            };
            let tid = tid_of(thread_id, self.pid, !self.has_main, &self.tids);
            self.has_main = true;
            self.tids.insert(tid);
            tick.out.thread(tick.mach.now_ns(), self.pid, tid, ThreadEvent::Start);
            self.threads.push(Thread::new(right, tid, from));
        }
        known
    }

    /// The process executes another program: other threads in another task.
    pub(super) fn exec(&mut self, name: String, task: Option<M::Task>, tick: &mut Tick<'_, M>) {
        for thread in std::mem::take(&mut self.threads) {
            // The main thread goes on, as events have it: its id is the process's.
            self.settle(&thread, tick);
            if thread.tid != self.pid {
                tick.out
                    .thread(tick.mach.now_ns(), self.pid, thread.tid, ThreadEvent::End);
            }
        }
        let had_main = self.tids.contains(&self.pid);
        self.tids.clear();
        let time = tick.mach.now_ns();
        self.name.clone_from(&name);
        let pid = Pid(self.pid);
        tick.out.send(Message::Exec {
            time: Timestamp(time),
            pid,
            name,
        });
        self.task = task;
        self.seen = None;
        // The CPU time of the process goes on (task_rollup_accounting_info in bsd/kern/kern_exec.c), that of its new thread starts.
        self.since = Since::Start;
        self.has_main = false;
        if had_main {
            self.adopt_main(tick);
        }
    }

    /// Makes the first thread of the new program the main one, which has been reported.
    fn adopt_main(&mut self, tick: &mut Tick<'_, M>) {
        let threads = self.task.as_ref().map(|task| tick.mach.threads(task));
        match threads
            .and_then(Result::ok)
            .and_then(|threads| threads.into_iter().next())
        {
            Some(right) => {
                self.tids.insert(self.pid);
                self.has_main = true;
                self.threads.push(Thread::new(right, self.pid, Reading::default()));
            }
            None => tick
                .out
                .thread(tick.mach.now_ns(), self.pid, self.pid, ThreadEvent::End),
        }
    }

    /// Reads the counts once more, when recording ends.
    pub(super) fn last_look(&mut self, mach: &M) {
        let counts = mach.task_counts(self.pid);
        // Asked afterwards: if the task lives, the counts are its.
        let is_alive = self.task.as_ref().is_some_and(|task| mach.threads(task).is_ok());
        if let Some(counts) = counts.filter(|_| is_alive) {
            self.note(counts);
        }
    }

    fn note(&mut self, counts: TaskCounts) {
        if self.seen.is_none() && self.since == Since::FirstLook {
            self.first_cpu_ns = counts.cpu_ns;
        }
        self.seen = Some(counts);
    }

    /// The process has ended, or recording has. Returns the CPU time counted for it, ns.
    pub(super) fn settle_all(&mut self, mach: &M, totals: &mut Totals) -> u64 {
        for thread in &mut self.threads {
            if let Ok(state) = mach.thread_state(&thread.right) {
                thread.account.see(reading(&state));
            }
        }
        for thread in &self.threads {
            totals.unsampled_ns = totals.unsampled_ns.saturating_add(thread.account.unsampled_ns());
        }
        let alive: u64 = self.threads.iter().map(|thread| thread.account.used_ns()).sum();
        let of_threads = self.ended_cpu_ns.saturating_add(alive);
        let of_task = self
            .seen
            .map_or(0, |seen| seen.cpu_ns.saturating_sub(self.first_cpu_ns));
        // Threads that lived between two ticks are in the task's time alone.
        totals.unseen_ns = totals.unseen_ns.saturating_add(of_task.saturating_sub(of_threads));
        of_task.max(of_threads)
    }

    /// Reports the end of the process and of its threads.
    pub(super) fn end(&mut self, tick: &mut Tick<'_, M>) -> u64 {
        let cpu_ns = self.settle_all(tick.mach, tick.totals);
        for thread in std::mem::take(&mut self.threads) {
            tick.out
                .thread(tick.mach.now_ns(), self.pid, thread.tid, ThreadEvent::End);
        }
        tick.out.process(tick.mach.now_ns(), self.pid, ProcessEvent::End);
        cpu_ns
    }

    fn end_thread(&mut self, thread: &Thread<M>, tick: &mut Tick<'_, M>) {
        self.tids.remove(&thread.tid);
        self.settle(thread, tick);
        tick.out
            .thread(tick.mach.now_ns(), self.pid, thread.tid, ThreadEvent::End);
    }

    fn settle(&mut self, thread: &Thread<M>, tick: &mut Tick<'_, M>) {
        self.ended_cpu_ns = self.ended_cpu_ns.saturating_add(thread.account.used_ns());
        tick.totals.unsampled_ns = tick.totals.unsampled_ns.saturating_add(thread.account.unsampled_ns());
    }
}

fn rename<M: Mach>(pid: i32, thread: &mut Thread<M>, state: &ThreadState, tick: &mut Tick<'_, M>) {
    if let Some(name) = thread.new_name(state) {
        tick.out.send(Message::ThreadName {
            time: Timestamp(tick.mach.now_ns()),
            thread: recording::event::Thread::new(pid, thread.tid),
            name,
        });
    }
}

/// Samples a thread that is on a CPU or waits for one, if it is on one.
///
/// XNU reports not which, and not how much CPU time a running thread has used since its last entry into the kernel. Suspending makes
/// the thread enter the kernel. So CPU time that has grown by then shows that the thread was on a CPU, and the time is exact.
fn sample<M: Mach>(pid: i32, task: &M::Task, thread: &mut Thread<M>, asked: ThreadState, tick: &mut Tick<'_, M>) {
    let Ok(suspended) = Suspended::new(tick.mach, &thread.right) else {
        return;
    };
    let taken = take(task, &thread.right, &mut thread.account, &mut thread.stack, asked, tick);
    tick.totals.suspended(suspended.resume());
    let Some(taken) = taken else {
        return;
    };
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
