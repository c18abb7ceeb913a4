use std::cell::Cell;
use std::io::{Cursor, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::RequestPhase;
use super::*;

const SECRET: &str = "Bearer eyJhbGciOiJIUzI1NiJ9.eyJwcm9maWxlVG9rZW4iOiJhYmMifQ.c2lnbmF0dXJl";

fn limits() -> RequestLimits {
    RequestLimits {
        step: Duration::from_secs(20),
        whole: None,
        reply_bytes: 1000,
    }
}

/// Limits with which a server that does not answer the question gets the body after 2 s.
fn limits_without_answer() -> RequestLimits {
    RequestLimits {
        step: Duration::from_secs(4),
        ..limits()
    }
}

/// A server for one connection; the address to reach it.
fn server<T: Send + 'static>(serve: impl FnOnce(TcpStream) -> T + Send + 'static) -> (Address, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = Address::parse(&format!("http://127.0.0.1:{port}/api"), false).unwrap();
    let thread = std::thread::spawn(move || serve(listener.accept().unwrap().0));
    (address, thread)
}

/// Reads up to the empty line after the headers.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn post(address: &Address, body: Vec<u8>, limits: &RequestLimits) -> Result<Reply, HttpError> {
    let size = body.len() as u64;
    let secret = Secret::new(SECRET);
    let request = Request {
        purpose: "upload the profile",
        method: Method::POST,
        address,
        headers: &[("Accept", "application/x")],
        secret_headers: &[],
        authorization: Some(&secret),
        body: Some(Body::new(Cursor::new(body), size)),
    };
    assert!(!format!("{request:?}").contains("eyJ"), "{request:?}");
    send(request, limits, |_| ControlFlow::Continue(()))
}

/// The error of a request, which has no secret in any form.
fn refused(address: &Address, body: Vec<u8>, limits: &RequestLimits) -> HttpError {
    let error = post(address, body, limits).unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("eyJ"), "{shown}");
    assert!(!shown.contains(profile::text::is_obeyed), "{shown}");
    error
}

#[test]
fn the_request_arrives_whole_and_the_reply_comes_back() {
    let (address, thread) = server(|mut stream| {
        let head = head(&mut stream);
        let mut body = [0; 5];
        stream.read_exact(&mut body).unwrap();
        stream
            .write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")
            .unwrap();
        (head, body)
    });
    let reply = post(&address, b"hello".to_vec(), &limits()).unwrap();
    assert_eq!((reply.status, &reply.body[..]), (201, &b"ok"[..]));
    let (head, body) = thread.join().unwrap();
    assert!(head.starts_with("POST /api HTTP/1.1\r\n"), "{head}");
    let head = head.to_ascii_lowercase();
    for line in [
        "accept: application/x",
        "content-length: 5",
        "authorization: bearer eyj",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    assert_eq!(&body, b"hello");
}

#[test]
fn a_large_body_is_not_sent_to_a_server_that_refuses_it() {
    let (address, thread) = server(|mut stream| {
        let head = head(&mut stream);
        stream
            .write_all(b"HTTP/1.1 413 x\r\nContent-Length: 9\r\n\r\ntoo\x1b[2Jbig")
            .unwrap();
        // As it was asked to: `Connection: close`.
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        (head, rest.len())
    });
    let error = refused(&address, vec![0; 2 << 20], &limits());
    assert_eq!(error.sent, BodySent::Nothing);
    assert!(matches!(error.reason, FailureReason::Status(413, _)), "{error:?}");
    assert!(!error.is_outcome_unknown());
    let text = error.to_string();
    assert!(text.contains("cannot upload the profile: http://127.0.0.1:"), "{text}");
    assert!(text.contains("413 (Payload Too Large): too\\u001b[2Jb"), "{text}");
    let (head, rest) = thread.join().unwrap();
    let head = head.to_ascii_lowercase();
    assert!(
        head.contains("expect: 100-continue\r\n") && head.contains("connection: close\r\n"),
        "{head}"
    );
    assert_eq!(rest, 0);
}

#[test]
fn a_server_that_does_not_know_the_question_gets_the_body() {
    let (address, thread) = server(|mut stream| {
        head(&mut stream);
        let mut body = vec![0; 2 << 20];
        stream.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    });
    let reply = post(&address, vec![0; 2 << 20], &limits_without_answer());
    assert_eq!(reply.unwrap().status, 204);
    thread.join().unwrap();
}

#[test]
fn a_redirect_is_not_followed() {
    let (address, thread) = server(|mut stream| {
        head(&mut stream);
        let elsewhere = "HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(elsewhere.as_bytes()).unwrap();
    });
    let error = refused(&address, b"x".to_vec(), &limits());
    assert!(matches!(error.reason, FailureReason::Redirect(307)), "{error:?}");
    thread.join().unwrap();
}

#[test]
fn a_server_repeats_a_token_and_the_error_does_not() {
    let (address, thread) = server(|mut stream| {
        let head = head(&mut stream);
        let reply = format!("HTTP/1.1 500 x\r\nContent-Length: {}\r\n\r\n{head}", head.len());
        stream.write_all(reply.as_bytes()).unwrap();
    });
    let error = refused(&address, Vec::new(), &limits());
    assert!(error.to_string().contains("Bearer [...]"), "{error}");
    thread.join().unwrap();
}

#[test]
fn short_secrets_that_a_server_repeats_are_not_shown() {
    let (address, thread) = server(|mut stream| {
        head(&mut stream);
        let said = "dX: bad Bearer s3cret of team5 in application/x, use k7 s3cret";
        let reply = format!("HTTP/1.1 400 x\r\nContent-Length: {}\r\n\r\n{said}", said.len());
        stream.write_all(reply.as_bytes()).unwrap();
    });
    let secret = Secret::new("Bearer s3cret");
    let others = [
        ("X-Team".to_owned(), Secret::new("team5")),
        ("X-Key".to_owned(), Secret::new("ApiKey k7")),
    ];
    let request = Request {
        purpose: "push the profile",
        method: Method::POST,
        address: &address,
        headers: &[("Accept", "application/x")],
        secret_headers: &others,
        authorization: Some(&secret),
        body: None,
    };
    assert!(!format!("{request:?}").contains("team5"), "{request:?}");
    let error = send(request, &limits(), |_| ControlFlow::Continue(())).unwrap_err();
    let said = "dX: bad Bearer [...] of [...] in application/x, use [...] [...]";
    assert!(
        matches!(&error.reason, FailureReason::Status(400, text) if text == said),
        "{error:?}"
    );
    thread.join().unwrap();
}

#[test]
fn a_success_before_the_body_is_none() {
    // The second reply is larger than the limit.
    for reply in [2, 5000] {
        let (address, thread) = server(move |mut stream| {
            head(&mut stream);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {reply}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&vec![b' '; reply]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            rest.len()
        });
        let error = refused(&address, vec![0; 2 << 20], &limits());
        assert!(matches!(error.reason, FailureReason::Early(200)), "{error:?}");
        assert!(error.is_outcome_unknown() && !error.may_be_repeated());
        assert_eq!((error.sent, thread.join().unwrap()), (BodySent::Nothing, 0));
    }
}

#[test]
fn an_endless_reply_ends_at_the_limit() {
    let (address, thread) = server(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let error = refused(&address, b"x".to_vec(), &limits());
    assert!(matches!(error.reason, FailureReason::TooLarge(1000)), "{error:?}");
    assert!(error.is_outcome_unknown());
    thread.join().unwrap();
}

#[test]
fn a_download_goes_to_a_file_and_a_refusal_does_not() {
    let replies = [
        ("200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"),
        ("404 x\r\nContent-Length: 4\r\n\r\ngone", ""),
        ("200 OK\r\nContent-Length: 9\r\n\r\nhello", "hello"),
        ("200 OK\r\n\r\nhello, hello", "hello, "),
    ];
    let mut outcomes = Vec::new();
    for (reply, written) in replies {
        let (address, thread) = server(move |mut stream| {
            head(&mut stream);
            stream.write_all(format!("HTTP/1.1 {reply}").as_bytes()).unwrap();
        });
        let request = Request {
            purpose: "download a file",
            method: Method::GET,
            address: &address,
            headers: &[],
            secret_headers: &[],
            authorization: None,
            body: None,
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let limits = RequestLimits {
            reply_bytes: 9,
            ..limits()
        };
        let downloaded = download(request, file.reopen().unwrap(), &limits, |_| ControlFlow::Continue(()));
        outcomes.push(downloaded.map_err(|error| error.reason));
        let found = std::fs::read_to_string(file.path()).unwrap();
        assert!(found.starts_with(written) && found.len() <= 9, "{found}");
        thread.join().unwrap();
    }
    let [whole, refused, cut, large] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert!(whole.is_ok(), "{whole:?}");
    assert!(
        matches!(refused, Err(FailureReason::Status(404, said)) if said == "gone"),
        "{refused:?}"
    );
    assert!(matches!(cut, Err(FailureReason::Closed)), "{cut:?}");
    assert!(matches!(large, Err(FailureReason::TooLarge(9))), "{large:?}");
}

#[test]
fn a_connection_that_ends_early_is_known_by_what_was_sent() {
    let (address, thread) = server(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        stream.read_exact(&mut vec![0; 1 << 20]).unwrap();
    });
    let error = refused(&address, vec![0; 64 << 20], &limits());
    assert!(matches!(error.reason, FailureReason::Closed), "{error:?}");
    assert!(
        matches!(error.sent, BodySent::Part { sent, size: 67_108_864 } if sent >= 1 << 20),
        "{error:?}"
    );
    assert!(!error.is_outcome_unknown());
    thread.join().unwrap();

    let (address, thread) = server(|mut stream| {
        head(&mut stream);
        stream.read_exact(&mut [0; 5]).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    });
    let error = refused(&address, b"hello".to_vec(), &limits());
    assert!(matches!(error.reason, FailureReason::Closed), "{error:?}");
    assert_eq!(error.sent, BodySent::All);
    assert!(error.is_outcome_unknown() && !error.may_be_repeated());
    thread.join().unwrap();
}

#[test]
fn a_silent_server_is_a_time_out_that_names_the_wait() {
    // A stop of the machine as long as this would be a time-out while the connection is made.
    let short = RequestLimits {
        step: Duration::from_millis(600),
        ..limits()
    };
    let (address, thread) = server(|stream| stream);
    let error = refused(&address, b"hello".to_vec(), &short);
    assert!(
        matches!(error.reason, FailureReason::TimedOut(RequestPhase::Reply, _)),
        "{error:?}"
    );
    assert!(error.to_string().contains("within 0.6 s"), "{error}");
    drop(thread.join().unwrap());

    let (address, thread) = server(|stream| stream);
    let error = refused(&address, vec![0; 64 << 20], &short);
    assert!(
        matches!(error.reason, FailureReason::TimedOut(RequestPhase::Sending, _)),
        "{error:?}"
    );
    assert!(matches!(error.sent, BodySent::Part { .. }), "{error:?}");
    drop(thread.join().unwrap());

    let whole = RequestLimits {
        whole: Some(Duration::from_millis(200)),
        ..limits()
    };
    let (address, thread) = server(|stream| stream);
    let error = refused(&address, b"hello".to_vec(), &whole);
    assert!(
        matches!(error.reason, FailureReason::TimedOut(RequestPhase::Whole, _)),
        "{error:?}"
    );
    drop(thread.join().unwrap());
}

#[test]
fn nothing_is_sent_where_nobody_listens() {
    // A port that was free a moment ago may be that of another test's server.
    let address = Address::parse("http://127.0.0.1:1", false).unwrap();
    let error = refused(&address, b"hello".to_vec(), &limits());
    assert!(matches!(error.reason, FailureReason::Refused), "{error:?}");
    assert!(error.may_be_repeated() && !error.is_outcome_unknown());
}

#[test]
fn the_caller_ends_a_request() {
    let (address, thread) = server(|mut stream| {
        head(&mut stream);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        rest.len()
    });
    let calls = Cell::new(0);
    let request = Request {
        purpose: "upload the profile",
        method: Method::PUT,
        address: &address,
        headers: &[],
        secret_headers: &[],
        authorization: None,
        body: Some(Body::new(std::io::repeat(0), u64::MAX)),
    };
    let error = send(request, &limits_without_answer(), |progress| {
        calls.set(calls.get() + 1);
        match progress.sent > 0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let error = error.unwrap_err();
    assert!(matches!(error.reason, FailureReason::Ended), "{error:?}");
    assert!(matches!(error.sent, BodySent::Part { .. }), "{error:?}");
    assert!(calls.get() > 1, "asked only once");
    // The connection was closed, or this would wait for ever.
    assert!(thread.join().unwrap() > 0);
}

#[test]
fn a_body_that_became_shorter_is_not_sent_as_a_whole_one() {
    let (address, thread) = server(|mut stream| {
        head(&mut stream);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let request = Request {
        purpose: "upload the profile",
        method: Method::POST,
        address: &address,
        headers: &[],
        secret_headers: &[],
        authorization: None,
        body: Some(Body::new(Cursor::new(b"hello"), 10)),
    };
    let error = send(request, &limits(), |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error.reason, FailureReason::Body(_)), "{error:?}");
    thread.join().unwrap();
}

#[test]
fn a_server_with_an_unknown_certificate_gets_nothing() {
    // tests/tls/README says how they were made.
    let chain = CertificateDer::from_pem_slice(include_bytes!("../../tests/tls/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../tests/tls/server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![chain], key).unwrap();
    let (address, thread) = server(move |mut stream| {
        let mut tls = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        while tls.is_handshaking() && tls.complete_io(&mut stream).is_ok() {}
        tls.is_handshaking()
    });
    let port = address.host().rsplit_once(':').unwrap().1.to_owned();
    let address = Address::parse(&format!("https://localhost:{port}"), false).unwrap();
    let error = refused(&address, b"hello".to_vec(), &limits());
    assert!(matches!(error.reason, FailureReason::Certificate(_)), "{error:?}");
    assert_eq!(error.sent, BodySent::Nothing);
    assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    assert!(thread.join().unwrap_or(true), "the handshake failed");
}

#[test]
fn a_server_without_encryption_is_named_as_such() {
    let (address, thread) = server(|mut stream| {
        let _ = stream.read(&mut [0; 100]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let plain = address.host().replace("http:", "https:");
    let error = refused(&Address::parse(&plain, false).unwrap(), b"hello".to_vec(), &limits());
    assert!(matches!(error.reason, FailureReason::Tls(_)), "{error:?}");
    thread.join().unwrap();
}
