//! Owners of files: which links are followed, and who owns a new file.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Links to follow at most (path_resolution(7) has the same limit).
const MAX_LINKS: usize = 40;

/// Follows the links of a path. In a folder such as /tmp, a link of another user may lead to any file: such a link is
/// not followed.
///
/// # Errors
///
/// The path has a link, pipe or device of another user, a link that can't be read, or more than 40 links.
pub fn end_of_links(path: &Path) -> Result<PathBuf, String> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            return Ok(path);
        };
        let is_file = meta.file_type().is_file() || meta.is_dir();
        if !is_file && !is_trusted(meta.uid()) {
            return Err(format!(
                "it is a link, pipe or device of another user (id {}); remove it, or name another file with -o",
                meta.uid()
            ));
        }
        // The link of a descriptor in /proc to a pipe is not a path that can be opened.
        let leads_to_file = fs::metadata(&path).map_or(true, |end| end.is_file() || end.is_dir());
        if !meta.is_symlink() || !leads_to_file {
            return Ok(path);
        }
        let next = fs::read_link(&path).map_err(|error| format!("reading the link {}: {error}", path.display()))?;
        path = folder_of(&path).join(next);
    }
    Err("it is a chain of too many links; name another file with -o".into())
}

/// True for files of this user, of root, and of the user who called sudo.
pub fn is_trusted(owner: u32) -> bool {
    owner == rustix::process::geteuid().as_raw() || owner == 0 || sudo_caller().is_some_and(|(uid, _)| uid == owner)
}

/// User and group of the caller of sudo (`SUDO_UID` and `SUDO_GID`, sudo(8)).
fn sudo_caller() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    rustix::process::geteuid().is_root().then_some(())?;
    Some((number("SUDO_UID")?, number("SUDO_GID")?))
}

/// Gives a file to the caller of sudo, who asked for the file; no other user may read it.
pub fn give_to_sudo_caller(file: &File) {
    if let Some((uid, gid)) = sudo_caller() {
        let owner = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        // Some file systems have no owners; then the file stays root's.
        let _ = rustix::fs::fchown(file, Some(owner.0), Some(owner.1));
    }
}

/// The folder of a file; `.` of a name alone.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
