//! The vocabulary that every source speaks and every consumer understands, live or replayed.
//!
//! Events reach an [`EventSink`](crate::sink::EventSink) in time order, but for [`Event::Counter`].

use crate::clock::Timestamp;
use crate::module::{BuildId, Image};
use crate::stack::Stack;
use crate::wait::WaitReason;

/// Process id, as the recorder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

/// Thread id, as the recorder sees it. The main thread's equals its process's [`Pid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

/// Something that happened in a recorded process or in the recording itself.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A process came to be as a copy of `parent` (fork without exec so far: same images, same name), or was found.
    ProcessStart {
        /// When.
        time: Timestamp,
        /// The new process.
        pid: Pid,
        /// Whose copy it is; `None` for the first one. Of a process found by attaching: its parent, of which nothing was
        /// told yet that could be copied.
        parent: Option<Pid>,
    },
    /// A process ended: its last thread is gone.
    ProcessEnd {
        /// When.
        time: Timestamp,
        /// Which.
        pid: Pid,
    },
    /// A thread started. Also sent for the main thread, after `ProcessStart`.
    ThreadStart {
        /// When.
        time: Timestamp,
        /// Its process.
        pid: Pid,
        /// The thread.
        tid: Tid,
    },
    /// A thread ended.
    ThreadEnd {
        /// When.
        time: Timestamp,
        /// Its process.
        pid: Pid,
        /// The thread.
        tid: Tid,
    },
    /// The process called exec: all images are gone, all other threads are gone, the name is new.
    Exec {
        /// When.
        time: Timestamp,
        /// The process.
        pid: Pid,
        /// New name (Linux: at most 15 bytes of the program's file name).
        name: &'a str,
    },
    /// A thread was renamed (`prctl(PR_SET_NAME)`); for a main thread this is the process's name, too.
    ThreadName {
        /// When.
        time: Timestamp,
        /// Its process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// New name.
        name: &'a str,
    },
    /// A file or anonymous memory was mapped executable, as the source reported it.
    Map(Mapping<'a>),
    /// The same mapping after its module was identified. Sent by the unwinder right after the `Map` that it stands for.
    Image {
        /// When.
        time: Timestamp,
        /// Whose address space.
        pid: Pid,
        /// The module and its place.
        image: Image,
    },
    /// A stack of a thread, and what it stands for.
    Sample(Sample<'a>),
    /// A thread left its CPU. Only where waits are recorded.
    SwitchOut {
        /// When.
        time: Timestamp,
        /// Its process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// It could have gone on: it waits for a CPU and for nothing else.
        preempted: bool,
    },
    /// What a thread was doing when waits began to be recorded. Only of threads that ran already; once, before anything else
    /// about their waits but the stack: a sample with [`Role::WaitStack`] comes right before, if the stack could be read.
    InitialState(InitialState),
    /// A thread got a CPU. Only where waits are recorded.
    SwitchIn {
        /// When.
        time: Timestamp,
        /// Its process.
        pid: Pid,
        /// The thread.
        tid: Tid,
    },
    /// A figure of a process, as it was then. It is read when the records of that moment are still on their way: events of some
    /// milliseconds before it may follow.
    Counter(Reading),
    /// Records that the source had to throw away.
    Lost {
        /// When this was noticed.
        time: Timestamp,
        /// Number of records.
        count: u64,
        /// Records of this role; with [`Role::Running`] and [`LostCause::RingFull`], of processes and mappings, too.
        role: Role,
        /// The reason.
        cause: LostCause,
    },
    /// The kernel reduced the sampling rate of one CPU for a while.
    Throttled {
        /// From when.
        time: Timestamp,
    },
    /// A record that could not be understood.
    Malformed {
        /// When this was noticed.
        time: Timestamp,
        /// What was wrong, in a few fixed words.
        what: &'static str,
    },
}

/// A figure of a process, which is read from time to time while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// Bytes of its memory that are in RAM, those that it shares with other processes included.
    ResidentBytes,
    /// ns of CPU time of all its threads, ended ones included, since its start.
    CpuNanoseconds,
}

/// What a [`Counter`] of a process said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When.
    pub time: Timestamp,
    /// Process.
    pub pid: Pid,
    /// Which figure.
    pub counter: Counter,
    /// In the counter's unit.
    pub value: u64,
}

/// What a sample stands for. Records of each role have ring buffers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// CPU time of a running thread, or what the event counts that the user chose instead.
    Running,
    /// Switches of threads from and to CPUs. There are no samples with this role.
    Switch,
    /// The stack with which a thread leaves its CPU, right before its [`Event::SwitchOut`]; or, of a thread that is waiting, the
    /// stack with which it waits. The period has no meaning.
    WaitStack,
    /// A wait that is over: for sources that report each wait as a whole, or the sum of several with one stack. The period is its
    /// length in ns, which may be more than the time since the thread's last sample.
    Wait,
    /// What a further event counts, on a track beside the samples of running threads. The period is in that event's unit.
    Counted,
    /// Something that happened at one time (a tracepoint, a probe), with the stack that led to it. The period is how often.
    Point,
}

/// Why records were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LostCause {
    /// The ring buffer was full: records of any kind (PERF_RECORD_LOST).
    RingFull,
    /// The ring buffer was full: samples only, counted by the event (PERF_FORMAT_LOST / PERF_RECORD_LOST_SAMPLES).
    SamplesRingFull,
    /// Samples were taken with ptrace faster than they could be unwound: the queue in between was full.
    QueueFull,
    /// More came than could be unwound: those above the limit were dropped.
    OverLimit,
}

/// One executable mapping.
#[derive(Clone, Debug)]
pub struct Mapping<'a> {
    /// When.
    pub time: Timestamp,
    /// Whose address space.
    pub pid: Pid,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file of the first byte.
    pub file_offset: u64,
    /// Path as the kernel gave it: a path, `[vdso]`, `//anon`, `[heap]`, `/memfd:x (deleted)`...
    pub path: &'a [u8],
    /// Build id as the kernel read it while mapping, if it did.
    pub build_id: Option<BuildId>,
    /// Device (major, minor) and inode, where the kernel gave these instead of a build id.
    pub inode: Option<(u32, u32, u64)>,
}

impl Mapping<'_> {
    /// True for the file that a JIT compiler maps to tell profilers of it: `jit-PID.dump`. See
    /// tools/perf/Documentation/jitdump-specification.txt in the Linux sources.
    pub fn is_jitdump(&self) -> bool {
        let name = self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let number = name.strip_prefix(b"jit-").and_then(|name| name.strip_suffix(b".dump"));
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    }
}

/// A thread that ran already when waits began to be recorded. The beginning of its wait is not known.
#[derive(Clone, Copy, Debug)]
pub struct InitialState {
    /// The start of the recording.
    pub time: Timestamp,
    /// Process.
    pub pid: Pid,
    /// Thread.
    pub tid: Tid,
    /// From then on each switch of the thread is reported: if it gets a CPU first, it had none from then on.
    pub switches_from: Timestamp,
    /// When the thread was looked at. What was seen is of this wait only if no switch came before.
    pub seen_at: Timestamp,
    /// What it waited for; `None` if it could run: it was on a CPU, or waited for one.
    pub waits_for: Option<WaitReason>,
}

/// One sample of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// When.
    pub time: Timestamp,
    /// Process.
    pub pid: Pid,
    /// Thread.
    pub tid: Tid,
    /// CPU on which it ran.
    pub cpu: u32,
    /// What it stands for.
    pub role: Role,
    /// Of [`Role::Counted`] and [`Role::Point`]: index into [`RecordingInfo::events`](crate::info::RecordingInfo::events).
    pub event: u32,
    /// How much it stands for, in the event's unit (ns of CPU time for cpu-clock, else event counts).
    pub period: u64,
    /// Its stack.
    pub stack: Stack<'a>,
    /// Of [`Role::Point`]: the values, in the order of [`EventInfo::fields`](crate::info::EventInfo::fields); empty if they are not
    /// known.
    pub values: &'a [Value<'a>],
}

/// One value of a point event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Unsigned(u64),
    /// A number.
    Signed(i64),
    /// A pointer.
    Address(u64),
    /// A text, or several numbers.
    Text(std::borrow::Cow<'a, str>),
}
