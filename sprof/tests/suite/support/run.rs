//! Runs the `sprof` that cargo just built.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use super::target::cpu_ms;
use super::{Profile, machine, temp_dir};

/// No test waits longer than this for another process: a hang is a failure, not a stuck test run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that another process does. `otherwise` says what did not happen.
pub(crate) fn wait_until(condition: impl Fn() -> bool, otherwise: impl FnOnce() -> String) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited for nothing: {}", otherwise());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `sprof`, away from the settings of the person who runs the tests.
pub(crate) fn sprof() -> Command {
    machine::share();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sprof"));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"SPROF_") {
            command.env_remove(name);
        }
    }
    command.env_remove("CI").env("SPROF_CACHE", "off").stdin(Stdio::null());
    command
}

/// Runs to the end.
pub(crate) fn output(command: &mut Command) -> Output {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    // It is read meanwhile: a pipe holds 64 kB.
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match ended.recv_timeout(PATIENCE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            kill("KILL", &pid);
            panic!("{command:?} hangs: {:?}", ended.recv());
        }
    }
}

/// A recording to be made.
pub(crate) struct Recorder {
    command: Option<Command>,
    options: Vec<String>,
    wrapper: Vec<String>,
    stdin: Option<&'static [u8]>,
}

/// What came of it.
pub(crate) struct Recording {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) output: PathBuf,
    pub(crate) before: SystemTime,
    pub(crate) after: SystemTime,
    marked: Marked,
    _dir: tempfile::TempDir,
}

/// Starts to describe a recording.
pub(crate) fn record() -> Recorder {
    Recorder {
        command: None,
        options: Vec::new(),
        wrapper: Vec::new(),
        stdin: None,
    }
}

impl Recorder {
    /// Adds options of `sprof record`.
    pub(crate) fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|option| (*option).to_owned()));
        self
    }

    /// Runs sprof under another command, for example `taskset -c 1`.
    pub(crate) fn under(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// What the program reads.
    pub(crate) fn stdin(mut self, bytes: &'static [u8]) -> Self {
        self.stdin = Some(bytes);
        self
    }

    /// Records to the end.
    pub(crate) fn run<A: AsRef<OsStr>>(self, program: impl AsRef<OsStr>, arguments: &[A]) -> Recording {
        self.start(program, arguments).finish()
    }

    /// Records to the end, and expects status 0.
    pub(crate) fn profile<A: AsRef<OsStr>>(self, program: impl AsRef<OsStr>, arguments: &[A]) -> (Recording, Profile) {
        let recording = self.run(program, arguments);
        assert_eq!(recording.code, Some(0), "{}", recording.stderr);
        let profile = recording.profile();
        (recording, profile)
    }

    /// Starts to record.
    pub(crate) fn start<A: AsRef<OsStr>>(self, program: impl AsRef<OsStr>, arguments: &[A]) -> Running {
        let words = [program.as_ref()]
            .into_iter()
            .chain(arguments.iter().map(AsRef::as_ref));
        self.start_with(&words.collect::<Vec<_>>())
    }

    /// Starts to record what runs already, as the options say (`-p`, `-a`).
    pub(crate) fn attach(self) -> Running {
        self.start_with(&[])
    }

    fn start_with(self, command_line: &[&OsStr]) -> Running {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let dir = temp_dir();
        let output = dir.path().join("profile.json.gz");
        let marked = Marked(format!(
            "{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));

        let sprof = sprof();
        let mut command = match self.wrapper.split_first() {
            None => sprof,
            Some((wrapper, words)) => {
                let mut command = Command::new(wrapper);
                command.args(words).arg(sprof.get_program());
                for (name, value) in sprof.get_envs() {
                    match value {
                        Some(value) => command.env(name, value),
                        None => command.env_remove(name),
                    };
                }
                command
            }
        };
        command
            .args(["record", "--save-only", "--output"])
            .arg(&output)
            .args(&self.options);
        if !command_line.is_empty() {
            command.arg("--").args(command_line);
        }
        command.env(MARK, &marked.0);
        command.stdin(if self.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // A process group of its own: what a shell gives a job, so that "Ctrl-C" reaches sprof and the program only.
        command.process_group(0);

        let before = SystemTime::now();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        if let (Some(bytes), Some(mut pipe)) = (self.stdin, child.stdin.take()) {
            std::io::Write::write_all(&mut pipe, bytes).unwrap();
        }
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        Running {
            child,
            stdout,
            stderr,
            dir,
            output,
            marked,
            before,
        }
    }
}

/// A recording under way.
pub(crate) struct Running {
    child: Child,
    stdout: Collected,
    stderr: Collected,
    dir: tempfile::TempDir,
    output: PathBuf,
    marked: Marked,
    before: SystemTime,
}

/// The environment variable by which a recorded program and all that it starts are found again.
const MARK: &str = "TEST_MARK_OF_SPROF";

impl Running {
    /// Waits until the program has printed this line.
    pub(crate) fn wait_for(&self, line: &str) {
        wait_until(
            || self.stdout.text().lines().any(|found| found == line),
            || format!("no `{line}`; stderr: {}", self.stderr.text()),
        );
    }

    /// Waits until sprof has said something with these words.
    pub(crate) fn wait_for_sprof(&self, words: &str) {
        let has_words = || self.stderr.text().contains(words);
        wait_until(
            || has_words() || self.stderr.reader.is_finished(),
            || self.stderr.text(),
        );
        assert!(has_words(), "sprof did not say `{words}`: {}", self.stderr.text());
    }

    /// The id of sprof.
    pub(crate) fn sprof_pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the profile will be.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }

    /// Sends a signal, by its name for `kill`, to sprof alone.
    pub(crate) fn signal_sprof(&self, signal: &str) {
        kill(signal, &self.child.id().to_string());
    }

    /// Sends a signal to sprof and everything it started, as a terminal does on Ctrl-C.
    pub(crate) fn signal_group(&self, signal: &str) {
        kill(signal, &format!("-{}", self.child.id()));
    }

    /// Waits until sprof has taken the SIGINT that was sent to it, or has ended. A second one would be the same one
    /// while the first is pending.
    pub(crate) fn wait_until_interrupted(&self) {
        let status = || std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let is_pending = |status: &str| {
            let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
            !status.contains("State:\tZ") && u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() & 2 != 0
        };
        wait_until(|| !is_pending(&status()), status);
    }

    /// Waits until all that is recorded and still runs has used so much CPU time.
    pub(crate) fn wait_for_cpu_ms(&self, ms: f64) {
        let used = || self.targets().iter().map(|pid| cpu_ms(&pid.to_string())).sum::<f64>();
        wait_until(
            || used() >= ms,
            || format!("it used {} ms of CPU time: {}", used(), self.stderr.text()),
        );
    }

    /// Ids of the recorded processes that are alive.
    pub(crate) fn targets(&self) -> Vec<u32> {
        (self.marked.processes().into_iter())
            .map(|(pid, _)| pid)
            .filter(|&pid| pid != self.child.id())
            .collect()
    }

    /// Ends a recording of what runs already once each of these processes has used so much CPU time in it. A recording
    /// of a certain length has few samples where the machine is busy.
    pub(crate) fn finish_after_cpu_ms(self, pids: &[String], used_ms: f64) -> Recording {
        self.wait_for_sprof("Ctrl-C ends");
        let before: Vec<f64> = pids.iter().map(|pid| cpu_ms(pid)).collect();
        let left = |(pid, before): (&String, &f64)| cpu_ms(pid) - before < used_ms;
        wait_until(
            || !pids.iter().zip(&before).any(left),
            || format!("{pids:?} used less than {used_ms} ms of CPU time"),
        );
        self.signal_sprof("INT");
        self.finish()
    }

    /// Waits for the end of sprof.
    pub(crate) fn finish(mut self) -> Recording {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                self.signal_group("KILL");
                panic!("sprof hangs; stderr: {}", self.stderr.text());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let after = SystemTime::now();
        Recording {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout.finish(&self.marked),
            stderr: self.stderr.finish(&self.marked),
            output: self.output,
            before: self.before,
            after,
            marked: self.marked,
            _dir: self.dir,
        }
    }
}

impl Recording {
    /// The profile; it must be there and complete.
    pub(crate) fn profile(&self) -> Profile {
        assert!(
            self.output.exists(),
            "no profile was written; sprof said: {}",
            self.stderr
        );
        Profile::read(&self.output)
    }

    /// A number that the program printed as `name=value`.
    pub(crate) fn printed(&self, name: &str) -> f64 {
        let value = self
            .stdout
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {name}= in {:?}", self.stdout))
    }

    /// Neither a panic nor a backtrace on the terminal, and no temporary file beside the profile.
    pub(crate) fn assert_tidy(&self) {
        assert!(!self.stderr.contains("panicked at"), "{}", self.stderr);
        let dir = self.output.parent().unwrap();
        let names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(
            names.iter().all(|name| name == "profile.json.gz"),
            "left beside the profile: {names:?}"
        );
        self.assert_nothing_left();
    }

    /// All that was recorded has ended. A process that was just killed takes a moment to go.
    pub(crate) fn assert_nothing_left(&self) {
        wait_until(
            || self.left_behind().is_empty(),
            || format!("left behind: {:?}", self.left_behind()),
        );
    }

    /// Processes that run on after sprof, until this is dropped.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let found = self.marked.processes().into_iter();
        found.map(|(pid, command)| format!("{pid} {command}")).collect()
    }
}

pub(crate) fn kill(signal: &str, target: &str) {
    let status = Command::new("kill")
        .args(["-s", signal, "--", target])
        .status()
        .unwrap();
    assert!(status.success(), "kill -s {signal} {target}");
}

/// A value of [`MARK`].
struct Marked(String);

impl Marked {
    /// Processes that carry the mark in their environment, with their command lines; zombies have none.
    fn processes(&self) -> Vec<(u32, String)> {
        let wanted = format!("{MARK}={}", self.0).into_bytes();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| {
                let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
                let environment = std::fs::read(entry.path().join("environ")).ok()?;
                let marked = environment.split(|byte| *byte == 0).any(|variable| variable == wanted);
                let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
                marked.then(|| (pid, command.replace('\0', " ")))
            })
            .collect()
    }
}

/// What runs on disturbs no other test.
impl Drop for Marked {
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            let _ = Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status();
        }
    }
}

/// A pipe that is read as it fills.
struct Collected {
    text: std::sync::Arc<std::sync::Mutex<String>>,
    reader: JoinHandle<()>,
}

fn collect(pipe: impl std::io::Read + Send + 'static) -> Collected {
    let text = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let sink = text.clone();
    let reader = std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            sink.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
        let _ = pipe.read_to_end(&mut line);
    });
    Collected { text, reader }
}

impl Collected {
    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// All of it; of what was left behind, which may hold the pipe open, what it wrote within a second.
    fn finish(self, marked: &Marked) -> String {
        let start = Instant::now();
        while !self.reader.is_finished()
            && start.elapsed() < PATIENCE
            && (start.elapsed() < Duration::from_secs(1) || marked.processes().is_empty())
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.text()
    }
}
