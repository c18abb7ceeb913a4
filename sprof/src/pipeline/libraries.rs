//! The libraries of a program, in the order in which its dynamic loader searches them for a name.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use symbolicator::probe::loader_of;

/// Libraries that a process has mapped.
pub(crate) fn of_process(pid: i32) -> Vec<PathBuf> {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let code =
        recording::proc::mappings(&maps).filter(|mapping| mapping.is_executable && mapping.path.starts_with(b"/"));
    let mut paths: Vec<Vec<u8>> = code.map(|mapping| mapping.path).collect();
    paths.retain(|path| path != program.as_os_str().as_bytes());
    paths.dedup();
    // The kernel places each below the one before; the loader itself is the first, and searched last.
    paths.reverse();
    if !paths.is_empty() {
        paths.rotate_left(1);
    }
    paths.iter().map(|path| seen_from_here(pid, path)).collect()
}

/// The path itself, unless another file is there for sprof.
fn seen_from_here(pid: i32, path: &[u8]) -> PathBuf {
    let inside = [format!("/proc/{pid}/root").as_bytes(), path].concat();
    let [path, inside] = [path, &inside].map(|path| PathBuf::from(OsStr::from_bytes(path)));
    let file = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    if file(&path) == file(&inside) { path } else { inside }
}

/// Libraries that a program will have when it starts in this environment, as its loader says. Without those that it
/// loads later (dlopen).
pub(crate) fn of_program(program: &Path) -> Vec<PathBuf> {
    let Some(loader) = loader_of(program) else {
        return Vec::new();
    };
    let mut command = Command::new(loader);
    command
        .arg("--list")
        .arg(program)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let listed = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&listed)
        .lines()
        .filter_map(listed_path)
        .collect()
}

/// `\tlibc.so.6 => /lib/libc.so.6 (0x7f00)` or `\t/lib64/ld-linux.so.2 (0x7f00)`.
fn listed_path(line: &str) -> Option<PathBuf> {
    let (path, _) = line.trim().rsplit_once(" (0x")?;
    let path = path.rsplit_once(" => ").map_or(path, |(_, path)| path);
    path.starts_with('/').then(|| PathBuf::from(path))
}
