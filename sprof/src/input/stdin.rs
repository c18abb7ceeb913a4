//! `-` instead of a file: stdin.
//!
//! Files are read several times and at any offset, so the content of a pipe is first copied to a file without a name.
//! That file becomes stdin: all commands open it as `/dev/stdin`, also in messages.

use std::fs::File;
use std::io::{self, IsTerminal, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use crate::args;
use crate::exit::Failure;

const STDIN: &str = "/dev/stdin";

/// Most bytes to copy: an endless pipe must not fill the disk.
const MAX_BYTES: u64 = 16 << 30;

/// Replaces each `-` with the path of stdin.
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
        return Err(args::general_usage_error(message));
    }
    if !std::fs::metadata(STDIN).is_ok_and(|stdin| stdin.is_file()) {
        keep()
            .map_err(|error| format!("reading stdin failed: {error}; save the input to a file, and name that file"))?;
    }
    files.iter_mut().for_each(|file| **file = STDIN.into());
    Ok(())
}

/// Copies stdin to a file, and makes that file the new stdin.
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
