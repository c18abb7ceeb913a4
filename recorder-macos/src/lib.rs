//! Records a program on macOS. Not there yet: launching answers with an error that says so.
//!
//! The shapes are those of the Linux recorder, so that everything after the recorder is type-checked for macOS already.

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use recording::clock::{ClockReference, Timestamp};
use recording::cpu_account::CpuAccount;
use recording::doctor::{Examination, Finding, State};
use recording::event::{Mapping, Pid};
use recording::info::{RecordingInfo, SampleBy};
use recording::probe::Probe;
use recording::sink::{EventSink, ModuleFile, ModuleFiles, ModuleMiss, TargetMemory};

/// See the Linux recorder.
pub fn say_if_quit(_words: Option<String>) {}

/// Whom to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// [`RecordOptions::command`], launched, and all that it starts.
    Command,
    /// Running processes with all their threads, and all processes below them, present and future.
    Processes(Vec<Pid>),
    /// Everything that runs on this machine.
    WholeMachine,
}

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Whom.
    pub whom: Whom,
    /// Program and arguments. Looked up in PATH if the first holds no slash.
    pub command: Vec<OsString>,
    /// Variables added to the program's environment (`VAR=x` before the command).
    pub env: Vec<(OsString, OsString)>,
    /// Samples a second of CPU time.
    pub rate_hz: f64,
    /// Used on Linux only.
    pub ptrace_rate_hz: f64,
    /// Stack bytes copied with each sample; a multiple of 8, at most 65528.
    pub stack_bytes: u32,
    /// Record when threads are not on a CPU, too, and what they wait for.
    pub off_cpu: bool,
    /// Events of Linux.
    pub events: Vec<String>,
    /// Used on Linux only.
    pub event_sampling: Option<SampleBy>,
    /// Used on Linux only.
    pub probes: Vec<Probe>,
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
        /// What is in the way.
        reason: String,
    },
    /// Exit status 125.
    #[error("{0}")]
    Failed(String),
}

/// Why recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The program ended.
    ProgramEnded,
    /// [`RecordOptions::duration`] was over.
    Duration,
    /// A second SIGINT.
    Interrupted,
    /// SIGTERM (or SIGHUP).
    Terminated,
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

/// A launched program. There is none on macOS yet.
#[derive(Debug)]
pub struct Recording {
    never: Never,
}

/// What came of waiting.
#[derive(Debug)]
pub enum Held {
    /// Recording can begin.
    Begins(Box<Recording>),
    /// The program ended before.
    Ended(ProgramExit),
}

/// A recording that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The recording as a whole.
    pub info: RecordingInfo,
    /// Why it ended.
    pub stop: StopReason,
    /// Samples a second of CPU time that were asked for.
    pub asked_rate_hz: f64,
    /// Samples a second of CPU time that were delivered.
    pub achieved_rate_hz: Option<f64>,
    /// CPU time of all recorded tasks, ns.
    pub cpu_time_ns: Option<u64>,
    /// What the kernel accounts beside that.
    pub cpu_account: CpuAccount,
    /// What ended it too early, if it was neither the program nor the user. What was recorded until then is whole.
    pub problem: Option<String>,
    /// The launched program; `None` where none was launched.
    pub target: Option<Target>,
}

/// The launched program after recording.
#[derive(Debug)]
pub struct Target {
    never: Never,
}

#[derive(Clone, Copy, Debug)]
enum Never {}

impl Recording {
    /// Says that recording on macOS is not there yet.
    pub fn open(_options: &RecordOptions) -> Result<Recording, RecordError> {
        Err(RecordError::Failed(format!(
            "recording on macOS is not there yet; `{} load` works: record on Linux and open the file here",
            recording::command::own()
        )))
    }

    /// The same for those who ask for more.
    pub fn remark(&self) -> Option<&'static str> {
        match self.never {}
    }

    /// One line each, for the user's eyes, before the program runs.
    pub fn announcements(&self) -> &[String] {
        match self.never {}
    }

    /// What is known of the recording before it has begun.
    pub fn info_so_far(&self, _clock: ClockReference) -> RecordingInfo {
        match self.never {}
    }

    /// Lets the program run unrecorded until `begin` is readable.
    pub fn hold_until(self, _begin: std::os::fd::BorrowedFd<'_>) -> Result<Held, RecordError> {
        match self.never {}
    }

    /// When recording began of a program that ran unrecorded before.
    pub fn began(&self) -> Option<recording::clock::Timestamp> {
        match self.never {}
    }

    /// Lets the program run until the recording ends.
    pub fn run(self, _clock: ClockReference, _sink: &mut dyn EventSink) -> Result<Finished, RecordError> {
        match self.never {}
    }
}

impl Target {
    /// Waits for the program's end.
    pub fn wait(self) -> ProgramExit {
        match self.never {}
    }
}

/// Reads a live target's memory: none on macOS yet.
#[derive(Debug, Default)]
pub struct Memory {}

impl TargetMemory for Memory {
    fn read(&mut self, _pid: Pid, _address: u64, _buffer: &mut [u8]) -> usize {
        0
    }

    fn now(&self) -> Timestamp {
        Timestamp(u64::MAX)
    }
}

/// Opens mapped files: none on macOS yet.
#[derive(Debug, Default)]
pub struct Files {}

impl ModuleFiles for Files {
    fn open(&mut self, _mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        Err(ModuleMiss::NotFound)
    }
}

/// Opens the perf map of a process: none on macOS yet.
pub fn open_perf_map(_pid: Pid, _began_ns: u64) -> Option<(std::path::PathBuf, recording::sink::KeptFile)> {
    None
}

/// Says that there are no events on macOS.
pub fn list_events(_pattern: &str) -> Result<String, String> {
    Err("macOS has no events like those of Linux; a recording there is of CPU time".to_owned())
}

/// Says that there is no way to record on macOS yet.
pub fn examine() -> Examination {
    let finding = Finding::works("mach", "mach thread sampling", "recording on macOS is not there yet");
    Examination {
        ways: vec![finding.in_state(State::Fails)],
        limits: Vec::new(),
    }
}

/// Reads the wall clock. The recording's clock (`mach_absolute_time`) comes with the recorder.
pub fn clock_reference() -> ClockReference {
    ClockReference {
        timestamp: Timestamp(0),
        wall: SystemTime::now(),
    }
}
