//! Records a program on Linux with perf_event.
//!
//! The caller gives a command, a rate and an [`EventSink`]; it gets every process, thread, mapping and sample of the
//! command and all that it starts, in time order. Out of scope: unwinding, symbols, output.

use std::ffi::OsString;
use std::time::Duration;

use recording::event::Pid;
use recording::info::RecordingInfo;
use recording::sink::EventSink;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Program and arguments. Looked up in PATH if the first holds no slash.
    pub command: Vec<OsString>,
    /// Variables added to the program's environment (`VAR=x` before the command).
    pub env: Vec<(OsString, OsString)>,
    /// Samples a second of CPU time.
    pub rate_hz: f64,
    /// Stack bytes copied with each sample; a multiple of 8, at most 65528.
    pub stack_bytes: u32,
    /// Ends the recording after this time.
    pub duration: Option<Duration>,
    /// When the recording ends before the program does: leave the program running.
    pub keep_running: bool,
    /// Put the arguments into [`RecordingInfo::args`].
    pub include_args: bool,
}

/// A launched program, stopped before its exec, with all events open.
pub struct Recording {}

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
}

/// A recording that has ended. The program may not have.
pub struct Finished {
    /// The recording as a whole.
    pub info: RecordingInfo,
    /// Why it ended.
    pub stop: StopReason,
    /// Samples a second of CPU time that were delivered, where the event counts time.
    pub achieved_rate_hz: Option<f64>,
    /// CPU time counted by the kernel for all recorded tasks, ns.
    pub cpu_time_ns: Option<u64>,
    /// The program.
    pub target: Target,
}

/// The launched program after recording.
pub struct Target {}

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

impl Recording {
    /// Starts the program stopped, and opens the events. Announcements (event used, kernel or user only, rings shrunk)
    /// are in [`Recording::announcements`].
    pub fn launch(_options: &RecordOptions) -> Result<Recording, RecordError> {
        Err(RecordError::Failed("not built yet".into()))
    }

    /// One line each, for the user's eyes, before the program runs.
    pub fn announcements(&self) -> &[String] {
        &[]
    }

    /// The program's process id.
    pub fn pid(&self) -> Pid {
        Pid(0)
    }

    /// Lets the program run and drains its events into the sink until the recording ends. Handles SIGINT, SIGTERM and
    /// SIGHUP meanwhile, as the command-line contract has them.
    pub fn run(self, _sink: &mut dyn EventSink) -> Result<Finished, RecordError> {
        Err(RecordError::Failed("not built yet".into()))
    }
}

impl Target {
    /// Waits for the program's end. If recording ended first, all recorded processes were sent SIGTERM, and get SIGKILL
    /// after 5 s (unless `keep_running`: then this returns at once). Call it after the profile is written.
    pub fn wait(self) -> ProgramExit {
        ProgramExit::StillRunning
    }
}

/// Reads a live target's memory with process_vm_readv.
#[derive(Debug, Default)]
pub struct Memory {}

impl recording::sink::TargetMemory for Memory {
    fn read(&mut self, _pid: Pid, _address: u64, _buffer: &mut [u8]) -> usize {
        0
    }
}

/// Opens mapped files as the target sees them: by path, through /proc/PID/root or /proc/PID/map_files.
#[derive(Debug, Default)]
pub struct Files {}

impl recording::sink::ModuleFiles for Files {
    fn open(
        &mut self,
        _mapping: &recording::event::Mapping<'_>,
    ) -> Result<recording::sink::ModuleFile, recording::sink::ModuleMiss> {
        Err(recording::sink::ModuleMiss::NotFound)
    }
}
