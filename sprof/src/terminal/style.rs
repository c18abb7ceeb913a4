//! Text for a terminal: with the styles of sprof, and without control characters from outside.

use std::fmt;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use profile::text::{is_obeyed, push_shown};

/// The few styles in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    Bold,
    /// Details.
    Dim,
    /// A limit of the profile.
    Warning,
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
    fn sequence_at(text: &str) -> Option<&'static str> {
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

impl<T> Styled<T> {
    /// The text in a style, or unchanged.
    pub(crate) fn new(color: bool, style: Style, text: T) -> Styled<T> {
        let sgr = color.then(|| style.sgr());
        Styled { text, sgr }
    }
}

/// Escapes control characters. `styles`: keep the colours of sprof.
pub(crate) fn printable(text: &str, styles: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_obeyed) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let own = styles.then(|| Style::sequence_at(rest)).flatten();
        let len = match own {
            Some(sequence) => sequence.len(),
            None => rest.chars().next().map_or(1, char::len_utf8),
        };
        match &rest[..len] {
            "\n" | "\t" => out.push_str(&rest[..len]),
            kept if own.is_some() => out.push_str(kept),
            obeyed => obeyed.chars().for_each(|c| push_shown(&mut out, c)),
        }
        rest = &rest[len..];
    }
    out.push_str(rest);
    out
}

/// True if text on this stream is coloured.
pub(crate) fn has_color(stream: &impl IsTerminal) -> bool {
    wants_color(stream.is_terminal(), &|name| std::env::var(name).ok())
}

/// True if text on stdout is coloured.
pub(crate) fn stdout_color() -> bool {
    has_color(&io::stdout())
}

/// Columns of the terminal on stdout; `None` without a terminal.
pub(crate) fn stdout_columns() -> Option<usize> {
    columns(io::stdout())
}

/// Columns of a terminal; `None` for other streams.
pub(crate) fn columns(stream: impl IsTerminal + AsFd) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream)
        .ok()
        .map(|size| usize::from(size.ws_col));
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    Some(size.filter(|columns| *columns > 0).or_else(variable).unwrap_or(80))
}

/// The colour choice for clap's help and errors.
pub(crate) fn clap_color() -> clap::ColorChoice {
    if has_color(&io::stderr()) {
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

    #[test]
    fn only_styles_of_sprof_pass_and_only_where_there_are_colours() {
        let own = "\u{1b}[1mname\u{1b}[0m\n\tnext";
        assert_eq!(printable(own, true), own);
        assert_eq!(printable(own, false), "\\u001b[1mname\\u001b[0m\n\tnext");
        for foreign in [
            "\u{1b}[2J",
            "\u{1b}[8m",
            "\u{1b}]52;c;eA==\u{7}",
            "\u{9b}1A",
            "\r",
            "\u{1b}",
        ] {
            let shown = printable(foreign, true);
            assert!(!shown.contains(is_obeyed), "{shown:?}");
        }
        assert_eq!(printable("größe 名", true), "größe 名");
    }
}
