//! The output file: checked before the program runs, replaced only when the new one is complete, never lost silently.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Why an output cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// Found out before the program ran.
    #[error("cannot write the profile to {}: {reason}; nothing was run", path.display())]
    Unusable {
        /// As the user typed it.
        path: PathBuf,
        /// What is in the way, and the next step.
        reason: String,
    },
    /// Writing failed; the profile is elsewhere.
    #[error("writing {} failed: {error}; the profile was saved as {} instead: move it, or free space and copy it",
            path.display(), saved.display())]
    SavedElsewhere {
        /// Where it should have gone.
        path: PathBuf,
        /// Where it is.
        saved: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// Writing failed everywhere.
    #[error("writing {} failed: {error}; {others}. No profile was saved: free space, or name another file with -o, \
             and record again", path.display())]
    Failed {
        /// Where it should have gone.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
        /// What else was tried.
        others: String,
    },
}

/// Where a profile will go, known to be writable.
#[derive(Debug)]
pub(crate) struct Output {
    /// As the user typed it.
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A copy of stdout as it was when sprof started.
    Stdout(File),
    /// A device or pipe: there is nothing to replace.
    Direct(File),
    /// A regular file, new or old: `partial` lies beside `target` and takes its name in the end.
    Beside { partial: NamedTempFile, target: PathBuf },
}

/// Where a profile is now.
#[derive(Debug)]
pub(crate) struct Saved {
    /// The file; `None` for stdout.
    pub(crate) path: Option<PathBuf>,
    /// What happened on the way: the profile is at `path`, which is not where it should be.
    pub(crate) problem: Option<OutputError>,
}

impl Saved {
    fn at(path: Option<PathBuf>) -> Saved {
        Saved { path, problem: None }
    }
}

impl Output {
    /// Makes sure that `path` can be written, by creating `.<name>.*.partial` beside it.
    pub(crate) fn prepare(path: &Path) -> Result<Output, OutputError> {
        let unusable = |reason: String| OutputError::Unusable {
            path: path.to_owned(),
            reason,
        };
        // Through symbolic links, so that the link stays and its target is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let Ok(meta) = fs::metadata(&target) {
            if meta.is_dir() {
                return Err(unusable("it is a folder; name a file in it".into()));
            }
            let kind = meta.file_type();
            // Without truncation: the old content stays until the new one is complete.
            let file = OpenOptions::new()
                .write(true)
                .open(&target)
                .map_err(|error| unusable(next_step(&error)))?;
            if kind.is_char_device() || kind.is_fifo() || kind.is_block_device() || kind.is_socket() {
                let place = Place::Direct(file);
                return Ok(Output {
                    path: path.to_owned(),
                    place,
                });
            }
        }
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = target
            .file_name()
            .ok_or_else(|| unusable("it names no file".into()))?
            .to_string_lossy();
        let partial = partial_in(folder, &name).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unusable(format!("there is no folder {}; create it first", folder.display())),
            io::ErrorKind::NotADirectory => unusable(format!("{} is no folder", folder.display())),
            _ => unusable(format!("in the folder {}: {}", folder.display(), next_step(&error))),
        })?;
        Ok(Output {
            path: path.to_owned(),
            place: Place::Beside { partial, target },
        })
    }

    /// Writes to `stdout`, a copy of our stdout.
    pub(crate) fn stdout(stdout: File) -> Output {
        Output {
            path: "(stdout)".into(),
            place: Place::Stdout(stdout),
        }
    }

    /// `<output>.partial`, where the output is a file: for what has been recorded so far.
    pub(crate) fn partial_path(&self) -> Option<PathBuf> {
        let Place::Beside { target, .. } = &self.place else {
            return None;
        };
        let mut path = target.as_os_str().to_owned();
        path.push(".partial");
        Some(path.into())
    }

    /// Calls `write` with the open file, and puts the file in its place: for what can be made again.
    pub(crate) fn save_there(self, write: impl Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match self.place {
            Place::Stdout(file) | Place::Direct(file) => fill(&file, &write),
            Place::Beside { partial, target } => fill_beside(partial, &target, &write),
        }
    }

    /// Calls `write` with the open file, and puts the file in its place. When that fails, `write` is called again for a
    /// file elsewhere, so that no recording is lost for lack of space in one place.
    pub(crate) fn save(self, write: impl Fn(&mut dyn Write) -> io::Result<()>) -> Result<Saved, OutputError> {
        let Output { path, place } = self;
        let error = match place {
            Place::Stdout(file) => match fill(&file, &write) {
                Ok(()) => return Ok(Saved::at(None)),
                // Who reads our stdout has left, and does not want the rest.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Saved::at(None)),
                Err(error) => error,
            },
            Place::Direct(file) => match fill(&file, &write) {
                Ok(()) => return Ok(Saved::at(Some(path))),
                Err(error) => error,
            },
            Place::Beside { partial, target } => match fill_beside(partial, &target, &write) {
                Ok(()) => return Ok(Saved::at(Some(path))),
                Err(error) => error,
            },
        };
        save_elsewhere(path, error, &write)
    }
}

fn partial_in(folder: &Path, name: &str) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".partial")
        // As any new file: the umask takes its part away.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

fn fill(file: &File, write: &impl Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffered = BufWriter::with_capacity(1 << 16, file);
    write(&mut buffered)?;
    buffered.flush()
}

fn fill_beside(
    partial: NamedTempFile,
    target: &Path,
    write: &impl Fn(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if let Ok(old) = fs::metadata(target) {
        partial.as_file().set_permissions(old.permissions())?;
    }
    fill(partial.as_file(), write)?;
    // A full disk or quota may show only now, and a crash after the rename must not find an empty file.
    partial.as_file().sync_data()?;
    partial.persist(target).map_err(|error| error.error)?;
    Ok(())
}

fn save_elsewhere(
    path: PathBuf,
    error: io::Error,
    write: &impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<Saved, OutputError> {
    let mut others = Vec::new();
    for folder in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        let attempt = tempfile::Builder::new()
            .prefix("sprof-")
            .suffix(".json.gz")
            .tempfile_in(&folder)
            .and_then(|file| fill(file.as_file(), write).map(|()| file))
            .and_then(|file| file.keep().map_err(|error| error.error));
        match attempt {
            Ok((_, saved)) => {
                return Ok(Saved {
                    path: Some(saved.clone()),
                    problem: Some(OutputError::SavedElsewhere { path, saved, error }),
                });
            }
            Err(error) => others.push(format!("saving to {} failed, too: {error}", folder.display())),
        }
    }
    Err(OutputError::Failed {
        path,
        error,
        others: others.join("; "),
    })
}

fn next_step(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied; name another file with -o".into(),
        io::ErrorKind::StorageFull => "no space left; free some, or name another file with -o".into(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only; name another file with -o".into(),
        _ => format!("{error}; name another file with -o"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_existing_file_stays_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json.gz");
        fs::write(&path, "old").unwrap();
        let output = Output::prepare(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let saved = output
            .save(|out| {
                assert_eq!(fs::read(&path).unwrap(), b"old");
                out.write_all(b"new")
            })
            .unwrap();
        assert!(saved.problem.is_none());
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["profile.json.gz"]);
    }

    #[test]
    fn an_output_that_is_not_used_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(Output::prepare(&folder.path().join("p.json")).unwrap());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_symbolic_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        Output::prepare(&link)
            .unwrap()
            .save(|out| out.write_all(b"new"))
            .unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn folders_that_are_missing_or_no_folders_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| Output::prepare(path).unwrap_err().to_string();
        assert!(error(folder.path()).contains("it is a folder"));
        assert!(error(&folder.path().join("none/p.json")).contains("create it first"));
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(error(&folder.path().join("file/p.json")).contains("no folder"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_saves_the_profile_elsewhere_and_says_where() {
        // /dev/full fails each write with ENOSPC (full(4)).
        let saved = Output::prepare(Path::new("/dev/full"))
            .unwrap()
            .save(|out| out.write_all(b"new"))
            .unwrap();
        let path = saved.path.unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let problem = saved.problem.unwrap().to_string();
        assert!(
            problem.contains("/dev/full") && problem.contains(path.to_str().unwrap()),
            "{problem}"
        );
        fs::remove_file(path).unwrap();
    }
}
