//! `-` in the place of a file: what comes on stdin.
//!
//! Files are read several times, and from any place in them, so what comes through a pipe goes to a file without a name first.
//! That file becomes stdin: all commands open it as `/dev/stdin`, and so call it in messages.

use std::fs::File;
use std::io::{self, IsTerminal, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use crate::args;
use crate::exit::Failure;

const STDIN: &str = "/dev/stdin";

/// Who writes without end fills no disk.
const MAX_BYTES: u64 = 16 << 30;

/// Puts the path of stdin in the place of each `-`.
pub(crate) fn stand_in(files: Vec<&mut PathBuf>) -> Result<(), Failure> {
    let mut files: Vec<&mut PathBuf> = files
        .into_iter()
        .filter(|file| file.as_path() == Path::new("-"))
        .collect();
    if files.is_empty() {
        return Ok(());
    }
    if io::stdin().is_terminal() {
        let message = "`-` reads stdin, which is a terminal here; pipe a profile into it, or name a file";
        return Err(Failure::from(args::general_usage_error(message)));
    }
    if !std::fs::metadata(STDIN).is_ok_and(|stdin| stdin.is_file()) {
        keep().map_err(|error| {
            Failure::failed(format_args!(
                "reading stdin failed: {error}; save what comes to a file, and name that"
            ))
        })?;
    }
    files.iter_mut().for_each(|file| **file = STDIN.into());
    Ok(())
}

/// Reads stdin to its end, and makes a file with what came the new stdin.
fn keep() -> io::Result<()> {
    let mut file: File = tempfile::tempfile()?;
    let bytes = io::copy(&mut io::stdin().lock().take(MAX_BYTES + 1), &mut file)?;
    if bytes > MAX_BYTES {
        return Err(io::Error::other(format!("more than {} GiB came", MAX_BYTES >> 30)));
    }
    file.rewind()?;
    rustix::stdio::dup2_stdin(&file)?;
    Ok(())
}
