//! A stream whose writes fail if the other side reads nothing for too long.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream with a time limit for writes: hyper has one for the head of a request, and none for the answer.
pub(super) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// The end of the time, while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    /// Limits each write to this time.
    pub(super) fn new(stream: S, limit: Duration) -> WriteTimeout<S> {
        WriteTimeout {
            stream,
            limit,
            deadline: None,
        }
    }

    fn within_limit<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let limit = self.limit;
        let deadline = (self.deadline).get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within_limit(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within_limit(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within_limit(cx, ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::net::{TcpListener, TcpStream};

    /// More than the sockets keep.
    const MANY_BYTES: usize = 64 << 20;

    /// Writes to a client until an error ends it, or all is written.
    fn write_all(client: &TcpListener, limit: Duration) -> io::Result<()> {
        let (ours, _) = client.accept()?;
        ours.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut stream = WriteTimeout::new(tokio::net::TcpStream::from_std(ours)?, limit);
            let bytes = vec![0; 1 << 16];
            let mut written = 0;
            while written < MANY_BYTES {
                written += poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, &bytes)).await?;
            }
            Ok(())
        })
    }

    #[test]
    fn a_client_that_never_reads_is_given_up() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let reads_nothing = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let error = write_all(&listener, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(reads_nothing);
    }

    #[test]
    fn a_client_that_reads_gets_everything() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let reader = std::thread::spawn(move || io::copy(&mut client, &mut io::sink()));
        write_all(&listener, Duration::from_secs(600)).unwrap();
        assert!(reader.join().unwrap().unwrap() >= MANY_BYTES as u64);
    }
}
