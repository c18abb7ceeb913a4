//! From what the user typed to what execve(2) takes.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::session::RecordError;

/// A program with its arguments and environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramImage {
    /// The file.
    pub path: CString,
    /// Arguments, the first of which is the program as the user typed it.
    pub args: Vec<CString>,
    /// `NAME=value`.
    pub env: Vec<CString>,
}

/// Where the C library looks if PATH is not set (`_CS_PATH`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Finds the program and prepares its arguments and environment.
///
/// # Errors
///
/// [`RecordError::NotFound`] or [`RecordError::NotExecutable`]: no such program, or it can't be executed; or an
/// argument or variable holds a NUL byte.
pub fn resolve(command: &[OsString], variables: &[(OsString, OsString)]) -> Result<ProgramImage, RecordError> {
    let Some(program) = command.first() else {
        return Err(RecordError::NotFound(String::new()));
    };
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in variables {
        env.retain(|(other, _)| other != name);
        env.push((name.clone(), value.clone()));
    }
    let search = env
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.as_os_str());
    let path = find(program, search.unwrap_or(OsStr::new(DEFAULT_PATH)))?;
    let env = env.into_iter().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    Ok(ProgramImage {
        path: c_string(program, path.into_os_string())?,
        args: command
            .iter()
            .map(|arg| c_string(program, arg.clone()))
            .collect::<Result<_, _>>()?,
        env: env.map(|entry| c_string(program, entry)).collect::<Result<_, _>>()?,
    })
}

fn find(program: &OsStr, search: &OsStr) -> Result<PathBuf, RecordError> {
    let display = || program.to_string_lossy().into_owned();
    let not_executable = |reason: &str| RecordError::NotExecutable {
        program: display(),
        reason: reason.to_owned(),
    };
    if program.as_bytes().contains(&b'/') {
        return match check(Path::new(program)) {
            FoundProgram::Executable => Ok(program.into()),
            FoundProgram::Missing => Err(RecordError::NotFound(display())),
            FoundProgram::Unusable(reason) => Err(not_executable(reason)),
        };
    }
    let mut unusable = None;
    for folder in std::env::split_paths(search) {
        // An empty entry in PATH means the current directory.
        let path = if folder.as_os_str().is_empty() {
            Path::new(".").join(program)
        } else {
            folder.join(program)
        };
        match check(&path) {
            FoundProgram::Executable => return Ok(path),
            FoundProgram::Missing => {}
            FoundProgram::Unusable(reason) => unusable = Some(reason),
        }
    }
    match unusable {
        _ if program.is_empty() => Err(RecordError::NotFound(display())),
        Some(reason) => Err(not_executable(reason)),
        None => Err(RecordError::NotFound(display())),
    }
}

enum FoundProgram {
    Executable,
    Missing,
    Unusable(&'static str),
}

fn check(path: &Path) -> FoundProgram {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => FoundProgram::Unusable("it is a folder; give the program in it"),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => {
            FoundProgram::Unusable("permission denied: it is not marked executable; `chmod +x` it if it is a program")
        }
        Ok(_) => FoundProgram::Executable,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            FoundProgram::Unusable("permission denied: a folder on the way to it may not be entered")
        }
        Err(_) => FoundProgram::Missing,
    }
}

fn c_string(program: &OsStr, string: OsString) -> Result<CString, RecordError> {
    CString::new(string.into_vec()).map_err(|_| RecordError::NotExecutable {
        program: program.to_string_lossy().into_owned(),
        reason: "an argument holds a NUL byte, which no program can be given".to_owned(),
    })
}
