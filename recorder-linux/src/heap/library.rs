//! The file of the library, which the loader of each program opens.

use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::geteuid;

use super::PRELOAD;

/// Folder of root's library. What root records may run as any user, and nobody else may enter root's own folder.
const FOLDER_OF_ROOT: &str = "/var/cache/sprof";

/// Finds the library's file, or writes it. It stays: a program may start others when the recording has ended, and their
/// loader complains about a missing file. Its name has a hash of its content.
///
/// # Errors
///
/// No folder takes it: why, for each one.
pub(super) fn install(cache: Option<&Path>) -> Result<PathBuf, String> {
    let of_root = geteuid().is_root();
    let first = match of_root {
        true => Some(PathBuf::from(FOLDER_OF_ROOT)),
        false => cache.map(Path::to_owned),
    };
    let last = std::env::temp_dir().join(format!("sprof-{}", geteuid().as_raw()));
    let mut problems = Vec::new();
    for folder in first.into_iter().chain([last]) {
        match install_in(&folder, of_root) {
            Ok(path) => return Ok(path),
            Err(error) => problems.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(problems.join("; "))
}

fn install_in(folder: &Path, of_root: bool) -> io::Result<PathBuf> {
    let mode = if of_root { 0o755 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(folder)?;
    // Another user's link in /tmp may lead to a folder of ours.
    if fs::symlink_metadata(folder)?.uid() != geteuid().as_raw() {
        return Err(io::Error::other("it is another user's"));
    }
    // As the kernel reports it in mappings.
    let folder = fs::canonicalize(folder)?;
    let metadata = fs::metadata(&folder)?;
    let is_ours = metadata.uid() == geteuid().as_raw();
    if !is_ours || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("others may write there"));
    }
    // As it was asked for: a umask may have taken rights away.
    if metadata.mode() & mode != mode {
        fs::set_permissions(&folder, fs::Permissions::from_mode(metadata.mode() | mode))?;
    }
    // ld.so(8) separates paths at these, and replaces what follows a `$`.
    if folder.as_os_str().as_bytes().iter().any(|byte| b": $".contains(byte)) {
        return Err(io::Error::other("LD_PRELOAD can't have such a path"));
    }
    if statvfs(&folder)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(io::Error::other("code can't be mapped from there (noexec)"));
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(PRELOAD);
    // Profiles have its name beside the functions in it.
    let path = folder.join(format!("sprof-heap-{:016x}.so", hasher.finish()));
    if is_whole(&path) {
        return Ok(path);
    }
    // Two recordings may write at once: each renames a file of its own.
    let partial = folder.join(format!(".sprof-heap-{}.partial", std::process::id()));
    let _ = fs::remove_file(&partial);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)?;
    let written = file.write_all(PRELOAD).and_then(|()| {
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        fs::rename(&partial, &path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written.map(|()| path)
}

/// True if the file is this user's, nobody else can change it, and it has all bytes.
fn is_whole(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return false;
    };
    metadata.is_file()
        && metadata.uid() == geteuid().as_raw()
        && metadata.mode() & 0o7777 == 0o644
        && metadata.len() == PRELOAD.len() as u64
        && fs::read(path).is_ok_and(|bytes| bytes == PRELOAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_written_once_and_a_damaged_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = install_in(folder.path(), false).unwrap();
        assert_eq!(fs::read(&path).unwrap(), PRELOAD);
        let inode = || fs::metadata(&path).unwrap().ino();
        let first = inode();
        assert_eq!(install_in(folder.path(), false).unwrap(), path);
        assert_eq!(inode(), first);
        fs::write(&path, "other").unwrap();
        install_in(folder.path(), false).unwrap();
        assert_eq!(fs::read(&path).unwrap(), PRELOAD);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        install_in(folder.path(), false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_place_of_the_library_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = install_in(folder.path(), false).unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "content").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        install_in(folder.path(), false).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"content");
        assert!(!path.is_symlink() && is_whole(&path));
    }

    #[test]
    fn roots_folder_is_open_to_all_that_it_records_whatever_the_umask_is() {
        let folder = tempfile::tempdir().unwrap();
        let mode = || fs::metadata(folder.path()).unwrap().mode() & 0o777;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        install_in(folder.path(), false).unwrap();
        assert_eq!(mode(), 0o700);
        install_in(folder.path(), true).unwrap();
        assert_eq!(mode(), 0o755);
    }

    #[test]
    fn the_link_of_another_user_is_not_followed() {
        if !geteuid().is_root() {
            println!("skipped: only root can make the link of another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (own, link) = (folder.path().join("own"), folder.path().join("link"));
        fs::create_dir(&own).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        install_in(&link, true).unwrap();
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert!(install_in(&link, true).is_err());
    }

    #[test]
    fn a_folder_that_others_may_change_or_that_has_no_place_in_ld_preload_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (shared, spaced) = (folder.path().join("shared"), folder.path().join("with space"));
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(install_in(&shared, false).is_err());
        assert!(install_in(&spaced, false).is_err());
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
    }
}
