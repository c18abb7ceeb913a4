//! Cargo runs this instead of each program: sprof under another name. It leaves a note about the program, waits until
//! the recording has started, and executes the program.
//!
//! Cargo, rustdoc and nextest start programs through the runner of their target (`CARGO_TARGET_<TRIPLE>_RUNNER`), and
//! nothing else: neither rustc nor build scripts. So each program that comes through here is one to record, whatever
//! its name. The user's own runner runs in between as before, and the program's environment is the same as without
//! sprof, but for what a recording of the heap needs.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use recording::heap::RUNNER_PREFIX;
use serde::{Deserialize, Serialize};

/// Name of the link to sprof, and so of a process until it executes the program. At most 15 bytes (TASK_COMM_LEN).
pub(crate) const NAME: &str = "sprof-runner";
/// Name of the link to sprof that counts what it executes.
const COUNTER: &str = "sprof-counter";
/// Files in the folder: the socket where runners wait, and their orders.
const SOCKET: &str = "socket";
const ORDERS: &str = "orders.json";

/// The folder through which sprof and its runners communicate.
#[derive(Debug)]
pub(crate) struct RunnerSocket {
    folder: tempfile::TempDir,
    listener: Option<UnixListener>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// The user's own runner and its arguments.
    pub(crate) runner: Vec<Vec<u8>>,
    /// What runs the program, and its arguments, if sprof runs it by another program.
    pub(crate) launcher: Vec<Vec<u8>>,
    /// Each program is counted, with these events, and what it took is left in the folder.
    pub(crate) counted_events: Option<Vec<String>>,
    /// Variables as they were before sprof set them.
    pub(crate) restore: Vec<(String, Option<Vec<u8>>)>,
}

/// A runner's note about the program that it executes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Absolute path.
    pub(crate) program: Vec<u8>,
    pub(crate) args: Vec<Vec<u8>>,
}

impl RunnerSocket {
    /// Makes a new folder, which no other user may enter.
    pub(crate) fn open(orders: &Orders) -> std::io::Result<RunnerSocket> {
        let folder = tempfile::Builder::new().prefix("sprof-cargo-").tempdir_in(place())?;
        for name in [NAME, COUNTER] {
            std::os::unix::fs::symlink(std::env::current_exe()?, folder.path().join(name))?;
        }
        std::fs::write(folder.path().join(ORDERS), serde_json::to_vec(orders)?)?;
        let listener = UnixListener::bind(folder.path().join(SOCKET))?;
        Ok(RunnerSocket {
            folder,
            listener: Some(listener),
        })
    }

    /// The runner for cargo.
    pub(crate) fn runner(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    /// The folder of the notes.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Readable when a runner waits.
    pub(crate) fn waiting(&self) -> Option<&UnixListener> {
        self.listener.as_ref()
    }

    /// Ends the wait of all runners, now and later, by closing the socket.
    pub(crate) fn begin(&mut self) {
        self.listener = None;
    }

    /// Makes runners wait again.
    pub(crate) fn hold_again(&mut self) -> std::io::Result<()> {
        if self.listener.is_none() {
            let path = self.folder.path().join(SOCKET);
            std::fs::remove_file(&path)?;
            self.listener = Some(UnixListener::bind(path)?);
        }
        Ok(())
    }
}

/// Cargo splits a runner at blanks.
fn place() -> PathBuf {
    let usual = std::env::temp_dir();
    let has_blanks = usual.to_str().is_none_or(|path| path.contains(char::is_whitespace));
    if has_blanks { PathBuf::from("/tmp") } else { usual }
}

/// Takes the note of a process; `None` if the process left none, or the note was taken before.
pub(crate) fn take_note(folder: &Path, pid: i32) -> Option<Note> {
    let path = folder.join(pid.to_string());
    let note = std::fs::read(&path).ok()?;
    let _ = std::fs::remove_file(path);
    serde_json::from_slice(&note).ok()
}

/// What this process was started as, in which folder.
pub(crate) enum AskedRole {
    Runner(PathBuf),
    Counter(PathBuf),
}

/// `None`: sprof was not started by cargo.
pub(crate) fn asked() -> Option<AskedRole> {
    let name = PathBuf::from(std::env::args_os().next()?);
    let folder = name.parent()?;
    let role = match name.file_name()? {
        name if name == NAME => AskedRole::Runner,
        name if name == COUNTER => AskedRole::Counter,
        _ => return None,
    };
    folder.join(ORDERS).is_file().then(|| role(folder.to_owned()))
}

/// The orders in the folder.
pub(crate) fn orders(folder: &Path) -> Orders {
    let orders = std::fs::read(folder.join(ORDERS)).ok();
    orders
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Executes the program. Returns only if that fails.
pub(crate) fn run(folder: &Path) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let orders = orders(folder);
    let Some((program, args)) = words.split_first() else {
        return failed("cargo named no program to run", OsStr::new(NAME));
    };
    // nextest first lists the tests of each program. Listing is not a run.
    let mut launcher = orders.launcher;
    if orders.counted_events.is_some() {
        launcher.push(folder.join(COUNTER).into_os_string().into_vec());
    }
    if args.iter().any(|arg| arg == "--list") {
        launcher.clear();
    } else {
        leave_note(folder, program, args);
        // An error means that no recording waits for this runner.
        if let Ok(mut held) = UnixStream::connect(folder.join(SOCKET)) {
            let _ = held.read(&mut [0]);
        }
    }
    let before = orders.runner.into_iter().chain(launcher).map(OsString::from_vec);
    let before: Vec<OsString> = before.collect();
    let line: Vec<&OsString> = before.iter().chain(&words).collect();
    let mut command = Command::new(line[0]);
    command.args(&line[1..]);
    for (name, value) in orders.restore {
        match value {
            Some(value) => command.env(name, OsString::from_vec(value)),
            None => command.env_remove(name),
        };
    }
    for (name, value) in std::env::vars_os() {
        if let Some(own) = name.as_bytes().strip_prefix(RUNNER_PREFIX.as_bytes()) {
            command.env(OsStr::from_bytes(own), value).env_remove(&name);
        }
    }
    command.envs(crate::recorder::lost_variable());
    let error = command.exec();
    failed(&error.to_string(), line[0])
}

fn leave_note(folder: &Path, program: &OsStr, args: &[OsString]) {
    let absolute = std::path::absolute(program).unwrap_or_else(|_| program.into());
    let note = Note {
        program: absolute.into_os_string().into_vec(),
        args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
    };
    if let Ok(bytes) = serde_json::to_vec(&note) {
        // Without the note the program runs unrecorded; sprof reports that.
        let _ = std::fs::write(folder.join(std::process::id().to_string()), bytes);
    }
}

fn failed(reason: &str, program: &OsStr) -> ExitCode {
    let term = crate::terminal::Term::stderr(crate::terminal::Verbosity::Normal);
    term.error(format_args!("cannot run {}: {reason}", program.display()));
    ExitCode::from(126)
}
