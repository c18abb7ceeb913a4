//! CPUs, a scheduler, processes and threads: the truth.

use std::collections::VecDeque;
use std::sync::Arc;

use recorder_macos::kernel::KernelEvent;

pub(crate) use super::behaviour::{Behaviour, Chance, Planned};
use super::images::Images;
use super::port_messages::Mail;
use super::program::Program;
pub(crate) use super::tasks::{Process, STACK, State, Thread, WAITS};

/// Where a thread spends its time. [`WAIT`] takes no CPU time.
pub(crate) const FUNCTIONS: usize = 6;
/// A system call: the thread's CPU time is brought up to date at its begin.
pub(crate) const SYSCALL: usize = 4;
/// The function in which a thread waits.
pub(crate) const WAIT: usize = 5;

/// A time slice, ns.
const QUANTUM: u64 = 10_000_000;

/// The machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) now: u64,
    pub(crate) chance: Chance,
    pub(crate) threads: Vec<Thread>,
    pub(crate) processes: Vec<Process>,
    pub(crate) dead_tasks: Vec<bool>,
    pub(crate) news: Vec<KernelEvent>,
    /// Messages to the recorder's port, once that is open.
    pub(super) mailbox: Option<Vec<Mail>>,
    /// What happens at which times.
    pub(super) planned: Vec<(u64, Planned)>,
    cpus: Vec<Option<usize>>,
    /// The CPU that the recorder is on, while it is on one.
    recorder: Option<usize>,
    queue: VecDeque<usize>,
    next_id: u64,
    next_pid: i32,
    /// Images that were loaded so far, in all processes.
    pub(crate) images: u64,
    /// The last processes of a time are many: there is an end to what a run may start.
    most: usize,
}

impl Machine {
    pub(crate) fn new(seed: u64, cpus: usize) -> Machine {
        Machine {
            now: 1_000_000_000,
            chance: Chance::new(seed),
            threads: Vec::new(),
            processes: Vec::new(),
            dead_tasks: Vec::new(),
            news: Vec::new(),
            mailbox: None,
            planned: Vec::new(),
            cpus: vec![None; cpus],
            recorder: None,
            queue: VecDeque::new(),
            next_id: 1 << 33,
            next_pid: 100,
            images: 0,
            most: 40,
        }
    }

    /// Starts a process with these many threads. Returns its index.
    pub(crate) fn start(&mut self, parent: Option<usize>, threads: usize, behaviour: Behaviour) -> usize {
        let process = self.processes.len();
        let task = self.new_task();
        // The id of a process that has ended may be used again at once.
        let free = self
            .processes
            .iter()
            .rev()
            .map(|other| other.pid)
            .find(|pid| self.alive(*pid).is_none() && !self.is_unreaped(*pid));
        let pid = match free {
            Some(pid) if self.chance.below(2) == 0 => pid,
            _ => {
                self.next_pid += 1;
                self.next_pid
            }
        };
        let name = parent.map_or_else(|| "program".to_owned(), |parent| self.processes[parent].name.clone());
        self.processes.push(Process {
            pid,
            parent,
            task,
            is_alive: true,
            is_watched: false,
            is_stranger: parent.map_or(process > 0, |parent| self.processes[parent].is_stranger),
            name,
            switches: 0,
            images: parent.map_or_else(Images::default, |parent| self.processes[parent].images.clone()),
            open_files: Vec::new(),
            is_barred: false,
            is_suspended: false,
            has_library: parent.is_some_and(|parent| self.processes[parent].has_library),
            ignores_term: false,
            end: None,
            interrupts: 0,
            behaviour,
        });
        if parent.is_none() {
            self.load(process);
        }
        for _ in 0..threads {
            self.spawn(process);
        }
        process
    }

    fn new_task(&mut self) -> usize {
        self.dead_tasks.push(false);
        self.dead_tasks.len() - 1
    }

    /// Loads an image.
    pub(crate) fn load(&mut self, process: usize) {
        self.images += 1;
        let images = &mut self.processes[process].images;
        images.load(self.images, self.now, &mut self.chance);
    }

    /// Unloads an image that no thread executes, if there is one.
    pub(crate) fn unload(&mut self, process: usize) {
        let used: Vec<u64> = self.living(process).map(|serial| self.threads[serial].image).collect();
        let now = self.now;
        self.processes[process].images.unload(&used, now);
    }

    /// A process that was started suspended runs.
    pub(crate) fn resume_process(&mut self, process: usize) {
        if std::mem::take(&mut self.processes[process].is_suspended) {
            let threads: Vec<usize> = self.living(process).collect();
            for serial in threads {
                self.threads[serial].suspend_count -= 1;
                self.enqueue(serial, false);
            }
            self.load_library(process);
        }
    }

    /// The living process with this id.
    pub(crate) fn alive(&self, pid: i32) -> Option<usize> {
        self.processes
            .iter()
            .rposition(|process| process.is_alive && process.pid == pid)
    }

    /// The id of a process that has ended is not free before its parent, the recorder, has asked for its end.
    fn is_unreaped(&self, pid: i32) -> bool {
        self.processes
            .iter()
            .any(|process| process.pid == pid && process.end.is_some())
    }

    /// The real program of a task, and the moment that its thread shows.
    pub(super) fn program(&self, task: usize) -> Option<(Arc<Program>, usize)> {
        let process = self.processes.iter().find(|process| process.task == task)?;
        let thread = self.threads.iter().find(|thread| thread.task == task)?;
        Some((process.images.program.clone()?, thread.moment))
    }

    /// Makes a process execute a real program from now on.
    pub(crate) fn set_program(&mut self, process: usize, program: Program) {
        self.processes[process].images.program = Some(Arc::new(program));
        let threads: Vec<usize> = self.living(process).collect();
        threads.into_iter().for_each(|serial| self.next_function(serial));
    }

    /// The living threads of a process.
    pub(crate) fn living(&self, process: usize) -> impl Iterator<Item = usize> + '_ {
        let of_process =
            move |(_, thread): &(usize, &Thread)| thread.process == process && thread.state != State::Ended;
        self.threads
            .iter()
            .enumerate()
            .filter(of_process)
            .map(|(serial, _)| serial)
    }

    pub(crate) fn spawn(&mut self, process: usize) {
        let serial = self.threads.len();
        self.next_id += 1 + self.chance.below(3);
        self.threads.push(Thread {
            process,
            task: self.processes[process].task,
            id: self.next_id,
            state: State::Queued,
            suspend_count: 0,
            suspends_itself: false,
            cpu_ns: 0,
            visible_ns: 0,
            function: 0,
            wait: 0,
            waited_ns: [0; WAITS.len()],
            truth: [0; FUNCTIONS],
            moment: 0,
            moments_ns: Vec::new(),
            sp: Thread::stack_end(serial) - 256,
            hole: None,
            last_reported_runnable: false,
            is_busy: false,
            image: 0,
            left_ns: 0,
            quantum_ns: QUANTUM,
        });
        self.next_function(serial);
        self.queue.push_back(serial);
    }

    pub(crate) fn fork(&mut self, process: usize) {
        if self.processes.len() < self.most {
            let behaviour = self.processes[process].behaviour;
            let child = self.start(Some(process), 1, behaviour);
            self.announce(child);
            if self.processes[process].is_watched {
                self.news.push(KernelEvent::Forked(self.processes[process].pid));
            }
            if self.chance.below(2) == 0 {
                self.exec(child);
            }
        }
    }

    pub(crate) fn exec(&mut self, process: usize) {
        let threads: Vec<usize> = self.living(process).collect();
        for serial in threads {
            self.leave(serial, State::Ended);
        }
        self.dead_tasks[self.processes[process].task] = true;
        self.processes[process].task = self.new_task();
        self.processes[process].name = format!("program-{}", self.chance.below(3));
        self.processes[process].images = Images::default();
        self.load(process);
        self.spawn(process);
        self.load_library(process);
        if self.processes[process].is_watched {
            self.news.push(KernelEvent::Exec(self.processes[process].pid));
        }
    }

    pub(crate) fn kill_thread(&mut self, serial: usize) {
        let process = self.threads[serial].process;
        self.leave(serial, State::Ended);
        if self.processes[process].is_alive && self.living(process).next().is_none() {
            self.kill_process(process);
        }
    }

    pub(crate) fn kill_process(&mut self, process: usize) {
        if !self.processes[process].is_alive {
            return;
        }
        let threads: Vec<usize> = self.living(process).collect();
        for serial in threads {
            self.leave(serial, State::Ended);
        }
        let dead = &mut self.processes[process];
        dead.is_alive = false;
        self.dead_tasks[dead.task] = true;
        let (pid, behaviour) = (dead.pid, dead.behaviour);
        if dead.is_watched {
            self.news.push(KernelEvent::Ended(pid));
        }
        for child in &mut self.processes {
            child.parent = child.parent.filter(|parent| *parent != process);
        }
        // Somebody else's process gets the id.
        if process > 0 && self.processes.len() < self.most && self.chance.below(4) == 0 {
            let stranger = self.start(None, 1, behaviour);
            if self.alive(pid).is_none() {
                self.processes[stranger].pid = pid;
            }
        }
    }

    /// The CPU time of a process, by what others see.
    pub(crate) fn visible_ns(&self, process: usize) -> u64 {
        let of_process = self.threads.iter().filter(|thread| thread.process == process);
        of_process.map(|thread| thread.visible_ns).sum()
    }

    /// Takes a thread off its CPU or out of the queue.
    pub(crate) fn leave(&mut self, serial: usize, state: State) {
        let thread = &mut self.threads[serial];
        if let State::Running(cpu) = thread.state {
            self.cpus[cpu] = None;
            self.processes[thread.process].switches += 1;
        }
        thread.visible_ns = thread.cpu_ns;
        thread.state = state;
        self.queue.retain(|queued| *queued != serial);
    }

    pub(crate) fn enqueue(&mut self, serial: usize, is_first: bool) {
        self.leave(serial, State::Queued);
        if is_first {
            self.queue.push_front(serial);
        } else {
            self.queue.push_back(serial);
        }
    }

    /// The recorder leaves its CPU.
    pub(crate) fn recorder_sleeps(&mut self) {
        self.recorder = None;
        self.dispatch();
    }

    /// The recorder gets a CPU: an idle one, or that of a thread.
    pub(crate) fn recorder_wakes(&mut self) {
        let idle = self.cpus.iter().position(Option::is_none);
        let cpu = idle.unwrap_or_else(|| self.chance.below(self.cpus.len() as u64) as usize);
        if let Some(serial) = self.cpus[cpu] {
            self.enqueue(serial, true);
        }
        self.recorder = Some(cpu);
        self.dispatch();
    }

    /// Time goes on, up to this time, or to the first news.
    pub(crate) fn advance(&mut self, until: u64, stop_at_news: bool) {
        self.dispatch();
        while self.now < until && (!stop_at_news || self.news.is_empty()) {
            if let Some(due) = self.planned.iter().position(|(at, _)| *at <= self.now) {
                let (_, Planned(what)) = self.planned.swap_remove(due);
                what(self);
                continue;
            }
            let mut next = self
                .planned
                .iter()
                .map(|(at, _)| *at)
                .chain([until])
                .min()
                .unwrap_or(until);
            for thread in &self.threads {
                match thread.state {
                    State::Running(_) => next = next.min(self.now + thread.left_ns.min(thread.quantum_ns)),
                    State::WaitsUntil(time) => next = next.min(time.max(self.now)),
                    _ => {}
                }
            }
            let passed = next - self.now;
            self.now = next;
            for serial in 0..self.threads.len() {
                let thread = &mut self.threads[serial];
                if let State::WaitsUntil(_) = thread.state {
                    thread.waited_ns[thread.wait] += passed;
                }
                match thread.state {
                    State::Running(_) => {
                        thread.use_cpu(passed);
                        thread.left_ns -= passed;
                        thread.quantum_ns -= passed;
                        if thread.left_ns == 0 {
                            self.next_step(serial);
                        } else if thread.quantum_ns == 0 {
                            self.enqueue(serial, false);
                        }
                    }
                    State::WaitsUntil(time) if time <= next => {
                        if thread.suspend_count > 0 {
                            thread.state = State::Stopped;
                        } else {
                            let is_first = self.chance.below(2) == 0;
                            self.enqueue(serial, is_first);
                        }
                    }
                    _ => {}
                }
            }
            self.dispatch();
        }
    }

    /// Gives CPUs to queued threads.
    fn dispatch(&mut self) {
        for cpu in 0..self.cpus.len() {
            while self.cpus[cpu].is_none() && self.recorder != Some(cpu) {
                let Some(serial) = self.queue.pop_front() else {
                    return;
                };
                let thread = &mut self.threads[serial];
                self.processes[thread.process].switches += 1;
                if thread.suspend_count > 0 {
                    // It gets as far as to where the kernel sees that it is suspended.
                    thread.use_cpu(1_500);
                    thread.visible_ns = thread.cpu_ns;
                    thread.state = State::Stopped;
                    continue;
                }
                thread.quantum_ns = QUANTUM;
                if thread.left_ns == 0 {
                    // It was in a system call that waited, and returns from it.
                    self.next_function(serial);
                }
                self.threads[serial].state = State::Running(cpu);
                self.cpus[cpu] = Some(serial);
            }
        }
    }

    /// The thread has left a function.
    fn next_step(&mut self, serial: usize) {
        let process = self.threads[serial].process;
        let behaviour = self.processes[process].behaviour;
        if self.chance.below(1000) < behaviour.changes {
            let is_room = self.threads.len() < 4 * self.most;
            match self.chance.below(12) {
                8 | 9 => self.load(process),
                10 | 11 => self.unload(process),
                0 if is_room => return self.exec(process),
                1 | 2 => return self.kill_thread(serial),
                3 | 4 => self.fork(process),
                _ if is_room => self.spawn(process),
                _ => {}
            }
        }
        let dice = self.chance.below(100);
        if dice < behaviour.waits && !self.threads[serial].is_busy {
            let until = self.now + self.chance.between(behaviour.wait_ns);
            self.threads[serial].function = WAIT;
            self.threads[serial].wait = self.chance.below(WAITS.len() as u64) as usize;
            self.leave(serial, State::WaitsUntil(until));
        } else if dice < behaviour.waits + behaviour.calls {
            let thread = &mut self.threads[serial];
            thread.visible_ns = thread.cpu_ns;
            thread.function = SYSCALL;
            thread.left_ns = 1_000 + self.chance.below(19_000);
        } else {
            self.next_function(serial);
        }
    }

    fn next_function(&mut self, serial: usize) {
        let behaviour = self.processes[self.threads[serial].process].behaviour;
        // Functions differ in their shares, and threads in their functions.
        let weights = [1 + serial as u64 % 5, 3, 5, 7];
        let mut dice = self.chance.below(weights.iter().sum());
        let function = weights.iter().position(|weight| {
            let is_it = dice < *weight;
            dice = dice.saturating_sub(*weight);
            is_it
        });
        let image = self.processes[self.threads[serial].process]
            .images
            .any(&mut self.chance);
        let thread = &mut self.threads[serial];
        if let Some(program) = &self.processes[thread.process].images.program {
            thread.moments_ns.resize(program.moments.len(), 0);
            thread.moment = self.chance.below(program.moments.len() as u64) as usize;
        }
        thread.image = image;
        thread.function = function.unwrap_or(0);
        thread.left_ns = self.chance.between(behaviour.run_ns);
        // Most stacks are small: large ones cost the tests time.
        let most_words = if self.chance.below(8) == 0 { 8000 } else { 40 };
        thread.sp = Thread::stack_end(serial) - 64 - 8 * self.chance.below(most_words);
        thread.hole = None;
        if self.chance.below(100) < behaviour.holes {
            thread.unmap(1 + self.chance.below(4));
        }
    }
}
