//! All text to stdout and stderr goes through here, so that text from outside cannot control the terminal.
//!
//! Messages hold names of processes, threads, files and functions of other users, and errors quote what they could not parse. So the
//! whole text is escaped before it is written, not each name: control characters become `\u001b` and the like, except for line breaks,
//! tabs and the styles of sprof itself.

use std::io::{self, BufWriter, StdoutLock, Write};

use profile::text::{is_obeyed, push_shown};

use crate::exit::{Failure, Outcome, Status};
use crate::term::{self, Style};

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

/// Stdout for text.
struct Screen {
    out: BufWriter<StdoutLock<'static>>,
    styles: bool,
}

impl Write for Screen {
    /// Callers must write whole characters, as `write!` does.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.out.write_all(printable(&text, self.styles).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints `what` on stdout.
pub(crate) fn print(what: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome {
    let mut out = Screen {
        out: BufWriter::new(io::stdout().lock()),
        styles: term::stdout_color(),
    };
    of_writing(what, write(&mut out).and_then(|()| out.flush()))
}

/// The outcome of writing to stdout.
pub(crate) fn of_writing(what: &str, written: io::Result<()>) -> Outcome {
    match written {
        Ok(()) => Ok(Status::SUCCESS),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => Err(Failure::failed(format_args!(
            "writing {what} to stdout failed: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
