//! Responses: each has a length and a type that browsers must not guess.

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};

use super::file::FileBody;
use super::one_time_link::ConnectionEnds;

/// A response: bytes or a file.
pub(super) type Reply = Response<Payload>;
type Payload = Either<Full<Bytes>, FileBody>;

/// What a server answers.
pub(super) trait RequestHandler: Send + Sync + 'static {
    /// The answer to a request; `ends` are the ends of its connection.
    fn answer(&self, request: Request<Incoming>, ends: Option<ConnectionEnds>) -> impl Future<Output = Reply> + Send;
}

pub(super) fn bytes(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    reply(status, Some(content_type), Either::Left(Full::new(body.into())))
}

pub(super) fn file(content_type: &'static str, body: FileBody) -> Reply {
    reply(StatusCode::OK, Some(content_type), Either::Right(body))
}

pub(super) fn empty(status: StatusCode) -> Reply {
    reply(status, None, Either::Left(Full::default()))
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

/// The reply with this header, which replaces an earlier value.
pub(super) fn with(mut reply: Reply, name: HeaderName, value: &'static str) -> Reply {
    reply.headers_mut().insert(name, HeaderValue::from_static(value));
    reply
}

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
