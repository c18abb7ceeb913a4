//! Runs programs under a tool, in turns with other tools, as all benchmarks do.

#![allow(dead_code, reason = "each benchmark uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::support;

/// Whether the run has to be quick, and the parts that are wanted: none stands for all.
pub(crate) fn arguments() -> (bool, Vec<String>) {
    // Cargo adds `--bench` to what the user gave.
    let (options, wanted): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    (options.iter().any(|word| word == "--quick"), wanted)
}

/// Whether a command is installed.
pub(crate) fn is_there(command: &str) -> bool {
    let output = Command::new(command).arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// One run of a program under a tool.
pub(crate) struct Run {
    pub(crate) wall: Duration,
    /// CPU time of the tool and the program together.
    pub(crate) cpu: Duration,
    stdout: String,
    pub(crate) end_ns: u128,
    /// What the tool has written.
    pub(crate) file: PathBuf,
    _dir: tempfile::TempDir,
}

impl Run {
    /// `words` are those before the program's own, for an output of this name.
    pub(crate) fn new(
        tool: &str,
        file: &str,
        words: impl FnOnce(&Path) -> Vec<String>,
        program: &Path,
        arguments: &[&str],
    ) -> Run {
        let dir = support::temp_dir();
        let file = dir.path().join(file);
        // The shell's own account of all that ran below it, in ms: no system call of ours.
        let mut command = Command::new("bash");
        command.args(["-c", r#"TIMEFORMAT="cpu_time %3U %3S"; time "$@""#, "bash"]);
        command.args(words(&file)).arg(program).args(arguments);
        command.env_remove("CI").stdin(Stdio::null());
        let start = Instant::now();
        let Output { status, stdout, stderr } = command.output().unwrap();
        let wall = start.elapsed();
        let end_ns = UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{tool}: {stderr}");
        let times = stderr
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("cpu_time "))
            .unwrap();
        let cpu: f64 = times.split(' ').map(|seconds| seconds.parse::<f64>().unwrap()).sum();
        let stdout = String::from_utf8(stdout).unwrap();
        Run {
            wall,
            cpu: Duration::from_secs_f64(cpu),
            stdout,
            end_ns,
            file,
            _dir: dir,
        }
    }

    /// What the program printed as `name=number`.
    pub(crate) fn printed(&self, name: &str) -> f64 {
        let word = self
            .stdout
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.unwrap().parse().unwrap()
    }

    /// CPU seconds of the recorder alone.
    pub(crate) fn recorder_cpu_s(&self) -> f64 {
        self.cpu.as_secs_f64() - self.printed("cpu_ns") / 1e9
    }
}

/// For each tool the figures of all repeats, which are made by turns.
pub(crate) fn by_turns<T: Copy, F>(tools: &[T], repeats: usize, mut figure: impl FnMut(T) -> F) -> Vec<Vec<F>> {
    let mut all: Vec<Vec<F>> = tools.iter().map(|_| Vec::new()).collect();
    for _ in 0..repeats {
        for (tool, figures) in tools.iter().zip(&mut all) {
            figures.push(figure(*tool));
        }
    }
    all
}

/// Interleaved medians: one figure per tool.
pub(crate) fn medians<T: Copy>(tools: &[T], repeats: usize, figure: impl FnMut(T) -> f64) -> Vec<f64> {
    by_turns(tools, repeats, figure).into_iter().map(median).collect()
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

pub(crate) fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::MAX, f64::min)
}

pub(crate) fn verdict(good: bool) -> &'static str {
    if good { "ok" } else { "MISSED" }
}
