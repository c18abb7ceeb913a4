//! Why a thread was not on a CPU.

/// What a thread that had left its CPU was waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitReason {
    /// For a CPU: it could have run, others did (the kernel's "preempted"; also after `sched_yield`).
    Cpu,
    /// For a time: `nanosleep`, a timer.
    Sleep,
    /// For a lock, a condition variable or another thread: a futex, a kernel lock, a file lock.
    Lock,
    /// For a disk or another block device, or a file system.
    Io,
    /// For the other end of a pipe, a socket, an eventfd or a terminal.
    Channel,
    /// For any of several file descriptors: `poll`, `select`, `epoll_wait`.
    Poll,
    /// For a page of its memory.
    PageFault,
    /// For a child process.
    Child,
    /// For a signal; or stopped by one, by a debugger or by a freezer.
    Signal,
    /// For something else in the kernel.
    Other,
    /// Not known: its kernel stack was not recorded, or its functions have no names.
    Unknown,
}

impl WaitReason {
    /// All of them, in the order of their declaration.
    pub const ALL: [WaitReason; 11] = [
        WaitReason::Cpu,
        WaitReason::Sleep,
        WaitReason::Lock,
        WaitReason::Io,
        WaitReason::Channel,
        WaitReason::Poll,
        WaitReason::PageFault,
        WaitReason::Child,
        WaitReason::Signal,
        WaitReason::Other,
        WaitReason::Unknown,
    ];

    /// In a few words, for people.
    pub fn name(self) -> &'static str {
        match self {
            WaitReason::Cpu => "waiting for a CPU",
            WaitReason::Sleep => "sleep",
            WaitReason::Lock => "lock",
            WaitReason::Io => "I/O",
            WaitReason::Channel => "pipe or socket",
            WaitReason::Poll => "poll",
            WaitReason::PageFault => "page fault",
            WaitReason::Child => "child process",
            WaitReason::Signal => "signal or stop",
            WaitReason::Other => "other",
            WaitReason::Unknown => "reason not known",
        }
    }

    /// The name of the frame that ends the stack of such a wait.
    pub fn label(self) -> &'static str {
        match self {
            WaitReason::Cpu => "[waiting for a CPU]",
            WaitReason::Sleep => "[off-CPU: sleep]",
            WaitReason::Lock => "[off-CPU: lock]",
            WaitReason::Io => "[off-CPU: I/O]",
            WaitReason::Channel => "[off-CPU: pipe or socket]",
            WaitReason::Poll => "[off-CPU: poll]",
            WaitReason::PageFault => "[off-CPU: page fault]",
            WaitReason::Child => "[off-CPU: child process]",
            WaitReason::Signal => "[off-CPU: signal or stop]",
            WaitReason::Other => "[off-CPU: other]",
            WaitReason::Unknown => "[off-CPU: reason not known]",
        }
    }
}

/// Where the stack of a wait comes from, if it was not sampled as the wait began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitGuess {
    /// The stack of the thread's last sampled wait, not of this one.
    OtherWait,
    /// It is the last one that the thread was seen with on a CPU.
    LastOnCpu,
    /// There is none.
    NotSampled,
}

impl WaitGuess {
    /// The name of the frame that says so.
    pub fn label(self) -> &'static str {
        match self {
            WaitGuess::OtherWait => "[guess: stack of another wait]",
            WaitGuess::LastOnCpu => "[guess: last stack on a CPU]",
            WaitGuess::NotSampled => "[stack not sampled]",
        }
    }
}
