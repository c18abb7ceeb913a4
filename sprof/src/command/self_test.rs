//! `sprof doctor --self-test`: records a program whose shares are known, and compares them with the recorded shares.
//!
//! The program is sprof itself, started with the word `self-test-program`. Two threads of it run two functions in turn,
//! one with twice the work of the other. sprof records and reads as for a user.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

use recording::command::own;
use serde_json::Value;

use crate::exit::{Failure, Outcome, Status};
use crate::output::screen;

/// The word that makes sprof the program of the test.
const WORD: &str = "self-test-program";
/// Run time of the program.
const LENGTH: Duration = Duration::from_millis(1500);
/// A recording that takes longer hangs: a thread stayed suspended.
const LIMIT: Duration = Duration::from_secs(60);
/// What the program prints at its end.
const DONE: &str = "self-test-program is done";
/// Iterations of the function with less work: about half a millisecond.
const WORK: u64 = 500_000;
/// The other function does this many times the work.
const TIMES: u64 = 2;

/// True if this process was started as the program of the test.
pub(crate) fn asked() -> bool {
    let mut words = std::env::args_os().skip(1);
    words.next().as_deref() == Some(OsStr::new(WORD)) && words.next().is_none()
}

/// The program of the test.
pub(crate) fn work() -> ExitCode {
    let end = Instant::now() + LENGTH;
    let turns = move || {
        while Instant::now() < end {
            black_box(self_test_two_thirds(TIMES * WORK));
            black_box(self_test_one_third(WORK));
        }
    };
    let other = std::thread::Builder::new().name("self-test".to_owned()).spawn(turns);
    turns();
    let is_whole = other.is_ok_and(|other| other.join().is_ok());
    let printed = screen::print("the end", |out| writeln!(out, "{DONE}"));
    match is_whole && printed.is_ok() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

#[inline(never)]
fn self_test_two_thirds(times: u64) -> u64 {
    (0..times).fold(1, |sum, step| black_box(sum ^ step).wrapping_mul(3))
}

#[inline(never)]
fn self_test_one_third(times: u64) -> u64 {
    (0..times).fold(2, |sum, step| black_box(sum ^ step).wrapping_mul(5))
}

/// Runs the test and prints the block. Status 125 if a check fails.
pub(crate) fn run() -> Outcome {
    let program = std::env::current_exe().map_err(|error| format!("cannot find the file of sprof itself: {error}"))?;
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder for the recording: {error}"))?;
    let file = folder.path().join("self-test.json.gz");
    let mut block = Block::default();
    block.line(
        "sprof",
        format_args!("{} {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH),
    );
    let words = [
        OsStr::new("record"),
        // By itself, ptrace takes a tenth of that: too little on a busy machine.
        OsStr::new("-sqr1000"),
        OsStr::new("-o"),
        file.as_os_str(),
        OsStr::new("--"),
    ];
    let recorded = run_own(
        &program,
        folder.path(),
        words.into_iter().chain([program.as_os_str(), OsStr::new(WORD)]),
    )?;
    match recorded {
        None => block.check(
            "the recording ends",
            false,
            format_args!("not within {} s", LIMIT.as_secs()),
        ),
        Some(recorded) => {
            let stderr = String::from_utf8_lossy(&recorded.stderr).trim().to_owned();
            let is_done = String::from_utf8_lossy(&recorded.stdout).contains(DONE);
            block.check("the program ends by itself", is_done, recorded.status);
            block.check("the profile is saved", recorded.status.success() && file.exists(), "");
            block.text(&stderr);
            if file.exists() {
                compare(&program, folder.path(), &file, &mut block)?;
            }
        }
    }
    let is_good = block.failed == 0;
    let verdict = match is_good {
        true => "passed",
        false => "FAILED",
    };
    block.line("self-test", verdict);
    let text = format!("```\n{}```\n", block.text);
    screen::print("the block", |out| out.write_all(text.as_bytes()))?;
    Ok(if is_good { Status::SUCCESS } else { Status::PARTIAL })
}

/// Compares the profile with what the program did.
fn compare(program: &Path, folder: &Path, file: &Path, block: &mut Block) -> Result<(), Failure> {
    let words = [
        OsStr::new("report"),
        file.as_os_str(),
        OsStr::new("--format"),
        OsStr::new("json"),
    ];
    let report = run_own(program, folder, words)?.ok_or_else(|| Failure::failed("`sprof report` does not end"))?;
    let report: Value = serde_json::from_slice(&report.stdout)
        .map_err(|error| Failure::failed(format_args!("`sprof report --format json` printed no JSON: {error}")))?;
    for key in ["os", "cpu"] {
        block.line(key, report["profile"][key].as_str().unwrap_or("not known"));
    }
    let samples = report["selection"]["samples"].as_f64().unwrap_or(0.0);
    block.check("there are samples", samples >= 100.0, format_args!("{samples}"));
    let views = report["views"].as_array().map_or(&[][..], Vec::as_slice);
    let rows = views
        .iter()
        .find(|view| view["id"] == "functions")
        .and_then(|view| view["rows"].as_array());
    let rows = rows.map_or(&[][..], Vec::as_slice);
    let share = |name: &str| {
        // Excludes the closure in the function, whose name is longer.
        let is_it = |row: &&Value| {
            row["function"]
                .as_str()
                .is_some_and(|function| function.ends_with(name))
        };
        rows.iter().find(is_it).and_then(|row| row["total"]["share"].as_f64())
    };
    let shares = (share("self_test_two_thirds"), share("self_test_one_third"));
    block.check("functions have names", shares.0.is_some() && shares.1.is_some(), "");
    let (Some(more), Some(less)) = shares else {
        return Ok(());
    };
    let truth = TIMES as f64 / (TIMES + 1) as f64;
    let found = more / (more + less).max(f64::MIN_POSITIVE);
    // Chance explains differences up to five standard deviations of the number of samples.
    let most = 5.0 * (truth * (1.0 - truth) / samples.max(1.0)).sqrt();
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    block.check(
        "shares are right",
        (found - truth).abs() < most,
        format_args!(
            "{} of {}, at most {} apart by chance",
            percent(found),
            percent(truth),
            percent(most)
        ),
    );
    block.check("the rest is small", more + less > 0.9, percent(1.0 - more - less));
    let groups = report["profile"]["extra"].as_object().into_iter().flatten();
    for (name, value) in groups.filter_map(|(_, group)| group.as_object()).flatten() {
        block.line(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    for note in report["notes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        block.line("note", note);
    }
    Ok(())
}

/// Runs sprof in an empty folder, without the user's variables for sprof. `None` if it took longer than [`LIMIT`] and
/// was killed.
fn run_own<'a>(
    program: &Path,
    folder: &Path,
    words: impl IntoIterator<Item = &'a OsStr>,
) -> Result<Option<Output>, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format_args!("cannot run {}: {error}", own()));
    // Files, not pipes: a report can be larger than the buffer of a pipe, and nobody reads before the end.
    let (stdout, stderr) = (folder.join("stdout"), folder.join("stderr"));
    let mut command = Command::new(program);
    // Its stdin is that of this process: an empty chroot has no /dev/null.
    command
        .current_dir(folder)
        .args(words)
        .stdout(File::create(&stdout).map_err(failed)?)
        .stderr(File::create(&stderr).map_err(failed)?);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"SPROF_") {
            command.env_remove(name);
        }
    }
    let mut child = command.spawn().map_err(failed)?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if begin.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Ok(Some(Output {
        status,
        stdout: fs::read(&stdout).map_err(failed)?,
        stderr: fs::read(&stderr).map_err(failed)?,
    }))
}

/// The block for a report.
#[derive(Default)]
struct Block {
    text: String,
    failed: u32,
}

impl Block {
    fn line(&mut self, name: &str, value: impl Display) {
        self.text
            .push_str(format!("{name}: {value}").trim_end().trim_end_matches(':'));
        self.text.push('\n');
    }

    fn check(&mut self, name: &str, is_good: bool, detail: impl Display) {
        self.failed += u32::from(!is_good);
        let word = if is_good { "ok" } else { "FAILED" };
        self.line(&format!("{word:6} {name}"), detail);
    }

    fn text(&mut self, text: &str) {
        for line in text.lines() {
            self.text.push_str(&format!("  | {line}\n"));
        }
    }
}
