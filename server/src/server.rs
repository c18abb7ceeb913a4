//! Connections: limited in number and time, one request each.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::listener::Listener;
use super::one_time_link::ConnectionEnds;
use super::reply::{self, RequestHandler};
use super::routes::{Content, Site};
use super::watch::{BrowserNotice, PROFILE_TIME};
use super::write_timeout::WriteTimeout;

/// Open connections at most. For one more, the oldest that has asked nothing yet is closed; if all have, it waits.
const CONNECTIONS: usize = 128;

/// Time for a client to send the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a client to take a part of the answer: a client that reads nothing would block a connection.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest request head. Paths with the address of a profile stay below 2 KB.
const HEAD_BYTES: usize = 64 << 10;

/// Threads for symbols and for reading files.
const BLOCKING_THREADS: usize = 16;

/// The server, on a thread of its own.
pub struct Server {
    thread: JoinHandle<ServerEnd>,
}

/// Why the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEnd {
    /// A signal ended the server.
    Signal,
    /// Nobody asked for anything for the time that was given.
    Idle,
}

impl Server {
    /// Starts the server. From here on SIGINT, SIGTERM and SIGHUP end the server, not the process. `idle`: time without
    /// requests after which the server ends. `noticed` is called with what the server notices about the browser.
    ///
    /// # Errors
    ///
    /// The thread, its runtime or the handlers of signals can't be set up.
    pub fn start(
        listener: Listener,
        content: Content,
        idle: Option<Duration>,
        noticed: impl FnOnce(BrowserNotice) + Send + 'static,
    ) -> Result<Server, String> {
        let site = Arc::new(Site::new(&listener, content));
        let watched = site.clone();
        let opens_viewer = listener.opens_viewer;
        let end = async move || {
            // Somebody will ask for them: a browser takes a while to start.
            let _prepared = opens_viewer.then(|| tokio::spawn(watched.clone().prepare_viewer()));
            let noticing = async {
                noticed(watched.watch.notice(PROFILE_TIME).await);
                std::future::pending().await
            };
            tokio::select! {
                () = watched.watch.is_idle(idle) => ServerEnd::Idle,
                end = noticing => end,
            }
        };
        Server::run(listener.socket, None, site, end)
    }

    /// Serves a site on a thread, until a signal or until `end`.
    pub(super) fn run<S: RequestHandler>(
        socket: StdListener,
        tls: Option<TlsAcceptor>,
        site: Arc<S>,
        end: impl AsyncFnOnce() -> ServerEnd + Send + 'static,
    ) -> Result<Server, String> {
        let start = |error: io::Error| format!("cannot start the server: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()
            .map_err(start)?;
        let (mut interrupt, mut terminate, mut hangup) = {
            let _entered = runtime.enter();
            let on = |kind| signal(kind).map_err(start);
            (
                on(SignalKind::interrupt())?,
                on(SignalKind::terminate())?,
                on(SignalKind::hangup())?,
            )
        };
        let thread = std::thread::Builder::new().name("server".into()).spawn(move || {
            let end = runtime.block_on(async {
                tokio::select! {
                    () = accept(socket, tls, site) => ServerEnd::Signal,
                    _ = interrupt.recv() => ServerEnd::Signal,
                    _ = terminate.recv() => ServerEnd::Signal,
                    _ = hangup.recv() => ServerEnd::Signal,
                    end = end() => end,
                }
            });
            // Symbol requests in work are not waited for: nobody will read the answers.
            runtime.shutdown_background();
            end
        });
        Ok(Server {
            thread: thread.map_err(start)?,
        })
    }

    /// True once a signal ended the server, or nobody asks any more.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until a signal ends the server, or until nobody asks any more.
    pub fn wait(self) -> ServerEnd {
        // Only a panic fails here, and it has printed its message.
        self.thread.join().unwrap_or(ServerEnd::Signal)
    }
}

async fn accept<S: RequestHandler>(socket: StdListener, tls: Option<TlsAcceptor>, site: Arc<S>) {
    let Ok(socket) = TcpListener::from_std(socket) else {
        return;
    };
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let mut silent: VecDeque<(AbortHandle, Arc<AtomicBool>)> = VecDeque::new();
    loop {
        match socket.accept().await {
            Ok((stream, _)) => {
                silent.retain(|(task, asked)| !task.is_finished() && !asked.load(Ordering::Relaxed));
                // Clients that connect and ask nothing would keep all others waiting until their time is over.
                if permits.available_permits() == 0
                    && let Some((oldest, _)) = silent.pop_front()
                {
                    oldest.abort();
                }
                let Ok(permit) = permits.clone().acquire_owned().await else {
                    return;
                };
                let (site, tls, asked) = (site.clone(), tls.clone(), Arc::new(AtomicBool::new(false)));
                let open = asked.clone();
                let task = tokio::spawn(async move {
                    connection(stream, tls, &*site, asked).await;
                    drop(permit);
                });
                silent.push_back((task.abort_handle(), open));
            }
            // For example out of file descriptors: that ends some time, and to try again at once would burn a CPU.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection<S: RequestHandler>(stream: TcpStream, tls: Option<TlsAcceptor>, site: &S, asked: Arc<AtomicBool>) {
    let ends = (stream.peer_addr().ok().zip(stream.local_addr().ok())).map(|(peer, own)| ConnectionEnds { peer, own });
    let stream = WriteTimeout::new(stream, WRITE_TIMEOUT);
    let Some(tls) = tls else {
        return requests(stream, ends, site, asked).await;
    };
    // An error here is a client that speaks no TLS, does not trust the certificate, or says nothing.
    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
        requests(stream, ends, site, asked).await;
    }
}

/// Answers the request of a connection; `asked` becomes true once its head was read.
async fn requests<T, S>(stream: T, ends: Option<ConnectionEnds>, site: &S, asked: Arc<AtomicBool>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: RequestHandler,
{
    let stream = ExplainedErrors {
        stream,
        asked: asked.clone(),
        explanation: Vec::new(),
        written: 0,
    };
    let service = service_fn(|request| {
        asked.store(true, Ordering::Relaxed);
        async move { Ok::<_, Infallible>(site.answer(request, ends).await) }
    });
    // An error here is a client that left, or that got an error answer.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        // One request a connection: on loopback a connection costs nothing, and an idle one would hold a permit.
        .keep_alive(false)
        // A client may close its sending side (`nc -N`) and still want the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Adds the JSON body of errors to hyper's own answers: hyper answers other protocols with an empty 400. Bytes that are
/// written before the service was called can only be such an answer.
struct ExplainedErrors<T> {
    stream: T,
    asked: Arc<AtomicBool>,
    explanation: Vec<u8>,
    written: usize,
}

impl<T> ExplainedErrors<T> {
    fn explain(status_line: &[u8]) -> Vec<u8> {
        let status_line = status_line.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let status_line = String::from_utf8_lossy(status_line);
        let message = match status_line.split(' ').nth(1) {
            Some("431") => "the request's headers are too long",
            Some("414") => "the request's address is too long",
            _ => "this is not a valid HTTP/1.1 request",
        };
        let body = reply::error_body(message);
        let mut answer = format!(
            "{status_line}\r\ncontent-type: {}\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n",
            reply::JSON,
            body.len()
        )
        .into_bytes();
        answer.extend_from_slice(&body);
        answer
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ExplainedErrors<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ExplainedErrors<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.asked.load(Ordering::Relaxed) {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        if self.explanation.is_empty() {
            self.explanation = Self::explain(bytes);
        }
        let this = &mut *self;
        while this.written < this.explanation.len() {
            match Pin::new(&mut this.stream).poll_write(cx, &this.explanation[this.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => this.written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
