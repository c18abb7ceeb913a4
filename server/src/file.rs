//! A file as a response body: read a piece at a time, when the client is ready for it, and never on the server's
//! thread.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::task::JoinHandle;

/// Bytes read at once: little memory for a hundred clients, and fast for 500 MB.
const PIECE_BYTES: u64 = 256 << 10;

pub(super) struct FileBody {
    file: Arc<File>,
    offset: u64,
    end: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileBody {
    /// The whole file at its current size.
    pub(super) fn new(file: Arc<File>) -> io::Result<FileBody> {
        let end = file.metadata()?.len();
        Ok(FileBody {
            file,
            offset: 0,
            end,
            reading: None,
        })
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.offset >= self.end {
            return Poll::Ready(None);
        }
        let (file, offset) = (self.file.clone(), self.offset);
        let piece_bytes = (self.end - offset).min(PIECE_BYTES) as usize;
        let reading = self.reading.get_or_insert_with(|| {
            tokio::task::spawn_blocking(move || {
                let mut piece = vec![0; piece_bytes];
                // A file that became shorter is an error: the client must not take the part for the whole.
                file.read_exact_at(&mut piece, offset)?;
                Ok(Bytes::from(piece))
            })
        });
        let piece = ready!(Pin::new(reading).poll(cx)).map_err(io::Error::other).flatten();
        self.reading = None;
        match piece {
            Ok(piece) => {
                self.offset += piece.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Err(error) => {
                self.offset = self.end;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.offset >= self.end
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.end - self.offset)
    }
}
