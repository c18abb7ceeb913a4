//! Files that only their user may read: whose links are followed, who owns a new file, and names that are free.

pub mod owner;

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use owner::give_to_sudo_caller;

/// Numbers that are tried for a free name.
const MAX_NUMBERS: u32 = 1000;

/// Creates a hidden file in a folder, for the content of `name` until it is whole. Only this user can read it: profiles
/// hold the programs of others, and addresses of the kernel.
///
/// # Errors
///
/// The folder takes no new files.
pub fn partial_in(folder: &Path, name: &str) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".partial")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)
}

/// Writes a small file that only its user may read, whole or not at all, as `name.json` in a folder, or with the next
/// free number. Returns the path.
///
/// # Errors
///
/// The file can't be written, or too many names are taken.
pub fn write_private(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut partial = partial_in(folder, name)?;
    give_to_sudo_caller(partial.as_file());
    partial.write_all(bytes)?;
    partial.as_file().sync_data()?;
    let path = |number: u32| match number {
        0 => folder.join(format!("{name}.json")),
        number => folder.join(format!("{name}.{number}.json")),
    };
    let path = free_name(0, path, |path| take_name(partial.path(), path))?;
    // A crash must not lose the name.
    File::open(folder)?.sync_all()?;
    Ok(path)
}

/// Gives a file a second name; on a file system without links, a new name. Returns the name.
///
/// # Errors
///
/// `AlreadyExists` if the name is taken, or the error of the file system.
pub fn take_name(path: &Path, name: &Path) -> io::Result<PathBuf> {
    // A link fails if the name is taken; a rename would replace the file. Neither follows symbolic links.
    match fs::hard_link(path, name) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) if fs::symlink_metadata(name).is_ok() => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(path, name)?,
    }
    Ok(name.to_owned())
}

/// Calls `take` with numbered names from `first` on, until a name is free.
///
/// # Errors
///
/// The first error that is not `AlreadyExists`, or that all numbers are taken.
pub fn free_name<T>(first: u32, name: impl Fn(u32) -> PathBuf, take: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    for number in first..MAX_NUMBERS {
        match take(&name(number)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other,
        }
    }
    Err(io::Error::other("there are too many earlier ones; remove some"))
}
