//! The file beside the output that holds what has been recorded so far, until the profile is complete.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use profile::build::Builder;
use recorder_linux::spool::SpoolSink;
use recording::command::on_file;
use recording::info::RecordingInfo;

use crate::jit::JitWatch;
use crate::pipeline;
use crate::term::Term;

/// Recordings of one output that were cut short and are kept, at most.
const MAX_KEPT: u32 = 1000;

/// An open `<output>.partial`. Removed when dropped, except in a panic: then it is what is left of the recording.
pub(crate) struct Spool {
    path: PathBuf,
    file: Option<File>,
}

impl Spool {
    /// Creates the file. One that is there already, of a recording that was cut short, is kept under another name.
    /// Recording goes on without a spool where none can be had.
    pub(crate) fn create(path: &Path, term: &Term) -> Option<Spool> {
        match create(path, term) {
            Ok(spool) => {
                pipeline::say_if_quit(Some(format!(
                    "\nsprof: ended by Ctrl-\\; what was recorded is in {}: look at it with {}\n",
                    spool.path.display(),
                    on_file("load", &spool.path)
                )));
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

    /// Lets the stage write to it from here on.
    pub(crate) fn start(
        &mut self,
        sink: &mut SpoolSink<JitWatch<Builder>>,
        info: &RecordingInfo,
        waits: bool,
        term: &Term,
    ) {
        let (verbosity, path) = (term.verbosity(), self.path.clone());
        let kernel = symbolicator::kernel_text_base().map(|text| (text, symbolicator::kernel_build_id()));
        let file = self.file.take();
        let on_error = move |error: &io::Error| {
            Term::stderr(verbosity).warning(format_args!(
                "writing {} failed: {error}; recording goes on, but if sprof is killed the rest of it is lost",
                path.display()
            ));
        };
        let started = sink.start(
            || file.ok_or_else(|| io::Error::other("it is not open")),
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

    /// Leaves the file where it is: it is all that there is. Returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        let path = self.path.clone();
        std::mem::forget(self);
        path
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            pipeline::say_if_quit(None);
            // Nothing is lost if it stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn create(path: &Path, term: &Term) -> io::Result<Spool> {
    match try_create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    if is_in_use(path) {
        // Another recording with the same output: the last to end will have the name, and each has its own spool.
        return free_name(path, try_create);
    }
    let kept = free_name(path, |kept| {
        // A link fails where a name is taken; a rename would replace what is there.
        fs::hard_link(path, kept).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Err(error),
            // A file system without links.
            _ if !kept.exists() => fs::rename(path, kept),
            _ => Err(io::ErrorKind::AlreadyExists.into()),
        })?;
        Ok(kept.to_owned())
    })?;
    if path.exists() {
        fs::remove_file(path)?;
    }
    term.warning(format_args!(
        "an earlier recording was cut short; what there is of it is kept as {}: look at it with {}",
        kept.display(),
        on_file("load", &kept)
    ));
    try_create(path)
}

fn try_create(path: &Path) -> io::Result<Spool> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    // Held until the file is closed: how others see that it is not one of a crash. A file system may have no locks.
    let _ = file.try_lock();
    Ok(Spool {
        path: path.to_owned(),
        file: Some(file),
    })
}

fn is_in_use(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Calls `take` with `<path>.2`, `<path>.3` and so on, until one is not there yet.
fn free_name<T>(path: &Path, take: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    for number in 2..MAX_KEPT {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        match take(Path::new(&name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other,
        }
    }
    Err(io::Error::other("there are too many of them; remove some"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Verbosity;

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
        drop(first);
        assert_eq!(second.keep(), folder.path().join("p.partial.2"));
        assert_eq!(names(folder.path()), ["p.partial.2"]);
    }
}
