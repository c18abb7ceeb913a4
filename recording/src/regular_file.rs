//! Opens files whose place others may control: mapped files, perf maps, debug files, sources.
//!
//! Never waits: a FIFO, a device, or a file under a lease (fcntl(2)) is refused, and not opened. Below
//! `/proc/PID/root`, and below an open folder (`/proc/self/fd/N`), links lead to files of that root, as they do for the
//! process: never to the recorder's own.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Opens a regular file for reading.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`]: there is something else, such as a FIFO. [`io::ErrorKind::Unsupported`]: a link
/// below another root is not followed, because the kernel is older than Linux 5.6 or refuses openat2(2). Else what the
/// system says.
pub fn open(path: &Path) -> io::Result<File> {
    system::open(path)
}

/// What is at a path. Nothing is opened for reading.
///
/// # Errors
///
/// The errors of [`open`], but a folder or a device is not an error.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    system::metadata(path)
}

/// The path of an open file without links. `path` is where it was opened.
///
/// # Errors
///
/// What the system says.
pub fn real_path(file: &File, path: &Path) -> io::Result<PathBuf> {
    system::real_path(file, path)
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

#[cfg(unix)]
fn owned_by(uid: u32, metadata: &Metadata) -> io::Result<()> {
    match std::os::unix::fs::MetadataExt::uid(metadata) == uid {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user owns it")),
    }
}

#[cfg(unix)]
pub use system::open_owned;

#[cfg(target_os = "linux")]
mod system {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::path::Component;

    use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
    use rustix::io::Errno;

    use super::*;

    /// Finds the file without opening it for reading (open(2), `O_PATH`).
    const FIND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
    const READ: OFlags = OFlags::RDONLY
        .union(OFlags::CLOEXEC)
        .union(OFlags::NOCTTY)
        .union(OFlags::NONBLOCK);
    /// A rename or a mount anywhere in the system can make openat2(2) fail with EAGAIN.
    const TRIES: usize = 16;

    pub(super) fn open(path: &Path) -> io::Result<File> {
        read(find(path, FIND)?, path)
    }

    pub(super) fn metadata(path: &Path) -> io::Result<Metadata> {
        find(path, FIND)?.metadata()
    }

    pub(super) fn real_path(file: &File, _path: &Path) -> io::Result<PathBuf> {
        std::fs::read_link(own_path(file))
    }

    /// Opens a regular file that this user owns. Where its name is a link, the user also owns the link.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::PermissionDenied`]: another user owns it. Else as of `open`.
    pub fn open_owned(path: &Path, uid: u32) -> io::Result<File> {
        let mut found = find(path, FIND | OFlags::NOFOLLOW)?;
        owned_by(uid, &found.metadata()?)?;
        if found.metadata()?.is_symlink() {
            found = find(path, FIND)?;
        }
        let file = read(found, path)?;
        owned_by(uid, &file.metadata()?)?;
        Ok(file)
    }

    fn own_path(file: &File) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }

    /// Opens what was found, if it is a regular file.
    fn read(found: File, path: &Path) -> io::Result<File> {
        regular(&found.metadata()?)?;
        let file = match rustix::fs::open(own_path(&found), READ, Mode::empty()) {
            Ok(file) => File::from(file),
            // Without /proc.
            Err(Errno::NOENT) => find(path, READ)?,
            Err(error) => return Err(error.into()),
        };
        regular(&file.metadata()?)?;
        Ok(file)
    }

    fn find(path: &Path, flags: OFlags) -> io::Result<File> {
        let Some((root, below)) = root_and_rest(path) else {
            return Ok(rustix::fs::open(path, flags, Mode::empty())?.into());
        };
        let root = rustix::fs::open(root, FIND | OFlags::DIRECTORY, Mode::empty())?;
        for _ in 0..TRIES {
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            match openat2(&root, below, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                // seccomp filters of older container runtimes refuse unknown calls with EPERM.
                Err(Errno::NOSYS | Errno::PERM) => return walk(root, below, flags),
                found => return Ok(found?.into()),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// The root of another process, or an open folder, and the path below it.
    fn root_and_rest(path: &Path) -> Option<(PathBuf, &Path)> {
        let rest = path.strip_prefix("/proc").ok()?;
        let mut parts = rest.components();
        let mut next = || parts.next()?.as_os_str().to_str();
        let (process, entry) = (next()?, next()?);
        let depth = match entry {
            "root" if process == "self" || process.bytes().all(|byte| byte.is_ascii_digit()) => 2,
            "fd" if process == "self" => {
                next()?;
                3
            }
            _ => return None,
        };
        let below = parts.as_path();
        let root = rest.components().take(depth).collect::<PathBuf>();
        (!below.as_os_str().is_empty()).then(|| (Path::new("/proc").join(root), below))
    }

    /// Opens a file below a root without openat2(2): no link is followed.
    pub(super) fn walk(root: OwnedFd, below: &Path, flags: OFlags) -> io::Result<File> {
        let unsupported = || {
            let why = "a link below another root is not followed: this kernel has no openat2(2), which Linux 5.6 brought, or refuses it";
            io::Error::new(io::ErrorKind::Unsupported, why)
        };
        let mut at = File::from(root);
        let mut components = below.components().peekable();
        while let Some(component) = components.next() {
            let name = match component {
                Component::Normal(name) => name,
                Component::CurDir => continue,
                _ => return Err(unsupported()),
            };
            let flags = if components.peek().is_some() { FIND } else { flags };
            at = match openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::LOOP) => return Err(unsupported()),
                found => found?.into(),
            };
            if at.metadata()?.is_symlink() && components.peek().is_some() {
                return Err(unsupported());
            }
        }
        match at.metadata()?.is_symlink() && !flags.contains(OFlags::NOFOLLOW) {
            true => Err(unsupported()),
            false => Ok(at),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::*;

    pub(super) fn open(path: &Path) -> io::Result<File> {
        // Look before opening: some devices act on being opened.
        regular(&metadata(path)?)?;
        let mut options = File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
        let file = options.read(true).open(path)?;
        regular(&file.metadata()?)?;
        Ok(file)
    }

    pub(super) fn metadata(path: &Path) -> io::Result<Metadata> {
        std::fs::metadata(path)
    }

    /// As on Linux.
    ///
    /// # Errors
    ///
    /// As on Linux.
    #[cfg(unix)]
    pub fn open_owned(path: &Path, uid: u32) -> io::Result<File> {
        owned_by(uid, &std::fs::symlink_metadata(path)?)?;
        let file = open(path)?;
        owned_by(uid, &file.metadata()?)?;
        Ok(file)
    }

    pub(super) fn real_path(_file: &File, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn text(opened: io::Result<File>) -> Result<String, io::ErrorKind> {
        let file = opened.map_err(|error| error.kind())?;
        io::read_to_string(file).map_err(|error| error.kind())
    }

    /// A folder `root` with the file `own`, links, and a file beside it that no link may reach.
    fn root() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("folder")).unwrap();
        fs::write(root.join("own"), "own").unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        let secret = dir.path().join("secret");
        for (target, name) in [
            (Path::new("/own"), "absolute"),
            (Path::new("own"), "relative"),
            (Path::new("../../../../own"), "up"),
            (&secret, "host"),
            (Path::new("../secret"), "beside"),
            (Path::new("/folder"), "link"),
            (Path::new("absolute"), "twice"),
            (Path::new("loop"), "loop"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        symlink("/own", root.join("folder/inner")).unwrap();
        (dir, root)
    }

    #[test]
    fn links_below_an_open_folder_stay_in_it() {
        let (_dir, root) = root();
        let folder = File::open(&root).unwrap();
        let at = |name: &str| PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()));
        for name in ["own", "absolute", "relative", "up", "link/inner", "twice", "../../own"] {
            assert_eq!(text(open(&at(name))).as_deref(), Ok("own"), "{name}");
            assert!(metadata(&at(name)).unwrap().is_file(), "{name}");
        }
        for name in ["host", "beside", "../secret", "none"] {
            assert_eq!(text(open(&at(name))), Err(io::ErrorKind::NotFound), "{name}");
        }
        assert!(open(&at("loop")).is_err());
    }

    #[test]
    fn links_below_the_root_of_a_process_are_those_of_its_root() {
        let (_dir, root) = root();
        let below = root.strip_prefix("/").unwrap();
        for process in ["self".to_owned(), std::process::id().to_string()] {
            let at = |name: &str| Path::new("/proc").join(&process).join("root").join(below).join(name);
            assert_eq!(text(open(&at("relative"))).as_deref(), Ok("own"));
            // The root is the system's here.
            assert_eq!(text(open(&at("host"))).as_deref(), Ok("secret"));
        }
    }

    #[test]
    fn without_openat2_no_link_is_followed() {
        let (_dir, root) = root();
        let walk = |name: &str| {
            let root = File::open(&root).unwrap().into();
            system::walk(root, Path::new(name), rustix::fs::OFlags::RDONLY)
        };
        assert_eq!(text(walk("own")).as_deref(), Ok("own"));
        for name in ["host", "absolute", "relative", "link/inner", "../secret"] {
            assert_eq!(text(walk(name)), Err(io::ErrorKind::Unsupported), "{name}");
        }
    }

    #[test]
    fn a_file_or_link_of_another_user_is_not_ones_own() {
        let (_dir, root) = root();
        let uid = fs::metadata(root.join("own")).unwrap().uid();
        assert_eq!(text(open_owned(&root.join("own"), uid)).as_deref(), Ok("own"));
        assert_eq!(text(open_owned(&root.join("relative"), uid)).as_deref(), Ok("own"));
        let denied = Err(io::ErrorKind::PermissionDenied);
        assert_eq!(text(open_owned(&root.join("own"), uid + 1)), denied);
        // Run as root: a link of another user to one's own file is also denied.
        if std::os::unix::fs::lchown(root.join("relative"), Some(uid + 1), None).is_ok() {
            assert_eq!(text(open_owned(&root.join("relative"), uid)), denied);
            assert_eq!(text(open_owned(&root.join("relative"), uid + 1)), denied);
        }
    }

    #[test]
    fn nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [&*pipe, dir.path(), Path::new("/dev/zero")] {
            assert_eq!(
                open(path).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{}",
                path.display()
            );
        }
        assert_eq!(
            open_owned(&pipe, metadata(&pipe).unwrap().uid()).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
