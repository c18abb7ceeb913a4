//! The recorder for macOS. It cannot record yet: opening a recording returns an error that says so.
//!
//! The contract is [`recording::session`], as for Linux. So everything after the recorder is type-checked for macOS.
//!
//! What is there:
//!
//! - [`sampling`]: the ticks and samples, tested on a simulated kernel. `sys` has the calls of the real one.
//! - [`codesign`]: what the signature of a program permits.
//!
//! What is missing: starting and attaching to programs, their images, and unwinding by their tables. Until then no recording leads to what
//! is there.

pub mod codesign;
pub mod sampling;
#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
mod sys;

#[cfg(target_os = "macos")]
pub use sys::Xnu;

use std::time::SystemTime;

use recording::clock::{ClockReference, Timestamp};
use recording::doctor::{Examination, Finding, State};
use recording::event::{Mapping, Pid};
use recording::info::RecordingInfo;
use recording::session::{self, Finished, Held, ProgramExit, RecordError, RecordOptions, Session};
use recording::sink::{EventSink, KeptFile, ModuleFile, ModuleFiles, ModuleMiss, TargetMemory};

/// Does nothing: no recording can be ended by SIGQUIT here yet.
pub fn say_if_quit(_words: Option<String>) {}

/// A recording. There is none on macOS yet.
#[derive(Debug)]
pub struct Recording {
    never: Never,
}

/// The launched program after recording.
#[derive(Debug)]
pub struct Target {
    never: Never,
}

#[derive(Clone, Copy, Debug)]
enum Never {}

impl Session for Recording {
    type Target = Target;

    fn open(_options: &RecordOptions) -> Result<Recording, RecordError> {
        Err(RecordError::Failed(format!(
            "recording on macOS is not there yet; `{} load` works: record on Linux and open the file here",
            recording::command::own()
        )))
    }

    fn announcements(&self) -> &[String] {
        match self.never {}
    }

    fn remark(&self) -> Option<&'static str> {
        match self.never {}
    }

    fn info_so_far(&self, _clock: ClockReference) -> RecordingInfo {
        match self.never {}
    }

    #[cfg(unix)]
    fn hold_until(self, _begin: std::os::fd::BorrowedFd<'_>) -> Result<Held<Recording>, RecordError> {
        match self.never {}
    }

    fn began(&self) -> Option<Timestamp> {
        match self.never {}
    }

    fn run(self, _clock: ClockReference, _sink: &mut dyn EventSink) -> Result<Finished<Target>, RecordError> {
        match self.never {}
    }
}

impl session::Target for Target {
    fn wait(self) -> ProgramExit {
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
    fn open(&mut self, _pid: Pid, _mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        Err(ModuleMiss::NotFound)
    }
}

/// Opens the perf map of a process: none on macOS yet.
pub fn open_perf_map(_pid: Pid, _began_ns: u64) -> Option<(std::path::PathBuf, KeptFile)> {
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
