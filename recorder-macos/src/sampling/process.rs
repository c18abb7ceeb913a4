//! One recorded process: a look at its threads, and what is known of each.

use std::collections::HashSet;
use std::path::PathBuf;

use recording::clock::Timestamp;
use recording::cpu_account::MOST_PROCESSES;
use recording::event::{Pid, ProcessEvent, ThreadEvent};
use recording::outbox::Message;
use recording::pace::ThreadReading;

use super::code::ProcessCode;
use super::sample::sample;
use super::threads::{KnownThread, reading, tid_of};
use super::tick::Tick;
use super::totals::UnreachedProcess;
use super::usage::ProcessUsage;
use super::waits;
use crate::kernel::{Mach, MachError, TaskCounts, ThreadState};

/// From when on CPU time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuTimeSince {
    /// The process's start: it was started while recording, or by the recorder.
    Start,
    /// The first look: it ran before.
    FirstLook,
}

/// A recorded process.
pub(super) struct RecordedProcess<M: Mach> {
    pub(super) pid: i32,
    pub(super) started_us: u64,
    pub(super) name: String,
    /// `None` while the kernel gives no right to the task, or the last one has died.
    task: Option<M::Task>,
    /// Set while the kernel gives no right.
    refused: Option<RefusedTask>,
    code: ProcessCode,
    usage: ProcessUsage,
    threads: Vec<KnownThread<M>>,
    tids: HashSet<i32>,
    since: CpuTimeSince,
    has_main: bool,
    /// The last look's counts.
    seen: Option<TaskCounts>,
    /// CPU time of the task when it began to count, ns.
    first_cpu_ns: u64,
    /// CPU time of threads that have ended, ns.
    ended_cpu_ns: u64,
    /// CPU time of the process up to when the kernel began to refuse access, ns.
    closed_cpu_ns: u64,
}

/// A process that the kernel gives no right to.
#[derive(Debug)]
struct RefusedTask {
    program: Option<PathBuf>,
    looks: u32,
}

/// Number of looks at which a refused task is asked for again: in the middle of an exec, the kernel also refuses.
const LOOKS_AGAIN: u32 = 8;

impl RefusedTask {
    fn new<M: Mach>(mach: &M, pid: i32, task: Option<&M::Task>) -> Option<RefusedTask> {
        task.is_none().then(|| RefusedTask {
            program: mach.program(pid),
            looks: 0,
        })
    }
}

impl<M: Mach> RecordedProcess<M> {
    /// A process; `task` is `None` where the kernel refuses it.
    pub(super) fn new(
        mach: &M,
        pid: i32,
        started_us: u64,
        name: String,
        task: Option<M::Task>,
        since: CpuTimeSince,
    ) -> RecordedProcess<M> {
        RecordedProcess {
            pid,
            started_us,
            name,
            refused: RefusedTask::new(mach, pid, task.as_ref()),
            task,
            code: ProcessCode::default(),
            usage: ProcessUsage::default(),
            threads: Vec::new(),
            tids: HashSet::new(),
            since,
            has_main: false,
            seen: None,
            first_cpu_ns: 0,
            ended_cpu_ns: 0,
            closed_cpu_ns: 0,
        }
    }

    /// Takes over the code of the parent, if it is the same. A fork without access has the parent's name.
    pub(super) fn is_fork_of(&mut self, parent: &RecordedProcess<M>, mach: &M) -> bool {
        let has_same_code = match &self.task {
            Some(task) => parent.code.matches_task(mach, task),
            None => true,
        };
        let is_fork = parent.name == self.name && has_same_code;
        if is_fork {
            self.code = parent.code.clone();
        }
        is_fork
    }

    pub(super) fn has_task(&self, task: Option<&M::Task>) -> bool {
        self.task.as_ref() == task
    }

    /// Looks at the threads, and samples those on a CPU.
    pub(super) fn look(&mut self, tick: &mut Tick<'_, M>) {
        let Some(counts) = tick.mach.task_counts(self.pid) else {
            // Its end is reported later.
            return;
        };
        let before = self.seen;
        self.note_counts(counts);
        if self.refused.is_some() && !self.ask_again(counts, tick) {
            return;
        }
        self.usage.look(self.pid, counts, tick.mach.now_ns(), tick.out);
        if before.is_some_and(|before| counts.is_at_rest_since(&before)) {
            return;
        }
        self.code.begin_look();
        // A thread that was found waiting may have run, and may wait for something else by now.
        let is_complete = self.threads.len() == counts.threads as usize && tick.system_calls.is_none();
        self.visit(0, is_complete.then_some(counts.runnable), tick);
        if self.threads.len() != counts.threads as usize {
            let first_new = self.add_new_threads(tick);
            self.visit(first_new, None, tick);
        }
        if self.task.is_none() {
            // The process has ended, and the counts may belong to another process with its id.
            self.seen = before;
        }
        self.know_threads(counts);
    }

    /// Threads of processes that ran before are old until all have been found once.
    fn know_threads(&mut self, counts: TaskCounts) {
        if self.threads.len() == counts.threads as usize {
            self.since = CpuTimeSince::Start;
        }
    }

    /// Number of known threads that can run and have run since the last look.
    pub(super) fn have_run(&self, mach: &M) -> usize {
        let has_run = |thread: &&KnownThread<M>| {
            let state = mach.thread_state(&thread.right);
            state.is_ok_and(|state| state.is_runnable && thread.account.would_have_run(reading(&state)))
        };
        self.threads.iter().filter(has_run).count()
    }

    /// Looks at the threads from this index on, and removes ended ones. Stops once it has found `runnable` threads that
    /// run or are queued: a look costs a call, and most of a pool's hundreds of threads sleep. The threads that were
    /// found come first the next time.
    fn visit(&mut self, first: usize, runnable: Option<u32>, tick: &mut Tick<'_, M>) {
        let (mut index, mut front) = (first, first);
        while let Some(thread) = self.threads.get_mut(index) {
            match tick.mach.thread_state(&thread.right) {
                Err(MachError::Gone) => {
                    let thread = self.threads.remove(index);
                    self.end_thread(&thread, tick);
                    continue;
                }
                Err(MachError::Code(_)) => {}
                Ok(state) => {
                    rename(self.pid, thread, &state, tick);
                    if !state.is_runnable {
                        // Its time is exact. It is not suspended: that would cost time, and end some system calls.
                        thread.account.see(reading(&state));
                        if let Some(task) = &self.task {
                            waits::see(self.pid, task, thread, &mut self.code, &state, tick);
                        }
                    } else {
                        waits::end(self.pid, thread, tick);
                        if let Some(task) = &self.task {
                            sample(self.pid, task, thread, &mut self.code, state, tick);
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
    fn add_new_threads(&mut self, tick: &mut Tick<'_, M>) -> usize {
        let known = self.threads.len();
        let Some(found) = self.task.as_ref().map(|task| tick.mach.threads(task)) else {
            return known;
        };
        let Ok(found) = found else {
            // A task that has died: the process called exec, or ended. Either is reported later.
            if found == Err(MachError::Gone) {
                self.task = None;
            }
            return known;
        };
        let known_rights: HashSet<&M::Thread> = self.threads.iter().map(|thread| &thread.right).collect();
        let is_new = |right: &M::Thread| !known_rights.contains(right);
        let new: Vec<M::Thread> = found.into_iter().filter(is_new).collect();
        for right in new {
            let Ok(thread_id) = tick.mach.thread_id(&right) else {
                continue;
            };
            let from = match self.since {
                CpuTimeSince::Start => ThreadReading::default(),
                CpuTimeSince::FirstLook => match tick.mach.thread_state(&right) {
                    Ok(state) => reading(&state),
                    Err(_) => continue,
                },
            };
            let tid = tid_of(thread_id, self.pid, !self.has_main, &self.tids);
            self.has_main = true;
            self.tids.insert(tid);
            tick.out.thread(tick.mach.now_ns(), self.pid, tid, ThreadEvent::Start);
            self.threads.push(KnownThread::new(right, tid, from));
        }
        known
    }

    /// The process executes another program: other threads in another task.
    pub(super) fn exec(&mut self, name: String, task: Option<M::Task>, tick: &mut Tick<'_, M>) {
        for mut thread in std::mem::take(&mut self.threads) {
            waits::end(self.pid, &mut thread, tick);
            // The main thread goes on, as events have it: its id is the process's.
            self.settle(&thread, tick);
            if thread.tid != self.pid {
                tick.out
                    .thread(tick.mach.now_ns(), self.pid, thread.tid, ThreadEvent::End);
            }
        }
        let had_main = self.tids.contains(&self.pid);
        // Whether a new process is reached shows when it announces itself. It may execute other programs before that.
        let is_awaited = self.refused.is_some() && task.is_none() && tick.mach.listens();
        if (self.refused.is_some() || task.is_none()) && !is_awaited {
            self.close(tick);
        }
        self.refused = RefusedTask::new(tick.mach, self.pid, task.as_ref());
        self.code = ProcessCode::default();
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
        // The CPU time of the process goes on (task_rollup_accounting_info in bsd/kern/kern_exec.c), the CPU time of
        // its new thread starts at 0.
        self.since = CpuTimeSince::Start;
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
                self.threads
                    .push(KnownThread::new(right, self.pid, ThreadReading::default()));
            }
            None => tick
                .out
                .thread(tick.mach.now_ns(), self.pid, self.pid, ThreadEvent::End),
        }
    }

    /// The program has announced itself, with its task. It waits, and has loaded its libraries: CPU time that has no
    /// samples.
    pub(super) fn take_task(&mut self, name: String, task: M::Task, tick: &mut Tick<'_, M>) {
        let counts = tick.mach.task_counts(self.pid);
        if let Some(counts) = counts {
            self.note_counts(counts);
        }
        // It was taken for a fork, because it had its parent's name so far.
        let has_other_code = !self.code.is_empty() && !self.code.matches_task(tick.mach, &task);
        if has_other_code || self.name != name {
            self.code = ProcessCode::default();
            self.name = name;
            tick.out.send(Message::Exec {
                time: Timestamp(tick.mach.now_ns()),
                pid: Pid(self.pid),
                name: self.name.clone(),
            });
        }
        self.task = Some(task);
        self.refused = None;
        self.since = CpuTimeSince::FirstLook;
        self.add_new_threads(tick);
        counts.into_iter().for_each(|counts| self.know_threads(counts));
        let before_ns = self
            .seen
            .map_or(0, |seen| seen.cpu_ns.saturating_sub(self.first_cpu_ns));
        // The times of threads, which count from here on, are cut off to microseconds.
        let before_ns = before_ns.saturating_sub(1000 * self.threads.len() as u64);
        self.ended_cpu_ns = self.ended_cpu_ns.saturating_add(before_ns);
        tick.totals.unsampled_ns = tick.totals.unsampled_ns.saturating_add(before_ns);
    }

    /// True if the kernel gives no right to the task, so far.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Asks once more for the task that was refused. Returns whether there is one now.
    fn ask_again(&mut self, counts: TaskCounts, tick: &mut Tick<'_, M>) -> bool {
        let Some(refused) = &mut self.refused else { return true };
        refused.looks = refused.looks.saturating_add(1);
        if refused.looks > LOOKS_AGAIN {
            return false;
        }
        let Ok(task) = tick.mach.task(self.pid) else {
            return false;
        };
        let identity = tick.mach.identity(self.pid);
        if identity.is_none_or(|identity| identity.started_us != self.started_us) {
            return false;
        }
        self.close(tick);
        self.first_cpu_ns = counts.cpu_ns;
        self.task = Some(task);
        self.refused = None;
        self.since = CpuTimeSince::FirstLook;
        true
    }

    /// Adds the CPU time so far to the sums: of recorded processes, or of processes without access. Counting starts
    /// anew.
    fn close(&mut self, tick: &mut Tick<'_, M>) {
        let mut counted_ns = self
            .seen
            .map_or(0, |seen| seen.cpu_ns.saturating_sub(self.first_cpu_ns));
        match self.refused.take() {
            Some(refused) => {
                tick.totals.unreached = tick.totals.unreached.saturating_add(1);
                if tick.unreached.len() < MOST_PROCESSES {
                    tick.unreached.push(UnreachedProcess {
                        pid: self.pid,
                        name: self.name.clone(),
                        program: refused.program,
                        cpu_ns: counted_ns,
                    });
                }
                tick.totals.unreached_cpu_ns = tick.totals.unreached_cpu_ns.saturating_add(counted_ns);
            }
            None => {
                let alive: u64 = self.threads.iter().map(|thread| thread.account.used_ns()).sum();
                let of_threads = self.ended_cpu_ns.saturating_add(alive);
                // Threads that lived between two ticks are in the task's time alone.
                let unseen_ns = counted_ns.saturating_sub(of_threads);
                tick.totals.unseen_ns = tick.totals.unseen_ns.saturating_add(unseen_ns);
                counted_ns = counted_ns.max(of_threads);
                self.closed_cpu_ns = self.closed_cpu_ns.saturating_add(counted_ns);
            }
        }
        self.ended_cpu_ns = 0;
        self.first_cpu_ns = self.first_cpu_ns.saturating_add(counted_ns);
    }

    /// Reads the counts once more, when recording ends.
    pub(super) fn last_look(&mut self, mach: &M) {
        let counts = mach.task_counts(self.pid);
        // StopSignal afterwards: if the task lives, the counts are its.
        let is_alive = self.task.as_ref().is_some_and(|task| mach.threads(task).is_ok());
        if let Some(counts) = counts.filter(|_| is_alive) {
            self.note_counts(counts);
        }
    }

    fn note_counts(&mut self, counts: TaskCounts) {
        if self.seen.is_none() && self.since == CpuTimeSince::FirstLook {
            self.first_cpu_ns = counts.cpu_ns;
        }
        self.seen = Some(counts);
    }

    /// The process has ended, or recording has. Returns the CPU time counted for it, ns.
    pub(super) fn settle_all(&mut self, tick: &mut Tick<'_, M>) -> u64 {
        for thread in &mut self.threads {
            if let Ok(state) = tick.mach.thread_state(&thread.right) {
                thread.account.see(reading(&state));
            }
        }
        for thread in &self.threads {
            tick.totals.unsampled_ns = tick.totals.unsampled_ns.saturating_add(thread.account.unsampled_ns());
        }
        self.close(tick);
        self.closed_cpu_ns
    }

    /// Reports the end of the process and of its threads.
    pub(super) fn end(&mut self, tick: &mut Tick<'_, M>) -> u64 {
        let cpu_ns = self.settle_all(tick);
        for thread in std::mem::take(&mut self.threads) {
            tick.out
                .thread(tick.mach.now_ns(), self.pid, thread.tid, ThreadEvent::End);
        }
        tick.out.process(tick.mach.now_ns(), self.pid, ProcessEvent::End);
        cpu_ns
    }

    fn end_thread(&mut self, thread: &KnownThread<M>, tick: &mut Tick<'_, M>) {
        self.tids.remove(&thread.tid);
        self.settle(thread, tick);
        tick.out
            .thread(tick.mach.now_ns(), self.pid, thread.tid, ThreadEvent::End);
    }

    fn settle(&mut self, thread: &KnownThread<M>, tick: &mut Tick<'_, M>) {
        self.ended_cpu_ns = self.ended_cpu_ns.saturating_add(thread.account.used_ns());
        tick.totals.unsampled_ns = tick.totals.unsampled_ns.saturating_add(thread.account.unsampled_ns());
    }
}

fn rename<M: Mach>(pid: i32, thread: &mut KnownThread<M>, state: &ThreadState, tick: &mut Tick<'_, M>) {
    if let Some(name) = thread.new_name(state) {
        tick.out.send(Message::ThreadName {
            time: Timestamp(tick.mach.now_ns()),
            thread: recording::event::Thread::new(pid, thread.tid),
            name,
        });
    }
}
