//! Recordings that the program begins and ends itself.

#[allow(unsafe_code)]
mod sys;

use std::boxed::Box;
use std::fmt::{self, Display, Formatter};
use std::format;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::string::{String, ToString as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend;

/// True while a recording of this process by itself goes on.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// What `sprof record` says when all threads are recorded.
const READY: &str = "Ctrl-C ends the recording";

/// A recording of this process, from [`Recording::start`] to [`Recording::finish`], or until this is dropped.
///
/// ```no_run
/// let recording = sprof_spans::Recording::start("parse.json.gz")?;
/// // What is done here is recorded, on all threads.
/// recording.finish()?;
/// # Ok::<(), sprof_spans::RecordingError>(())
/// ```
///
/// The program `sprof` does it, with the settings of `sprof record -p`: the one that the variable `SPROF` names, or
/// else the one in `PATH`. It has to be permitted to record this process. If this process exits first, the profile is
/// saved as well. Nothing is installed in this process, no signal handler either.
#[derive(Debug)]
#[must_use = "the recording ends when this is dropped"]
pub struct Recording {
    sprof: Child,
    said: BufReader<ChildStderr>,
    is_over: bool,
}

/// Why there is no recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordingError {
    /// There is no program of this name.
    NotInstalled(Box<str>),
    /// This process has begun one that goes on.
    RunsAlready,
    /// `sprof` could not begin: what it said.
    Refused(Box<str>),
    /// `sprof` ended without a profile, or was killed: its status, and what it said.
    Failed(Box<str>),
    /// `sprof` could not be started, or spoken to.
    Io(io::Error),
}

impl Display for RecordingError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::NotInstalled(name) => {
                write!(
                    f,
                    "cannot start {name}: it is not there; `cargo install sprof`, or set SPROF to its path"
                )
            }
            RecordingError::RunsAlready => write!(f, "this process records itself already"),
            RecordingError::Refused(said) => write!(f, "sprof cannot record this process: {said}"),
            RecordingError::Failed(said) => write!(f, "sprof has not saved the profile: {said}"),
            RecordingError::Io(error) => write!(f, "cannot run sprof: {error}"),
        }
    }
}

impl core::error::Error for RecordingError {}

impl Recording {
    /// Begins to record this process. Returns once all its threads are recorded. The file is replaced when the
    /// recording ends.
    ///
    /// # Errors
    ///
    /// There is no `sprof`, it may not record this process, or this process records itself already.
    pub fn start(file: impl AsRef<Path>) -> Result<Recording, RecordingError> {
        if IS_RUNNING.swap(true, Ordering::Acquire) {
            return Err(RecordingError::RunsAlready);
        }
        let started = Recording::start_only(file.as_ref());
        if started.is_err() {
            IS_RUNNING.store(false, Ordering::Release);
        }
        started
    }

    /// From here on the recording of this process samples, whoever began it: `sprof record --paused`, any other
    /// `sprof record`, or [`Recording::start`]. There is one state for the whole recording, on all threads and in all
    /// processes, and the last call counts.
    ///
    /// Nothing is waited for: sprof sees the time of the call. Where nothing is recorded this is nearly nothing, and a
    /// recording with `--paused` that begins later samples from its start.
    pub fn resume() {
        backend::switch(true);
    }

    /// From here on the recording of this process does not sample, until [`Recording::resume`].
    pub fn pause() {
        backend::switch(false);
    }

    fn start_only(file: &Path) -> Result<Recording, RecordingError> {
        // So that sprof finds the memory of spans when it begins.
        backend::now();
        let program = std::env::var_os("SPROF").unwrap_or_else(|| "sprof".into());
        let mut command = Command::new(&program);
        command
            .args([
                "record",
                "--save-only",
                "-p",
                &std::process::id().to_string(),
                "--output",
            ])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for this program: sprof saves when it has ended.
            .process_group(0);
        let mut sprof = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => RecordingError::NotInstalled(program.to_string_lossy().into()),
            _ => RecordingError::Io(error),
        })?;
        let stderr = sprof
            .stderr
            .take()
            .ok_or(RecordingError::Io(io::ErrorKind::BrokenPipe.into()))?;
        let mut recording = Recording {
            sprof,
            said: BufReader::new(stderr),
            is_over: false,
        };
        let mut said = String::new();
        while !said.contains(READY) {
            if recording.said.read_line(&mut said).map_err(RecordingError::Io)? == 0 {
                let _ = recording.sprof.wait();
                let said = said.trim().trim_start_matches("sprof: error: ");
                return Err(RecordingError::Refused(said.into()));
            }
        }
        backend::wait_for_reader(recording.sprof.id());
        Ok(recording)
    }

    /// Ends the recording, and returns when the profile is saved.
    ///
    /// # Errors
    ///
    /// It could not be saved, or `sprof` was killed.
    pub fn finish(mut self) -> Result<(), RecordingError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), RecordingError> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        // Where the program ignores SIGCHLD, another process may have the number of one that has ended.
        if let Ok(None) = self.sprof.try_wait() {
            sys::interrupt(self.sprof.id());
        }
        let mut said = String::new();
        let read = self.said.read_to_string(&mut said);
        let status = self.sprof.wait();
        IS_RUNNING.store(false, Ordering::Release);
        read.map_err(RecordingError::Io)?;
        match status.map_err(RecordingError::Io)? {
            status if status.success() => Ok(()),
            status => Err(RecordingError::Failed(format!("{status}; {}", said.trim()).into())),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
