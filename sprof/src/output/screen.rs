//! Prints text on stdout, so that text from outside cannot control the terminal.
//!
//! Messages hold names of processes, threads, files and functions of other users, and errors quote what they could not
//! parse. So the whole text is escaped before it is written, not each name: control characters become `\u001b` and the
//! like, except for line breaks, tabs and the styles of sprof itself.

use std::io::{self, BufWriter, StdoutLock, Write};

use crate::exit::{Failure, Outcome, Status};
use crate::terminal::style::{printable, stdout_color};

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

pub(crate) fn print(what: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome {
    let mut out = Screen {
        out: BufWriter::new(io::stdout().lock()),
        styles: stdout_color(),
    };
    of_writing(what, write(&mut out).and_then(|()| out.flush()))
}

pub(crate) fn of_writing(what: &str, written: io::Result<()>) -> Outcome {
    match written {
        Ok(()) => Ok(Status::SUCCESS),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => Err(Failure::failed(format_args!(
            "writing {what} to stdout failed: {error}"
        ))),
    }
}
