//! The HTTP client: the only place that opens connections to other machines by itself.
//!
//! The caller gives an [`Address`], a method, headers, perhaps a secret, a [`Body`] or a file for the reply's body, and
//! gets the reply to one request, or an [`HttpError`] that says what failed and how much was sent. One call is one
//! attempt: nothing is sent again, and no redirect is followed. No secret is in an error or in what `Debug` shows. Out
//! of scope: when a request may be repeated, and what a reply means.
//!
//! Certificates are those of the system (`SSL_CERT_FILE` and `SSL_CERT_DIR` replace them), or Mozilla's where the
//! system has none. A proxy is read from the environment (`proxy`).

mod address;
mod error;
mod proxy;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use ureq::http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HeaderValue};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, SendBody, http};

pub use address::Address;
pub use error::{BodySent, FailureReason, HttpError};
pub use ureq::http::header::HeaderName;
pub use ureq::http::{HeaderMap, Method};

/// A request with a larger body asks first whether the server wants it (RFC 9110, 10.1.1: `Expect: 100-continue`). curl
/// has the same limit. The refusal of a server that closes the connection while it is written to would be lost.
const ASKS_FIRST_BYTES: u64 = 1 << 20;
/// Servers that don't know the question get the body after this time. curl waits as long. In tests, the thread of a
/// server may wait for a CPU for seconds.
const WAITS_FOR_ANSWER: Duration = Duration::from_secs(if cfg!(test) { 8 } else { 1 });
/// Bytes of a refusal that are read where the reply was to be written to a file.
const MAX_REFUSAL_BYTES: u64 = 64 << 10;
/// How often the caller is asked whether to go on.
const WATCH: Duration = Duration::from_millis(100);

/// A request. Its `Debug` shows no secret.
#[derive(Debug)]
pub struct Request<'a> {
    /// For errors: `upload the profile` gives `cannot upload the profile: ...`.
    pub purpose: &'a str,
    /// The method.
    pub method: Method,
    /// Where it goes.
    pub address: &'a Address,
    /// Headers with values that anyone may see.
    pub headers: &'a [(&'a str, &'a str)],
    /// Headers with values that nobody else may see.
    pub secret_headers: &'a [(String, Secret)],
    /// The value of `Authorization`.
    pub authorization: Option<&'a Secret>,
    /// What is sent.
    pub body: Option<Body>,
}

/// What is sent: a file, or bytes.
pub struct Body {
    reader: Box<dyn Read + Send>,
    size: u64,
}

impl Body {
    /// The first `size` bytes of what `reader` gives.
    pub fn new(reader: impl Read + Send + 'static, size: u64) -> Body {
        Body {
            reader: Box::new(reader),
            size,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.size)
    }
}

/// A token or password, which no message and no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text secret.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// True if a header can have it as its value.
    pub fn fits_header(&self) -> bool {
        HeaderValue::from_str(&self.0).is_ok()
    }

    /// For what keeps or sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// For connecting, for each write, for the first byte of the reply, and for the rest of a reply that is not written
    /// to a file.
    pub step: Duration,
    /// For everything together.
    pub whole: Option<Duration>,
    /// Bytes of the reply's body.
    pub reply_bytes: u64,
}

/// A server's reply. Its `Debug` has the status alone: a server may repeat what it was sent.
pub struct Reply {
    /// 200 to 299, if the server accepted the request.
    pub status: u16,
    /// The reply's headers.
    pub headers: HeaderMap,
    /// The reply's body.
    pub body: Vec<u8>,
    hidden: Vec<Secret>,
}

impl Reply {
    /// The value of a header; `None` if the reply lacks it, or if it is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A text of the reply for people: one short line without what the request kept secret.
    pub fn said(&self, text: &str) -> String {
        error::said(text.as_bytes(), &self.hidden)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.status)
    }
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the body that were given to the connection.
    pub sent: u64,
    /// Bytes of the body.
    pub size: u64,
    /// Bytes of the reply that were written to the file of the request.
    pub received: u64,
    /// Bytes of the whole reply, once the server has said it.
    pub reply_size: Option<u64>,
}

/// Sends a request once, and reads the reply. `watch` is called ten times a second, and may end it.
///
/// # Errors
///
/// The server was not reached, did not reply in time, replied something else than a status of 200 to 299, or `watch`
/// ended the request.
pub fn send(
    request: Request<'_>,
    limits: &RequestLimits,
    watch: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Reply, HttpError> {
    run(request, None, limits, watch)
}

/// Sends a request once as [`send`] does, and writes the body of the reply to a file. After an error the file may hold
/// a part of it.
///
/// # Errors
///
/// As of [`send`], or the file can't be written.
pub fn download(
    request: Request<'_>,
    file: File,
    limits: &RequestLimits,
    watch: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), HttpError> {
    run(request, Some(file), limits, watch).map(drop)
}

fn run(
    request: Request<'_>,
    download: Option<File>,
    limits: &RequestLimits,
    mut watch: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Reply, HttpError> {
    let proxy = proxy::of(request.address, &|name| std::env::var_os(name));
    let state = Arc::new(SharedRequest::default());
    let size = request.body.as_ref().map_or(0, |body| body.size);
    let failed = Failed {
        purpose: request.purpose.into(),
        host: request.address.host().into(),
        proxy: (proxy.as_ref().ok().and_then(Option::as_ref)).map(|proxy| proxy::name(proxy).into()),
        limits: *limits,
        size,
        hidden: hidden(&request),
    };
    let proxy = match proxy {
        Ok(proxy) => proxy,
        Err(reason) => return Err(failed.error(reason, BodySent::Nothing)),
    };
    let agent = agent(proxy, limits, download.is_some());
    let prepared = match prepare(request, &state) {
        Ok(prepared) => prepared,
        Err(reason) => return Err(failed.error(reason, BodySent::Nothing)),
    };
    // Another thread: only a thread that does not wait for the network can be asked to end.
    let (results, result) = mpsc::sync_channel(1);
    let (worker, reply_bytes, shared) = (agent.clone(), limits.reply_bytes, state.clone());
    std::thread::spawn(move || {
        // The receiver is gone if the request was ended.
        let _ = results.send(exchange(&worker, prepared, reply_bytes, download, &shared));
    });
    let outcome = loop {
        match result.recv_timeout(WATCH) {
            Ok(outcome) => break outcome,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break Err(Stop::Request(ureq::Error::ConnectionFailed)),
        }
        let reply_size = state.reply_size.load(Ordering::Relaxed);
        let progress = Progress {
            sent: state.sent.load(Ordering::Relaxed),
            size,
            received: state.received.load(Ordering::Relaxed),
            reply_size: (reply_size > 0).then_some(reply_size),
        };
        if watch(progress).is_break() {
            state.is_ended.store(true, Ordering::Relaxed);
            agent.shutdown();
            return Err(failed.error(FailureReason::Ended, failed.sent(&state)));
        }
    };
    let sent = failed.sent(&state);
    match outcome {
        Ok(reply) if (200..300).contains(&reply.status) && sent == BodySent::All => Ok(Reply {
            hidden: failed.hidden,
            ..reply
        }),
        // Seen: a gateway that replies 200 to the question whether it wants the body.
        Ok(reply) if (200..300).contains(&reply.status) => Err(failed.error(FailureReason::Early(reply.status), sent)),
        Ok(reply) => {
            let reason = match reply.status {
                status @ 300..400 => FailureReason::Redirect(status),
                status => FailureReason::Status(status, error::said(&reply.body, &failed.hidden)),
            };
            let mut error = failed.error(reason, sent);
            error.reply = Some(Box::new(Reply {
                hidden: failed.hidden,
                ..reply
            }));
            Err(error)
        }
        Err(stop) => {
            let own = state.read_error.lock().ok().and_then(|mut error| error.take());
            let reason = match own {
                Some(error) => FailureReason::Body(error),
                None => failed.reason(stop, sent),
            };
            Err(failed.error(reason, sent))
        }
    }
}

/// What a server may repeat of a request, and no error may show. A known scheme stays: it says what was tried.
fn hidden(request: &Request<'_>) -> Vec<Secret> {
    let others = request.secret_headers.iter().map(|(_, secret)| secret);
    let of_query = request.address.secrets();
    let mut all: Vec<&str> = of_query.iter().map(String::as_str).collect();
    for secret in request.authorization.into_iter().chain(others) {
        let value = secret.expose().trim();
        let is_scheme = |word: &str| ["basic", "bearer"].iter().any(|known| word.eq_ignore_ascii_case(known));
        match value.split_once(' ') {
            Some((scheme, rest)) if is_scheme(scheme) => {
                all.push(rest.trim());
                continue;
            }
            // Another scheme, or a value with a space.
            Some((_, rest)) => all.push(rest.trim()),
            None => {}
        }
        all.push(value);
    }
    let mut all: Vec<_> = all.into_iter().filter(|value| !value.is_empty()).collect();
    all.sort_by_key(|value| std::cmp::Reverse(value.len()));
    all.into_iter().map(Secret::new).collect()
}

/// What a request has in common with its error.
struct Failed {
    purpose: Box<str>,
    host: Box<str>,
    proxy: Option<Box<str>>,
    limits: RequestLimits,
    size: u64,
    /// What no error may repeat, the longest first.
    hidden: Vec<Secret>,
}

impl Failed {
    fn error(&self, reason: FailureReason, sent: BodySent) -> HttpError {
        HttpError {
            purpose: self.purpose.clone(),
            host: self.host.clone(),
            proxy: self.proxy.clone(),
            reason,
            sent,
            reply: None,
        }
    }

    fn sent(&self, state: &SharedRequest) -> BodySent {
        match state.sent.load(Ordering::Relaxed) {
            0 if self.size > 0 => BodySent::Nothing,
            sent if sent < self.size => BodySent::Part { sent, size: self.size },
            _ => BodySent::All,
        }
    }

    fn reason(&self, stop: Stop, sent: BodySent) -> FailureReason {
        match stop {
            Stop::Request(error) => FailureReason::of(error, sent, &self.limits),
            // A status alone, without a body that can be read, is a reply.
            Stop::Reply(status, _) if !(200..300).contains(&status) => FailureReason::Status(status, String::new()),
            Stop::Reply(status, _) if sent != BodySent::All => FailureReason::Early(status),
            Stop::Reply(_, error) => FailureReason::of_reply(error, &self.limits),
            Stop::Download(error) => FailureReason::Download(error),
        }
    }
}

/// What the thread of a request shares with its caller.
#[derive(Default)]
struct SharedRequest {
    sent: AtomicU64,
    received: AtomicU64,
    /// 0 while it is not known.
    reply_size: AtomicU64,
    is_ended: AtomicBool,
    read_error: Mutex<Option<io::Error>>,
}

/// Reads the body for the connection.
struct Reader {
    body: Body,
    state: Arc<SharedRequest>,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.state.is_ended.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let sent = self.state.sent.load(Ordering::Relaxed);
        let rest = usize::try_from(self.body.size - sent).unwrap_or(usize::MAX);
        let wanted = rest.min(buffer.len());
        let read = match self.body.reader.read(&mut buffer[..wanted]) {
            Ok(0) if wanted > 0 => Err(io::Error::other("the file became shorter")),
            other => other,
        };
        match read {
            Ok(read) => {
                self.state.sent.fetch_add(read as u64, Ordering::Relaxed);
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                if let Ok(mut slot) = self.state.read_error.lock() {
                    *slot = Some(error);
                }
                Err(kind.into())
            }
        }
    }
}

fn prepare(request: Request<'_>, state: &Arc<SharedRequest>) -> Result<http::Request<Option<Reader>>, FailureReason> {
    let refused = || FailureReason::Request("a header has characters that headers can't have".into());
    let mut made = http::Request::builder()
        .method(request.method)
        .uri(request.address.uri().clone())
        // One request is all. And ureq 3.5 sees a refusal that comes instead of `100 Continue` only when more bytes
        // come, or the end.
        .header(CONNECTION, "close");
    for (name, value) in request.headers {
        made = made.header(*name, *value);
    }
    for (name, secret) in request.secret_headers {
        let mut value = HeaderValue::from_str(secret.expose()).map_err(|_| refused())?;
        value.set_sensitive(true);
        made = made.header(name, value);
    }
    if let Some(secret) = request.authorization {
        let mut value = HeaderValue::from_str(secret.expose()).map_err(|_| refused())?;
        value.set_sensitive(true);
        made = made.header(AUTHORIZATION, value);
    }
    if let Some(body) = &request.body {
        made = made.header(CONTENT_LENGTH, body.size);
        if body.size > ASKS_FIRST_BYTES {
            made = made.header(EXPECT, "100-continue");
        }
    }
    let state = state.clone();
    let body = request.body.map(|body| Reader { body, state });
    made.body(body).map_err(|_| refused())
}

fn agent(proxy: Option<ureq::Proxy>, limits: &RequestLimits, is_download: bool) -> Agent {
    let tls = TlsConfig::builder().root_certs(roots()).build();
    let step = Some(limits.step);
    let config = Agent::config_builder()
        .user_agent(concat!("sprof/", env!("CARGO_PKG_VERSION")))
        .proxy(proxy)
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_resolve(step)
        .timeout_connect(step)
        .timeout_per_write(step)
        .timeout_await_100(Some(WAITS_FOR_ANSWER.min(limits.step / 2)))
        .timeout_recv_response(step)
        .timeout_recv_body(step.filter(|_| !is_download))
        .timeout_global(limits.whole)
        .build();
    config.new_agent()
}

/// The certificates of the system; Mozilla's, which are part of the program, if the system has none. They are read
/// once.
fn roots() -> RootCerts {
    static ROOTS: OnceLock<RootCerts> = OnceLock::new();
    let read = || {
        let found = rustls_native_certs::load_native_certs();
        let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].map(|name| std::env::var_os(name).is_some());
        if found.certs.is_empty() && !named.contains(&true) {
            return RootCerts::WebPki;
        }
        let own = found.certs.iter().map(|cert| Certificate::from_der(cert).to_owned());
        own.into()
    };
    ROOTS.get_or_init(read).clone()
}

/// Why the thread of a request has no reply.
enum Stop {
    Request(ureq::Error),
    /// The reply's body could not be read.
    Reply(u16, ureq::Error),
    /// The file for the reply's body can't be written.
    Download(io::Error),
}

fn exchange(
    agent: &Agent,
    request: http::Request<Option<Reader>>,
    reply_bytes: u64,
    download: Option<File>,
    state: &SharedRequest,
) -> Result<Reply, Stop> {
    let request = request.map(|body| body.map_or_else(SendBody::none, SendBody::from_owned_reader));
    let mut response = agent.run(request).map_err(Stop::Request)?;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = match download {
        Some(mut file) if (200..300).contains(&status) => {
            let size = response.body().content_length().unwrap_or(0);
            state.reply_size.store(size, Ordering::Relaxed);
            let mut reader = response.body_mut().with_config().limit(reply_bytes).reader();
            let mut buffer = vec![0; 128 << 10];
            loop {
                match reader
                    .read(&mut buffer)
                    .map_err(|error| Stop::Reply(status, error.into()))?
                {
                    0 => break Vec::new(),
                    read => {
                        file.write_all(&buffer[..read]).map_err(Stop::Download)?;
                        state.received.fetch_add(read as u64, Ordering::Relaxed);
                    }
                }
            }
        }
        download => {
            let limit = download.map_or(reply_bytes, |_| reply_bytes.min(MAX_REFUSAL_BYTES));
            let body = response.body_mut().with_config().limit(limit).read_to_vec();
            body.map_err(|error| Stop::Reply(status, error))?
        }
    };
    Ok(Reply {
        status,
        headers,
        body,
        hidden: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
