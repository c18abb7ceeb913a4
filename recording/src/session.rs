//! The contract that every recorder fulfils: what it is asked for, and what it answers.
//!
//! [`RecordOptions`] -> [`Session::open`] -> [`Session::run`], which sends events to a sink -> [`Finished`].

use std::ffi::OsString;
use std::time::Duration;

use crate::clock::{ClockReference, Timestamp};
use crate::cpu_account::CpuAccount;
use crate::event::Pid;
use crate::heap::HeapOptions;
use crate::info::{RecordingInfo, SampleBy};
use crate::probe::{Probe, SpanFunction};
use crate::sink::EventSink;

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordTarget {
    /// [`RecordOptions::command`], launched, and all that it starts.
    Command,
    /// Running processes with all their threads, and all processes below them, present and future.
    Processes(Vec<Pid>),
    /// Everything that runs on this machine.
    WholeMachine,
}

/// Stack bytes copied with each sample, where the user does not choose.
pub const USUAL_STACK_BYTES: u32 = 16 << 10;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// What to record.
    pub target: RecordTarget,
    /// Program and arguments. Looked up in PATH if the first holds no slash. Unless [`RecordTarget::Command`] is
    /// recorded, the recording ends with this program; empty if there is none.
    pub command: Vec<OsString>,
    /// Variables added to the program's environment (`VAR=x` before the command).
    pub env: Vec<(OsString, OsString)>,
    /// Samples a second of CPU time.
    pub rate_hz: f64,
    /// Samples a second of CPU time where perf_event is refused and ptrace takes over, which stops the program for each
    /// sample. The recorder takes at most 1000.
    pub ptrace_rate_hz: f64,
    /// Stack bytes copied with each sample; a multiple of 8, at most 65528.
    pub stack_bytes: u32,
    /// Copy more of them once many stacks are deeper, as far as rings have room for that.
    pub larger_stacks: bool,
    /// Also record when threads are not on a CPU, and what they wait for.
    pub off_cpu: bool,
    /// Also record each switch of a thread, without a stack: how many threads run at each moment. `off_cpu` includes
    /// it.
    pub parallelism: bool,
    /// Events to record beside CPU time, or instead of it: what the first one that counts replaces.
    /// As the user wrote them, one or several each.
    pub events: Vec<String>,
    /// When the events that count are sampled, unless they say so themselves. `None`: as is best for each.
    pub event_sampling: Option<SampleBy>,
    /// The places of the probes among the events.
    pub probes: Vec<Probe>,
    /// Functions whose calls are to be spans.
    pub spans: Vec<SpanFunction>,
    /// Also record blocks of memory that the launched program and its children take and free. `None`: do not.
    pub heap: Option<HeapOptions>,
    /// Also record what processes wait for, read and write, and the figures of the machine
    /// ([`counter`](crate::counter)). Memory and CPU time of processes are always recorded.
    pub resources: bool,
    /// Begin without samples, until a program resumes the recording ([`RecordingEvent::Sampling`]).
    ///
    /// [`RecordingEvent::Sampling`]: crate::event::RecordingEvent::Sampling
    pub paused: bool,
    /// Ends the recording after this time.
    pub duration: Option<Duration>,
    /// When the recording ends before the program does: leave the program running.
    pub keep_running: bool,
    /// Put the arguments into [`RecordingInfo::args`].
    pub include_args: bool,
}

/// Why a recording could not start.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Exit status 127.
    #[error("cannot run `{0}`: no such program; check the name or give a path")]
    NotFound(String),
    /// Exit status 126.
    #[error("cannot run `{program}`: {reason}")]
    NotExecutable {
        /// As the user typed it.
        program: String,
        /// For example "permission denied; `chmod +x` it".
        reason: String,
    },
    /// Exit status 125.
    #[error("{0}")]
    Failed(String),
}

/// Why recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The program ended, or all processes that were attached to.
    ProgramEnded,
    /// The launched program ended after a first SIGINT, which was for the program.
    ProgramInterrupted,
    /// [`RecordOptions::duration`] was over.
    Duration,
    /// A second SIGINT; the first one, where no program was launched.
    Interrupted,
    /// SIGTERM (or SIGHUP).
    Terminated,
}

impl StopReason {
    /// True if the recording lasted until the end of what was recorded.
    pub fn is_end_of_program(self) -> bool {
        matches!(self, StopReason::ProgramEnded | StopReason::ProgramInterrupted)
    }
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramExit {
    /// `exit(code)`.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Still running: `keep_running`.
    StillRunning,
    /// It was not launched but attached to: only its parent learns how it ends.
    NotOurs,
}

/// A recording that has ended. The program may not have.
#[derive(Debug)]
pub struct Finished<T> {
    /// The recording as a whole.
    pub info: RecordingInfo,
    /// Why it ended.
    pub stop: StopReason,
    /// Samples a second of CPU time that were asked for, of the way of recording that was allowed.
    pub asked_rate_hz: f64,
    /// Samples a second of CPU time that were delivered. `None` where kernel time was not recorded: then only part of
    /// the CPU time had a chance to be sampled.
    pub achieved_rate_hz: Option<f64>,
    /// CPU time counted by the kernel for all recorded tasks, ns.
    pub cpu_time_ns: Option<u64>,
    /// What the kernel accounts beside that.
    pub cpu_account: CpuAccount,
    /// What ended it too early, if it was neither the program nor the user. What was recorded until then is whole.
    pub problem: Option<String>,
    /// The launched program; `None` where none was launched.
    pub target: Option<T>,
}

/// The end of [`Session::hold_until`].
#[derive(Debug)]
pub enum HoldOutcome<S> {
    /// Recording can begin.
    Begins(Box<S>),
    /// The program ended before.
    Ended(ProgramExit),
}

/// A launched program after recording.
pub trait Target {
    /// Waits for the program's end. If recording ended first, all recorded processes were sent SIGTERM, and get SIGKILL
    /// after 5 s (unless `keep_running`: then this returns at once). Call it after the profile is written.
    fn wait(self) -> ProgramExit;
}

/// One recording, ready to begin: of a launched program, stopped before its exec, or of running processes.
pub trait Session: Sized {
    /// The launched program.
    type Target: Target;

    /// Prepares the recording: of the program, which is started stopped, or of running processes.
    ///
    /// # Errors
    ///
    /// The program can't be run, or nothing can be recorded here: why, and the next step.
    fn open(options: &RecordOptions) -> Result<Self, RecordError>;

    /// One line each, for the user's eyes, before the program runs: which event where it is not the best one, what is
    /// not recorded and why.
    fn announcements(&self) -> &[String];

    /// A remark for `--verbose`: a fact about every recording on this machine that costs no data. `None` if there is
    /// none.
    fn remark(&self) -> Option<&'static str>;

    /// What is known of the recording before it has begun; it ends at its own start.
    fn info_so_far(&self, clock: ClockReference) -> RecordingInfo;

    /// Lets the launched program run unrecorded until `begin` is readable. Where the recorder can only record a program
    /// from its start, this returns at once.
    ///
    /// The writer of `begin` waits until [`Session::run`] is about to be called, and misses nothing.
    ///
    /// # Errors
    ///
    /// The program can't be waited for, or its events can't be opened.
    #[cfg(unix)]
    fn hold_until(self, begin: std::os::fd::BorrowedFd<'_>) -> Result<HoldOutcome<Self>, RecordError>;

    /// When the first event began to count, where that was before [`Session::run`]: of processes that ran before.
    fn began(&self) -> Option<Timestamp>;

    /// Lets the program run and sends its events to the sink until the recording ends. Handles SIGINT, SIGTERM and
    /// SIGHUP meanwhile.
    ///
    /// # Errors
    ///
    /// The program could not be executed, or recording could not start. What ends a recording later is
    /// [`Finished::problem`].
    fn run(self, clock: ClockReference, sink: &mut dyn EventSink) -> Result<Finished<Self::Target>, RecordError>;
}
