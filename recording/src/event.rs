//! The vocabulary that every source speaks and every consumer understands, live or replayed.
//!
//! Events reach an [`EventSink`](crate::sink::EventSink) in time order, but for [`ProcessEvent::Counter`],
//! [`RecordingEvent::Counter`], [`ProcessEvent::Title`], [`ProcessEvent::Plot`] and [`ThreadEvent::Span`].

use crate::clock::Timestamp;
use crate::counter::{Counter, DeviceName, UnreadCause};
use crate::module::{BuildId, Image};
use crate::span::Span;
use crate::stack::{SameFrames, Stack};
use crate::wait::WaitReason;

/// Process id, as the recorder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

/// Thread id, as the recorder sees it. The main thread's equals its process's [`Pid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

/// A thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread {
    /// Its process.
    pub pid: Pid,
    /// Its own id.
    pub tid: Tid,
}

impl Thread {
    /// The thread with these numbers.
    pub fn new(pid: i32, tid: i32) -> Thread {
        Thread {
            pid: Pid(pid),
            tid: Tid(tid),
        }
    }

    /// The main thread of a process.
    pub fn main(pid: Pid) -> Thread {
        Thread::new(pid.0, pid.0)
    }

    /// True for the main thread of its process.
    pub fn is_main(self) -> bool {
        self.pid.0 == self.tid.0
    }
}

/// Something that happened in a recorded process or in the recording itself.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// When it happened. Of lost and of malformed records: when this was noticed.
    pub time: Timestamp,
    /// To whom, and what.
    pub kind: EventKind<'a>,
}

/// An event without its time.
#[derive(Clone, Copy, Debug)]
pub enum EventKind<'a> {
    /// The recording itself: such an event has no process.
    Recording(RecordingEvent),
    /// A BPF program was loaded into the kernel, or unloaded: such an event has no process.
    Bpf(BpfProgram<'a>),
    /// A process as a whole: such an event has no thread.
    Process(Pid, ProcessEvent<'a>),
    /// One thread.
    Thread(Thread, ThreadEvent<'a>),
}

/// What happens to a recording.
#[derive(Clone, Copy, Debug)]
pub enum RecordingEvent {
    /// Records that the source had to throw away.
    Lost {
        /// Number of records.
        count: u64,
        /// Role of the lost records. With [`Role::Running`] and [`LostCause::RingFull`], records of processes and
        /// mappings may also be lost.
        role: Role,
        /// The reason.
        cause: LostCause,
    },
    /// From here on the kernel reduces the sampling rate of one CPU for a while.
    Throttled,
    /// Counts of the unwinder since the last such event that frames do not show. The unwinder sends the event now and
    /// then, and adds the counts of an imported recording.
    Unwound {
        /// See [`Quality::completed_live`](crate::quality::Quality::completed_live).
        completed_live: u64,
        /// See [`Quality::by_frame_pointer`](crate::quality::Quality::by_frame_pointer).
        by_frame_pointer: u64,
        /// See [`Quality::by_code`](crate::quality::Quality::by_code).
        by_code: u64,
        /// See [`Quality::by_framehop`](crate::quality::Quality::by_framehop).
        by_framehop: u64,
    },
    /// From here on the recording samples, or does not: a program resumed or paused it. Without such an event it
    /// samples from its start to its end. Comes before what happened later.
    Sampling(bool),
    /// A record that could not be understood. What was wrong, in a few fixed words.
    Malformed(&'static str),
    /// A figure of the machine, as [`ProcessEvent::Counter`].
    Counter(Counter, DeviceName, u64),
    /// A counter can't be read: of the machine, or of one more process.
    Unread(Counter, UnreadCause),
}

/// Code of a BPF program in the kernel. At the end of the recording it may be gone from /proc/kallsyms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfProgram<'a> {
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
    /// As in /proc/kallsyms: `bpf_prog_TAG_NAME`.
    pub name: &'a str,
    /// False if it was unloaded.
    pub is_loaded: bool,
}

/// What happens to a process.
#[derive(Clone, Copy, Debug)]
pub enum ProcessEvent<'a> {
    /// It started as a copy of `parent` (fork without exec so far: same images, same name), or was found.
    Start {
        /// `None` for the first process. The parent of a process that was found by attaching may still be unknown: then
        /// there is nothing to copy.
        parent: Option<Pid>,
    },
    /// Its last thread is gone.
    End,
    /// It called exec: all images are gone, all other threads are gone. The new name (Linux: at most 15 bytes of the
    /// program's file name).
    Exec(&'a str),
    /// A file or anonymous memory was mapped executable, as the source reported it.
    Map(&'a Mapping<'a>),
    /// A mapping whose module was identified. The unwinder sends it right after the `Map`.
    Image(&'a Image),
    /// The title that it wrote over its command line (`postgres: checkpointer`). It is read while the records of that
    /// moment are still on their way, as a `Counter` is.
    Title(&'a str),
    /// A value of a counter that the program named. Values come at any time after they were true, in any order, as
    /// spans do.
    Plot(&'a str, f64),
    /// A figure of the process, in the counter's unit. It is read when the records of that moment are still on their
    /// way: events of some milliseconds before it may follow.
    Counter(Counter, u64),
}

/// What happens to a thread.
#[derive(Clone, Copy, Debug)]
pub enum ThreadEvent<'a> {
    /// It started. The main thread starts after its process.
    Start,
    /// It ended. Samples of the rest of its exit, in the kernel, may follow.
    End,
    /// Its new name (`prctl(PR_SET_NAME)`). A main thread gives its process the same name.
    Name(&'a str),
    /// A stack, and what it stands for.
    Sample(Sample<'a>),
    /// What it was doing when waits began to be recorded. Only of threads that were running by then. It comes once,
    /// before all switches; a sample with [`Role::WaitStack`] comes right before, if the stack could be read.
    InitialState(InitialState),
    /// It left its CPU. Only where waits are recorded.
    SwitchOut {
        /// It could have gone on: it waits for a CPU and for nothing else.
        preempted: bool,
    },
    /// It got a CPU. Only where waits are recorded.
    SwitchIn,
    /// It freed the block of a sample with [`Role::Allocation`], which its process, or the process that it was forked
    /// from, has at this address.
    Freed {
        /// Address of the block.
        address: u64,
    },
    /// A section of its time that the program or the user named. Spans come at any time after their end and in any
    /// order, also of threads and processes that have ended. A span of a thread that is not known is one of its
    /// process's main thread.
    Span(Span<'a>),
}

impl<'a> Event<'a> {
    /// An event of the recording.
    pub fn recording(time: Timestamp, what: RecordingEvent) -> Event<'static> {
        let kind = EventKind::Recording(what);
        Event { time, kind }
    }

    /// A BPF program that was loaded or unloaded.
    pub fn bpf(time: Timestamp, program: BpfProgram<'a>) -> Event<'a> {
        let kind = EventKind::Bpf(program);
        Event { time, kind }
    }

    /// An event of a process.
    pub fn process(time: Timestamp, pid: Pid, what: ProcessEvent<'a>) -> Event<'a> {
        let kind = EventKind::Process(pid, what);
        Event { time, kind }
    }

    /// An event of a thread.
    pub fn thread(time: Timestamp, thread: Thread, what: ThreadEvent<'a>) -> Event<'a> {
        let kind = EventKind::Thread(thread, what);
        Event { time, kind }
    }

    /// A sample of a thread.
    pub fn sample(time: Timestamp, thread: Thread, sample: Sample<'a>) -> Event<'a> {
        Event::thread(time, thread, ThreadEvent::Sample(sample))
    }

    /// The process that the event is about; `None` for the recording itself and for BPF programs.
    pub fn pid(&self) -> Option<Pid> {
        match self.kind {
            EventKind::Recording(_) | EventKind::Bpf(_) => None,
            EventKind::Process(pid, _) | EventKind::Thread(Thread { pid, .. }, _) => Some(pid),
        }
    }
}

/// What a sample stands for. Records of each role have ring buffers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// CPU time of a running thread, or what the event counts that the user chose instead.
    Running,
    /// Switches of threads from and to CPUs. No sample has this role.
    Switch,
    /// [`ThreadEvent::Span`]. No sample has this role.
    Span,
    /// The stack with which a thread leaves its CPU, right before its [`ThreadEvent::SwitchOut`]; or, of a thread that
    /// is waiting, the stack with which it waits. The period has no meaning. A recorder that looks at threads from time
    /// to time, and knows what they wait for, puts a [`StackMark::Waiting`](crate::stack::StackMark::Waiting) before
    /// the stack.
    WaitStack,
    /// A wait that is over: for sources that report each wait as a whole, or the sum of several with one stack. The
    /// period is its length in ns, which may be more than the time since the thread's last sample.
    Wait,
    /// What a further event counts, on a track beside the samples of running threads. The period is in that event's
    /// unit.
    Counted,
    /// Something that happened at one time (a tracepoint, a probe), with the stack that led to it. The period is how
    /// often.
    Point,
    /// A block of memory that a thread took from its allocator, one of the blocks that were chosen by chance. The
    /// period is its size in bytes; [`Allocation::weight`] says how many bytes it stands for.
    Allocation,
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
    /// Records of tasks at the end of their exit. Such tasks have no pid, so their process is not known.
    NoPid,
    /// They made no sense: lines of a file of spans.
    NotUnderstood,
}

/// One executable mapping.
#[derive(Clone, Debug)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file of the first byte. In a Mach-O file it counts from the header: of the slice, if the file is
    /// fat.
    pub file_offset: u64,
    /// Path as the kernel gave it: a path, `[vdso]`, `//anon`, `[heap]`, `/memfd:x (deleted)`...
    pub path: &'a [u8],
    /// Build id as the kernel read it while mapping, if it did.
    pub build_id: Option<BuildId>,
    /// Device (major, minor) and inode, where the kernel gave these instead of a build id.
    pub inode: Option<(u32, u32, u64)>,
}

/// True for the names that the kernel gives to shared memory, which is a file on no path: of memfd_create(2), of
/// mmap(2) with `MAP_SHARED | MAP_ANONYMOUS`, and of shmget(2), also in huge pages. Such memory may hold a program or a
/// library.
pub fn is_shared_memory(path: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 4] = [b"/memfd:", b"/dev/zero", b"/SYSV", b"/anon_hugepage"];
    PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

impl Mapping<'_> {
    /// True for the file that a JIT compiler maps so that profilers find it: `jit-PID.dump`. See
    /// tools/perf/Documentation/jitdump-specification.txt in the Linux sources.
    pub fn is_jitdump(&self) -> bool {
        let name = self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let number = name.strip_prefix(b"jit-").and_then(|name| name.strip_suffix(b".dump"));
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    }

    /// The numbers in the name of the file that a program maps so that profilers find its spans: `marker-PID.txt`, or
    /// `marker-PID-TID.txt`. samply reads such files, and the crate `tracing-samply` writes them. `None` for other
    /// files.
    pub fn span_file(&self) -> Option<SpanFileName> {
        let name = self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let numbers = name.strip_prefix(b"marker-")?.strip_suffix(b".txt")?;
        let mut numbers = numbers.split(|byte| *byte == b'-').map(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            digits.parse().ok().filter(|number| *number > 0)
        });
        let (pid, tid) = (numbers.next()??, numbers.next());
        let tid = tid.map_or(Some(None), |tid| tid.map(Some))?;
        numbers.next().is_none().then_some(SpanFileName { pid, tid })
    }

    /// True for a file that is mapped so that profilers find it, and holds no code that runs.
    pub fn is_for_profilers(&self) -> bool {
        self.is_jitdump() || self.span_file().is_some()
    }
}

/// The numbers in the name of a file of spans, as the program knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanFileName {
    /// The process.
    pub pid: i32,
    /// The thread, if the file is of one thread.
    pub tid: Option<i32>,
}

/// What a thread was doing when waits began to be recorded. The beginning of its wait is not known.
#[derive(Clone, Copy, Debug)]
pub struct InitialState {
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
    /// CPU on which it ran.
    pub cpu: u32,
    /// What it stands for.
    pub role: Role,
    /// For [`Role::Counted`] and [`Role::Point`]: index into
    /// [`RecordingInfo::events`](crate::info::RecordingInfo::events).
    pub event: u32,
    /// How much it stands for, in the event's unit (ns of CPU time for cpu-clock, else event counts).
    pub period: u64,
    /// Its stack.
    pub stack: Stack<'a>,
    /// What its frames have in common with an earlier stack; `None` if that is not known.
    pub same: Option<SameFrames<'a>>,
    /// For [`Role::Allocation`]: the block.
    pub allocation: Option<&'a Allocation>,
    /// For [`Role::Point`]: the values, in the order of [`EventInfo::fields`](crate::info::EventInfo::fields); empty if
    /// they are not known.
    pub values: &'a [EventValue<'a>],
}

impl<'a> Sample<'a> {
    /// A sample of CPU 0, of no event that the user named.
    pub fn new(role: Role, period: u64, stack: Stack<'a>) -> Sample<'a> {
        Sample {
            cpu: 0,
            role,
            event: 0,
            period,
            stack,
            same: None,
            allocation: None,
            values: &[],
        }
    }
}

/// A block of memory, and the chance that it had to become a sample: `1 - exp(-size / interval)`. Bytes are chosen by a
/// Poisson process with one byte in `interval` on average, and a block with a chosen byte is a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its address. No other living block of the process has it.
    pub address: u64,
    /// Bytes that the program asked for.
    pub size: u64,
    /// Mean distance of chosen bytes. 0 and 1: each block is a sample.
    pub interval: u64,
}

impl Allocation {
    /// How many bytes the block stands for: its size divided by its chance. The sum over the samples of a place is the
    /// number of bytes that the place took, up to chance.
    pub fn weight(&self) -> f64 {
        let size = self.size as f64;
        let chance = -(-size / self.interval.max(1) as f64).exp_m1();
        if self.interval <= 1 || chance <= 0.0 {
            size
        } else {
            size / chance
        }
    }
}

/// One value of a point event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventValue<'a> {
    /// A number.
    Unsigned(u64),
    /// A number.
    Signed(i64),
    /// A pointer.
    Address(u64),
    /// A text, or several numbers.
    Text(std::borrow::Cow<'a, str>),
}

#[cfg(test)]
mod tests {
    use super::{Allocation, Mapping, SpanFileName};

    #[test]
    fn files_of_spans_are_known_by_their_names() {
        let numbers = |path: &str| {
            let mapping = Mapping {
                start: 0,
                len: 0,
                file_offset: 0,
                path: path.as_bytes(),
                build_id: None,
                inode: None,
            };
            let name = mapping.span_file();
            name.map(|SpanFileName { pid, tid }| (pid, tid))
        };
        assert_eq!(numbers("/tmp/tracing-samply/7/marker-7.txt"), Some((7, None)));
        assert_eq!(numbers("marker-7-8.txt"), Some((7, Some(8))));
        for other in [
            "/marker-.txt",
            "/marker-7-.txt",
            "/marker-7-8-9.txt",
            "/marker-x.txt",
            "/marker-0.txt",
            "/marker-99999999999.txt",
            "/marker-7.txt (deleted)",
            "/marker-7.txt/x",
        ] {
            assert_eq!(numbers(other), None, "{other}");
        }
    }

    #[test]
    fn a_block_stands_for_its_size_divided_by_its_chance() {
        let weight = |size, interval| {
            let block = Allocation {
                address: 0,
                size,
                interval,
            };
            block.weight()
        };
        assert_eq!(weight(48, 1), 48.0);
        assert_eq!(weight(48, 0), 48.0);
        assert_eq!(weight(0, 512), 0.0);
        // -expm1(-x) = x - x * x / 2 ...
        assert!((weight(1, 1 << 19) - (f64::from(1 << 19) + 0.5)).abs() < 0.001);
        assert!((weight(512, 512) - 512.0 / (1.0 - (-1.0_f64).exp())).abs() < 0.001);
        assert_eq!(weight(1 << 26, 1 << 19), f64::from(1 << 26));
    }
}
