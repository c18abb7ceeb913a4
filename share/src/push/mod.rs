//! Sends a profile to servers that keep profiles, or asks them for one, each in its own protocol: one request, once.
//!
//! [`Destination`] is a server, [`Labels`] say what ran, [`Shipment`] is what is sent, [`Query`] what is asked for.

mod labels;
mod otlp;
mod parca;
mod pyroscope;
mod query;

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use profile::export::Picked;

use crate::http::{self, Address, Body, Method, Progress, Request, RequestLimits};

pub use labels::{GivenLabels, Headers, Labels};
pub use query::Query;

const LIMITS: RequestLimits = RequestLimits {
    step: Duration::from_secs(30),
    whole: None,
    reply_bytes: 1 << 20,
};

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// Grafana Pyroscope.
    Pyroscope,
    /// Parca.
    Parca,
    /// A collector of OpenTelemetry.
    Otlp,
}

/// A server that takes profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Its protocol.
    pub kind: ServerKind,
    /// Its address.
    pub address: Address,
}

/// What is sent.
pub struct Shipment<'a> {
    /// The samples.
    pub picked: &'a Picked<'a>,
    /// What ran.
    pub labels: &'a Labels,
    /// Samples of different threads stay different.
    pub threads: bool,
}

/// What a server took.
pub struct Accepted {
    /// Size of the request.
    pub bytes: u64,
}

/// Why a server has no profile, or perhaps has none, or gives none back.
#[derive(Debug)]
pub enum PushError {
    /// The request failed.
    Http(http::HttpError),
    /// The server replied, and not as servers of this kind do.
    Reply(String),
    /// The server took a part of it.
    Partly(String),
    /// The request could not be made.
    Made(io::Error),
}

/// A request in the words of a protocol.
struct PushRequest {
    /// Below the server's address.
    path: &'static [&'static str],
    headers: &'static [(&'static str, &'static str)],
    body: Vec<u8>,
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct QuerySelection {
    /// `process_cpu:cpu:nanoseconds:cpu:nanoseconds`; empty for CPU time.
    kind: String,
    /// `{service_name="shop"}`
    labels: String,
    /// ms since 1970.
    from_ms: u64,
    until_ms: u64,
}

/// A question in the words of a protocol.
struct QueryRequest {
    method: Method,
    address: Address,
    headers: &'static [(&'static str, &'static str)],
    body: Option<Vec<u8>>,
}

impl ServerKind {
    /// All protocols.
    pub const ALL: [ServerKind; 3] = [ServerKind::Pyroscope, ServerKind::Parca, ServerKind::Otlp];

    /// As the user writes it.
    pub fn word(self) -> &'static str {
        match self {
            ServerKind::Pyroscope => "pyroscope",
            ServerKind::Parca => "parca",
            ServerKind::Otlp => "otlp",
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::Pyroscope => "Pyroscope",
            ServerKind::Parca => "Parca",
            ServerKind::Otlp => "the OpenTelemetry collector",
        }
    }

    /// What the user's environment holds to be let in.
    ///
    /// # Errors
    ///
    /// Which variable is wrong, without its text.
    pub fn headers(self) -> Result<Headers, String> {
        let name = format!("SPROF_{}_HEADERS", self.word().to_uppercase());
        Headers::parse(&variable(&name)?.unwrap_or_default()).map_err(|why| format!("{name}: {why}"))
    }

    fn post(self, shipment: &Shipment<'_>) -> io::Result<PushRequest> {
        match self {
            ServerKind::Pyroscope => pyroscope::post(shipment),
            ServerKind::Parca => parca::post(shipment),
            ServerKind::Otlp => otlp::post(shipment),
        }
    }

    fn check(self, reply: &[u8]) -> Result<(), PushError> {
        match self {
            ServerKind::Pyroscope | ServerKind::Parca => json_object(reply),
            ServerKind::Otlp => otlp::check(reply),
        }
    }
}

impl Destination {
    /// Reads `KIND=URL`. `command` is the command that permits unencrypted connections to other machines.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and the next step.
    pub fn parse(text: &str, any_http: bool, command: &str) -> Result<Destination, String> {
        let kinds = "pyroscope=URL, parca=URL or otlp=URL";
        let word = text.split_once('=').map(|(word, _)| word);
        // An address may hold a password, which no error shows.
        let is_plain = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric());
        let Some(word) = word.filter(is_plain) else {
            return Err(format!("the address names no kind of server; write {kinds}"));
        };
        let url = &text[word.len() + 1..];
        let kind = ServerKind::ALL.into_iter().find(|kind| kind.word() == word);
        let kind = kind.ok_or_else(|| format!("sprof knows no server of the kind '{word}'; write {kinds}"))?;
        match Address::parse(url, any_http) {
            Ok(address) => Ok(Destination { kind, address }),
            Err(why) if Address::parse(url, true).is_ok() => Err(format!(
                "{word}: {why}, or permit it with `sprof {command} --plain-http`"
            )),
            Err(why) => Err(format!("{word}: {why}")),
        }
    }

    /// Sends the profile once. `watch` is called while it is on its way, and may end it.
    ///
    /// # Errors
    ///
    /// The request can't be made or failed, the server replied as no server of its kind does, or it took only a part.
    pub fn send(
        &self,
        shipment: &Shipment<'_>,
        headers: &Headers,
        watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Accepted, PushError> {
        let PushRequest {
            path,
            headers: own,
            body,
        } = self.kind.post(shipment).map_err(PushError::Made)?;
        let address = self.address.below(path).map_err(PushError::Reply)?;
        let bytes = body.len() as u64;
        let request = Request {
            purpose: "push the profile",
            method: Method::POST,
            address: &address,
            headers: own,
            secret_headers: headers.others(),
            authorization: headers.authorization(),
            body: Some(Body::new(io::Cursor::new(body), bytes)),
        };
        let reply = http::send(request, &LIMITS, watch).map_err(PushError::Http)?;
        match self.kind.check(&reply.body) {
            Ok(()) => Ok(Accepted { bytes }),
            Err(PushError::Partly(why)) => Err(PushError::Partly(reply.said(&why))),
            Err(other) => Err(other),
        }
    }
}

/// The value of a variable; `None` if it is not set, or empty.
///
/// # Errors
///
/// The value is not UTF-8.
pub fn variable(name: &str) -> Result<Option<String>, String> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    let value = value.map(OsString::into_string).transpose();
    value.map_err(|_| format!("the variable {name} is not UTF-8"))
}

/// Both servers reply with an empty message in JSON. A page of something else with status 200 is none.
fn json_object(reply: &[u8]) -> Result<(), PushError> {
    match serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(reply) {
        Ok(_) => Ok(()),
        Err(_) => Err(PushError::Reply("the reply is not JSON".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_kind_and_address() {
        let parse = |text| Destination::parse(text, false, "push");
        assert_eq!(parse("parca=http://localhost:7070").unwrap().kind, ServerKind::Parca);
        assert_eq!(parse("otlp=https://example.org/otlp").unwrap().kind, ServerKind::Otlp);
        for (text, part) in [
            ("https://example.org", "pyroscope=URL"),
            ("jaeger=https://example.org", "'jaeger'"),
            ("parca=http://example.org", "not encrypted"),
            ("parca=http://example.org", "`sprof push --plain-http`"),
            ("parca=https://me:secret@example.org", "password"),
            ("parca=https://example.org/?key=secret", "query"),
            ("https://me:secret@example.org", "no kind"),
            ("https://me:secret@example.org/?a=b", "no kind"),
            ("=https://me:secret@example.org", "no kind"),
            ("jaeger=https://me:secret@example.org", "'jaeger'"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
        assert!(Destination::parse("parca=http://example.org", true, "push").is_ok());
    }

    #[test]
    fn a_page_is_no_reply() {
        assert!(json_object(b"{}").is_ok());
        assert!(json_object(b"<html>Sign in</html>").is_err() && json_object(b"").is_err());
    }
}
