//! The calls of the recorder. Each takes time, in which the threads go on.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use recorder_macos::kernel::{
    CpuBudget, KernelEvent, Mach, MachError, PortMessage, ProcessIdentity, Signal, TaskCounts, ThreadState, WaitMode,
};
use recorder_macos::processes::host::ProcessEnd;
use recording::stack::Registers;

use super::fault::{Fault, Faults};
use super::machine::{Machine, Planned, STACK, State, Thread, WAIT, WAITS};
use super::port_messages::MessageRights;
use super::program::Program;

/// Stacks are below.
const LOWEST_IMAGE: u64 = 0x6000_0000_0000;

/// A right is a name with a count, as in XNU: the same port has the same name, and a name that nobody holds is used
/// again.
#[derive(Debug)]
struct Name {
    port: Port,
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Task(usize),
    Thread(usize),
    /// The right to a task, or to something else, that a program has sent.
    Control(Option<usize>),
    /// The right to send one answer.
    Answer,
}

/// What the kernel knows of the recorder, and the machine.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) machine: Machine,
    faults: Faults,
    names: Vec<Option<Name>>,
    recorder_cpu_ns: u64,
    /// Tasks of programs that have announced themselves, by process.
    pub(super) kept: BTreeMap<i32, usize>,
    pub(super) hears_signals: bool,
    /// With whose rights the recorder runs.
    pub(crate) is_root: bool,
    /// Where the recorder keeps its library.
    pub(super) folder: Option<tempfile::TempDir>,
    /// Whose processes all are.
    pub(crate) user: u32,
    /// The recorder gets no timer.
    pub(crate) refuses_timers: bool,
    /// How often two rights were compared.
    pub(crate) comparisons: u64,
    /// Programs that the recorder starts give no right to their tasks.
    pub(crate) bars_started: bool,
    /// How much later than usual the recorder wakes up the next time.
    late_ns: u64,
    pub(crate) is_realtime: bool,
    pub(crate) calls: u64,
    pub(crate) suspends: u64,
    /// Threads that were suspended although the last look at them showed that they wait.
    pub(crate) needless_suspends: u64,
    /// The price of a call, ns.
    pub(crate) price_ns: u64,
}

/// The simulated kernel.
#[derive(Clone, Debug)]
pub(crate) struct Xnu(Arc<Mutex<Kernel>>);

/// A right, given back when dropped.
pub(crate) struct Right {
    kernel: Xnu,
    name: usize,
}

impl PartialEq for Right {
    fn eq(&self, other: &Right) -> bool {
        self.kernel.lock().comparisons += 1;
        self.name == other.name
    }
}

impl Eq for Right {}

impl Hash for Right {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        let mut kernel = self.kernel.lock();
        kernel.give_back(self.name);
    }
}

impl Kernel {
    pub(super) fn right(&mut self, port: Port) -> usize {
        let known = self
            .names
            .iter_mut()
            .position(|name| name.as_ref().is_some_and(|name| name.port == port));
        let name = known
            .or_else(|| self.names.iter().position(Option::is_none))
            .unwrap_or_else(|| {
                self.names.push(None);
                self.names.len() - 1
            });
        self.names[name].get_or_insert(Name { port, count: 0 }).count += 1;
        name
    }

    pub(super) fn give_back(&mut self, name: usize) {
        let entry = &mut self.names[name];
        let held = entry.as_mut().expect("a right is given back once");
        held.count -= 1;
        if held.count == 0 {
            *entry = None;
        }
    }

    pub(super) fn port(&self, name: usize) -> Port {
        self.names[name].as_ref().expect("a right is held").port
    }

    /// Rights that are still held.
    pub(crate) fn rights(&self) -> usize {
        self.names.iter().flatten().count()
    }

    pub(crate) fn hears_signals(&self) -> bool {
        self.hears_signals
    }

    /// Something that happens to the machine at a time.
    pub(crate) fn plan(&mut self, at: u64, what: impl FnOnce(&mut Machine) + Send + 'static) {
        self.machine.planned.push((at, Planned(Box::new(what))));
    }

    fn spend(&mut self, ns: u64) {
        self.recorder_cpu_ns += ns;
        let until = self.machine.now + ns;
        self.machine.advance(until, false);
    }

    fn sleep(&mut self, until_ns: u64, stop_at_news: bool) {
        self.machine.recorder_sleeps();
        self.machine.advance(until_ns, stop_at_news);
        let late_ns = if self.is_realtime { 20_000 } else { 500_000 };
        let late_ns = self.machine.chance.below(late_ns) + std::mem::take(&mut self.late_ns);
        let until = self.machine.now + late_ns;
        self.machine.advance(until, false);
        self.machine.recorder_wakes();
    }

    /// A call about a process, a thread or nothing known. Which one it is follows from who calls this.
    #[track_caller]
    pub(super) fn call(&mut self, process: Option<usize>, thread: Option<usize>) -> Result<(), MachError> {
        self.calls += 1;
        let price = self.price_ns / 2 + self.machine.chance.below(self.price_ns.max(1));
        self.spend(price);
        let Some(fault) = self.faults.next(Location::caller(), &mut self.machine.chance) else {
            return Ok(());
        };
        let machine = &mut self.machine;
        let any = machine.chance.below(machine.threads.len() as u64) as usize;
        let thread = thread.unwrap_or(any);
        let process = process.unwrap_or(machine.threads[thread].process);
        let is_alive = machine.processes[process].is_alive;
        match fault {
            Fault::KillThread => machine.kill_thread(thread),
            Fault::KillProcess => machine.kill_process(process),
            Fault::Exec if is_alive => machine.exec(process),
            Fault::Spawn if is_alive => machine.spawn(process),
            Fault::Fork if is_alive => machine.fork(process),
            Fault::Load if is_alive => machine.load(process),
            Fault::Unload if is_alive => machine.unload(process),
            Fault::Late(us) => self.late_ns += u64::from(us) * 1000,
            Fault::Preempt(us) => {
                let until = machine.now + u64::from(us) * 1000;
                machine.advance(until, false);
            }
            Fault::Unmap => machine.threads[thread].unmap(1),
            Fault::Fail => return Err(MachError::Code(5)),
            Fault::Exec | Fault::Spawn | Fault::Fork | Fault::Load | Fault::Unload => {}
        }
        Ok(())
    }

    #[track_caller]
    fn thread_call(&mut self, name: usize) -> Result<usize, MachError> {
        let Port::Thread(serial) = self.port(name) else {
            return Err(MachError::Code(4));
        };
        let process = self.machine.threads[serial].process;
        self.call(Some(process), Some(serial))?;
        match self.machine.threads[serial].state {
            State::Ended => Err(MachError::Gone),
            _ => Ok(serial),
        }
    }

    #[track_caller]
    fn task_call(&mut self, name: usize) -> Result<usize, MachError> {
        let Port::Task(task) = self.port(name) else {
            return Err(MachError::Code(4));
        };
        let process = self.machine.processes.iter().position(|process| process.task == task);
        self.call(process, None)?;
        if self.machine.dead_tasks[task] {
            Err(MachError::Gone)
        } else {
            Ok(task)
        }
    }

    /// A call about a process by its id: about whoever has it now.
    #[track_caller]
    fn pid_call(&mut self, pid: i32) -> Result<usize, MachError> {
        let process = self.machine.alive(pid);
        self.call(process, None)?;
        self.machine.alive(pid).ok_or(MachError::Gone)
    }
}

impl Xnu {
    pub(crate) fn new(machine: Machine, faults: Faults) -> Xnu {
        Xnu(Arc::new(Mutex::new(Kernel {
            machine,
            faults,
            names: Vec::new(),
            recorder_cpu_ns: 0,
            kept: BTreeMap::new(),
            is_root: true,
            folder: None,
            hears_signals: false,
            user: 501,
            refuses_timers: false,
            comparisons: 0,
            bars_started: false,
            late_ns: 0,
            is_realtime: false,
            calls: 0,
            suspends: 0,
            needless_suspends: 0,
            price_ns: 1_000,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Kernel> {
        self.0.lock().expect("no panic")
    }

    fn hold(&self, kernel: &mut Kernel, port: Port) -> Right {
        Right {
            kernel: self.clone(),
            name: kernel.right(port),
        }
    }
}

impl Mach for Xnu {
    type Task = Right;
    type Thread = Right;
    type MessageRights = MessageRights;

    fn now_ns(&self) -> u64 {
        self.lock().machine.now
    }

    fn own_cpu_ns(&self) -> u64 {
        self.lock().recorder_cpu_ns
    }

    fn set_realtime(&self, budget: Option<CpuBudget>) -> bool {
        self.lock().is_realtime = budget.is_some();
        budget.is_some()
    }

    fn wait_for_events(&self, until_ns: u64) -> Vec<KernelEvent> {
        let mut kernel = self.lock();
        let kernel = &mut *kernel;
        if kernel.refuses_timers {
            let _ = kernel.call(None, None);
            return std::mem::take(&mut kernel.machine.news);
        }
        kernel.sleep(until_ns, true);
        // A fault may come before any news is read. It can't fail.
        let _ = kernel.call(None, None);
        let mut news = std::mem::take(&mut kernel.machine.news);
        // In any order.
        for index in (1..news.len()).rev() {
            news.swap(index, kernel.machine.chance.below(index as u64 + 1) as usize);
        }
        news
    }

    fn pause(&self, until_ns: u64) {
        self.lock().sleep(until_ns, false);
    }

    fn watch(&self, pid: i32) -> Result<(), MachError> {
        let mut kernel = self.lock();
        let process = kernel.pid_call(pid)?;
        kernel.machine.processes[process].is_watched = true;
        Ok(())
    }

    fn task(&self, pid: i32) -> Result<Right, MachError> {
        let mut kernel = self.lock();
        let process = kernel.pid_call(pid)?;
        if kernel.machine.processes[process].is_barred {
            return Err(MachError::Code(5));
        }
        let task = match kernel.machine.mailbox.is_some() {
            true => kernel.kept_task(process)?,
            false => kernel.machine.processes[process].task,
        };
        Ok(self.hold(&mut kernel, Port::Task(task)))
    }

    fn listens(&self) -> bool {
        self.lock().machine.mailbox.is_some()
    }

    fn user(&self) -> u32 {
        501
    }

    fn messages(&self) -> Vec<PortMessage<MessageRights>> {
        self.take_letters()
    }

    fn task_pid(&self, rights: &MessageRights) -> Option<i32> {
        self.pid_of(rights)
    }

    fn keep_task(&self, pid: i32, rights: &MessageRights) -> Result<(), MachError> {
        self.keep_task(pid, rights)
    }

    fn children(&self, pid: i32) -> Vec<i32> {
        let mut kernel = self.lock();
        let Ok(parent) = kernel.pid_call(pid) else {
            return Vec::new();
        };
        let is_child = |child: &&super::machine::Process| child.is_alive && child.parent == Some(parent);
        kernel
            .machine
            .processes
            .iter()
            .filter(is_child)
            .map(|child| child.pid)
            .collect()
    }

    fn identity(&self, pid: i32) -> Option<ProcessIdentity> {
        let mut kernel = self.lock();
        let process = kernel.pid_call(pid).ok()?;
        let parent = kernel.machine.processes[process].parent;
        Some(ProcessIdentity {
            started_us: process as u64,
            parent: parent.map_or(1, |parent| kernel.machine.processes[parent].pid),
            user: kernel.user,
        })
    }

    fn process_name(&self, pid: i32) -> Option<String> {
        let mut kernel = self.lock();
        let process = kernel.pid_call(pid).ok()?;
        Some(kernel.machine.processes[process].name.clone())
    }

    fn task_counts(&self, pid: i32) -> Option<TaskCounts> {
        let mut kernel = self.lock();
        let process = kernel.pid_call(pid).ok()?;
        let machine = &kernel.machine;
        let is_runnable = |serial: &usize| matches!(machine.threads[*serial].state, State::Running(_) | State::Queued);
        Some(TaskCounts {
            cpu_ns: machine.visible_ns(process),
            switches: machine.processes[process].switches,
            threads: machine.living(process).count() as u32,
            runnable: machine.living(process).filter(is_runnable).count() as u32,
            resident_bytes: 4096 * machine.living(process).count() as u64,
        })
    }

    fn program(&self, pid: i32) -> Option<PathBuf> {
        let mut kernel = self.lock();
        let process = kernel.pid_call(pid).ok()?;
        Some(Path::new("/nowhere").join(&kernel.machine.processes[process].name))
    }

    fn send(&self, pid: i32, signal: Signal) {
        let mut kernel = self.lock();
        let Ok(process) = kernel.pid_call(pid) else { return };
        let machine = &mut kernel.machine;
        let end = match signal {
            Signal::Continue => return machine.resume_process(process),
            Signal::Interrupt => {
                machine.processes[process].interrupts += 1;
                return;
            }
            Signal::Terminate if machine.processes[process].ignores_term => return,
            Signal::Terminate => ProcessEnd::Signaled(15),
            Signal::Kill => ProcessEnd::Signaled(9),
        };
        let process = &mut machine.processes[process];
        process.end = process.end.map(|_| end);
        let pid = process.pid;
        if let Some(process) = machine.alive(pid) {
            machine.kill_process(process);
        }
    }

    fn image_list(&self, task: &Right) -> Result<u64, MachError> {
        let mut kernel = self.lock();
        kernel.task_call(task.name)?;
        Ok(super::images::LIST)
    }

    fn threads(&self, task: &Right) -> Result<Vec<Right>, MachError> {
        let mut kernel = self.lock();
        let task = kernel.task_call(task.name)?;
        let is_in_task = |thread: &Thread| thread.task == task && thread.state != State::Ended;
        let serials = 0..kernel.machine.threads.len();
        let serials: Vec<usize> = serials
            .filter(|serial| is_in_task(&kernel.machine.threads[*serial]))
            .collect();
        Ok(serials
            .into_iter()
            .map(|serial| self.hold(&mut kernel, Port::Thread(serial)))
            .collect())
    }

    fn thread_id(&self, thread: &Right) -> Result<u64, MachError> {
        let mut kernel = self.lock();
        let serial = kernel.thread_call(thread.name)?;
        Ok(kernel.machine.threads[serial].id)
    }

    fn thread_state(&self, thread: &Right) -> Result<ThreadState, MachError> {
        let mut kernel = self.lock();
        let serial = kernel.thread_call(thread.name)?;
        let thread = &mut kernel.machine.threads[serial];
        let is_runnable = matches!(thread.state, State::Running(_) | State::Queued);
        thread.last_reported_runnable = is_runnable;
        let mut name = [0; 64];
        name[..3].copy_from_slice(&[b'T', b'0' + (serial / 10 % 10) as u8, b'0' + (serial % 10) as u8]);
        Ok(ThreadState {
            is_runnable,
            rest: match thread.state {
                State::WaitsUntil(_) => WAITS[thread.wait].1,
                _ => WaitMode::Stopped,
            },
            cpu_ns: thread.visible_ns / 1000 * 1000,
            name,
        })
    }

    fn suspend_count(&self, thread: &Right) -> Result<u32, MachError> {
        let mut kernel = self.lock();
        let serial = kernel.thread_call(thread.name)?;
        Ok(kernel.machine.threads[serial].suspend_count)
    }

    fn suspend(&self, thread: &Right) -> Result<(), MachError> {
        let mut kernel = self.lock();
        let serial = kernel.thread_call(thread.name)?;
        kernel.suspends += 1;
        let thread = &mut kernel.machine.threads[serial];
        let is_needless = !thread.last_reported_runnable;
        thread.suspend_count += 1;
        if matches!(thread.state, State::Running(_)) {
            // The kernel takes the thread off its CPU: an interrupt, and some of the thread's time.
            thread.use_cpu(2_000);
            kernel.machine.leave(serial, State::Stopped);
        }
        kernel.needless_suspends += u64::from(is_needless);
        kernel.spend(2_000);
        Ok(())
    }

    fn resume(&self, thread: &Right) -> Result<(), MachError> {
        let mut kernel = self.lock();
        let serial = kernel.thread_call(thread.name)?;
        let thread = &mut kernel.machine.threads[serial];
        assert!(thread.suspend_count > 0, "resumed once more than suspended");
        thread.suspend_count -= 1;
        thread.suspend_count += u32::from(thread.suspends_itself);
        if thread.state == State::Stopped {
            let is_first = kernel.machine.chance.below(2) == 0;
            kernel.machine.enqueue(serial, is_first);
        }
        Ok(())
    }

    fn registers(&self, thread: &Right) -> Result<Registers, MachError> {
        let mut kernel = self.lock();
        let serial = kernel.thread_call(thread.name)?;
        let thread = &kernel.machine.threads[serial];
        let is_at_rest = thread.suspend_count > 0 || !thread.last_reported_runnable;
        assert!(is_at_rest, "registers of a running thread");
        let images = &kernel.machine.processes[thread.process].images;
        if let Some(program) = &images.program {
            return Ok(program.moments[thread.moment].registers);
        }
        let wait = if thread.function == WAIT { 0x10 * thread.wait } else { 0 };
        Ok(Registers::X86_64 {
            ip: wait as u64 + 0x1000 * thread.function as u64 + images.address(thread.image),
            sp: thread.sp,
            bp: 0,
        })
    }

    fn region(&self, task: &Right, address: u64) -> Option<Range<u64>> {
        let mut kernel = self.lock();
        let task = kernel.task_call(task.name).ok()?;
        if let Some((program, moment)) = kernel.machine.program(task) {
            let (start, bytes) = program.around(moment, address)?;
            return Some(start..start + bytes.len() as u64);
        }
        let serial = usize::try_from(address / 0x100_0000).ok()?;
        let end = Thread::stack_end(serial);
        // Of a stack with an unreadable page, too: regions are looked up once.
        (serial < kernel.machine.threads.len() && address >= end - STACK).then_some(end - STACK..end)
    }

    fn read(&self, task: &Right, address: u64, buffer: &mut [u8]) -> Result<(), MachError> {
        let mut kernel = self.lock();
        let task = kernel.task_call(task.name)?;
        kernel.spend(buffer.len() as u64 / 64);
        if let Some((program, moment)) = kernel.machine.program(task).filter(|_| !Program::is_list(address)) {
            let (start, bytes) = program.around(moment, address).ok_or(MachError::Code(1))?;
            let rest = &bytes[(address - start) as usize..];
            buffer.copy_from_slice(rest.get(..buffer.len()).ok_or(MachError::Code(1))?);
            return Ok(());
        }
        if address >= LOWEST_IMAGE {
            let now = kernel.machine.now;
            let mut processes = kernel.machine.processes.iter();
            let process = processes.find(|process| process.task == task).ok_or(MachError::Gone)?;
            return process.images.read(address, buffer, now).ok_or(MachError::Code(1));
        }
        let serial = usize::try_from(address / 0x100_0000).map_err(|_| MachError::Code(1))?;
        let thread = kernel.machine.threads.get(serial).ok_or(MachError::Code(1))?;
        if address + buffer.len() as u64 > thread.sp + thread.readable(serial) {
            return Err(MachError::Code(1));
        }
        buffer.fill(0);
        if address == thread.sp && buffer.len() >= 24 {
            buffer[16..24].copy_from_slice(&thread.image.to_le_bytes());
            buffer[..8].copy_from_slice(&(serial as u64).to_le_bytes());
            buffer[8..16].copy_from_slice(&thread.readable(serial).to_le_bytes());
        }
        Ok(())
    }

    fn open_files(&self, pid: i32) -> Vec<PathBuf> {
        let mut kernel = self.lock();
        let process = kernel.pid_call(pid);
        process.map_or_else(
            |_| Vec::new(),
            |process| kernel.machine.processes[process].open_files.clone(),
        )
    }

    fn system_call(&self, address: u64) -> Option<String> {
        let is_wait = address & 0xf000 == 0x1000 * WAIT as u64 && address >= LOWEST_IMAGE;
        let (name, _) = WAITS.get((address & 0xfff) as usize / 0x10)?;
        name.filter(|_| is_wait).map(str::to_owned)
    }
}
