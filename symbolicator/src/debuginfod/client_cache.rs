//! The folder of downloads that sprof shares with the client library of elfutils, which gdb and perf use.
//!
//! Settings are described in debuginfod-client-config(7). Names of files are those of `debuginfod-client.c` in elfutils
//! 0.192: `BUILDID/debuginfo`, `BUILDID/source-...`. An empty file says that no server had it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use recording::module::BuildId;

/// The files of settings, each a number of seconds, and their defaults.
const CLEAN_INTERVAL: (&str, u64) = ("cache_clean_interval_s", 86_400);
const MAX_UNUSED_AGE: (&str, u64) = ("max_unused_age_s", 604_800);
const CACHE_MISS: (&str, u64) = ("cache_miss_s", 600);

/// Longest name of a source, behind its kind: half of NAME_MAX, with the NUL.
const MAX_SOURCE_NAME: usize = 127 - 1;

/// The folder of downloads.
pub(super) struct DownloadFolder {
    path: PathBuf,
}

/// What the folder has of a file.
pub(super) enum CachedDownload {
    /// The file is here.
    Here(PathBuf),
    /// No server had it a short time ago.
    Absent,
    /// Servers have to be asked.
    Unknown,
}

/// A file that is being downloaded. Unless it is kept, nothing of it stays.
pub(super) struct PartialDownload {
    /// Open for reading and writing.
    pub(super) file: File,
    path: PathBuf,
    target: PathBuf,
}

/// The path of the folder, by the environment. `None` without a home folder.
pub(super) fn folder_path(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = folder("DEBUGINFOD_CACHE_PATH") {
        return Some(named);
    }
    let home = folder("HOME");
    let earlier = home.as_ref().map(|home| home.join(".debuginfod_client_cache"));
    if let Some(earlier) = earlier.filter(|earlier| earlier.exists()) {
        return Some(earlier);
    }
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
    Some(caches?.join("debuginfod_client"))
}

/// The name of a source file in the folder of its build: its path with a hash before it (`path_escape` in elfutils).
pub(super) fn source_name(path: &str) -> String {
    let hash = (path.bytes()).fold(5381u32, |hash, byte| {
        // The library's `char` is signed on x86_64.
        hash.wrapping_mul(33).wrapping_add_signed(i32::from(byte as i8))
    });
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let plain: String = (path.bytes())
        .map(|byte| if is_plain(byte) { char::from(byte) } else { '#' })
        .collect();
    let room = MAX_SOURCE_NAME - "01234567-".len();
    format!("source-{hash:08x}-{}", &plain[plain.len().saturating_sub(room)..])
}

impl DownloadFolder {
    /// Makes the folder if needed, and removes old files from it once a day.
    ///
    /// # Errors
    ///
    /// The folder can't be made.
    pub(super) fn open(path: PathBuf) -> io::Result<DownloadFolder> {
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        let folder = DownloadFolder { path };
        folder.clean();
        Ok(folder)
    }

    /// What is here of a file of a build.
    pub(super) fn look_up(&self, build_id: &BuildId, name: &str) -> CachedDownload {
        let path = self.path.join(build_id.to_hex()).join(name);
        match fs::metadata(&path) {
            Ok(file) if file.is_file() && file.len() > 0 => {
                // Files that nobody reads are removed, and a mount with `noatime` would count none as read.
                let used = fs::FileTimes::new().set_accessed(SystemTime::now());
                let _ = File::open(&path).and_then(|file| file.set_times(used));
                CachedDownload::Here(path)
            }
            Ok(file) if age(file.modified()) <= self.setting(CACHE_MISS) => CachedDownload::Absent,
            Ok(_) | Err(_) => CachedDownload::Unknown,
        }
    }

    /// Creates a file beside the one that is asked for.
    ///
    /// # Errors
    ///
    /// The folder can't be written to.
    pub(super) fn create(&self, build_id: &BuildId, name: &str) -> io::Result<PartialDownload> {
        let folder = self.path.join(build_id.to_hex());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let suffix = format!("{}-{}", std::process::id(), now.unwrap_or_default().as_nanos());
        let path = folder.join(format!("{name}.{suffix}"));
        let open = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            (OpenOptions::new().read(true).write(true).create_new(true).mode(0o600)).open(&path)
        };
        // Another process may remove the empty folder in between.
        let file = open().or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => open(),
            _ => Err(error),
        })?;
        Ok(PartialDownload {
            file,
            path,
            target: folder.join(name),
        })
    }

    /// Notes that no server has a file.
    pub(super) fn note_absent(&self, build_id: &BuildId, name: &str) {
        let _ = self.create(build_id, name).and_then(PartialDownload::keep);
    }

    /// Removes files that nobody has read for a week, once a day: [`MAX_UNUSED_AGE`], [`CLEAN_INTERVAL`].
    fn clean(&self) {
        let interval = self.setting(CLEAN_INTERVAL);
        let stamp = self.path.join(CLEAN_INTERVAL.0);
        if age(fs::metadata(&stamp).and_then(|file| file.modified())) < interval {
            return;
        }
        let _ = File::open(&stamp).and_then(|file| file.set_modified(SystemTime::now()));
        let max_age = self.setting(MAX_UNUSED_AGE);
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let is_of_build = |name: &[u8]| name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_download = |name: &[u8]| {
            ["debuginfo", "executable", "source"]
                .iter()
                .any(|kind| name.starts_with(kind.as_bytes()))
        };
        for folder in entries(&self.path).filter(|folder| is_of_build(folder.file_name().as_encoded_bytes())) {
            for file in entries(&folder.path()).filter(|file| is_download(file.file_name().as_encoded_bytes())) {
                let metadata = file.metadata().ok().filter(fs::Metadata::is_file);
                if metadata.is_some_and(|metadata| age(metadata.accessed()) >= max_age) {
                    let _ = fs::remove_file(file.path());
                }
            }
            // Fails unless it is empty.
            let _ = fs::remove_dir(folder.path());
        }
    }

    /// A setting, whose file is made if there is none.
    fn setting(&self, (name, default): (&str, u64)) -> Duration {
        let path = self.path.join(name);
        let seconds = match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().unwrap_or(default),
            Err(_) => {
                let _ = fs::write(&path, default.to_string());
                default
            }
        };
        Duration::from_secs(seconds)
    }
}

impl PartialDownload {
    /// Gives the file its name. Returns the path.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(super) fn keep(self) -> io::Result<PathBuf> {
        self.file.set_permissions(Permissions::from_mode(0o400))?;
        fs::rename(&self.path, &self.target)?;
        Ok(self.target.clone())
    }
}

impl Drop for PartialDownload {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // Fails unless it is empty.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

/// How long ago that was; 0 where it is not known or to come.
fn age(time: io::Result<SystemTime>) -> Duration {
    time.ok().and_then(|time| time.elapsed().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_age(path: &Path, age: Duration) {
        let then = SystemTime::now() - age;
        let times = fs::FileTimes::new().set_accessed(then).set_modified(then);
        File::open(path).unwrap().set_times(times).unwrap();
    }

    fn put(path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn names_of_sources_are_those_of_elfutils() {
        // As the function of elfutils 0.192 gives them.
        assert_eq!(source_name("/usr/src/a b.c"), "source-14ba34e8-#usr#src#a#b.c");
        assert_eq!(source_name("/ä.c"), "source-0b2e8bac-###.c");
        let long = format!("/{}/x.c", "a".repeat(300));
        assert_eq!(source_name(&long), format!("source-7597ae58-{}#x.c", "a".repeat(113)));
    }

    #[test]
    fn the_folder_is_that_of_elfutils() {
        let home = tempfile::tempdir().unwrap();
        let home_path = home.path().to_str().unwrap().to_owned();
        let path = |variables: &[(&str, &str)]| {
            let home = [("HOME", home_path.as_str())];
            let all: Vec<_> = variables.iter().chain(&home).copied().collect();
            folder_path(&move |name| all.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(path(&[]).unwrap(), home.path().join(".cache/debuginfod_client"));
        assert_eq!(
            path(&[("XDG_CACHE_HOME", "/x")]).unwrap(),
            Path::new("/x/debuginfod_client")
        );
        fs::create_dir(home.path().join(".debuginfod_client_cache")).unwrap();
        assert_eq!(
            path(&[("XDG_CACHE_HOME", "/x")]).unwrap(),
            home.path().join(".debuginfod_client_cache")
        );
        assert_eq!(path(&[("DEBUGINFOD_CACHE_PATH", "/y")]).unwrap(), Path::new("/y"));
        assert_eq!(folder_path(&|_| None), None);
    }

    #[test]
    fn old_downloads_go_and_nothing_else() {
        const DAY: Duration = Duration::from_secs(86_400);
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let old = ["ab12/debuginfo", "ab12/source-01234567-#a.c", "ab12/debuginfo.1-2"];
        let stay = ["cd34/debuginfo", "ab12/notes", "other/debuginfo", "debuginfo"];
        for name in old.iter().chain(&stay) {
            put(&at(name), b"x");
            set_age(&at(name), DAY * if *name == "cd34/debuginfo" { 6 } else { 8 });
        }
        put(&at("ef56/debuginfo"), b"x");
        set_age(&at("ef56/debuginfo"), DAY * 8);
        let are_here = |names: &[&str]| names.iter().map(|name| at(name).exists()).collect::<Vec<_>>();
        // The first look only begins the interval.
        DownloadFolder::open(dir.path().to_owned()).unwrap();
        assert_eq!(are_here(&old), [true; 3]);
        set_age(&at(CLEAN_INTERVAL.0), DAY * 2);
        DownloadFolder::open(dir.path().to_owned()).unwrap();
        assert_eq!(are_here(&old), [false; 3]);
        assert_eq!(are_here(&stay), [true; 4]);
        assert!(!at("ef56").exists(), "an empty folder stays");
        assert_eq!(fs::read_to_string(at(MAX_UNUSED_AGE.0)).unwrap(), "604800");
    }

    #[test]
    fn what_no_server_has_is_known_for_ten_minutes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = DownloadFolder::open(dir.path().to_owned()).unwrap();
        let id = BuildId(vec![0xab, 0x12]);
        folder.note_absent(&id, "debuginfo");
        let look = || folder.look_up(&id, "debuginfo");
        assert!(matches!(look(), CachedDownload::Absent));
        set_age(&dir.path().join("ab12/debuginfo"), Duration::from_secs(700));
        assert!(matches!(look(), CachedDownload::Unknown));
        folder.note_absent(&id, "debuginfo");
        assert!(matches!(look(), CachedDownload::Absent));
        fs::remove_file(dir.path().join("ab12/debuginfo")).unwrap();
        drop(folder.create(&id, "debuginfo").unwrap());
        assert!(!dir.path().join("ab12").exists(), "something is left of a download");
        let partial = folder.create(&id, "debuginfo").unwrap();
        fs::write(&partial.path, "x").unwrap();
        assert!(matches!(look(), CachedDownload::Unknown));
        let path = partial.keep().unwrap();
        assert!(matches!(look(), CachedDownload::Here(found) if found == path));
        assert_eq!(fs::read_dir(dir.path().join("ab12")).unwrap().count(), 1);
    }
}
