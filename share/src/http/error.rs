//! Why a request failed: what was attempted, on which host, why, and the next step.

use std::fmt;
use std::io;
use std::time::Duration;

use profile::text::numbers::bytes;
use profile::text::one_line;
use ureq::Timeout;

use super::{Limits, Reply, Secret};

/// Characters of a server's own words in an error.
const MAX_SAID: usize = 200;

/// A request that got no reply, or a refusal. It holds no secret.
#[derive(Debug)]
pub struct Error {
    pub(super) purpose: Box<str>,
    /// Scheme and host.
    pub(super) host: Box<str>,
    /// Host and port of the proxy on the way.
    pub(super) proxy: Option<Box<str>>,
    /// Why it failed.
    pub reason: Reason,
    /// How much was sent.
    pub sent: Sent,
    /// The refusal, for who knows what the server's words mean.
    pub reply: Option<Box<Reply>>,
}

/// How much of a request's body was given to the connection. The server may have less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
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
pub enum Phase {
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
pub enum Reason {
    /// The host has no address.
    NoSuchHost,
    /// The host refused the connection.
    Refused,
    /// The host can't be reached.
    Unreachable(io::Error),
    /// The time for this phase was over.
    TimedOut(Phase, Duration),
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
    /// The request can't be made.
    Request(String),
    /// The caller ended the request.
    Ended,
}

impl Error {
    /// A request that can't be made.
    pub fn unmade(purpose: &str, host: String, why: String) -> Error {
        Error {
            purpose: purpose.into(),
            host: host.into(),
            proxy: None,
            reason: Reason::Request(why),
            sent: Sent::Nothing,
            reply: None,
        }
    }

    /// True if the server can't have acted on the request, and the same request may have more luck soon.
    pub fn may_be_repeated(&self) -> bool {
        self.sent == Sent::Nothing && matches!(self.reason, Reason::Refused | Reason::Unreachable(_))
    }

    /// True if more time may help.
    pub fn is_time_out(&self) -> bool {
        matches!(self.reason, Reason::TimedOut(..))
    }

    /// True if the server may have acted on the request although there is no reply that says so.
    pub fn is_outcome_unknown(&self) -> bool {
        let may_have_acted = match self.reason {
            Reason::Early(_) => return true,
            // Servers in front of the real one reply these when they lose patience with it.
            Reason::Status(status, _) => status >= 500,
            Reason::Redirect(_) => false,
            _ => true,
        };
        self.sent == Sent::All && may_have_acted
    }
}

impl Reason {
    /// Why there is no reply at all.
    pub(super) fn of(error: ureq::Error, sent: Sent, limits: &Limits) -> Reason {
        match error {
            ureq::Error::HostNotFound => Reason::NoSuchHost,
            ureq::Error::Timeout(what) => timed_out(what, limits),
            ureq::Error::ConnectProxyFailed(said) => Reason::Proxy(one_line(&said).into_owned()),
            ureq::Error::Rustls(error) => of_tls(&error),
            ureq::Error::Tls(said) => Reason::Tls(said.to_owned()),
            ureq::Error::Io(error) => of_io(error, sent),
            other => Reason::NotHttp(short(&other.to_string())),
        }
    }

    /// Why the body of a reply could not be read.
    pub(super) fn of_reply(error: ureq::Error, limits: &Limits) -> Reason {
        match error {
            ureq::Error::BodyExceedsLimit(_) => Reason::TooLarge(limits.reply_bytes),
            other => Reason::of(other, Sent::All, limits),
        }
    }
}

fn timed_out(what: Timeout, limits: &Limits) -> Reason {
    let phase = match what {
        Timeout::Resolve | Timeout::Connect => Phase::Connecting,
        Timeout::SendRequest | Timeout::SendBody | Timeout::PerWrite => Phase::Sending,
        Timeout::Global | Timeout::PerCall => Phase::Whole,
        _ => Phase::Reply,
    };
    let whole = limits.whole.filter(|_| phase == Phase::Whole);
    Reason::TimedOut(phase, whole.unwrap_or(limits.step))
}

fn of_io(error: io::Error, sent: Sent) -> Reason {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(error) = inner {
        return of_tls(error);
    }
    let text = error.to_string();
    match error.kind() {
        // The standard library has no kind for it; this is its text (library/std/src/sys/net/connection/socket/unix.rs,
        // `cvt_gai`).
        _ if text.starts_with("failed to lookup address information") => Reason::NoSuchHost,
        io::ErrorKind::ConnectionRefused => Reason::Refused,
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => Reason::Closed,
        _ if sent == Sent::Nothing => Reason::Unreachable(error),
        _ => Reason::NotHttp(short(&text)),
    }
}

fn of_tls(error: &rustls::Error) -> Reason {
    let text = short(&error.to_string());
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => Reason::Certificate(text),
        _ => Reason::Tls(text),
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.purpose, self.host)?;
        match &self.proxy {
            Some(proxy) => write!(f, " by the proxy {proxy}: ")?,
            None => write!(f, ": ")?,
        }
        if let (Reason::Closed | Reason::TimedOut(..), Sent::Part { sent, size }) = (&self.reason, self.sent) {
            let (sent, size) = (bytes(sent as f64), bytes(size as f64));
            write!(f, "after {sent} of {size}, ")?;
        }
        match (&self.reason, &self.proxy) {
            (Reason::NoSuchHost, None) => write!(f, "there is no such host; check the name and the network"),
            (Reason::Refused, None) => write!(
                f,
                "the connection was refused; check the address, and whether the server runs"
            ),
            (Reason::NoSuchHost, Some(_)) => write!(f, "there is no such proxy; {PROXY}"),
            (Reason::Refused, Some(_)) => write!(f, "the proxy refused the connection; {PROXY}"),
            (reason, _) => reason.fmt(f),
        }
    }
}

const PROXY: &str = "check HTTPS_PROXY, or name the host in NO_PROXY to connect directly";

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoSuchHost => write!(f, "there is no such host"),
            Reason::Refused => write!(f, "the connection was refused"),
            Reason::Unreachable(error) => {
                write!(f, "the connection failed: {error}; check the address and the network")
            }
            Reason::TimedOut(phase, time) => {
                let time = time.as_secs_f64();
                match phase {
                    Phase::Connecting => write!(f, "no connection within {time} s; check the address and the network"),
                    Phase::Sending => write!(f, "the server took nothing for {time} s"),
                    Phase::Reply => write!(f, "no whole reply within {time} s"),
                    Phase::Whole => write!(f, "all together took more than {time} s"),
                }
            }
            Reason::Proxy(said) => write!(f, "the proxy did not connect: {said}; {PROXY}"),
            Reason::ProxyVariable(name) => write!(
                f,
                "{name} names no HTTP proxy; its form is http://HOST:PORT, and SOCKS proxies are not supported"
            ),
            Reason::Variable(name) => write!(f, "the variable {name} is not UTF-8"),
            Reason::Certificate(why) => write!(
                f,
                "its certificate is not valid here: {why}; if you trust the server, name a file with its authority's certificate in \
                 SSL_CERT_FILE"
            ),
            Reason::Tls(why) => write!(
                f,
                "no encrypted connection: {why}; check scheme and port of the address"
            ),
            Reason::Closed => write!(f, "the connection was closed without a reply; try again later"),
            Reason::Early(status) => write!(
                f,
                "it replied (status {status}) before it had the whole profile; check the address, and what stands in front of the server"
            ),
            Reason::Redirect(status) => write!(
                f,
                "the server sends to another address (status {status}), and nothing is sent there; name that address itself"
            ),
            Reason::Status(status, said) => {
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
            Reason::TooLarge(limit) => write!(
                f,
                "the reply is larger than {}, so this is another kind of server; check the address",
                bytes(*limit as f64)
            ),
            Reason::NotHttp(why) => write!(f, "the reply can't be read: {why}; check the address"),
            Reason::Body(error) => write!(f, "reading what to send failed: {error}"),
            Reason::Request(why) => write!(f, "{why}"),
            Reason::Ended => write!(f, "ended by Ctrl-C or a signal"),
        }
    }
}

impl std::error::Error for Error {}
