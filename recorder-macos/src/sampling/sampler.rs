//! The ticks over all processes, and what the kernel reports of them.

use std::collections::BTreeMap;

use recording::clock::Timestamp;
use recording::event::{Pid, ProcessEvent};
use recording::outbox::{Message, Outbox};
use recording::pace::Ticks;
use recording::session::StopReason;

use super::process::{CpuTimeSince, RecordedProcess};
use super::realtime::RealtimePriority;
use super::stack_copy::StackCopy;
use super::tick::{LookCounts, SystemCallNames, Tick};
use super::totals::{Totals, UnreachedProcess};
use crate::kernel::{KernelEvent, Mach, MachError, ProcessIdentity};
use crate::processes::hello::{self, HelloRefusal};
use crate::processes::watched::{Watched, stop_at_end, take_signal};

/// From a process to the ancestor that is recorded. Processes between them also announce themselves, unless they are
/// programs of macOS.
const MOST_STEPS: usize = 16;

/// Everything that is sampled.
pub(super) struct Sampler<'m, M: Mach> {
    mach: &'m M,
    out: Outbox,
    processes: BTreeMap<i32, RecordedProcess<M>>,
    stack: StackCopy,
    /// Where waits are recorded.
    system_calls: Option<SystemCallNames>,
    totals: Totals,
    unreached: Vec<UnreachedProcess>,
    ticks: Ticks,
    /// When the second look of this tick is due, and the CPU time of the first one, ns.
    second: Option<(u64, u64)>,
    found: LookCounts,
    realtime: RealtimePriority,
}

impl<'m, M: Mach> Sampler<'m, M> {
    pub(super) fn new(mach: &'m M, interval_ns: u64, off_cpu: bool, out: Outbox) -> Sampler<'m, M> {
        Sampler {
            ticks: Ticks::new(interval_ns, mach.now_ns()),
            second: None,
            found: LookCounts::default(),
            realtime: RealtimePriority::ask(mach, interval_ns),
            mach,
            out,
            processes: BTreeMap::new(),
            stack: StackCopy::new(),
            system_calls: off_cpu.then(SystemCallNames::default),
            totals: Totals::default(),
            unreached: Vec::new(),
        }
    }

    /// Adds a process and all below it. Where the kernel refuses it, all below it are sampled that the kernel does not
    /// refuse.
    pub(super) fn add(&mut self, pid: i32, since: CpuTimeSince) -> Result<(), MachError> {
        // Below one that was added before.
        if self.processes.contains_key(&pid) {
            return Ok(());
        }
        // Watched first: an exec after that is a later event, and one before has made the task that is asked for then.
        self.mach.watch(pid)?;
        let task = match self.mach.task(pid) {
            Ok(task) => Some(task),
            Err(MachError::Gone) => return Err(MachError::Gone),
            Err(MachError::Code(_)) => None,
        };
        let identity = self.mach.identity(pid).ok_or(MachError::Gone)?;
        self.insert(pid, None, identity, since, task);
        self.add_children(pid, since);
        Ok(())
    }

    /// True if there is nothing to sample.
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Samples until this time, until all that is watched has ended, or until a signal asks for the end.
    pub(super) fn run(&mut self, watched: &mut Watched, deadline_ns: Option<u64>) -> StopReason {
        let mut interrupts = 0;
        loop {
            let tick_ns = self.second.map_or(self.ticks.next_ns(), |(at, _)| at);
            let wake_ns = deadline_ns.map_or(tick_ns, |end| end.min(tick_ns));
            let mut events = self.mach.sleep(wake_ns);
            // An id is free again after the end of its process, and a process that was started since may have it.
            events.sort_by_key(|event| match event {
                KernelEvent::Ended(_) => 0,
                KernelEvent::Exec(_) => 1,
                KernelEvent::Forked(_) => 2,
                KernelEvent::Messages => 3,
                KernelEvent::Signal(_) => 4,
            });
            for event in &events {
                match *event {
                    KernelEvent::Forked(parent) => self.add_children(parent, CpuTimeSince::Start),
                    KernelEvent::Exec(pid) => self.exec(pid),
                    KernelEvent::Messages => self.admit_announced(),
                    KernelEvent::Ended(pid) => {
                        self.remove(pid);
                        if watched.is_last(pid) {
                            return stop_at_end(&events, interrupts);
                        }
                    }
                    KernelEvent::Signal(signal) => {
                        if let Some(stop) = take_signal(self.mach, signal, &mut interrupts, watched.program) {
                            return stop;
                        }
                    }
                }
            }
            let now = self.mach.now_ns();
            if deadline_ns.is_some_and(|end| now >= end) {
                return StopReason::Duration;
            }
            if now >= tick_ns {
                self.tick();
            }
        }
    }

    /// Reports what was dropped. Returns the sums over all processes, alive and ended, what was not reached, and what
    /// is alive.
    pub(super) fn finish(mut self) -> (Totals, Vec<UnreachedProcess>, Vec<i32>) {
        let mut processes = std::mem::take(&mut self.processes);
        let mut cpu_ns: u64 = 0;
        let (mut tick, _) = self.parts();
        for process in processes.values_mut() {
            process.last_look(tick.mach);
            cpu_ns = cpu_ns.saturating_add(process.settle_all(&mut tick));
        }
        self.totals.cpu_ns = self.totals.cpu_ns.saturating_add(cpu_ns);
        self.out.report_dropped(self.mach.now_ns());
        self.totals.gave_up_realtime = self.realtime.was_given_up();
        (self.totals, self.unreached, processes.into_keys().collect())
    }

    /// Looks at all processes.
    ///
    /// Where the recorder takes the only CPU, each thread is off it by then. Which one had the CPU shows a moment
    /// later: a thread that is preempted goes to the head of its run queue (thread_dispatch in
    /// osfmk/kern/sched_prim.c), so it has run when the recorder takes the CPU again. All threads that have run since
    /// the tick before are too many: some have waited since, and are still in the call in which they waited. The same
    /// is so where several have run since the first look: then none is sampled. With all of the first, the simulated 3
    /// threads on one CPU had 1.5 % of their samples in waits; with all of the second, 12 threads had 3 %, and now 0.3
    /// %.
    fn tick(&mut self) {
        let before_ns = self.mach.own_cpu_ns();
        let first_ns = self.second.take().map(|(_, work_ns)| work_ns);
        self.found = LookCounts::default();
        let (mut tick, processes) = self.parts();
        tick.is_second = first_ns.is_some()
            && processes
                .values()
                .map(|process| process.have_run(tick.mach))
                .sum::<usize>()
                == 1;
        for process in processes.values_mut() {
            process.look(&mut tick);
        }
        let look_ns = self.mach.own_cpu_ns().saturating_sub(before_ns);
        if first_ns.is_none() && self.found.on_cpu == 0 && self.found.lost_cpu > 0 {
            self.second = Some((self.ticks.again_ns(self.mach.now_ns()), look_ns));
            return;
        }
        let work_ns = look_ns.saturating_add(first_ns.unwrap_or(0));
        let missed = self.ticks.advance(self.mach.now_ns(), work_ns);
        self.totals.missed_ticks = self.totals.missed_ticks.saturating_add(missed);
        self.realtime.after_tick(self.mach, work_ns);
    }

    fn parts(&mut self) -> (Tick<'_, M>, &mut BTreeMap<i32, RecordedProcess<M>>) {
        let tick = Tick {
            mach: self.mach,
            out: &mut self.out,
            stack: &mut self.stack,
            system_calls: self.system_calls.as_mut(),
            totals: &mut self.totals,
            unreached: &mut self.unreached,
            interval_ns: self.ticks.interval_ns(),
            is_second: false,
            found: &mut self.found,
        };
        (tick, &mut self.processes)
    }

    fn exec(&mut self, pid: i32) {
        let Some(process) = self.processes.get(&pid) else {
            return;
        };
        let task = self.mach.task(pid);
        let name = self.mach.process_name(pid).unwrap_or_default();
        // It may have ended since, and its end will be among the next events.
        if !self.is_still(pid, process.started_us) {
            return;
        }
        let task = match task {
            Ok(task) => Some(task),
            // The task has died since: another exec is reported later.
            Err(MachError::Gone) => return,
            Err(MachError::Code(_)) => None,
        };
        // The exec came before the task was asked for the last time.
        if task.is_some() && process.has_task(task.as_ref()) {
            return;
        }
        let (mut tick, processes) = self.parts();
        if let Some(process) = processes.get_mut(&pid) {
            process.exec(name, task, &mut tick);
        }
    }

    /// Adds the programs that have announced themselves. Each waits until its message is dropped.
    fn admit_announced(&mut self) {
        for message in self.mach.messages() {
            match hello::open(self.mach, &message) {
                Ok(hello) if self.find_or_add(hello.pid) => {
                    // An error means that it has ended meanwhile, or counts as not reached.
                    let kept = self.mach.keep_task(hello.pid, &message.rights);
                    if let Ok(task) = kept.and_then(|()| self.mach.task(hello.pid))
                        && self.take_task(hello.pid, task)
                    {
                        self.totals.late_programs += u64::from(hello::was_late(hello, self.mach.now_ns()));
                    }
                }
                Err(HelloRefusal::Ended) => {}
                Ok(_) | Err(_) => self.totals.refused_messages = self.totals.refused_messages.saturating_add(1),
            }
        }
    }

    /// Finds out whether a process is recorded. If its start was not reported yet, it is added now.
    fn find_or_add(&mut self, pid: i32) -> bool {
        let mut ancestor = pid;
        for _ in 0..MOST_STEPS {
            if self.processes.contains_key(&ancestor) {
                if ancestor != pid {
                    self.add_children(ancestor, CpuTimeSince::Start);
                }
                break;
            }
            match self.mach.identity(ancestor) {
                Some(identity) if identity.parent > 1 => ancestor = identity.parent,
                _ => break,
            }
        }
        let started_us = self.processes.get(&pid).map(|process| process.started_us);
        started_us.is_some_and(|started_us| self.is_still(pid, started_us))
    }

    /// A recorded process has sent its task. Returns true if the task was not known.
    fn take_task(&mut self, pid: i32, task: M::Task) -> bool {
        let name = self.mach.process_name(pid).unwrap_or_default();
        let (mut tick, processes) = self.parts();
        let Some(process) = processes.get_mut(&pid).filter(|process| !process.has_task(Some(&task))) else {
            return false;
        };
        if !process.is_refused() {
            // It has called exec, which is reported later.
            process.exec(name.clone(), None, &mut tick);
        }
        process.take_task(name, task, &mut tick);
        true
    }

    /// True if the id still belongs to the process that started then.
    fn is_still(&self, pid: i32, started_us: u64) -> bool {
        self.mach
            .identity(pid)
            .is_some_and(|identity| identity.started_us == started_us)
    }

    fn remove(&mut self, pid: i32) {
        let Some(mut process) = self.processes.remove(&pid) else {
            return;
        };
        let (mut tick, _) = self.parts();
        let cpu_ns = process.end(&mut tick);
        self.totals.cpu_ns = self.totals.cpu_ns.saturating_add(cpu_ns);
    }

    /// Adds all processes below this one that are not known.
    fn add_children(&mut self, parent: i32, since: CpuTimeSince) {
        let mut parents = vec![parent];
        while let Some(parent) = parents.pop() {
            let Some(started_us) = self.processes.get(&parent).map(|parent| parent.started_us) else {
                continue;
            };
            for pid in self.mach.children(parent) {
                // A child may have started others before it was watched.
                if !self.processes.contains_key(&pid) && self.add_child(pid, parent, started_us, since) {
                    parents.push(pid);
                }
            }
        }
    }

    /// Adds a process, unless it has ended, or can't be recorded.
    fn add_child(&mut self, pid: i32, parent: i32, parent_started_us: u64, since: CpuTimeSince) -> bool {
        let task = self.mach.watch(pid).and_then(|()| self.mach.task(pid));
        // Both may have ended since the parent was asked for its children, and unrelated processes may have their ids.
        let identity = self.mach.identity(pid).filter(|identity| identity.parent == parent);
        let Some(identity) = identity.filter(|_| self.is_still(parent, parent_started_us)) else {
            return false;
        };
        let task = match task {
            Ok(task) => Some(task),
            Err(MachError::Gone) => return false,
            Err(MachError::Code(_)) => None,
        };
        self.insert(pid, Some(parent), identity, since, task);
        true
    }

    fn insert(
        &mut self,
        pid: i32,
        parent: Option<i32>,
        identity: ProcessIdentity,
        since: CpuTimeSince,
        task: Option<M::Task>,
    ) {
        let time = self.mach.now_ns();
        let name = self.mach.process_name(pid).unwrap_or_default();
        let mut process = RecordedProcess::new(self.mach, pid, identity.started_us, name, task, since);
        let parent_process = parent.and_then(|parent| self.processes.get(&parent));
        // A process that is not a fork has called exec before it was watched. If a fork is not recognised, its code is
        // read again: nothing worse.
        let is_fork = parent_process.is_some_and(|parent| process.is_fork_of(parent, self.mach));
        self.out.process(
            time,
            pid,
            ProcessEvent::Start {
                parent: parent.map(Pid),
            },
        );
        if !is_fork && !process.name.is_empty() {
            self.out.send(Message::Exec {
                time: Timestamp(time),
                pid: Pid(pid),
                name: process.name.clone(),
            });
        }
        self.processes.insert(pid, process);
    }
}
