//! The calls of the kernel that recording needs, as a trait.
//!
//! `sys::Xnu` is the real one. The tests have a simulated one (`tests/suite/xnu/`), which is as unkind as XNU.

use std::hash::Hash;
use std::ops::Range;
use std::path::PathBuf;

use recording::stack::Registers;

/// The calls. Each may fail at any time: a thread, a task or a process may end between any two of them.
///
/// # Errors
///
/// Of every call: [`MachError::Gone`] if the thread, task or process has ended, else the code of the kernel.
#[expect(clippy::missing_errors_doc, reason = "all calls have the same errors")]
pub trait Mach {
    /// A right to a task, given back when dropped. It dies with the task: at the end of the process, and when the
    /// process calls exec.
    ///
    /// Two rights are equal if they are to the same port. While one of them is held, its name is not given to another
    /// port.
    type Task: PartialEq;
    /// A right to a thread, the same way.
    type Thread: Eq + Hash;
    /// The rights in a message: to the task of its sender, and to answer. The sender goes on when this is dropped.
    type MessageRights;

    /// The present on the recording's clock (`mach_absolute_time`), ns.
    fn now_ns(&self) -> u64;

    /// CPU time of the calling thread, ns.
    fn own_cpu_ns(&self) -> u64;

    /// Asks for a priority above all ordinary threads, or gives it back (`None`). Returns whether the calling thread
    /// has it.
    fn set_realtime(&self, budget: Option<CpuBudget>) -> bool;

    /// Sleeps until this time, or until there are events. May return early without any.
    fn wait_for_events(&self, until_ns: u64) -> Vec<KernelEvent>;

    /// Sleeps until this time, whatever happens.
    fn pause(&self, until_ns: u64);

    /// Sleeps until this time, or until there are events. Where the kernel refuses a timer, events are late.
    fn sleep(&self, until_ns: u64) -> Vec<KernelEvent> {
        let events = self.wait_for_events(until_ns);
        if events.is_empty() && self.now_ns() < until_ns {
            self.pause(until_ns);
        }
        events
    }

    /// Makes [`Mach::sleep`] report what happens to a process from now on.
    fn watch(&self, pid: i32) -> Result<(), MachError>;

    /// The task that a process has now, also of this process. While this process [listens](Mach::listens), an error
    /// unless the task was [kept](Mach::keep_task).
    fn task(&self, pid: i32) -> Result<Self::Task, MachError>;

    /// True if programs announce themselves to this process. Then the kernel is not asked for tasks: this process has
    /// no right to them.
    fn listens(&self) -> bool;

    /// The effective user of this process.
    fn user(&self) -> u32;

    /// Messages to the port of this process. [`KernelEvent::Messages`] says that there are some.
    fn messages(&self) -> Vec<PortMessage<Self::MessageRights>>;

    /// The process whose task was sent. `None` if the right is not to a task, or the task has ended.
    fn task_pid(&self, rights: &Self::MessageRights) -> Option<i32>;

    /// Keeps a right to read the task that was sent. The right must be to a [task](Mach::task_pid): another port could
    /// keep this process waiting.
    fn keep_task(&self, pid: i32, rights: &Self::MessageRights) -> Result<(), MachError>;

    /// The processes whose parent this is, now.
    fn children(&self, pid: i32) -> Vec<i32>;

    /// The process that has this id now; `None` if there is none.
    fn identity(&self, pid: i32) -> Option<ProcessIdentity>;

    /// The name of a process: at most 32 bytes of its program's file name. `None` if there is no such process.
    fn process_name(&self, pid: i32) -> Option<String>;

    /// What the kernel has counted for the task of a process. `None` if it has ended, or the kernel refuses.
    fn task_counts(&self, pid: i32) -> Option<TaskCounts>;

    /// Sends a signal to a process, if there is one.
    fn send(&self, pid: i32, signal: Signal);

    /// The file that a process executes. `None` if the process has ended.
    fn program(&self, pid: i32) -> Option<PathBuf>;

    /// Where dyld lists the images of a task (`dyld_all_image_infos`), once the kernel has placed dyld.
    fn image_list(&self, task: &Self::Task) -> Result<u64, MachError>;

    /// All threads of a task, in the order of their starts.
    fn threads(&self, task: &Self::Task) -> Result<Vec<Self::Thread>, MachError>;

    /// A number that no other thread has until the machine is started again.
    fn thread_id(&self, thread: &Self::Thread) -> Result<u64, MachError>;

    /// What a thread does, and its CPU time.
    fn thread_state(&self, thread: &Self::Thread) -> Result<ThreadState, MachError>;

    /// How often a thread is suspended.
    fn suspend_count(&self, thread: &Self::Thread) -> Result<u32, MachError>;

    /// Suspends a thread, and waits until it is on no CPU. [`Mach::resume`] has to follow.
    fn suspend(&self, thread: &Self::Thread) -> Result<(), MachError>;

    /// Undoes one [`Mach::suspend`].
    fn resume(&self, thread: &Self::Thread) -> Result<(), MachError>;

    /// User registers of a thread that is suspended, or waits.
    fn registers(&self, thread: &Self::Thread) -> Result<Registers, MachError>;

    /// The mapped memory around an address that has one protection. `None` if the address is not mapped.
    fn region(&self, task: &Self::Task, address: u64) -> Option<Range<u64>>;

    /// Fills the buffer from memory. The call fails as a whole if a single page can't be read.
    fn read(&self, task: &Self::Task, address: u64, buffer: &mut [u8]) -> Result<(), MachError>;

    /// The files that a process has open.
    fn open_files(&self, pid: i32) -> Vec<PathBuf>;

    /// The name of the function of libsystem_kernel.dylib at an address: a system call. All processes have it at the
    /// same address. `None` if the address is in another library.
    fn system_call(&self, address: u64) -> Option<String>;
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachError {
    /// The process, task or thread has ended.
    Gone,
    /// Another `kern_return_t`, or errno.
    Code(i32),
}

/// A message to the port of this process.
#[derive(Debug)]
pub struct PortMessage<R> {
    /// The sender, by the kernel.
    pub sender: Sender,
    /// What the sender wrote.
    pub bytes: Vec<u8>,
    /// The rights in the message.
    pub rights: R,
}

/// Who sent a message (`mach_msg_audit_trailer_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The process.
    pub pid: i32,
    /// Its effective user.
    pub user: u32,
}

/// What distinguishes a process from an earlier one with its id (`PROC_PIDTBSDINFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// When it started, us; exec keeps it.
    pub started_us: u64,
    /// The id of its parent.
    pub parent: i32,
    /// Its user.
    pub user: u32,
}

/// The CPU time that the sampling thread asks for, of a CPU that it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuBudget {
    /// From one tick to the next, ns.
    pub interval_ns: u64,
    /// The work of a tick at most, ns.
    pub work_ns: u64,
}

/// Signals that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
    /// SIGCONT. It also starts a process that was started suspended.
    Continue,
}

/// A signal to this process, which may end the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT.
    Interrupt {
        /// A key on the terminal: the whole foreground group got the signal.
        from_terminal: bool,
    },
    /// SIGTERM or SIGHUP.
    Terminate,
}

/// What happened to a watched process, in any order. A process may have several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// It started processes, one or several.
    Forked(i32),
    /// It executes another program: a new task with new threads, and the same process id.
    Exec(i32),
    /// It ended. Another process may have its id by now.
    Ended(i32),
    /// This process got a signal.
    Signal(StopSignal),
    /// Programs have sent [messages](Mach::messages).
    Messages,
}

/// What the kernel has counted for a task (`PROC_PIDTASKINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// CPU time of all threads, ended ones included, ns. Of running threads it is as of their last entry into the
    /// kernel.
    pub cpu_ns: u64,
    /// How often a thread was given a CPU, or lost it. Wraps around.
    pub switches: u32,
    /// Its threads.
    pub threads: u32,
    /// Threads on a CPU, or waiting for one.
    pub runnable: u32,
    /// Memory that is in RAM.
    pub resident_bytes: u64,
}

impl TaskCounts {
    /// True if no thread has run, started or ended between the two. Switches are counted when a thread gets its CPU.
    pub(crate) fn is_at_rest_since(&self, before: &TaskCounts) -> bool {
        let resident_bytes = before.resident_bytes;
        self.runnable == 0
            && TaskCounts {
                resident_bytes,
                ..*self
            } == *before
    }
}

/// What a thread does (`THREAD_EXTENDED_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// On a CPU, or waiting for one: XNU does not report which.
    pub is_runnable: bool,
    /// How it waits, if it is not runnable.
    pub rest: WaitMode,
    /// CPU time in ns, cut off to microseconds. Of a running thread it is as of its last entry into the kernel.
    pub cpu_ns: u64,
    /// Name, zeros behind it (`MAXTHREADNAMESIZE`).
    pub name: [u8; 64],
}

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// A signal ends the wait.
    Interruptible,
    /// Nothing but what it waits for ends the wait: a disk, a page of its memory.
    Uninterruptible,
    /// It waits for being resumed.
    Stopped,
}

impl ThreadState {
    /// The thread's name; empty if it has none.
    pub fn name(&self) -> String {
        let len = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }
}
