//! What a word of the command line names: a program, a file, or neither.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use recording::regular_file;

/// What a word of the command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    /// A program or a script, by path or by name in PATH.
    Program,
    File,
    Nothing,
}

/// Looks at the file that a word names: a program to run (also by its name in PATH), or a file to read.
pub(crate) fn look(word: &OsStr) -> ArgumentKind {
    let path = Path::new(word);
    let in_path = || {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(path).is_file())
    };
    // Opening a pipe would wait for its other end.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return ArgumentKind::Nothing,
        Ok(metadata) if !metadata.is_file() => return ArgumentKind::File,
        Err(_) if path.components().count() == 1 && in_path() => return ArgumentKind::Program,
        Err(_) => return ArgumentKind::Nothing,
        Ok(_) => {}
    }
    let is_executable = std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    let mut start = [0; 4];
    let read = regular_file::open(path).and_then(|mut file| file.read(&mut start));
    match is_executable && read.is_ok() && (start == *b"\x7fELF" || start.starts_with(b"#!")) {
        true => ArgumentKind::Program,
        false => ArgumentKind::File,
    }
}
