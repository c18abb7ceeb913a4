//! Programs that run without sprof, to be attached to.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::run::wait_until;

/// A program that runs without sprof, and ends with the test.
pub(crate) struct Target {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Target {
    pub(crate) fn start<A: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[A]) -> Target {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Target {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Writes a line, and reads one.
    pub(crate) fn ask(&mut self) -> String {
        self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.line()
    }

    /// Work done and CPU time used since the start.
    pub(crate) fn work(&mut self) -> (f64, f64) {
        let answer = self.ask();
        (number_in(&answer, "work"), number_in(&answer, "cpu_ns"))
    }

    /// Work done per CPU time over a second: what others do on the machine matters little.
    pub(crate) fn speed(&mut self) -> f64 {
        let (work, cpu) = self.work();
        std::thread::sleep(Duration::from_secs(1));
        let (more_work, more_cpu) = self.work();
        (more_work - work) / (more_cpu - cpu)
    }

    /// Ends it by the end of its input.
    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status:?}");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time that the threads of a process have used, ms: the first number of /proc/PID/task/TID/schedstat is in ns.
pub(crate) fn cpu_ms(pid: &str) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
    let used_ns = texts.map(|text| text.split(' ').next().unwrap().parse::<f64>().unwrap());
    used_ns.sum::<f64>() / 1e6
}

/// Name and state (proc_pid_stat(5)) of each thread of a process.
fn threads(pid: &str) -> Vec<(String, String)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    let threads = texts.filter_map(|text| {
        let (name, rest) = text.split_once('(')?.1.rsplit_once(") ")?;
        Some((name.to_owned(), rest[..1].to_owned()))
    });
    threads.collect()
}

/// Waits until a process has at least this number of threads, and all are in this state.
pub(crate) fn wait_for_state(pid: &str, least: usize, state: &str) {
    let is_so = || {
        let threads = threads(pid);
        threads.len() >= least && threads.iter().all(|(_, found)| found == state)
    };
    wait_until(is_so, || {
        format!("{least} threads of {pid} in {state}: {:?}", threads(pid))
    });
}

/// Waits until a process has a thread of this name.
pub(crate) fn wait_for_thread(pid: &str, name: &str) {
    wait_until(
        || threads(pid).iter().any(|(found, _)| found == name),
        || format!("no thread {name} of {pid}: {:?}", threads(pid)),
    );
}

/// Waits until a process has used so much CPU time: it does what it is there for.
pub(crate) fn wait_for_cpu_ms(pid: &str, ms: f64) {
    wait_until(
        || cpu_ms(pid) >= ms,
        || format!("{pid} used less than {ms} ms of CPU time"),
    );
}

/// The number after `name=` in a line of words.
pub(crate) fn number_in(line: &str, name: &str) -> f64 {
    let word = line
        .split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.unwrap_or_else(|| panic!("no {name} in: {line}")).parse().unwrap()
}
