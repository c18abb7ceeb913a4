//! The library in recorded programs: its file, and the environment that makes dyld insert it.
//!
//! The file stays after the recording. dyld ends a program that names a library which is not there
//! (`loadInsertedLibraries` in dyld/DyldRuntimeState.cpp), and what is left running has the name in its environment.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use recording::command::own;
use recording::program::ProgramImage;
use recording::session::RecordError;

use super::host::Host;
use super::wire;
use crate::kernel::MachError;

/// For all processors of Macs, as `.ci/preload` builds it.
const LIBRARY: &[u8] = include_bytes!("preload/preload.dylib");

/// Programs announce themselves until this is dropped.
#[derive(Debug)]
pub(crate) struct Preload<M: Host>(M);

impl<M: Host> Drop for Preload<M> {
    fn drop(&mut self) {
        self.0.stop_listening();
    }
}

impl<M: Host + Clone> Preload<M> {
    /// Opens the port, and returns the program with an environment that makes it announce itself.
    pub(crate) fn open(host: &M, image: &ProgramImage) -> Result<(Preload<M>, ProgramImage), RecordError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            RecordError::Failed(format!(
                "cannot record: {what}: {error}; after `{} setup` that is not needed",
                own()
            ))
        };
        let folder = host
            .own_folder()
            .ok_or_else(|| failed("macOS names no folder for sprof's library", &"confstr failed"))?;
        let library = place(&folder).map_err(|error| {
            failed(
                &format!("sprof's library cannot be written to {}", folder.display()),
                &error,
            )
        })?;
        let name = host.listen().map_err(|failure| match failure {
            MachError::Code(code) => failed("no port can be opened", &format_args!("code {code}")),
            MachError::Gone => failed("no port can be opened", &"launchd is not there"),
        })?;
        let image = with_environment(image, &library, &name);
        Ok((Preload(host.clone()), image))
    }
}

/// Writes the library into a folder, unless it is there. Each build of it has a name of its own.
///
/// # Errors
///
/// The folder can't be made, or the file can't be written.
pub fn place(folder: &Path) -> io::Result<PathBuf> {
    let mut build = DefaultHasher::new();
    build.write(LIBRARY);
    let folder = folder.join("sprof");
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let path = folder.join(format!("preload-{:016x}.dylib", build.finish()));
    if fs::read(&path).is_ok_and(|bytes| bytes == LIBRARY) {
        return Ok(path);
    }
    // A program that starts now sees the whole file, or none.
    let beside = folder.join(format!("preload-{}.new", std::process::id()));
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(LIBRARY)?;
    drop(file);
    fs::rename(&beside, &path)?;
    Ok(path)
}

/// The program with what the library needs in its environment.
fn with_environment(image: &ProgramImage, library: &Path, port: &str) -> ProgramImage {
    let names = [wire::INSERT, wire::LIBRARY, wire::NAME];
    let name_of = |entry: &CString| {
        entry
            .to_bytes()
            .split(|byte| *byte == b'=')
            .next()
            .unwrap_or_default()
            .to_vec()
    };
    let present = image.env.iter().find(|entry| name_of(entry) == wire::INSERT.as_bytes());
    let present = present.and_then(|entry| entry.to_bytes().get(wire::INSERT.len() + 1..));
    let values = [
        joined(library.as_os_str(), present.map(OsStr::from_bytes)),
        library.as_os_str().to_owned(),
        OsString::from(port),
    ];
    let mut env = image.env.clone();
    env.retain(|entry| !names.iter().any(|name| name_of(entry) == name.as_bytes()));
    env.extend(names.iter().zip(values).filter_map(|(name, value)| {
        let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
        CString::new(entry).ok()
    }));
    ProgramImage { env, ..image.clone() }
}

/// The libraries to insert: sprof's first, and those that the user has.
fn joined(library: &OsStr, present: Option<&OsStr>) -> OsString {
    let present = present.map_or(&b""[..], OsStr::as_bytes).split(|byte| *byte == b':');
    let others = present.filter(|path| !path.is_empty() && *path != library.as_bytes());
    let all: Vec<&[u8]> = std::iter::once(library.as_bytes()).chain(others).collect();
    OsString::from_vec(all.join(&b':'))
}

/// The variable that dyld has removed from the environment, and its value. `None` if nothing was removed, or this
/// process does not run below a recording with sprof's library.
pub fn lost_variable(get: impl Fn(&str) -> Option<OsString>) -> Option<(&'static str, OsString)> {
    let library = get(wire::LIBRARY)?;
    let present = get(wire::INSERT);
    let all = joined(&library, present.as_deref());
    (present.as_ref() != Some(&all)).then_some((wire::INSERT, all))
}
