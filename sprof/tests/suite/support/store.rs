//! A stand-in of the store of shared profiles, which keeps its contract to the letter, and slow, failing, lying and
//! half-closed ones. Other servers have another [`Contract`], and fail in the same ways.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::read::GzDecoder;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;

use super::{tls_dir, wait_until};

const ACCEPT: &str = "application/vnd.firefox-profiler+json;version=1.0";
/// The UI of the links.
pub(crate) const UI: &str = "https://ui.example.org";
/// The port is below those that programs get by chance: no other test can have it meanwhile.
pub(crate) const NOBODY_LISTENS: &str = "http://127.0.0.1:1";

/// How a stand-in behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Behaviour {
    Honest,
    /// Replies to each call with this status.
    Status(u16),
    /// Replies 200 with this text.
    Says(&'static str),
    /// Replies without end.
    Endless,
    /// Takes the beginning of the body, and closes the connection.
    HalfClosed,
    /// Takes the body, and closes the connection without a reply.
    NoReply,
    /// Takes the body, and replies nothing.
    Silent,
    /// Takes the head of the request, and nothing more.
    Stuck,
    /// Sends to another address.
    Redirects,
    /// Replies to each call with this status, these headers and this text. `{call}` in it is the call itself.
    Replies(u16, &'static str, &'static str),
    /// Does what it is asked for, and closes the connection of the first call without a reply.
    LosesFirstReply,
}

/// What a server keeps, and what it was asked for.
#[derive(Default)]
pub(crate) struct State {
    /// Profiles by token.
    stored: HashMap<String, Value>,
    /// Of a bucket: by path, with the number of times that each was put.
    pub(crate) objects: BTreeMap<String, (Vec<u8>, usize)>,
    /// Replies 503 to so many calls.
    pub(crate) busy: usize,
    /// Of a bucket: seconds that the server's clock is ahead of this machine's.
    pub(crate) clock_ahead_s: u64,
    /// `POST /api/compressed-store`
    calls: Vec<String>,
    count: usize,
}

/// What a server does with a call, its headers and its body.
pub(crate) type Contract = fn(&str, &HashMap<String, &str>, &[u8], &mut State) -> Answer;

/// A reply.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// A line each.
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(status: u16, text: impl Into<String>) -> Answer {
        Answer {
            status,
            headers: String::new(),
            body: text.into().into_bytes(),
        }
    }
}

/// A store on this machine.
pub(crate) struct StandIn {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

impl StandIn {
    pub(crate) fn start(behaviour: Behaviour) -> StandIn {
        StandIn::start_as(behaviour, honest)
    }

    /// With another contract.
    pub(crate) fn start_as(behaviour: Behaviour, contract: Contract) -> StandIn {
        StandIn::serve(move |mut stream, state| {
            conversation(&mut stream, behaviour, contract, state);
            if let Behaviour::Status(_) = behaviour {
                // After a second without an answer, a client sends the body that it asked about. A socket that is
                // closed with unread bytes resets the connection, and the client loses the refusal.
                let _ = stream.shutdown(Shutdown::Write);
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            }
        })
    }

    /// The same behind TLS, with the certificate of `share/tests/tls`.
    pub(crate) fn start_tls() -> StandIn {
        StandIn::start_tls_as(honest)
    }

    pub(crate) fn start_tls_as(contract: Contract) -> StandIn {
        let tls = tls_dir();
        let chain = vec![CertificateDer::from_pem_file(tls.join("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(tls.join("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        StandIn::serve(move |stream, state| {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let stream = rustls::StreamOwned::new(connection, stream);
            conversation(stream, Behaviour::Honest, contract, state);
        })
    }

    fn serve(converse: impl Fn(TcpStream, &Mutex<State>) + Send + Sync + 'static) -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Else the kernel takes tens of megabytes for a reader that reads nothing (tcp_rmem, tcp(7)); the sender's side
        // holds 4 MB (tcp_wmem).
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 1 << 16).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state: Arc<Mutex<State>> = Arc::default();
        let (shared, converse) = (state.clone(), Arc::new(converse));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, converse) = (shared.clone(), converse.clone());
                std::thread::spawn(move || converse(stream.unwrap(), &shared));
            }
        });
        StandIn { port, state }
    }

    pub(crate) fn api(&self) -> String {
        format!("http://127.0.0.1:{}/api", self.port)
    }

    /// Looks at what it keeps, or changes it.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.state.lock().unwrap().calls.clone()
    }

    pub(crate) fn stored(&self) -> Vec<Value> {
        self.state.lock().unwrap().stored.values().cloned().collect()
    }

    /// Waits until this number of calls came. A client that has lost patience may end before the server has read what
    /// the client sent.
    pub(crate) fn wait_for_calls(&self, number: usize) {
        wait_until(
            || self.calls().len() >= number,
            || format!("{number} calls did not come: {:?}", self.calls()),
        );
    }
}

/// One request and its reply.
fn conversation(mut stream: impl Read + Write, behaviour: Behaviour, contract: Contract, state: &Mutex<State>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            // The client does not trust the certificate.
            _ => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap().to_owned();
    let headers: HashMap<String, &str> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    let call = first.strip_suffix(" HTTP/1.1").unwrap().to_owned();
    let is_first = {
        let mut state = state.lock().unwrap();
        state.calls.push(call.clone());
        state.calls.len() == 1
    };
    let size: usize = headers.get("content-length").map_or(0, |size| size.parse().unwrap());
    if behaviour == Behaviour::Stuck {
        if headers.contains_key("expect") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        }
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    if headers.contains_key("expect") {
        if let Behaviour::Status(status) = behaviour {
            let _ = stream.write_all(format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n").as_bytes());
            return;
        }
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    }
    let mut body = vec![
        0;
        if behaviour == Behaviour::HalfClosed {
            size / 2
        } else {
            size
        }
    ];
    stream.read_exact(&mut body).unwrap();
    let is_busy = {
        let mut state = state.lock().unwrap();
        let is_busy = state.busy > 0;
        state.busy = state.busy.saturating_sub(1);
        is_busy
    };
    let answer = match behaviour {
        _ if is_busy => Answer::text(503, "later"),
        Behaviour::Honest | Behaviour::LosesFirstReply => contract(&call, &headers, &body, &mut state.lock().unwrap()),
        Behaviour::Status(status) => {
            Answer::text(status, format!("no, {}", headers.get("authorization").unwrap_or(&"")))
        }
        Behaviour::Says(text) => Answer::text(200, text),
        Behaviour::Redirects => Answer {
            headers: format!("Location: {UI}/\r\n"),
            ..Answer::text(307, "")
        },
        Behaviour::Replies(status, headers, text) => Answer {
            headers: headers.to_owned(),
            ..Answer::text(status, text.replace("{call}", &call.replace('&', "&amp;")))
        },
        Behaviour::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
            return;
        }
        Behaviour::Silent => {
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
        Behaviour::HalfClosed | Behaviour::NoReply | Behaviour::Stuck => return,
    };
    if behaviour == Behaviour::LosesFirstReply && is_first {
        return;
    }
    let Answer { status, headers, body } = answer;
    let head = format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    // The client may have what it wanted.
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
    let _ = stream.flush();
}

/// The contract of the store.
fn honest(call: &str, headers: &HashMap<String, &str>, body: &[u8], state: &mut State) -> Answer {
    let (status, text) = replied(call, headers, body, state);
    Answer::text(status, text)
}

fn replied(call: &str, headers: &HashMap<String, &str>, body: &[u8], state: &mut State) -> (u16, String) {
    if headers.get("accept") != Some(&ACCEPT) {
        return (406, "wrong version of the API".into());
    }
    if call == "POST /api/compressed-store" {
        let mut json = String::new();
        if GzDecoder::new(body).read_to_string(&mut json).is_err() {
            return (400, "no gzip".into());
        }
        let Ok(profile) = serde_json::from_str::<Value>(&json) else {
            return (400, "no JSON".into());
        };
        if !profile["meta"].is_object() || !profile["threads"].is_array() {
            return (400, "no profile".into());
        }
        state.count += 1;
        let token = format!("token{}", state.count);
        state.stored.insert(token.clone(), profile);
        return (200, jwt(&token));
    }
    if let Some(token) = call.strip_prefix("DELETE /api/profile/") {
        if !state.stored.contains_key(token) {
            return (404, "no such profile".into());
        }
        if headers.get("authorization") != Some(&format!("Bearer {}", jwt(token)).as_str()) {
            return (401, "wrong key".into());
        }
        state.stored.remove(token);
        return (200, "deleted".into());
    }
    (404, "no such path".into())
}

/// The token of a profile.
pub(crate) fn jwt(token: &str) -> String {
    let base64url = |text: &str| {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut out = String::new();
        for three in text.as_bytes().chunks(3) {
            let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
            for digit in 0..=three.len() {
                out.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
            }
        }
        out
    };
    let header = base64url("{\"alg\":\"HS256\",\"typ\":\"JWT\"}");
    let payload = base64url(&format!("{{\"profileToken\":\"{token}\"}}"));
    format!("{header}.{payload}.c2lnbmF0dXJl-{token}")
}
