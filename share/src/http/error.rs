//! Why a request failed: what was attempted, on which host, why, and the next step.

use std::fmt;
use std::io;
use std::time::Duration;

use profile::text::numbers::bytes;
use profile::text::one_line;
use ureq::Timeout;

use super::{Address, Reply, RequestLimits, Secret};

/// Characters of a server's own words in an error.
const MAX_SAID: usize = 200;

/// A request that got no reply, or a refusal. It holds no secret.
#[derive(Debug)]
pub struct HttpError {
    pub(super) purpose: Box<str>,
    /// Scheme and host.
    pub(super) host: Box<str>,
    /// Host and port of the proxy on the way.
    pub proxy: Option<Box<str>>,
    /// Why it failed.
    pub reason: FailureReason,
    /// How much was sent.
    pub sent: BodySent,
    /// The refusal, for who knows what the server's words mean.
    pub reply: Option<Box<Reply>>,
}

/// How much of a request's body was given to the connection. The server may have less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodySent {
    /// No byte: the server can't have acted on the request.
    Nothing,
    /// The server can't have the whole body.
    Part {
        /// Bytes that were sent.
        sent: u64,
        /// Bytes of the body.
        size: u64,
    },
    /// Also for requests without a body.
    All,
}

/// What a request waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPhase {
    /// A connection.
    Connecting,
    /// The server took the body too slowly.
    Sending,
    /// The reply.
    Reply,
    /// The whole request.
    Whole,
}

/// Why a request failed.
#[derive(Debug)]
pub enum FailureReason {
    /// The host has no address.
    NoSuchHost,
    /// The host refused the connection.
    Refused,
    /// The host can't be reached.
    Unreachable(io::Error),
    /// The time for this phase was over.
    TimedOut(RequestPhase, Duration),
    /// The proxy did not connect; its words.
    Proxy(String),
    /// This variable names no HTTP proxy.
    ProxyVariable(&'static str),
    /// This variable is not UTF-8.
    Variable(&'static str),
    /// The server's certificate is not valid here.
    Certificate(String),
    /// No encrypted connection for another reason.
    Tls(String),
    /// The connection ended before the reply.
    Closed,
    /// A status from 200 to 299 before the whole body was sent.
    Early(u16),
    /// A status from 300 to 399.
    Redirect(u16),
    /// Any other status but 200 to 299, and the server's words.
    Status(u16, String),
    /// The reply's body has more bytes than this.
    TooLarge(u64),
    /// The reply is not HTTP.
    NotHttp(String),
    /// The body to send can't be read.
    Body(io::Error),
    /// The file for the reply can't be written.
    Download(io::Error),
    /// The request can't be made.
    Request(String),
    /// The caller ended the request.
    Ended,
}

impl HttpError {
    /// A request that can't be made.
    pub fn unmade(purpose: &str, host: String, why: String) -> HttpError {
        HttpError {
            purpose: purpose.into(),
            host: host.into(),
            proxy: None,
            reason: FailureReason::Request(why),
            sent: BodySent::Nothing,
            reply: None,
        }
    }

    /// True if the server can't have acted on the request, and the same request may have more luck soon.
    pub fn may_be_repeated(&self) -> bool {
        self.sent == BodySent::Nothing && matches!(self.reason, FailureReason::Refused | FailureReason::Unreachable(_))
    }

    /// Where the server sends to, of an address that it was asked at. `None` unless it redirects to another address
    /// that is encrypted if this one is.
    pub fn redirected(&self, asked: &Address) -> Option<Address> {
        let FailureReason::Redirect(_) = self.reason else {
            return None;
        };
        asked.redirected(self.reply.as_ref()?.header("Location")?).ok()
    }

    /// True if more time may help.
    pub fn is_time_out(&self) -> bool {
        matches!(self.reason, FailureReason::TimedOut(..))
    }

    /// True if the server may have acted on the request without a reply that says so.
    pub fn is_outcome_unknown(&self) -> bool {
        let may_have_acted = match self.reason {
            FailureReason::Early(_) => return true,
            // Servers in front of the real one reply these when they lose patience with it.
            FailureReason::Status(status, _) => status >= 500,
            FailureReason::Redirect(_) => false,
            _ => true,
        };
        self.sent == BodySent::All && may_have_acted
    }
}

impl FailureReason {
    /// Why no reply came.
    pub(super) fn of(error: ureq::Error, sent: BodySent, limits: &RequestLimits) -> FailureReason {
        match error {
            ureq::Error::HostNotFound => FailureReason::NoSuchHost,
            ureq::Error::Timeout(what) => timed_out(what, limits),
            ureq::Error::ConnectProxyFailed(said) => FailureReason::Proxy(one_line(&said).into_owned()),
            ureq::Error::Rustls(error) => of_tls(&error),
            ureq::Error::Tls(said) => FailureReason::Tls(said.to_owned()),
            ureq::Error::Io(error) => of_io(error, sent),
            other => FailureReason::NotHttp(short(&other.to_string())),
        }
    }

    /// Why the body of a reply could not be read.
    pub(super) fn of_reply(error: ureq::Error, limits: &RequestLimits) -> FailureReason {
        match error {
            ureq::Error::BodyExceedsLimit(_) => FailureReason::TooLarge(limits.reply_bytes),
            other => FailureReason::of(other, BodySent::All, limits),
        }
    }
}

fn timed_out(what: Timeout, limits: &RequestLimits) -> FailureReason {
    let phase = match what {
        Timeout::Resolve | Timeout::Connect => RequestPhase::Connecting,
        Timeout::SendRequest | Timeout::SendBody | Timeout::PerWrite => RequestPhase::Sending,
        Timeout::Global | Timeout::PerCall => RequestPhase::Whole,
        _ => RequestPhase::Reply,
    };
    let whole = limits.whole.filter(|_| phase == RequestPhase::Whole);
    FailureReason::TimedOut(phase, whole.unwrap_or(limits.step))
}

fn of_io(error: io::Error, sent: BodySent) -> FailureReason {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(error) = inner {
        return of_tls(error);
    }
    let text = error.to_string();
    match error.kind() {
        // The standard library has no kind for it; this is its text (library/std/src/sys/net/connection/socket/unix.rs,
        // `cvt_gai`).
        _ if text.starts_with("failed to lookup address information") => FailureReason::NoSuchHost,
        io::ErrorKind::ConnectionRefused => FailureReason::Refused,
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => FailureReason::Closed,
        _ if sent == BodySent::Nothing => FailureReason::Unreachable(error),
        _ => FailureReason::NotHttp(short(&text)),
    }
}

fn of_tls(error: &rustls::Error) -> FailureReason {
    let text = short(&error.to_string());
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            FailureReason::Certificate(text)
        }
        _ => FailureReason::Tls(text),
    }
}

/// A server's words in one short line, without what may be a token and without `hidden`: servers repeat what they were
/// sent.
pub(super) fn said(body: &[u8], hidden: &[Secret]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.starts_with('<') {
        return "an HTML page".into();
    }
    let mut text = text.to_owned();
    for secret in hidden {
        text = text.replace(secret.expose(), "[...]");
    }
    short(&without_tokens(&text))
}

/// At most [`MAX_SAID`] characters in one line.
fn short(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(MAX_SAID) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.into_owned(),
    }
}

/// Replaces long words of the letters of tokens (RFC 7519: base64url in parts between dots).
fn without_tokens(text: &str) -> String {
    const LONG: usize = 24;
    let is_of_token = |c: char| c.is_ascii_alphanumeric() || "-_.+/=~".contains(c);
    let mut out = String::new();
    for piece in text.split_inclusive(|c| !is_of_token(c)) {
        let word = piece.trim_end_matches(|c| !is_of_token(c));
        match word.len() >= LONG {
            true => out.extend(["[...]", &piece[word.len()..]]),
            false => out.push_str(piece),
        }
    }
    out
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.purpose, self.host)?;
        match &self.proxy {
            Some(proxy) => write!(f, " by the proxy {proxy}: ")?,
            None => write!(f, ": ")?,
        }
        if let (FailureReason::Closed | FailureReason::TimedOut(..), BodySent::Part { sent, size }) =
            (&self.reason, self.sent)
        {
            let (sent, size) = (bytes(sent as f64), bytes(size as f64));
            write!(f, "after {sent} of {size}, ")?;
        }
        match (&self.reason, &self.proxy) {
            (FailureReason::NoSuchHost, None) => write!(f, "there is no such host; check the name and the network"),
            (FailureReason::Refused, None) => write!(
                f,
                "the connection was refused; check the address, and whether the server runs"
            ),
            (FailureReason::NoSuchHost, Some(_)) => write!(f, "there is no such proxy; {PROXY}"),
            (FailureReason::Refused, Some(_)) => write!(f, "the proxy refused the connection; {PROXY}"),
            (reason, _) => reason.fmt(f),
        }
    }
}

const PROXY: &str = "check HTTPS_PROXY (for http:// HTTP_PROXY), or name the host in NO_PROXY to connect directly";

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureReason::NoSuchHost => write!(f, "there is no such host"),
            FailureReason::Refused => write!(f, "the connection was refused"),
            FailureReason::Unreachable(error) => {
                write!(f, "the connection failed: {error}; check the address and the network")
            }
            FailureReason::TimedOut(phase, time) => {
                let time = time.as_secs_f64();
                match phase {
                    RequestPhase::Connecting => {
                        write!(f, "no connection within {time} s; check the address and the network")
                    }
                    RequestPhase::Sending => write!(f, "the server took nothing for {time} s"),
                    RequestPhase::Reply => write!(f, "no whole reply within {time} s"),
                    RequestPhase::Whole => write!(f, "all together took more than {time} s"),
                }
            }
            FailureReason::Proxy(said) => write!(f, "the proxy did not connect: {said}; {PROXY}"),
            FailureReason::ProxyVariable(name) => write!(
                f,
                "{name} names no HTTP proxy; its form is http://HOST:PORT, and SOCKS proxies are not supported"
            ),
            FailureReason::Variable(name) => write!(f, "the variable {name} is not UTF-8"),
            FailureReason::Certificate(why) => write!(
                f,
                "its certificate is not valid here: {why}; if you trust the server, name a file with its authority's certificate in \
                 SSL_CERT_FILE"
            ),
            FailureReason::Tls(why) => write!(
                f,
                "no encrypted connection: {why}; check scheme and port of the address"
            ),
            FailureReason::Closed => write!(f, "the connection was closed without a reply; try again later"),
            FailureReason::Early(status) => write!(
                f,
                "it replied (status {status}) before it had the whole profile; check the address, and what stands in front of the server"
            ),
            FailureReason::Redirect(status) => write!(
                f,
                "the server sends to another address (status {status}), and nothing is sent there; name that address itself"
            ),
            FailureReason::Status(status, said) => {
                write!(f, "the server refused with status {status}")?;
                if let Some(meaning) = ureq::http::StatusCode::from_u16(*status)
                    .ok()
                    .and_then(|code| code.canonical_reason())
                {
                    write!(f, " ({meaning})")?;
                }
                if !said.is_empty() {
                    write!(f, ": {said}")?;
                }
                match status {
                    401 | 403 => write!(f, "; check that you may do this there"),
                    404 | 405 => write!(f, "; check the path of the address"),
                    413 => write!(f, "; send less"),
                    429 | 500.. => write!(f, "; try again later"),
                    _ => Ok(()),
                }
            }
            FailureReason::TooLarge(limit) => write!(
                f,
                "the reply is larger than {}, so this is another kind of server; check the address",
                bytes(*limit as f64)
            ),
            FailureReason::NotHttp(why) => write!(f, "the reply can't be read: {why}; check the address"),
            FailureReason::Body(error) => write!(f, "reading what to send failed: {error}"),
            FailureReason::Download(error) => write!(f, "writing the reply to a file failed: {error}"),
            FailureReason::Request(why) => write!(f, "{why}"),
            FailureReason::Ended => write!(f, "ended by Ctrl-C or a signal"),
        }
    }
}

impl std::error::Error for HttpError {}
