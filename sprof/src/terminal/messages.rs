//! Messages on stderr: lines, colour, progress. Errors of writing are ignored: a user who closed stderr reads nothing.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::error::ContextValue;
use profile::text::one_line;

use crate::terminal::style::{Style, Styled, columns, has_color, printable};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    Quiet,
    /// Announcements, progress and the summary.
    Normal,
    /// Also the work of each stage.
    Verbose,
}

impl Verbosity {
    pub(crate) fn of(quiet: bool, verbose: bool) -> Verbosity {
        match (quiet, verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        }
    }
}

/// The stream for messages: a terminal, a file or a pipe.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    verbosity: Verbosity,
    color: bool,
    /// True if a progress line can be overwritten.
    redraws: bool,
    /// Clones share the terminal.
    progress_shown: Arc<AtomicBool>,
}

impl Term {
    /// stderr, as the environment describes it.
    pub(crate) fn stderr(verbosity: Verbosity) -> Term {
        let stderr = io::stderr();
        Term {
            verbosity,
            color: has_color(&stderr),
            redraws: stderr.is_terminal() && std::env::var("TERM").ok().as_deref() != Some("dumb"),
            progress_shown: Arc::default(),
        }
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    pub(crate) fn style<T: fmt::Display>(&self, style: Style, text: T) -> Styled<T> {
        Styled::new(self.color, style, text)
    }

    /// Columns before the text of [`Term::detail`].
    pub(crate) const INDENT: usize = 7;

    /// A line that belongs to the line before it.
    pub(crate) fn detail(&self, text: impl fmt::Display) {
        if self.verbosity >= Verbosity::Normal {
            self.print(format_args!("{:1$}{text}", "", Term::INDENT));
        }
    }

    /// Columns of the terminal on stderr; `None` without a terminal.
    pub(crate) fn columns(&self) -> Option<usize> {
        columns(io::stderr())
    }

    /// A line of a result, also with -q.
    pub(crate) fn plain(&self, text: impl fmt::Display) {
        self.print(format_args!("{text}"));
    }

    pub(crate) fn line(&self, text: impl fmt::Display) {
        if self.verbosity >= Verbosity::Normal {
            self.print(format_args!("{} {text}", self.style(Style::Dim, "sprof:")));
        }
    }

    pub(crate) fn verbose(&self, text: impl fmt::Display) {
        if self.is_verbose() {
            self.line(text);
        }
    }

    /// A line, also with -q.
    pub(crate) fn always(&self, text: impl fmt::Display) {
        self.print(format_args!("{} {text}", self.style(Style::Dim, "sprof:")));
    }

    /// A question. The answer is typed in the same line.
    pub(crate) fn ask(&self, question: &str) {
        self.erase_progress();
        self.write(&self.message(format_args!("{} {question}", self.style(Style::Dim, "sprof:"))));
    }

    /// A warning: a limit of the result.
    pub(crate) fn warning(&self, text: impl fmt::Display) {
        self.always(format_args!("{} {text}", self.style(Style::Warning, "warning:")));
    }

    /// Warnings about a file, a line each.
    pub(crate) fn warnings(&self, path: &Path, notes: &[String]) {
        for note in notes {
            self.warning(format_args!("{}: {note}", path.display()));
        }
    }

    pub(crate) fn error(&self, text: impl fmt::Display) {
        self.always(format_args!("{} {text}", self.style(Style::Error, "error:")));
    }

    /// A progress line: on a terminal the next line overwrites it; elsewhere it is printed only if `starts_stage`.
    pub(crate) fn progress(&self, starts_stage: bool, text: impl fmt::Display) {
        if self.verbosity < Verbosity::Normal {
            return;
        }
        if self.redraws {
            self.erase_progress();
            self.write(&self.message(format_args!("{} {text}", self.style(Style::Dim, "sprof:"))));
            self.progress_shown.store(true, Ordering::Relaxed);
        } else if starts_stage {
            self.line(text);
        }
    }

    pub(crate) fn erase_progress(&self) {
        if self.progress_shown.swap(false, Ordering::Relaxed) {
            // CR, then ED 0: a progress line may have wrapped, so everything below is erased as well.
            self.write("\r\x1b[J");
        }
    }

    pub(crate) fn usage(&self, error: &mut clap::Error) {
        let text = text_of(error);
        let text = match text.strip_prefix("error:") {
            Some(rest) => format!("{}{rest}", self.style(Style::Error, "error:")),
            None => text,
        };
        self.write(&printable(&text, self.color));
    }

    fn print(&self, text: fmt::Arguments<'_>) {
        self.erase_progress();
        self.write(&(self.message(text) + "\n"));
    }

    /// Indents further lines, so that none looks like the start of another message.
    fn message(&self, text: fmt::Arguments<'_>) -> String {
        printable(text.to_string().trim_end_matches('\n'), self.color).replace('\n', "\n       ")
    }

    fn write(&self, text: &str) {
        // One write for each line, so that output of the recorded program does not split it.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// The text of a usage error. clap quotes arguments, which may be names of other users' files (`*` in a shell): line
/// breaks in them are escaped.
fn text_of(error: &mut clap::Error) -> String {
    let quoted = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(text) => Some((kind, ContextValue::String(one_line(text).into_owned()))),
        _ => None,
    });
    let quoted: Vec<_> = quoted.collect();
    for (kind, line) in quoted {
        error.insert(kind, line);
    }
    error.to_string()
}
