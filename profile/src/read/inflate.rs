//! The bytes of a file in blocks. A compressed file is inflated on its own thread while the caller parses.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use flate2::read::MultiGzDecoder;

use super::parse::{Blocks, InputBlock};

/// Blocks that are inflated ahead of the parser: 8 MB take longer than a time slice. With fewer blocks, the two threads
/// of a busy machine wait for each other's time slices.
const BLOCKS_AHEAD: usize = 8;

/// Passes the file's blocks to `work`. Returns its answer and the number of bytes read from the file.
pub(super) fn with_blocks<T>(file: &File, is_gzip: bool, work: impl FnOnce(&mut dyn Blocks) -> T) -> (T, u64) {
    let bytes = AtomicU64::new(0);
    let counted = || CountedFile { file, bytes: &bytes };
    let inflated = || MultiGzDecoder::new(BufReader::with_capacity(64 << 10, counted()));
    let done = match is_gzip {
        false => work(&mut InlineBlocks::new(counted())),
        true => thread::scope(|scope| {
            // The receiver is dropped before the scope joins the thread. The thread ends when its receiver is gone.
            let (filled, from_thread) = sync_channel(BLOCKS_AHEAD);
            let (to_thread, used) = channel();
            let thread = thread::Builder::new().name("inflate".into());
            match thread.spawn_scoped(scope, move || inflate(inflated(), &used, &filled)) {
                Ok(_) => work(&mut ThreadedBlocks { from_thread, to_thread }),
                // No more threads are allowed, so one thread inflates and parses.
                Err(_) => work(&mut InlineBlocks::new(inflated())),
            }
        }),
    };
    (done, bytes.into_inner())
}

/// Blocks that the parser's own thread reads.
struct InlineBlocks<R> {
    from: R,
    failed: Option<io::Error>,
}

impl<R> InlineBlocks<R> {
    fn new(from: R) -> Self {
        InlineBlocks { from, failed: None }
    }
}

impl<R: Read> Blocks for InlineBlocks<R> {
    fn next(&mut self, mut used: InputBlock) -> io::Result<InputBlock> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match used.fill(&mut self.from) {
            Err(error) if used.is_empty() => return Err(error),
            // The bytes before the error come first.
            Err(error) => self.failed = Some(error),
            Ok(()) => {}
        }
        Ok(used)
    }
}

/// Blocks from the thread that inflates.
struct ThreadedBlocks {
    from_thread: Receiver<io::Result<InputBlock>>,
    to_thread: Sender<InputBlock>,
}

impl Blocks for ThreadedBlocks {
    fn next(&mut self, used: InputBlock) -> io::Result<InputBlock> {
        // The thread may have ended.
        let _ = self.to_thread.send(used);
        match self.from_thread.recv() {
            Ok(block) => block,
            Err(_) => Err(io::Error::other("inflating stopped")),
        }
    }
}

fn inflate(mut from: impl Read, used: &Receiver<InputBlock>, filled: &SyncSender<io::Result<InputBlock>>) {
    loop {
        let mut block = used.try_recv().unwrap_or_else(|_| InputBlock::new());
        let error = block.fill(&mut from).err();
        let is_last = block.is_empty() || error.is_some();
        // The bytes before the error come first.
        if (error.is_none() || !block.is_empty()) && filled.send(Ok(block)).is_err() {
            return;
        }
        if let Some(error) = error {
            let _ = filled.send(Err(error));
        }
        if is_last {
            return;
        }
    }
}

/// Counts the bytes read from a file: the place of an error.
struct CountedFile<'a> {
    file: &'a File,
    bytes: &'a AtomicU64,
}

impl Read for CountedFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
