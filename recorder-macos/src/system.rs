//! The recorder of this Mac: the parts with the calls of its kernel.

use std::path::PathBuf;
use std::time::SystemTime;

use recording::clock::{ClockReference, Timestamp};
use recording::doctor::Examination;
use recording::event::{Mapping, Pid, Thread};
use recording::sink::{KeptFile, ModuleMiss};

use crate::kernel::Mach;
use crate::{doctor, files, processes, session, setup};

pub use crate::sys::{Xnu, say_if_quit, thread_cpu_ns};

pub mod counting {
    //! Linux alone counts so far.

    use std::time::Duration;

    use recording::counting::{CountedProgram, CountedRun, CountedTarget};
    use recording::session::{ProgramExit, RecordError};

    /// There is none.
    #[derive(Debug)]
    pub enum RunCounter {}

    impl RunCounter {
        /// Refuses.
        ///
        /// # Errors
        ///
        /// Always.
        pub fn new(_events: &[String]) -> Result<RunCounter, RecordError> {
            Err(RecordError::Failed(
                "cannot count what a program takes: `sprof stat` works on Linux only. `/usr/bin/time -l` has some of it"
                    .to_owned(),
            ))
        }

        /// Never called.
        pub fn is_asked_to_end(&self) -> bool {
            match *self {}
        }

        /// Never called.
        ///
        /// # Errors
        ///
        /// None.
        pub fn run(&self, _program: &CountedProgram) -> Result<CountedRun, RecordError> {
            match *self {}
        }

        /// Never called.
        ///
        /// # Errors
        ///
        /// None.
        pub fn run_uncounted(&self, _program: &CountedProgram) -> Result<(ProgramExit, bool), RecordError> {
            match *self {}
        }

        /// Never called.
        ///
        /// # Errors
        ///
        /// None.
        pub fn watch(&self, _target: &CountedTarget, _duration: Option<Duration>) -> Result<CountedRun, RecordError> {
            match *self {}
        }
    }
}

/// A recording.
pub type Recording = session::MachRecording<Xnu>;
/// The launched program after recording.
pub type Target = processes::stop::MachTarget<Xnu>;
/// Reads a live target's memory.
pub type Memory = files::MachMemory<Xnu>;
/// Opens mapped files.
pub type Files = files::MachFiles<Xnu>;

/// See [`files::open_perf_map`]. `None` in the same cases.
pub fn open_perf_map(pid: Pid, began_ns: u64) -> Option<(PathBuf, KeptFile)> {
    files::open_perf_map(&Xnu::default(), pid, began_ns)
}

/// Files of spans are not looked for on macOS.
///
/// # Errors
///
/// Always.
pub fn open_span_file(_: &mut Files, _: Pid, _: &Mapping<'_>) -> Result<(Thread, KeptFile), ModuleMiss> {
    Err(ModuleMiss::NotFound)
}

/// Finds out what this Mac and this user may do.
pub fn examine() -> Examination {
    doctor::examine(&Xnu::default())
}

/// See [`doctor::resume`].
///
/// # Errors
///
/// As of [`doctor::resume`].
pub fn resume(pid: i32) -> Result<String, String> {
    doctor::resume(&Xnu::default(), pid)
}

/// Signs sprof: see [`setup::sign_own`].
///
/// # Errors
///
/// As of [`setup::sign_own`].
pub fn set_up() -> Result<String, String> {
    setup::sign_own(&Xnu::default())
}

/// Reads both clocks at one instant.
pub fn clock_reference() -> ClockReference {
    let mach = Xnu::default();
    let before = mach.now_ns();
    let wall = SystemTime::now();
    let after = mach.now_ns();
    ClockReference {
        timestamp: Timestamp(before + (after - before) / 2),
        wall,
    }
}
