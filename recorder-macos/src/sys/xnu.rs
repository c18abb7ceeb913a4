//! All calls together.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use recording::info;
use recording::program::ProgramImage;
use recording::stack::Registers;

use super::kqueue::EventQueue;
use super::port::Port;
use super::port_messages::MessageRights;
use super::signals::Signals;
use super::time::TimeBase;
use super::{machine, port_messages, priority, process, spawn, task, thread, time};
use crate::kernel::{
    CpuBudget, KernelEvent, Mach, MachError, PortMessage, ProcessIdentity, Signal, TaskCounts, ThreadState,
};
use crate::processes::host::{Host, ProcessEnd};

/// The kernel of this Mac. Clones share one queue of events.
#[derive(Clone, Debug)]
pub struct Xnu(Arc<XnuHandles>);

#[derive(Debug)]
struct XnuHandles {
    /// An error has errno.
    queue: OnceLock<Result<EventQueue, i32>>,
    signals: Mutex<Option<Signals>>,
    time: TimeBase,
}

impl Default for Xnu {
    fn default() -> Xnu {
        Xnu(Arc::new(XnuHandles {
            queue: OnceLock::new(),
            signals: Mutex::new(None),
            time: TimeBase::read(),
        }))
    }
}

impl Xnu {
    /// The queue, opened when it is first used: reading memory needs none.
    fn queue(&self) -> Result<&EventQueue, i32> {
        let queue = self
            .0
            .queue
            .get_or_init(|| EventQueue::open().map_err(|error| error.raw_os_error().unwrap_or(0)));
        queue.as_ref().map_err(|errno| *errno)
    }

    fn signals(&self) -> MutexGuard<'_, Option<Signals>> {
        // Nothing in between can panic.
        self.0.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mach for Xnu {
    type Task = Port;
    type Thread = Port;
    type MessageRights = MessageRights;

    fn now_ns(&self) -> u64 {
        self.0.time.now_ns()
    }

    fn own_cpu_ns(&self) -> u64 {
        time::thread_cpu_ns()
    }

    fn set_realtime(&self, budget: Option<CpuBudget>) -> bool {
        match budget {
            Some(budget) => priority::take_realtime(self.0.time, budget),
            None => {
                priority::give_back();
                false
            }
        }
    }

    fn wait_for_events(&self, until_ns: u64) -> Vec<KernelEvent> {
        // Without a queue there are ticks alone.
        let mut events = self
            .queue()
            .map_or_else(|_| Vec::new(), |queue| queue.wait(self.0.time.ticks(until_ns)));
        if let Some(signals) = &*self.signals() {
            events.extend(std::iter::from_fn(|| signals.next()).map(KernelEvent::Signal));
        }
        events
    }

    fn pause(&self, until_ns: u64) {
        time::wait_until(self.0.time.ticks(until_ns));
    }

    fn watch(&self, pid: i32) -> Result<(), MachError> {
        self.queue().map_err(MachError::Code)?.watch(pid)
    }

    fn task(&self, pid: i32) -> Result<Port, MachError> {
        if self.listens() {
            port_messages::kept(pid)
        } else {
            task::open(pid)
        }
    }

    fn listens(&self) -> bool {
        port_messages::was_opened()
    }

    fn user(&self) -> u32 {
        machine::user()
    }

    fn messages(&self) -> Vec<PortMessage<MessageRights>> {
        port_messages::receive()
    }

    fn task_pid(&self, rights: &MessageRights) -> Option<i32> {
        rights.pid()
    }

    fn keep_task(&self, pid: i32, rights: &MessageRights) -> Result<(), MachError> {
        rights.keep_task(pid)
    }

    fn children(&self, pid: i32) -> Vec<i32> {
        process::children(pid)
    }

    fn identity(&self, pid: i32) -> Option<ProcessIdentity> {
        process::identity(pid)
    }

    fn process_name(&self, pid: i32) -> Option<String> {
        process::name(pid)
    }

    fn task_counts(&self, pid: i32) -> Option<TaskCounts> {
        process::counts(pid, self.0.time)
    }

    fn program(&self, pid: i32) -> Option<PathBuf> {
        process::program(pid)
    }

    fn send(&self, pid: i32, signal: Signal) {
        process::send(pid, signal);
    }

    fn image_list(&self, task: &Port) -> Result<u64, MachError> {
        task::image_list(task)
    }

    fn threads(&self, task: &Port) -> Result<Vec<Port>, MachError> {
        task::threads(task)
    }

    fn thread_id(&self, thread: &Port) -> Result<u64, MachError> {
        thread::id(thread)
    }

    fn thread_state(&self, thread: &Port) -> Result<ThreadState, MachError> {
        thread::state(thread)
    }

    fn suspend_count(&self, thread: &Port) -> Result<u32, MachError> {
        thread::suspend_count(thread)
    }

    fn suspend(&self, thread: &Port) -> Result<(), MachError> {
        thread::suspend(thread)
    }

    fn resume(&self, thread: &Port) -> Result<(), MachError> {
        thread::resume(thread)
    }

    fn registers(&self, thread: &Port) -> Result<Registers, MachError> {
        thread::registers(thread)
    }

    fn region(&self, task: &Port, address: u64) -> Option<Range<u64>> {
        task::region(task, address)
    }

    fn read(&self, task: &Port, address: u64, buffer: &mut [u8]) -> Result<(), MachError> {
        task::read(task, address, buffer)
    }

    fn open_files(&self, pid: i32) -> Vec<PathBuf> {
        process::open_files(pid)
    }

    fn system_call(&self, address: u64) -> Option<String> {
        machine::system_call(address)
    }
}

impl Host for Xnu {
    fn hear_signals(&self) -> Result<(), i32> {
        let signals = Signals::take().map_err(|error| error.raw_os_error().unwrap_or(0))?;
        self.queue()?.watch_file(signals.fd())?;
        *self.signals() = Some(signals);
        Ok(())
    }

    fn forget_signals(&self) {
        *self.signals() = None;
    }

    fn spawn(&self, image: &ProgramImage) -> Result<i32, i32> {
        let port = port_messages::port();
        match &*self.signals() {
            Some(signals) => signals.ignoring(|| spawn::suspended(image, port)),
            None => spawn::suspended(image, port),
        }
    }

    fn listen(&self) -> Result<String, MachError> {
        let (port, name) = port_messages::open()?;
        let queue = self.queue().map_err(MachError::Code)?;
        queue.watch_port(port).inspect_err(|_| port_messages::close())?;
        Ok(name)
    }

    fn stop_listening(&self) {
        port_messages::close();
    }

    fn own_folder(&self) -> Option<PathBuf> {
        machine::cache_folder()
    }

    fn reap(&self, pid: i32) -> Option<ProcessEnd> {
        process::reap(pid)
    }

    fn is_translated(&self, pid: i32) -> bool {
        process::is_translated(pid)
    }

    fn is_readable(&self, file: BorrowedFd<'_>) -> bool {
        machine::is_readable(file)
    }

    fn describe(&self) -> info::Host {
        machine::describe()
    }

    fn is_root(&self) -> bool {
        machine::user() == 0
    }
}
