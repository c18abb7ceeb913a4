//! Processes and threads as the machine has them.

use std::path::PathBuf;

use recorder_macos::kernel::WaitMode;
use recorder_macos::processes::host::ProcessEnd;

use super::behaviour::Behaviour;
use super::images::Images;
use super::machine::FUNCTIONS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running(usize),
    Queued,
    WaitsUntil(u64),
    /// Suspended, and would be queued otherwise.
    Stopped,
    Ended,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) process: usize,
    pub(crate) task: usize,
    pub(crate) id: u64,
    pub(crate) state: State,
    pub(crate) suspend_count: u32,
    /// The program suspends it again whenever it is resumed.
    pub(crate) suspends_itself: bool,
    /// CPU time, and what others see of it.
    pub(crate) cpu_ns: u64,
    pub(crate) visible_ns: u64,
    pub(crate) function: usize,
    /// For what it waits, and for how long it has waited for each.
    pub(crate) wait: usize,
    pub(crate) waited_ns: [u64; WAITS.len()],
    /// CPU time by function.
    pub(crate) truth: [u64; FUNCTIONS],
    /// Of a real program: the moment that it shows, and its CPU time by moment.
    pub(crate) moment: usize,
    pub(crate) moments_ns: Vec<u64>,
    pub(crate) sp: u64,
    /// An address in the stack from which on it can't be read.
    pub(crate) hole: Option<u64>,
    pub(crate) last_reported_runnable: bool,
    /// It never waits, whatever the others of its process do.
    pub(crate) is_busy: bool,
    /// The image that it executes.
    pub(crate) image: u64,
    pub(super) left_ns: u64,
    pub(super) quantum_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: Option<usize>,
    pub(crate) task: usize,
    pub(crate) is_alive: bool,
    pub(crate) is_watched: bool,
    /// Not started by the recorded program.
    pub(crate) is_stranger: bool,
    pub(crate) name: String,
    pub(crate) switches: u32,
    pub(crate) images: Images,
    pub(crate) open_files: Vec<PathBuf>,
    /// The kernel gives no right to its task.
    pub(crate) is_barred: bool,
    /// It was started suspended, and does not run yet.
    pub(crate) is_suspended: bool,
    /// It has the recorder's library in its environment.
    pub(crate) has_library: bool,
    /// SIGTERM does nothing.
    pub(crate) ignores_term: bool,
    /// A child of the recorder: how it ended, once it has.
    pub(crate) end: Option<ProcessEnd>,
    pub(crate) interrupts: u32,
    pub(super) behaviour: Behaviour,
}

/// What threads wait for: the system call, and whether nothing else ends the wait. One waits for its memory.
pub(crate) const WAITS: [(Option<&str>, WaitMode); 5] = [
    (Some("__psynch_cvwait"), WaitMode::Interruptible),
    (Some("mach_msg2_trap"), WaitMode::Interruptible),
    (Some("kevent"), WaitMode::Interruptible),
    (Some("read"), WaitMode::Uninterruptible),
    (None, WaitMode::Uninterruptible),
];

/// A page, as on Apple's processors.
const PAGE: u64 = 16 << 10;
/// Size of a stack.
pub(crate) const STACK: u64 = 0x20000;

impl Thread {
    /// It was on a CPU.
    pub(super) fn use_cpu(&mut self, ns: u64) {
        self.cpu_ns += ns;
        self.truth[self.function] += ns;
        if let Some(spent) = self.moments_ns.get_mut(self.moment) {
            *spent += ns;
        }
    }

    /// The end of the stack; stacks are far apart.
    pub(crate) fn stack_end(serial: usize) -> u64 {
        (serial as u64 + 1) * 0x100_0000
    }

    /// From a later page on the stack can't be read.
    pub(crate) fn unmap(&mut self, pages: u64) {
        let hole = (self.sp | (PAGE - 1)) + 1 + (pages - 1) * PAGE;
        self.hole = Some(hole).filter(|hole| hole - self.sp >= 24);
    }

    /// How much can be read from the stack pointer on.
    pub(crate) fn readable(&self, serial: usize) -> u64 {
        let end = Thread::stack_end(serial);
        self.hole.unwrap_or(end).min(end) - self.sp
    }
}
