//! Asks cargo about the workspace and the host.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::command::CargoCommand;

/// The part of `cargo metadata` that a recording needs.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) targets: Vec<CargoTarget>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CargoTarget {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

/// Asks cargo. `None` without an answer: cargo will report the reason when it runs.
pub(crate) fn ask(command: &CargoCommand, folder: &Path, env: &[(OsString, OsString)]) -> Option<Workspace> {
    let mut words: Vec<OsString> = ["metadata", "--no-deps", "--format-version", "1"]
        .map(OsString::from)
        .into();
    if let Some(path) = &command.manifest_path {
        words.push("--manifest-path".into());
        words.push(path.into());
    }
    for config in &command.config {
        words.push("--config".into());
        words.push(config.into());
    }
    serde_json::from_slice(&output(command, folder, env, &words)?).ok()
}

/// The default target of cargo: `x86_64-unknown-linux-gnu`.
pub(crate) fn host(command: &CargoCommand, folder: &Path, env: &[(OsString, OsString)]) -> Option<String> {
    let text = String::from_utf8(output(command, folder, env, &["-vV".into()])?).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(|host| host.trim().to_owned())
}

/// The lines of `rustc --print cfg`: `target_os="linux"` and others.
pub(crate) fn cfg(target: &str, folder: &Path, env: &[(OsString, OsString)]) -> Option<String> {
    let rustc = env.iter().find(|(name, _)| name == "RUSTC");
    let rustc = rustc.map_or(OsString::from("rustc"), |(_, path)| path.clone());
    let words = ["--print", "cfg", "--target", target].map(OsString::from);
    String::from_utf8(run(&rustc, &words, folder, env)?).ok()
}

fn output(command: &CargoCommand, folder: &Path, env: &[(OsString, OsString)], words: &[OsString]) -> Option<Vec<u8>> {
    let (program, toolchain) = command.program.split_first()?;
    let words: Vec<OsString> = toolchain.iter().chain(words).cloned().collect();
    run(program, &words, folder, env)
}

fn run(program: &OsString, words: &[OsString], folder: &Path, env: &[(OsString, OsString)]) -> Option<Vec<u8>> {
    let output = Command::new(program)
        .args(words)
        .current_dir(folder)
        .env_clear()
        .envs(env.iter().cloned())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then_some(output.stdout)
}
