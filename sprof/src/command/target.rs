//! Where a command's result goes.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use crate::args;
use crate::exit::{Failure, Outcome, Status};
use crate::output::file_kind::FileKind;
use crate::output::screen;
use crate::output::{Earlier, Output};
use crate::terminal::Term;
use crate::terminal::style::Style;

/// Where a result goes, known to be writable before anything is read.
pub(super) enum ResultTarget<'a> {
    Stdout,
    /// Stdout, for text that is escaped.
    Screen,
    File(&'a Path, Output),
}

impl<'a> ResultTarget<'a> {
    pub(super) fn prepare(path: Option<&'a Path>, kind: FileKind) -> Result<ResultTarget<'a>, Failure> {
        // Binary files, which a terminal can't show.
        let is_binary = matches!(
            kind,
            FileKind::Pprof | FileKind::Otlp | FileKind::Parquet | FileKind::Profile
        );
        match path.filter(|path| *path != Path::new("-")) {
            None if is_binary && io::stdout().is_terminal() => args::refuse(
                "export",
                "this format cannot go to a terminal; redirect stdout, or name a file with -o",
            ),
            None => Ok(ResultTarget::Stdout),
            Some(path) => Ok(ResultTarget::File(
                path,
                Output::prepare(path, kind, Earlier::Replaced)?,
            )),
        }
    }

    /// For text that people read.
    pub(super) fn for_text(path: Option<&'a Path>, kind: FileKind) -> Result<ResultTarget<'a>, Failure> {
        Ok(match ResultTarget::prepare(path, kind)? {
            ResultTarget::Stdout => ResultTarget::Screen,
            target => target,
        })
    }

    pub(super) fn write(self, term: &Term, write: impl Fn(&mut dyn Write) -> io::Result<()>) -> Outcome {
        match self {
            ResultTarget::Stdout => {
                let mut out = io::stdout().lock();
                screen::of_writing("the export", write(&mut out).and_then(|()| out.flush()))
            }
            ResultTarget::Screen => screen::print("the result", write),
            ResultTarget::File(path, output) => {
                output.save(term, write)?;
                term.line(format_args!("wrote {}", term.style(Style::Link, path.display())));
                Ok(Status::SUCCESS)
            }
        }
    }
}
