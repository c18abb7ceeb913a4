//! The ticks over all processes, and the news of them.

use std::collections::BTreeMap;

use recording::event::{Pid, ProcessEvent};
use recording::outbox::Outbox;
use recording::pace::Ticks;

use super::kernel::{Failure, Identity, Mach, News};
use super::process::{Process, Since, Tick};
use super::stack_copy::StackCopy;
use super::totals::Totals;
use super::urgency::Urgency;

/// Everything that is sampled.
pub(super) struct Sampler<M: Mach> {
    mach: M,
    out: Outbox,
    processes: BTreeMap<i32, Process<M>>,
    stack: StackCopy,
    totals: Totals,
    ticks: Ticks,
    urgency: Urgency,
}

impl<M: Mach> Sampler<M> {
    pub(super) fn new(mach: M, interval_ns: u64, out: Outbox) -> Sampler<M> {
        Sampler {
            ticks: Ticks::new(interval_ns, mach.now_ns()),
            urgency: Urgency::ask(&mach, interval_ns),
            mach,
            out,
            processes: BTreeMap::new(),
            stack: StackCopy::new(),
            totals: Totals::default(),
        }
    }

    /// Adds a process and all below it.
    pub(super) fn add(&mut self, pid: i32, since: Since) -> Result<(), Failure> {
        // Watched first: an exec after that is in the news, and one before has made the task that is asked for then.
        self.mach.watch(pid)?;
        let task = self.mach.task(pid)?;
        let identity = self.mach.identity(pid).ok_or(Failure::Gone)?;
        self.insert(pid, None, identity, since, task);
        self.add_children(pid, since);
        Ok(())
    }

    /// Samples until this time, or until all processes have ended. Returns whether they have.
    pub(super) fn run(&mut self, deadline_ns: Option<u64>) -> bool {
        while !self.processes.is_empty() {
            let tick_ns = self.ticks.next_ns();
            let wake_ns = deadline_ns.map_or(tick_ns, |end| end.min(tick_ns));
            let mut news = self.mach.sleep(wake_ns);
            // An id is free again after the end of its process, and a process that was started since may have it.
            news.sort_by_key(|news| match news {
                News::Ended(_) => 0,
                News::Exec(_) => 1,
                News::Forked(_) => 2,
            });
            news.into_iter().for_each(|news| self.hear(news));
            let now = self.mach.now_ns();
            if deadline_ns.is_some_and(|end| now >= end) {
                return false;
            }
            if now >= tick_ns {
                self.tick();
            }
        }
        true
    }

    /// Reports what was dropped. Returns the sums over all processes, alive and ended.
    pub(super) fn finish(mut self) -> Totals {
        for process in self.processes.values_mut() {
            process.last_look(&self.mach);
            let cpu_ns = process.settle_all(&self.mach, &mut self.totals);
            self.totals.cpu_ns = self.totals.cpu_ns.saturating_add(cpu_ns);
        }
        self.out.report_dropped(self.mach.now_ns());
        self.totals.gave_up_realtime = self.urgency.was_given_up();
        self.totals
    }

    fn tick(&mut self) {
        let before_ns = self.mach.own_cpu_ns();
        let (mut tick, processes) = self.parts();
        for process in processes.values_mut() {
            process.look(&mut tick);
        }
        let work_ns = self.mach.own_cpu_ns().saturating_sub(before_ns);
        let missed = self.ticks.advance(self.mach.now_ns(), work_ns);
        self.totals.missed_ticks = self.totals.missed_ticks.saturating_add(missed);
        self.urgency.after_tick(&self.mach, work_ns);
    }

    fn parts(&mut self) -> (Tick<'_, M>, &mut BTreeMap<i32, Process<M>>) {
        let tick = Tick {
            mach: &self.mach,
            out: &mut self.out,
            stack: &mut self.stack,
            totals: &mut self.totals,
            interval_ns: self.ticks.interval_ns(),
        };
        (tick, &mut self.processes)
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Forked(parent) => self.add_children(parent, Since::Start),
            News::Exec(pid) => self.exec(pid),
            News::Ended(pid) => self.remove(pid),
        }
    }

    fn exec(&mut self, pid: i32) {
        let Some(process) = self.processes.get(&pid) else {
            return;
        };
        let task = self.mach.task(pid).ok();
        let name = self.mach.process_name(pid).unwrap_or_default();
        // It may have ended since, and its end will be in the next news.
        if !self.is_still(pid, process.started_us) {
            return;
        }
        // The exec came before the task was asked for the last time.
        if task.is_some() && process.has_task(task.as_ref()) {
            return;
        }
        self.totals.unreached += u64::from(task.is_none());
        let (mut tick, processes) = self.parts();
        if let Some(process) = processes.get_mut(&pid) {
            process.exec(name, task, &mut tick);
        }
    }

    /// True if the id is still that of the process that started then.
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
    fn add_children(&mut self, parent: i32, since: Since) {
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
    fn add_child(&mut self, pid: i32, parent: i32, parent_started_us: u64, since: Since) -> bool {
        let task = self.mach.watch(pid).and_then(|()| self.mach.task(pid));
        // Both may have ended since the parent was asked for its children, and their ids may be those of processes of somebody else.
        let identity = self.mach.identity(pid).filter(|identity| identity.parent == parent);
        let Some(identity) = identity.filter(|_| self.is_still(parent, parent_started_us)) else {
            return false;
        };
        match task {
            Ok(task) => self.insert(pid, Some(parent), identity, since, task),
            Err(Failure::Gone) => return false,
            Err(Failure::Code(_)) => {
                self.totals.unreached += 1;
                return false;
            }
        }
        true
    }

    fn insert(&mut self, pid: i32, parent: Option<i32>, identity: Identity, since: Since, task: M::Task) {
        let time = self.mach.now_ns();
        let name = self.mach.process_name(pid).unwrap_or_default();
        let parent_name = parent
            .and_then(|parent| self.processes.get(&parent))
            .map(|parent| &parent.name);
        // A fork has its parent's name. With another one, it has called exec before it was watched.
        let has_exec = parent_name != Some(&name);
        self.out.process(
            time,
            pid,
            ProcessEvent::Start {
                parent: parent.map(Pid),
            },
        );
        if has_exec && !name.is_empty() {
            self.out.send(recording::outbox::Message::Exec {
                time: recording::clock::Timestamp(time),
                pid: Pid(pid),
                name: name.clone(),
            });
        }
        self.processes
            .insert(pid, Process::new(pid, identity.started_us, name, task, since));
    }
}
