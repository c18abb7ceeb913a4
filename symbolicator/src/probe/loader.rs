//! The dynamic loader of a program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::files::object_file::ObjectFile;

/// The loader that a program names. `None` for a static program, a library, and files that can't be read.
pub fn loader_of(program: &Path) -> Option<PathBuf> {
    let file = ObjectFile::open(program).ok()?;
    let section = file.section(".interp").ok()?;
    let name = section
        .split(|byte| *byte == 0)
        .next()
        .filter(|name| !name.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}
