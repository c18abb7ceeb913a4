//! `cargo sprof`: cargo runs a program of this name. It executes the `sprof` that was installed with it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // Cargo passes the name of the command as the first word.
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == "sprof") {
        words.remove(0);
    }
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name("sprof"));
    let sprof = beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from("sprof"));
    let error = Command::new(&sprof).arg("cargo").args(words).exec();
    eprintln!(
        "error: cannot run {}: {error}; cargo-sprof needs sprof beside itself or in PATH",
        sprof.display()
    );
    ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
}
