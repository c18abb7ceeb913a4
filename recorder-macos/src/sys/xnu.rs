//! All calls together.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use recording::info;
use recording::program::Image;
use recording::stack::Registers;

use super::kqueue::Queue;
use super::letters::Sent;
use super::port::Port;
use super::signals::Signals;
use super::time::TimeBase;
use super::{letters, machine, priority, process, spawn, task, thread, time};
use crate::kernel::{Budget, Failure, Identity, Letter, Mach, News, Signal, TaskCounts, ThreadState};
use crate::processes::host::{End, Host};

/// The kernel of this Mac. Clones share one queue of news.
#[derive(Clone, Debug)]
pub struct Xnu(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// An error has errno.
    queue: OnceLock<Result<Queue, i32>>,
    signals: Mutex<Option<Signals>>,
    time: TimeBase,
}

impl Default for Xnu {
    fn default() -> Xnu {
        Xnu(Arc::new(Shared {
            queue: OnceLock::new(),
            signals: Mutex::new(None),
            time: TimeBase::read(),
        }))
    }
}

impl Xnu {
    /// The queue, opened when it is first used: reading memory needs none.
    fn queue(&self) -> Result<&Queue, i32> {
        let queue = self
            .0
            .queue
            .get_or_init(|| Queue::open().map_err(|error| error.raw_os_error().unwrap_or(0)));
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
    type Sent = Sent;

    fn now_ns(&self) -> u64 {
        self.0.time.now_ns()
    }

    fn own_cpu_ns(&self) -> u64 {
        time::thread_cpu_ns()
    }

    fn set_realtime(&self, budget: Option<Budget>) -> bool {
        match budget {
            Some(budget) => priority::take_realtime(self.0.time, budget),
            None => {
                priority::give_back();
                false
            }
        }
    }

    fn wait_for_news(&self, until_ns: u64) -> Vec<News> {
        // Without a queue there is no news, but there are ticks.
        let mut news = self
            .queue()
            .map_or_else(|_| Vec::new(), |queue| queue.wait(self.0.time.ticks(until_ns)));
        if let Some(signals) = &*self.signals() {
            news.extend(std::iter::from_fn(|| signals.next()).map(News::Asked));
        }
        news
    }

    fn pause(&self, until_ns: u64) {
        time::wait_until(self.0.time.ticks(until_ns));
    }

    fn watch(&self, pid: i32) -> Result<(), Failure> {
        self.queue().map_err(Failure::Code)?.watch(pid)
    }

    fn task(&self, pid: i32) -> Result<Port, Failure> {
        match self.listens() {
            true => letters::kept(pid),
            false => task::open(pid),
        }
    }

    fn listens(&self) -> bool {
        letters::was_opened()
    }

    fn user(&self) -> u32 {
        machine::user()
    }

    fn letters(&self) -> Vec<Letter<Sent>> {
        letters::receive()
    }

    fn sent_pid(&self, sent: &Sent) -> Option<i32> {
        sent.pid()
    }

    fn keep(&self, pid: i32, sent: &Sent) -> Result<(), Failure> {
        sent.keep(pid)
    }

    fn children(&self, pid: i32) -> Vec<i32> {
        process::children(pid)
    }

    fn identity(&self, pid: i32) -> Option<Identity> {
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

    fn image_list(&self, task: &Port) -> Result<u64, Failure> {
        task::image_list(task)
    }

    fn threads(&self, task: &Port) -> Result<Vec<Port>, Failure> {
        task::threads(task)
    }

    fn thread_id(&self, thread: &Port) -> Result<u64, Failure> {
        thread::id(thread)
    }

    fn thread_state(&self, thread: &Port) -> Result<ThreadState, Failure> {
        thread::state(thread)
    }

    fn suspend_count(&self, thread: &Port) -> Result<u32, Failure> {
        thread::suspend_count(thread)
    }

    fn suspend(&self, thread: &Port) -> Result<(), Failure> {
        thread::suspend(thread)
    }

    fn resume(&self, thread: &Port) -> Result<(), Failure> {
        thread::resume(thread)
    }

    fn registers(&self, thread: &Port) -> Result<Registers, Failure> {
        thread::registers(thread)
    }

    fn region(&self, task: &Port, address: u64) -> Option<Range<u64>> {
        task::region(task, address)
    }

    fn read(&self, task: &Port, address: u64, buffer: &mut [u8]) -> Result<(), Failure> {
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

    fn spawn(&self, image: &Image) -> Result<i32, i32> {
        let port = letters::port();
        match &*self.signals() {
            Some(signals) => signals.ignoring(|| spawn::suspended(image, port)),
            None => spawn::suspended(image, port),
        }
    }

    fn listen(&self) -> Result<String, Failure> {
        let (port, name) = letters::open()?;
        let queue = self.queue().map_err(Failure::Code)?;
        queue.watch_port(port).inspect_err(|_| letters::close())?;
        Ok(name)
    }

    fn stop_listening(&self) {
        letters::close();
    }

    fn own_folder(&self) -> Option<PathBuf> {
        machine::cache_folder()
    }

    fn reap(&self, pid: i32) -> Option<End> {
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
