//! Cargo, and the workspace `tests/cargo-workspace` that it builds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::run::sprof;
use super::skip::{Need, has, perf_events};
use super::{Profile, tests_dir};

/// The workspace.
pub(crate) fn workspace() -> PathBuf {
    tests_dir().join("cargo-workspace")
}

/// One folder for what is built, so that criterion is built once.
pub(crate) fn target_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cargo-workspace")
}

/// Goes on where cargo can be run.
pub(crate) fn cargo() -> Option<()> {
    let cargo = Command::new("cargo").arg("--version").output();
    let works = cargo.is_ok_and(|output| output.status.success());
    has(Need::Cargo, works, "cargo is not installed").then(perf_events)?
}

/// The same where crates are to be had, with the benchmarks built by sprof itself.
pub(crate) fn crates() -> Option<()> {
    cargo()?;
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let output = sprof_in(&["record", "cargo", "bench", "--no-run"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(said)
    });
    let reason = built.as_ref().err().map_or("", String::as_str);
    has(
        Need::Crates,
        built.is_ok(),
        &format!("criterion and divan can't be built: {reason}"),
    )
    .then_some(())
}

/// Goes on where cargo-nextest is installed.
pub(crate) fn nextest() -> Option<()> {
    cargo()?;
    let nextest = Command::new("cargo").args(["nextest", "--version"]).output();
    let works = nextest.is_ok_and(|output| output.status.success());
    has(Need::Nextest, works, "cargo-nextest is not installed").then_some(())
}

/// `sprof` with these words, in the workspace, as if cargo had not started the tests.
pub(crate) fn sprof_in(words: &[&str]) -> Command {
    let mut command = sprof();
    away_from_cargo(&mut command);
    command.args(words).current_dir(workspace()).stdin(Stdio::null());
    command
        .env("CARGO_TARGET_DIR", target_dir())
        .env("CARGO_TERM_COLOR", "never");
    command
}

/// Cargo tells what it runs about itself.
fn away_from_cargo(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let is_set_by_cargo = name.starts_with("CARGO_") && name != "CARGO_HOME" && !name.starts_with("CARGO_HTTP");
        if is_set_by_cargo || name == "CARGO" || name == "RUSTFLAGS" || name == "LD_LIBRARY_PATH" {
            command.env_remove(&name);
        }
    }
}

/// Builds the package in a folder. Returns the folder of what was built, or what cargo said.
pub(crate) fn build_in(package: &Path, name: &str) -> Result<PathBuf, String> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new("cargo");
    away_from_cargo(&mut command);
    command.args(["build", "--locked"]).current_dir(package);
    let output = command.env("CARGO_TARGET_DIR", &target).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(target).ok_or(said)
}

/// What came of a recording.
pub(crate) struct Recorded {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    output: PathBuf,
    _folder: tempfile::TempDir,
}

/// Records cargo with these words, and with these variables. `options` are sprof's.
pub(crate) fn record_cargo(options: &[&str], words: &[&str], env: &[(&str, &str)]) -> Recorded {
    let line: Vec<&str> = [&["record"], options, &["--", "cargo"], words].concat();
    run(&line, env)
}

/// Runs sprof with these words, which save a profile.
pub(crate) fn run(words: &[&str], env: &[(&str, &str)]) -> Recorded {
    save(sprof_in(words), env)
}

/// The same of `cargo sprof`, as cargo runs it.
pub(crate) fn cargo_sprof(words: &[&str], env: &[(&str, &str)]) -> Recorded {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-sprof"));
    let like = sprof_in(&[]);
    command
        .arg("sprof")
        .args(words)
        .current_dir(workspace())
        .stdin(Stdio::null());
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    save(command, env)
}

fn save(mut command: Command, env: &[(&str, &str)]) -> Recorded {
    let folder = super::temp_dir();
    let output = folder.path().join("profile.json.gz");
    command.env("SPROF_OUTPUT", &output).env("SPROF_SAVE_ONLY", "1");
    command.envs(env.iter().copied());
    let came = command.output().unwrap();
    Recorded {
        code: came.status.code(),
        stdout: String::from_utf8(came.stdout).unwrap(),
        stderr: String::from_utf8(came.stderr).unwrap(),
        output,
        _folder: folder,
    }
}

impl Recorded {
    /// The profile.
    pub(crate) fn profile(&self) -> Profile {
        assert!(self.has_profile(), "no profile was saved:\n{}", self.stderr);
        Profile::read(&self.output)
    }

    pub(crate) fn has_profile(&self) -> bool {
        self.output.exists()
    }
}
