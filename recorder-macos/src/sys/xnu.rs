//! All calls together.

use std::io;
use std::ops::Range;

use recording::stack::Registers;

use super::kqueue::Queue;
use super::port::Port;
use super::time::TimeBase;
use super::{priority, process, task, thread, time};
use crate::sampling::kernel::{Budget, Failure, Identity, Mach, News, TaskCounts, ThreadState};

/// The kernel of this Mac.
#[derive(Debug)]
pub struct Xnu {
    queue: Queue,
    time: TimeBase,
}

impl Xnu {
    /// Opens a queue for news and for the timer.
    pub fn open() -> io::Result<Xnu> {
        Ok(Xnu {
            queue: Queue::open()?,
            time: TimeBase::read(),
        })
    }
}

impl Mach for Xnu {
    type Task = Port;
    type Thread = Port;

    fn now_ns(&self) -> u64 {
        self.time.now_ns()
    }

    fn own_cpu_ns(&self) -> u64 {
        time::thread_cpu_ns()
    }

    fn set_realtime(&self, budget: Option<Budget>) -> bool {
        match budget {
            Some(budget) => priority::take_realtime(self.time, budget),
            None => {
                priority::give_back();
                false
            }
        }
    }

    fn sleep(&self, until_ns: u64) -> Vec<News> {
        self.queue.wait(self.time.ticks(until_ns))
    }

    fn watch(&self, pid: i32) -> Result<(), Failure> {
        self.queue.watch(pid)
    }

    fn task(&self, pid: i32) -> Result<Port, Failure> {
        task::open(pid)
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
        process::counts(pid, self.time)
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
}
