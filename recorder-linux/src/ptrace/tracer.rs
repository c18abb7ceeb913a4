//! The tracing thread: answers every stop of the program, and takes the samples.
//!
//! A stopped thread costs the program time. So a thread is resumed before anything is done that can be done later.

use std::collections::{HashMap, HashSet};
use std::io;

use recording::clock::Timestamp;
use recording::event::{Pid, ProcessEvent, ThreadEvent};
use recording::outbox::{Message, Outbox, OwnedSample};
use recording::pace::{Account, ThreadReading, Ticks};
use recording::proc::MapsLine;

use super::counts::SchedulerCounts;
use super::maps::KnownCode;
use super::policy::{PlaceAtTick, WAKE_UP_NS, patience_ns};
use crate::heap::StaticStart;
use crate::processes::procfs::{self, Stat};
use crate::resources::Resources;
use crate::sys::memory;
use crate::sys::priority::TracerPriority;
use crate::sys::process::{WaitStatus, monotonic_ns, thread_cpu_ns};
use crate::sys::ptrace::{self, Stop, Waited};

/// Most stack bytes to copy. The stopped thread cannot change the copied bytes, but could change memory that is read
/// later. Most stacks end after a few KiB. 256 KiB take 40 us.
const STACK_BYTES: usize = 256 << 10;

/// All traced processes and threads.
pub(super) struct Tracer {
    program: i32,
    out: Outbox,
    threads: HashMap<i32, TracedThread>,
    processes: HashMap<i32, TracedProcess>,
    /// Threads that ended before the stop of their parent thread was answered. They are still zombies then, and would
    /// be added a second time: seen with children of 1 ms.
    ended_early: HashSet<i32>,
    stack: Vec<u8>,
    /// CPU time of ended threads, and their time waiting for a CPU, ns.
    ended_cpu_ns: u64,
    ended_waited_ns: u64,
    samples: u64,
    has_exec: bool,
    /// Of the program, at its exec.
    static_start: Option<StaticStart>,
    program_end: Option<WaitStatus>,
    turns: TracerPriority,
    ticks: Ticks,
    resources: Resources,
    /// True if the last tick came more than an interval late.
    is_late: bool,
    /// Threads that had to leave their CPU to sprof at the last tick, and when to stop them again.
    again: Vec<i32>,
    again_ns: u64,
}

/// Sums over all threads.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) samples: u64,
    /// CPU time counted by the kernel, ns.
    pub(crate) cpu_time_ns: u64,
    /// Time spent waiting for a CPU, ns; 0 where the kernel does not count that.
    pub(crate) waited_ns: u64,
    /// Processes that were alive when recording ended.
    pub(crate) live_processes: HashSet<i32>,
}

struct TracedThread {
    pid: i32,
    name: String,
    counts: SchedulerCounts,
    account: Account,
    /// Set while the thread is to stop for a sample.
    asked: Option<StopRequest>,
    /// True once the parent thread has reported this thread.
    is_announced: bool,
}

/// A thread's state when it was asked to stop.
struct StopRequest {
    name: String,
    tick_ns: u64,
    is_second_try: bool,
    /// The CPU that the thread ran on.
    cpu: u32,
    counts: ThreadReading,
}

#[derive(Default)]
struct TracedProcess {
    threads: Vec<i32>,
    code: KnownCode,
}

impl Tracer {
    /// Traces a program that has not run yet.
    pub(super) fn new(
        program: i32,
        ticks: Ticks,
        resources: Resources,
        static_start: Option<StaticStart>,
        out: Outbox,
    ) -> Tracer {
        let mut tracer = Tracer {
            program,
            out,
            threads: HashMap::new(),
            processes: HashMap::new(),
            ended_early: HashSet::new(),
            stack: vec![0; STACK_BYTES],
            ended_cpu_ns: 0,
            ended_waited_ns: 0,
            samples: 0,
            has_exec: false,
            static_start,
            program_end: None,
            turns: TracerPriority::ask(),
            ticks,
            resources,
            is_late: false,
            again: Vec::new(),
            again_ns: u64::MAX,
        };
        tracer.add(program, program, None);
        // What the program does from now on counts.
        let out = &mut tracer.out;
        tracer
            .resources
            .look(std::iter::once(Pid(program)), &mut |message| out.send(message));
        tracer
    }

    /// How the program ended; `None` while it runs.
    pub(super) fn program_end(&self) -> Option<WaitStatus> {
        self.program_end
    }

    /// True if the program was executed.
    pub(super) fn has_exec(&self) -> bool {
        self.has_exec
    }

    /// Reports at the end, `time`, how many samples were dropped. Returns the sums over all threads, alive and ended.
    pub(super) fn finish(mut self, time: u64) -> Totals {
        self.out.report_dropped(time);
        let pids = self.processes.keys().map(|pid| Pid(*pid));
        self.resources.finish(pids, &mut |message| self.out.send(message));
        let mut totals = Totals {
            samples: self.samples,
            cpu_time_ns: self.ended_cpu_ns,
            waited_ns: self.ended_waited_ns,
            live_processes: self.processes.keys().copied().collect(),
        };
        for thread in self.threads.values_mut() {
            if let Some(reading) = thread.counts.read() {
                thread.account.see(reading);
            }
            totals.cpu_time_ns = totals.cpu_time_ns.saturating_add(thread.account.used_ns());
            totals.waited_ns = totals.waited_ns.saturating_add(thread.account.waited_ns());
        }
        totals
    }

    /// Time of the next tick or second stop, for [`Tracer::sample`].
    pub(super) fn next_ns(&self) -> u64 {
        self.ticks.next_ns().min(self.again_ns)
    }

    /// Asks threads to stop for a sample: at a tick, each thread that may be on a CPU.
    pub(super) fn sample(&mut self) -> io::Result<()> {
        let now = monotonic_ns().max(WAKE_UP_NS);
        if now >= self.again_ns {
            self.again_ns = u64::MAX;
            for tid in std::mem::take(&mut self.again) {
                self.ask(tid, now - WAKE_UP_NS, true);
                self.answer_all()?;
            }
        }
        let tick_ns = self.ticks.next_ns();
        if now < tick_ns {
            return Ok(());
        }
        let work_start_ns = thread_cpu_ns();
        self.is_late = now - tick_ns > self.ticks.interval_ns();
        let has_run = self.threads.iter_mut().filter_map(|(&tid, thread)| {
            let reading = thread.counts.read().filter(|_| thread.asked.is_none())?;
            thread.account.has_run(reading).then_some(tid)
        });
        let has_run: Vec<i32> = has_run.collect();
        for tid in has_run {
            self.ask(tid, now - WAKE_UP_NS, false);
            // Threads that were asked before may have stopped by now.
            self.answer_all()?;
        }
        let out = &mut self.out;
        let pids = self.processes.keys().map(|pid| Pid(*pid));
        let mut report = |message| out.send(message);
        self.resources.look(pids, &mut report);
        self.ticks.advance(now, thread_cpu_ns().saturating_sub(work_start_ns));
        Ok(())
    }

    fn ask(&mut self, tid: i32, tick_ns: u64, is_second_try: bool) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let Some(stat) = procfs::stat(thread.pid, tid) else {
            return;
        };
        let name = name_of(&stat);
        if stat.can_run()
            && let Some(counts) = thread.counts.read()
            // Fails for a thread that has ended meanwhile. Its end is still to be waited for.
            && ptrace::interrupt(tid).is_ok()
        {
            thread.asked = Some(StopRequest {
                name: name.clone(),
                tick_ns,
                is_second_try,
                cpu: stat.cpu,
                counts,
            });
        }
        // In exec, some time passes between the new name and the stop that reports exec, and the thread is the first.
        // Its name counts where it stops for anything else: on a busy machine, programs had the next one's name.
        if tid != thread.pid {
            self.rename(tid, name);
        }
    }

    /// Answers all stops and ends that there are now.
    pub(super) fn answer_all(&mut self) -> io::Result<()> {
        while let Some((tid, change)) = ptrace::next_change()? {
            match change {
                Waited::Ended(status) => self.on_end(tid, status),
                Waited::Stopped(stop) => self.on_stop(tid, stop),
            }
        }
        Ok(())
    }

    fn on_end(&mut self, tid: i32, status: WaitStatus) {
        if self.threads.get(&tid).is_none_or(|thread| !thread.is_announced) {
            self.ended_early.insert(tid);
        }
        self.remove(tid);
        if tid == self.program {
            self.program_end = Some(status);
        }
    }

    /// Answers one stop. A thread may be killed at any time, also while it is stopped. Requests for it then fail, and
    /// its end is reported.
    fn on_stop(&mut self, tid: i32, stop: Stop) {
        // A new thread may stop for the first time before the thread that started it reports it.
        if !matches!(stop, Stop::Exit) {
            self.adopt(tid);
        }
        match stop {
            Stop::Signal(signal) => self.sample_and_resume(tid, signal),
            Stop::Trap => self.sample_and_resume(tid, 0),
            Stop::NewTask => {
                let new = ptrace::event_message(tid);
                self.sample_and_resume(tid, 0);
                if let Ok(new) = new {
                    self.announce(new);
                }
            }
            Stop::Group => {
                self.forget_request(tid);
                let _ = ptrace::listen(tid);
            }
            Stop::Exec => {
                self.on_exec(tid);
                if let Some(static_start) = self.static_start.take() {
                    static_start.load(tid);
                    self.send_new_code(monotonic_ns(), tid);
                }
                let _ = ptrace::resume(tid, 0);
            }
            Stop::Exit => {
                self.on_exit(tid);
                let _ = ptrace::resume(tid, 0);
            }
        }
    }

    /// Any stop serves for the sample: the kernel drops an interruption that finds the thread stopped (ptrace_stop in
    /// kernel/signal.c clears JOBCTL_TRAP_STOP).
    fn sample_and_resume(&mut self, tid: i32, signal: i32) {
        let sample = self.take_sample(tid);
        let _ = ptrace::resume(tid, signal);
        if let Some(sample) = sample {
            self.send_sample(sample);
        }
    }

    fn forget_request(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.asked = None;
        }
    }

    fn take_sample(&mut self, tid: i32) -> Option<OwnedSample> {
        let asked = self.threads.get_mut(&tid)?.asked.take()?;
        self.rename(tid, asked.name);
        let thread = self.threads.get_mut(&tid)?;
        let time = monotonic_ns();
        let counts = thread.counts.read()?;
        let patience_ns = patience_ns(self.ticks.interval_ns(), self.is_late);
        match PlaceAtTick::of(asked.counts, counts, time.saturating_sub(asked.tick_ns)) {
            PlaceAtTick::OnCpu => {}
            _ if thread.account.is_owed(counts, patience_ns) => {}
            PlaceAtTick::Waiting => return None,
            PlaceAtTick::MadeWay if self.turns.are_quick() => {}
            PlaceAtTick::MadeWay if asked.is_second_try => return None,
            // With one CPU every thread has to leave it to sprof.
            PlaceAtTick::MadeWay if !self.turns.leave_cpu(asked.cpu) => {}
            PlaceAtTick::MadeWay => {
                self.again.push(tid);
                self.again_ns = self.ticks.again_ns(time);
                return None;
            }
        }
        let registers = ptrace::registers(tid).ok()?;
        let usual = registers.as_ref().map(|registers| registers.usual);
        let stack_bytes = usual.map_or(0, |registers| memory::read(thread.pid, registers.sp(), &mut self.stack));
        self.samples += 1;
        Some(OwnedSample {
            waits_for: None,
            time,
            pid: thread.pid,
            tid,
            cpu: asked.cpu,
            period: thread.account.sample(counts),
            registers: usual,
            further: registers.map_or_else(Default::default, |registers| {
                (ptrace::WORD_OF_REGISTER, registers.words)
            }),
            stack: self.stack[..stack_bytes].into(),
        })
    }

    fn send_sample(&mut self, sample: OwnedSample) {
        if let Some(process) = self.processes.get_mut(&sample.pid) {
            let ip = sample.registers.map(|registers| registers.ip());
            let mut found = process.code.new_span_files(sample.pid, sample.time);
            if ip.is_some_and(|ip| process.code.is_stale(sample.pid, ip, sample.time)) {
                found.extend(process.code.refresh(sample.pid, monotonic_ns(), thread_cpu_ns));
            }
            self.send_mappings(sample.time, sample.pid, found);
        }
        self.out.send_sample(sample);
    }

    fn send_new_code(&mut self, time: u64, pid: i32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            let found = process.code.refresh(pid, monotonic_ns(), thread_cpu_ns);
            self.send_mappings(time, pid, found);
        }
    }

    fn send_mappings(&mut self, time: u64, pid: i32, found: Vec<MapsLine>) {
        for code in found {
            self.out.send(Message::Map {
                time: Timestamp(time),
                pid: Pid(pid),
                code: code.into(),
            });
        }
    }

    /// A new program. If another thread than the first called exec, the caller has the first thread's id from now on.
    /// All other threads are gone without a report (ptrace(2), "execve(2) under ptrace").
    fn on_exec(&mut self, pid: i32) {
        let time = monotonic_ns();
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        let others: Vec<i32> = process.threads.iter().copied().filter(|tid| *tid != pid).collect();
        let former = ptrace::event_message(pid).unwrap_or(pid);
        let caller_was_first = former == pid || !others.contains(&former);
        let counts = SchedulerCounts::of(pid, pid);
        let reading = counts.read().unwrap_or_default();
        if !caller_was_first && let Some(caller) = self.threads.get_mut(&former) {
            // The counts under the new id go on from those under the old id.
            caller.account.see(reading);
            let account = caller.account;
            if let Some(first) = self.threads.get_mut(&pid) {
                self.ended_cpu_ns = self.ended_cpu_ns.saturating_add(first.account.used_ns());
                self.ended_waited_ns = self.ended_waited_ns.saturating_add(first.account.waited_ns());
                first.account = account;
            }
            self.threads.remove(&former);
            self.out.thread(time, pid, former, ThreadEvent::End);
        }
        for tid in others {
            self.remove(tid);
        }
        let is_start = pid == self.program && !self.has_exec;
        self.has_exec |= is_start;
        if let Some(first) = self.threads.get_mut(&pid) {
            first.asked = None;
            first.counts = counts;
            if is_start {
                // Before its exec the program was a copy of sprof.
                first.account = Account::open(reading);
            }
        }
        let name = procfs::stat(pid, pid).map_or_else(String::new, |stat| name_of(&stat));
        if let Some(first) = self.threads.get_mut(&pid) {
            first.name.clone_from(&name);
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            process.code = KnownCode::default();
            process.threads = vec![pid];
        }
        self.out.send(Message::Exec {
            time: Timestamp(time),
            pid: Pid(pid),
            name,
        });
        self.send_new_code(time, pid);
    }

    /// The last chance to read a thread's CPU time and name.
    fn on_exit(&mut self, tid: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        thread.asked = None;
        if let Some(reading) = thread.counts.read() {
            thread.account.see(reading);
        }
        if let Some(stat) = procfs::stat(thread.pid, tid) {
            self.rename(tid, name_of(&stat));
        }
    }

    fn rename(&mut self, tid: i32, name: String) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if thread.name != name {
            thread.name.clone_from(&name);
            self.out.send(Message::ThreadName {
                time: Timestamp(monotonic_ns()),
                thread: recording::event::Thread::new(thread.pid, tid),
                name,
            });
        }
    }

    /// Handles the parent thread's report of a new thread.
    fn announce(&mut self, tid: i32) {
        if self.ended_early.remove(&tid) {
            return;
        }
        self.adopt(tid);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.is_announced = true;
        }
    }

    /// Adds a thread, unless it is known or gone.
    fn adopt(&mut self, tid: i32) {
        if self.threads.contains_key(&tid) {
            return;
        }
        if let Some((pid, parent)) = procfs::process_of(tid) {
            let parent = Some(parent).filter(|parent| self.processes.contains_key(parent));
            self.add(pid, tid, parent);
        }
    }

    fn add(&mut self, pid: i32, tid: i32, parent: Option<i32>) {
        let time = monotonic_ns();
        if !self.processes.contains_key(&pid) {
            // A fork has the mappings of its parent, which the unwinder knows by the event.
            let code = parent
                .and_then(|parent| self.processes.get(&parent))
                .map(|parent| parent.code.clone());
            let process = TracedProcess {
                code: code.unwrap_or_default(),
                ..TracedProcess::default()
            };
            self.processes.insert(pid, process);
            let parent = parent.map(Pid);
            self.out.process(time, pid, ProcessEvent::Start { parent });
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads.push(tid);
        }
        let thread = TracedThread {
            pid,
            name: String::new(),
            counts: SchedulerCounts::of(pid, tid),
            // The thread was a tracee from its start.
            account: Account::default(),
            asked: None,
            is_announced: tid == self.program,
        };
        self.threads.insert(tid, thread);
        self.out.thread(time, pid, tid, ThreadEvent::Start);
    }

    fn remove(&mut self, tid: i32) {
        let Some(thread) = self.threads.remove(&tid) else {
            return;
        };
        self.ended_cpu_ns = self.ended_cpu_ns.saturating_add(thread.account.used_ns());
        self.ended_waited_ns = self.ended_waited_ns.saturating_add(thread.account.waited_ns());
        let (time, pid) = (monotonic_ns(), thread.pid);
        self.out.thread(time, pid, tid, ThreadEvent::End);
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.threads.retain(|other| *other != tid);
        if process.threads.is_empty() {
            self.processes.remove(&pid);
            self.out.process(time, pid, ProcessEvent::End);
        }
    }
}

fn name_of(stat: &Stat) -> String {
    String::from_utf8_lossy(&stat.name).into_owned()
}
