//! `<output>.partial`: the recording so far, until the profile is complete.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use perf_data::spool::SpoolSink;
use profile::text::one_line;
use recording::clock::Timestamp;
use recording::command::on_file;
use recording::info::RecordingInfo;
use recording::module::Image;
use recording::sink::EventSink;
use share::files::owner::{give_to_sudo_caller, is_trusted};
use share::files::{free_name, take_name};

use crate::recorder;
use crate::terminal::Term;

/// An open `<output>.partial`. Once it holds a recording, only [`Spool::remove`] removes it: if the profile cannot be
/// saved, this file is the recording.
pub(crate) struct Spool {
    path: PathBuf,
    /// The file, until the recording starts.
    file: Option<File>,
    is_whole: bool,
}

impl Spool {
    /// Creates the file. The file of an earlier recording that was cut short is renamed. `None` if no file can be
    /// created; the recording continues without it.
    pub(crate) fn create(path: &Path, term: &Term) -> Option<Spool> {
        match create(path, term) {
            Ok(spool) => {
                spool.announce();
                Some(spool)
            }
            Err(error) => {
                term.warning(format_args!(
                    "{} cannot be written ({error}): if sprof is killed, nothing of this recording is left",
                    path.display()
                ));
                None
            }
        }
    }

    /// Creates the file that will take the place of the one at `path`. What a crash left of such a file goes: it has
    /// less than the other one. `None` if that is not possible.
    pub(crate) fn create_younger(path: &Path, term: &Term) -> Option<Spool> {
        let mut name = path.as_os_str().to_owned();
        name.push(".next");
        let next = PathBuf::from(name);
        if is_ours(&next) && !is_in_use(&next) {
            // If that fails, the file can't be created either.
            let _ = fs::remove_file(&next);
        }
        try_create(&next)
            .inspect_err(|error| term.verbose(format_args!("{}: {error}", next.display())))
            .ok()
    }

    /// Has the path printed if Ctrl-\ ends sprof.
    pub(crate) fn announce(&self) {
        recorder::say_if_quit(Some(format!(
            "\nsprof: {}\n",
            one_line(&format!(
                "ended by Ctrl-\\; the recording is in {}: look at it with {}",
                self.path.display(),
                on_file("load", &self.path)
            ))
        )));
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file another name, whose earlier file goes.
    pub(crate) fn take_place(&mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        path.clone_into(&mut self.path);
        Ok(())
    }

    /// Starts writing.
    pub(crate) fn start<N: EventSink>(
        &mut self,
        sink: &mut SpoolSink<N>,
        run_start: Timestamp,
        info: &RecordingInfo,
        waits: bool,
        kernel: Option<&Image>,
        term: &Term,
    ) {
        let (verbosity, path) = (term.verbosity(), self.path.clone());
        let kernel = kernel.map(|kernel| (kernel.base.0, kernel.module.build_id.clone()));
        let file = self.file.take();
        let on_error = move |error: &io::Error| {
            Term::stderr(verbosity).warning(format_args!(
                "writing {} failed: {error}; recording goes on, but if sprof is killed the rest of it is lost",
                path.display()
            ));
        };
        let started = sink.start(
            || file.ok_or_else(|| io::Error::other("it is not open")),
            run_start,
            info,
            waits,
            kernel,
            Box::new(on_error),
        );
        if let Err(error) = started {
            term.warning(format_args!(
                "writing {} failed: {error}; recording goes on",
                self.path.display()
            ));
        }
    }

    /// A file without a name beside it. Folders for temporary files may be in memory.
    pub(crate) fn unnamed_file(&self) -> io::Result<File> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))
    }

    /// Marks the file as incomplete.
    pub(crate) fn set_cut(&mut self) {
        self.is_whole = false;
    }

    /// The end of the message that the profile was not saved: where the recording is.
    pub(crate) fn left(&self) -> String {
        let what = if self.is_whole {
            "all of it"
        } else {
            "the first part of it"
        };
        format!(
            "{what} is still in {}: {}",
            self.path.display(),
            on_file("load", &self.path)
        )
    }

    /// True if the file may hold a recording.
    pub(crate) fn is_started(&self) -> bool {
        self.file.is_none()
    }

    /// Removes the file: the profile is saved, or there is nothing to save.
    pub(crate) fn remove(self) {
        recorder::say_if_quit(None);
        // If that fails, the file stays; nothing is lost.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        recorder::say_if_quit(None);
        if !self.is_started() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn create(path: &Path, term: &Term) -> io::Result<Spool> {
    match try_create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    if !is_ours(path) || is_in_use(path) {
        // Another recording has the same output: the last to end gets the name, and each has its own spool. Files of
        // others stay.
        return free_name(2, numbered, try_create);
    }
    let kept = free_name(2, numbered, |kept| take_name(path, kept))?;
    if fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path)?;
    }
    term.warning(format_args!(
        "an earlier recording was cut short; its part is kept as {}: look at it with {}",
        kept.display(),
        on_file("load", &kept)
    ));
    try_create(path)
}

fn try_create(path: &Path) -> io::Result<Spool> {
    // O_EXCL follows no link, and fails if the name exists (open(2)).
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    give_to_sudo_caller(&file);
    // The lock is held until the file is closed: it shows others that no crash left the file. A file system may have no
    // locks.
    let _ = file.try_lock();
    Ok(Spool {
        path: path.to_owned(),
        file: Some(file),
        is_whole: true,
    })
}

/// False for links, pipes and other special files, and for files of another user.
fn is_ours(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && is_trusted(meta.uid()))
}

fn is_in_use(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Verbosity;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_crash_left_is_kept_under_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.partial");
        let term = Term::stderr(Verbosity::Quiet);
        for text in ["first", "second"] {
            fs::write(&path, text).unwrap();
            drop(Spool::create(&path, &term).unwrap());
        }
        assert_eq!(names(folder.path()), ["p.partial.2", "p.partial.3"]);
        assert_eq!(fs::read(folder.path().join("p.partial.2")).unwrap(), b"first");
        assert_eq!(fs::read(folder.path().join("p.partial.3")).unwrap(), b"second");
    }

    #[test]
    fn two_recordings_to_one_output_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.partial");
        let term = Term::stderr(Verbosity::Quiet);
        let first = Spool::create(&path, &term).unwrap();
        let second = Spool::create(&path, &term).unwrap();
        assert_eq!(names(folder.path()), ["p.partial", "p.partial.2"]);
        first.remove();
        assert!(second.left().contains("p.partial.2"), "{}", second.left());
        assert_eq!(names(folder.path()), ["p.partial.2"]);
    }

    #[test]
    fn only_an_unused_one_goes_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.partial");
        let term = Term::stderr(Verbosity::Quiet);
        drop(Spool::create(&path, &term).unwrap());
        assert!(names(folder.path()).is_empty());
        let mut used = Spool::create(&path, &term).unwrap();
        used.file = None;
        drop(used);
        assert_eq!(names(folder.path()), ["p.partial"]);
    }

    #[test]
    fn links_are_neither_followed_nor_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("p.partial"), folder.path().join("victim"));
        fs::write(&victim, "content").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let spool = Spool::create(&path, &Term::stderr(Verbosity::Quiet)).unwrap();
        assert_eq!(spool.path, folder.path().join("p.partial.2"));
        assert_eq!(fs::metadata(&spool.path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            (path.is_symlink(), fs::read(&victim).unwrap()),
            (true, b"content".to_vec())
        );
    }
}
