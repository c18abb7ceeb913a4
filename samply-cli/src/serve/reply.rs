//! Responses: each has a length and a type that browsers must not guess.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use super::file::FileBody;

/// The body of a response: bytes or a file.
pub(super) enum Payload {
    Bytes(Option<Bytes>),
    File(FileBody),
}

impl Body for Payload {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.get_mut() {
            Payload::Bytes(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Payload::File(file) => Pin::new(file).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Payload::Bytes(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Payload::File(file) => file.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Payload::Bytes(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Payload::File(file) => file.size_hint(),
        }
    }
}

pub(super) type Reply = Response<Payload>;

/// A response with bytes.
pub(super) fn bytes(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    reply(status, Some(content_type), Payload::Bytes(Some(body.into())))
}

/// A response with a file.
pub(super) fn file(content_type: &'static str, body: FileBody) -> Reply {
    reply(StatusCode::OK, Some(content_type), Payload::File(body))
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    reply(status, None, Payload::Bytes(None))
}

/// `{"error": message}`.
pub(super) fn error(status: StatusCode, message: &str) -> Reply {
    bytes(status, JSON, error_body(message))
}

/// The JSON of an error.
pub(super) fn error_body(message: &str) -> Vec<u8> {
    serde_json::json!({ "error": message }).to_string().into_bytes()
}

pub(super) const JSON: &str = "application/json";

fn reply(status: StatusCode, content_type: Option<&'static str>, body: Payload) -> Reply {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The address of the page holds the token.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
