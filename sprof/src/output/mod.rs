//! Writes all files: checked before the program runs, replaced only by a complete file, never lost silently, readable
//! by no other user, and never through another user's link.
//!
//! [`file_kind`]: what a name promises, and what a file holds. [`screen`] writes text to stdout, [`json`] objects.

pub(crate) mod file_kind;
pub(crate) mod json;
pub(crate) mod screen;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use share::files::owner::{end_of_links, folder_of, give_to_sudo_caller, is_trusted};
use share::files::{free_name, partial_in, take_name};

use crate::output::file_kind::FileKind;
use crate::terminal::Term;

/// What happens to an existing file with the name of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// The file is kept as `profile.1.json.gz`: a recording cannot be made again.
    Kept,
    /// The file is replaced: an export can be made again.
    Replaced,
}

/// The destination of a profile, checked to be writable.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    destination: Destination,
    /// Ending of the file's name at another place, if the content can't be made again.
    fallback_ending: Option<&'static str>,
}

#[derive(Debug)]
enum Destination {
    /// A copy of stdout as it was when sprof started.
    Stdout(File),
    /// A device or pipe, which is not replaced.
    Direct(File),
    /// A regular file: the new file is written beside it, and renamed at the end.
    Beside { target: PathBuf, earlier: Earlier },
}

#[derive(Debug)]
pub(crate) struct Saved {
    /// The file; `None` for stdout.
    pub(crate) path: Option<PathBuf>,
    /// Why the profile is at another path than requested.
    pub(crate) problem: Option<String>,
}

impl Output {
    /// Checks that `path` can be written, by creating and removing a file beside it.
    pub(crate) fn prepare(path: &Path, kind: FileKind, earlier: Earlier) -> Result<Output, String> {
        let unusable = |reason: String| match earlier {
            Earlier::Kept => format!(
                "cannot write the profile to {}: {reason}; nothing was run",
                path.display()
            ),
            Earlier::Replaced => format!("cannot write to {}: {reason}", path.display()),
        };
        let done = |destination| {
            Ok(Output {
                path: path.to_owned(),
                destination,
                fallback_ending: match earlier {
                    Earlier::Kept => kind.ending(),
                    Earlier::Replaced => None,
                },
            })
        };
        let target = end_of_links(path).map_err(unusable)?;
        if let Ok(meta) = fs::metadata(&target) {
            if meta.is_dir() {
                return Err(unusable("it is a folder; name a file in it".into()));
            }
            let file_type = meta.file_type();
            // Without truncation: the old content stays until the new content is complete.
            let file = OpenOptions::new()
                .write(true)
                .open(&target)
                .map_err(|error| unusable(next_step(&error)))?;
            if file_type.is_char_device() || file_type.is_fifo() || file_type.is_block_device() || file_type.is_socket()
            {
                return done(Destination::Direct(file));
            }
            if !kind.is_of(&target) {
                return Err(unusable(format!(
                    "it exists and is not {}; remove it, or name another file with -o",
                    kind.name()
                )));
            }
        }
        let promised = FileKind::promised(path);
        if let Some(other) = promised.first().filter(|_| !promised.contains(&kind)) {
            return Err(unusable(format!(
                "the name is for {}, and this would be {}; {}",
                other.name(),
                kind.name(),
                match other {
                    FileKind::FlameGraph => "`sprof flamegraph -o FILE` draws one",
                    FileKind::Profile => "`sprof record -o FILE` records one",
                    _ => "`sprof export FILE --format FORMAT -o FILE` writes it",
                }
            )));
        }
        let folder = folder_of(&target);
        let name = target.file_name().ok_or_else(|| unusable("it names no file".into()))?;
        let probed = partial_in(folder, &name.to_string_lossy());
        probed.map_err(|error| match error.kind() {
            // The kernel reports the same for new files in /proc.
            io::ErrorKind::NotFound if folder.exists() => unusable(format!("{} takes no new files", folder.display())),
            io::ErrorKind::NotFound => unusable(format!("there is no folder {}; create it first", folder.display())),
            io::ErrorKind::NotADirectory => unusable(format!("{} is not a folder", folder.display())),
            _ => unusable(format!("in the folder {}: {}", folder.display(), next_step(&error))),
        })?;
        done(Destination::Beside { target, earlier })
    }

    /// The same output, whose content can't be made again also where it replaces an earlier file.
    pub(crate) fn of_recording(self, kind: FileKind) -> Output {
        Output {
            fallback_ending: kind.ending(),
            ..self
        }
    }

    /// An output of a recording to `stdout`, a copy of sprof's stdout.
    pub(crate) fn stdout(stdout: File, kind: FileKind) -> Output {
        Output {
            path: "(stdout)".into(),
            destination: Destination::Stdout(stdout),
            fallback_ending: kind.ending(),
        }
    }

    /// `<output>.partial`, if the output is a file: the path for the recording so far.
    pub(crate) fn partial_path(&self) -> Option<PathBuf> {
        let Destination::Beside { target, .. } = &self.destination else {
            return None;
        };
        let mut path = target.as_os_str().to_owned();
        path.push(".partial");
        Some(path.into())
    }

    /// Calls `write` with the open file, and renames the file to its path. If a recording cannot be written there,
    /// calls `write` again for a file at another place: a full disk must not lose a recording.
    pub(crate) fn save(self, term: &Term, write: impl Fn(&mut dyn Write) -> io::Result<()>) -> Result<Saved, String> {
        let Output {
            path,
            destination,
            fallback_ending,
        } = self;
        let is_stdout = matches!(destination, Destination::Stdout(_));
        let written = match destination {
            Destination::Stdout(file) | Destination::Direct(file) => fill(&file, &write),
            Destination::Beside { target, earlier } => fill_beside(&target, earlier, term, &write),
        };
        match written {
            Ok(()) => {}
            // The reader of stdout has closed it, and does not want the rest.
            Err(error) if is_stdout && error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => {
                if let Some(ending) = fallback_ending {
                    return save_elsewhere(&path, ending, &error, &write);
                }
                let path = path.display();
                return Err(format!(
                    "writing {path} failed: {error}; free space, or name another file with -o"
                ));
            }
        }
        Ok(Saved {
            path: (!is_stdout).then_some(path),
            problem: None,
        })
    }
}

fn fill(file: &File, write: &impl Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffered = BufWriter::with_capacity(1 << 16, file);
    write(&mut buffered)?;
    buffered.flush()
}

fn fill_beside(
    target: &Path,
    earlier: Earlier,
    term: &Term,
    write: &impl Fn(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let partial = partial_in(folder_of(target), &name)?;
    give_to_sudo_caller(partial.as_file());
    let old = fs::symlink_metadata(target).ok().filter(fs::Metadata::is_file);
    // The new file keeps the mode of a trusted old file; a file of another user does not count.
    if let Some(old) = old.as_ref().filter(|old| is_trusted(old.uid()) && old.len() > 0) {
        partial.as_file().set_permissions(old.permissions())?;
    }
    fill(partial.as_file(), write)?;
    // A full disk or quota may fail only here, and a crash after the rename must not leave an empty file.
    partial.as_file().sync_data()?;
    let has_content = old.is_some_and(|old| old.len() > 0);
    if has_content && earlier == Earlier::Kept {
        let kept = keep(target)?;
        term.line(format_args!(
            "the earlier {} is kept as {}",
            target.display(),
            kept.display()
        ));
    }
    partial.persist(target).map_err(|error| error.error)?;
    if has_content && earlier == Earlier::Replaced {
        term.line(format_args!("the earlier {} is replaced", target.display()));
    }
    Ok(())
}

/// Gives the file `profile.json.gz` the second name `profile.1.json.gz`, or the next free number. The first name stays
/// until a new file takes it.
fn keep(path: &Path) -> io::Result<PathBuf> {
    free_name(1, |number| numbered(path, number), |kept| take_name(path, kept))
}

/// `profile.1.json.gz` for `profile.json.gz`.
pub(crate) fn numbered(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = match stem.rfind('.') {
        Some(dot) if dot > 0 => &stem[..dot],
        _ => stem,
    };
    let end = &name[stem.len()..];
    path.with_file_name(format!("{stem}.{number}{end}"))
}

fn save_elsewhere(
    path: &Path,
    ending: &str,
    error: &io::Error,
    write: &impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<Saved, String> {
    let mut others = Vec::new();
    let failed = format!("writing {} failed: {error}", path.display());
    for folder in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        let attempt = tempfile::Builder::new()
            .prefix("sprof-")
            .suffix(ending)
            .tempfile_in(&folder)
            .and_then(|file| {
                give_to_sudo_caller(file.as_file());
                fill(file.as_file(), write).map(|()| file)
            })
            .and_then(|file| file.keep().map_err(|error| error.error));
        match attempt {
            Ok((_, saved)) => {
                let problem = format!(
                    "{failed}; the recording was saved as {} instead: move it, or free space and copy it",
                    saved.display()
                );
                return Ok(Saved {
                    path: Some(saved),
                    problem: Some(problem),
                });
            }
            Err(error) => others.push(format!("saving to {} also failed: {error}", folder.display())),
        }
    }
    Err(format!(
        "{failed}; {}. Nothing was saved: free space, or name another file with -o, and record again",
        others.join("; ")
    ))
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
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn quiet() -> Term {
        Term::stderr(crate::terminal::Verbosity::Quiet)
    }

    fn prepare(path: &Path) -> Result<Output, String> {
        Output::prepare(path, FileKind::Profile, Earlier::Kept)
    }

    const OLD: &str = "{\"meta\": \"old\"}";

    #[test]
    fn an_existing_profile_stays_until_the_new_one_is_complete_and_is_kept_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.profile.json.gz");
        for number in 0..3 {
            fs::write(&path, format!("{OLD}{number}")).unwrap();
            let output = prepare(&path).unwrap();
            let old = format!("{OLD}{number}").into_bytes();
            assert_eq!(fs::read(&path).unwrap(), old);
            let saved = output
                .save(&quiet(), |out| {
                    assert_eq!(fs::read(&path).unwrap(), old);
                    out.write_all(b"new")
                })
                .unwrap();
            assert!(saved.problem.is_none());
            assert_eq!(fs::read(&path).unwrap(), b"new");
        }
        let all = [
            "my.profile.1.json.gz",
            "my.profile.2.json.gz",
            "my.profile.3.json.gz",
            "my.profile.json.gz",
        ];
        assert_eq!(names(folder.path()), all);
        for (number, kept) in all.iter().take(3).enumerate() {
            let kept = fs::read(folder.path().join(kept)).unwrap();
            assert_eq!(kept, format!("{OLD}{number}").into_bytes());
        }
    }

    #[test]
    fn what_can_be_made_again_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.svg");
        fs::write(&path, "<svg>").unwrap();
        let output = Output::prepare(&path, FileKind::FlameGraph, Earlier::Replaced).unwrap();
        output.save(&quiet(), |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["p.svg"]);
    }

    #[test]
    fn an_output_that_is_not_used_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let output = prepare(&folder.path().join("p.json")).unwrap();
        // No file is there before the output is saved: a kill leaves nothing.
        assert!(names(folder.path()).is_empty());
        drop(output);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_symbolic_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, OLD).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        prepare(&link)
            .unwrap()
            .save(&quiet(), |out| out.write_all(b"new"))
            .unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn links_in_a_circle_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&link, &link).unwrap();
        assert!(prepare(&link).unwrap_err().to_string().contains("too many links"));
    }

    #[test]
    fn only_the_owner_reads_what_is_new_and_what_was_open_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.json");
        let save = || {
            prepare(&path)
                .unwrap()
                .save(&quiet(), |out| out.write_all(OLD.as_bytes()))
                .unwrap()
        };
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        save();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        save();
        assert_eq!(mode(), 0o644);
    }

    #[test]
    fn files_of_other_kinds_and_names_of_other_kinds_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("main.rs");
        fs::write(&path, "fn main() {}").unwrap();
        let error = prepare(&path).unwrap_err().to_string();
        assert!(
            error.contains("main.rs") && error.contains("is not a profile"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"fn main() {}");
        let error = prepare(&folder.path().join("p.svg")).unwrap_err().to_string();
        assert!(error.contains("sprof flamegraph -o"), "{error}");
        assert_eq!(names(folder.path()), ["main.rs"]);
    }

    #[test]
    fn folders_that_are_missing_or_no_folders_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| prepare(path).unwrap_err().to_string();
        assert!(error(folder.path()).contains("it is a folder"));
        assert!(error(&folder.path().join("none/p.json")).contains("create it first"));
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(error(&folder.path().join("file/p.json")).contains("not a folder"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_saves_the_profile_elsewhere_and_says_where() {
        // /dev/full fails each write with ENOSPC (full(4)).
        let saved = prepare(Path::new("/dev/full"))
            .unwrap()
            .save(&quiet(), |out| out.write_all(b"new"))
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
