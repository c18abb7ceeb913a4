//! Messages on stderr: lines, colour, progress. Errors of writing are ignored: a user who closed stderr reads nothing.

use std::cell::Cell;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use clap::error::ContextValue;
use profile::text::one_line;

use crate::screen::printable;

/// How much to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Errors only.
    Quiet,
    /// Announcements, progress and the summary.
    Normal,
    /// Also the work of each stage.
    Verbose,
}

impl Verbosity {
    /// The verbosity by `-q` and `-v`.
    pub(crate) fn of(quiet: bool, verbose: bool) -> Verbosity {
        match (quiet, verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        }
    }
}

/// The terminal, or the file or pipe instead.
#[derive(Debug)]
pub(crate) struct Term {
    verbosity: Verbosity,
    color: bool,
    /// True if a progress line can be overwritten.
    redraws: bool,
    progress_shown: Cell<bool>,
}

/// The few styles in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    Bold,
    /// Details.
    Dim,
    /// A limit of the profile.
    Warning,
    /// Failure.
    Error,
    /// A link or path.
    Link,
}

impl Style {
    const ALL: [Style; 5] = [Style::Bold, Style::Dim, Style::Warning, Style::Error, Style::Link];

    /// SGR (ECMA-48 8.3.117).
    fn sgr(self) -> &'static str {
        match self {
            Style::Bold => "\x1b[1m",
            Style::Dim => "\x1b[2m",
            Style::Warning => "\x1b[33m",
            Style::Error => "\x1b[1;31m",
            Style::Link => "\x1b[36m",
        }
    }

    /// The escape sequence at the start of the text, if it is one of sprof's styles.
    pub(crate) fn sequence_at(text: &str) -> Option<&'static str> {
        let mut own = Style::ALL.into_iter().map(Style::sgr).chain([PLAIN]);
        own.find(|sequence| text.starts_with(sequence))
    }
}

/// Ends all styles.
const PLAIN: &str = "\x1b[0m";

/// Text with a style, which is used if colour is on.
pub(crate) struct Styled<T> {
    text: T,
    sgr: Option<&'static str>,
}

impl<T: fmt::Display> fmt::Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sgr {
            None => self.text.fmt(f),
            Some(sgr) => {
                f.write_str(sgr)?;
                self.text.fmt(f)?;
                f.write_str(PLAIN)
            }
        }
    }
}

impl Term {
    /// stderr, as the environment describes it.
    pub(crate) fn stderr(verbosity: Verbosity) -> Term {
        let is_terminal = io::stderr().is_terminal();
        let variable = |name: &str| std::env::var(name).ok();
        Term {
            verbosity,
            color: wants_color(is_terminal, &variable),
            redraws: is_terminal && variable("TERM").as_deref() != Some("dumb"),
            progress_shown: Cell::new(false),
        }
    }

    /// How much to print.
    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// True with -v.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// The text in a style.
    pub(crate) fn style<T: fmt::Display>(&self, style: Style, text: T) -> Styled<T> {
        let sgr = self.color.then(|| style.sgr());
        Styled { text, sgr }
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

    /// A line.
    pub(crate) fn line(&self, text: impl fmt::Display) {
        if self.verbosity >= Verbosity::Normal {
            self.print(format_args!("{} {text}", self.style(Style::Dim, "sprof:")));
        }
    }

    /// A line with -v.
    pub(crate) fn verbose(&self, text: impl fmt::Display) {
        if self.is_verbose() {
            self.line(text);
        }
    }

    /// A line, also with -q.
    pub(crate) fn always(&self, text: impl fmt::Display) {
        self.print(format_args!("{} {text}", self.style(Style::Dim, "sprof:")));
    }

    /// A limit of the result.
    pub(crate) fn warning(&self, text: impl fmt::Display) {
        self.always(format_args!("{} {text}", self.style(Style::Warning, "warning:")));
    }

    /// A failure.
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
            self.progress_shown.set(true);
        } else if starts_stage {
            self.line(text);
        }
    }

    /// Erases the progress line.
    pub(crate) fn erase_progress(&self) {
        if self.progress_shown.replace(false) {
            // CR, then ED 0: a progress line may have wrapped, so everything below is erased, too.
            self.write("\r\x1b[J");
        }
    }

    /// A usage error of clap.
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

/// The text of a usage error. clap quotes arguments, which may be names of other users' files (`*` in a shell): line breaks in them are
/// escaped.
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

/// True if stdout gets colour.
pub(crate) fn stdout_color() -> bool {
    wants_color(io::stdout().is_terminal(), &|name| std::env::var(name).ok())
}

/// Columns of the terminal on stdout; `None` without a terminal.
pub(crate) fn stdout_columns() -> Option<usize> {
    columns(io::stdout())
}

fn columns(stream: impl IsTerminal + AsFd) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream)
        .ok()
        .map(|size| usize::from(size.ws_col));
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    Some(size.filter(|columns| *columns > 0).or_else(variable).unwrap_or(80))
}

impl<T> Styled<T> {
    /// The text in a style, or unchanged.
    pub(crate) fn new(color: bool, style: Style, text: T) -> Styled<T> {
        let sgr = color.then(|| style.sgr());
        Styled { text, sgr }
    }
}

/// The colour choice for clap's help and errors.
pub(crate) fn clap_color() -> clap::ColorChoice {
    if wants_color(io::stderr().is_terminal(), &|name| std::env::var(name).ok()) {
        // clap checks its own stream: help goes to stdout.
        clap::ColorChoice::Auto
    } else {
        clap::ColorChoice::Never
    }
}

/// <https://no-color.org>, <https://bixense.com/clicolors>, cargo's `term.color`; the first one that is set decides.
fn wants_color(is_terminal: bool, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if is_set("NO_COLOR") {
        return false;
    }
    if variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0") {
        return true;
    }
    match variable("CARGO_TERM_COLOR").as_deref() {
        Some("always") => true,
        Some("never") => false,
        _ => is_terminal && variable("TERM").as_deref() != Some("dumb"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn color(is_terminal: bool, variables: &[(&str, &str)]) -> bool {
        wants_color(is_terminal, &|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn color_follows_the_terminal_unless_told_otherwise() {
        assert!(color(true, &[("TERM", "xterm")]));
        assert!(!color(false, &[]));
        assert!(!color(true, &[("TERM", "dumb")]));
        assert!(!color(true, &[("NO_COLOR", "1")]));
        assert!(color(true, &[("NO_COLOR", "")]));
        assert!(color(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!color(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!color(false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
        assert!(color(false, &[("CARGO_TERM_COLOR", "always")]));
        assert!(!color(true, &[("CARGO_TERM_COLOR", "never"), ("TERM", "xterm")]));
    }
}
