//! Files of /proc and /sys that are read again and again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Number of files that stay open between readings: opening a file takes four times as long as reading it.
const OPEN_FILES: usize = 256;
/// A list in /proc gives a page of whole records at a time (seq_read_iter in fs/seq_file.c): less than this is the end.
const SHORT_READ: usize = 2048;

/// A file by its path. Once open it stays the file of that process, also when another process has its number.
#[derive(Debug)]
pub(super) struct KeptFile {
    path: String,
    /// The token counts the open files.
    open: Option<(File, Arc<()>)>,
}

impl KeptFile {
    pub(super) fn new(path: String) -> KeptFile {
        KeptFile { path, open: None }
    }
}

/// Reads files into one buffer.
#[derive(Debug)]
pub(super) struct FileReader {
    token: Arc<()>,
    text: Vec<u8>,
}

impl Default for FileReader {
    fn default() -> FileReader {
        FileReader {
            token: Arc::new(()),
            text: vec![0; 1 << 14],
        }
    }
}

impl FileReader {
    /// The text of the file now.
    pub(super) fn read(&mut self, file: &mut KeptFile) -> io::Result<&str> {
        let opened = match file.open.take() {
            Some(open) => open,
            None => (File::open(&file.path)?, self.token.clone()),
        };
        let mut length = 0;
        loop {
            let read = opened.0.read_at(&mut self.text[length..], length as u64)?;
            length += read;
            if read < SHORT_READ.min(self.text.len() - (length - read)) {
                break;
            }
            if length == self.text.len() {
                self.text.resize(2 * length, 0);
            }
        }
        // The reader's own token is one more.
        if Arc::strong_count(&self.token) <= OPEN_FILES + 1 {
            file.open = Some(opened);
        }
        std::str::from_utf8(&self.text[..length]).map_err(io::Error::other)
    }
}
