//! A bucket, and the requests to it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::{ControlFlow, Range};
use std::time::{Duration, SystemTime};

use rusty_s3::actions::{DeleteObject, GetObject, PutObject, S3Action};
use rusty_s3::{Credentials, UrlStyle};

use super::config::{self, AddressStyle, BucketOptions};
use super::error::{BucketAccess, BucketError};
use super::location::{Location, is_key};
use super::xml::{self, BucketObject};
use crate::http::{self, Address, Body, Method, Progress, Reply, Request, RequestLimits};

/// A signed link works for seven days at most (AWS: Signature Version 4, X-Amz-Expires).
pub const MAX_EXPIRES: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The largest object that one request makes (AWS: PutObject). Others allow as much.
pub const MAX_BYTES: u64 = 5_000_000_000;
/// So long a request may be on its way.
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);
/// A page of a list has up to 1,000 keys of 1,024 bytes; a byte may take three characters.
const LIST_BYTES: u64 = 8 << 20;
/// Replies of other requests are short.
const REPLY_BYTES: u64 = 64 << 10;
/// Waits before the second and the third attempt. Each request may be repeated: it has the same effect.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];

/// A part of a bucket: all keys that begin with the prefix.
pub struct Bucket {
    location: Location,
    endpoint: String,
    style: AddressStyle,
    signer: rusty_s3::Bucket,
    credentials: Credentials,
    /// Where the credentials are from, for people.
    source: String,
    /// Credentials with a session token end some time; it is not always known when.
    is_temporary: bool,
    ends: Option<SystemTime>,
    step: Duration,
}

/// A link for others.
pub struct Link {
    /// Who has it can read the object.
    pub url: String,
    /// Unix time, ms, at which it ends at the latest.
    pub expires_ms: u64,
    /// It ends with the credentials, maybe earlier.
    pub is_temporary: bool,
}

/// A page of a list.
pub struct Page {
    /// The objects of the page.
    pub objects: Vec<BucketObject>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// What the reply to a browser would be.
pub struct Probe {
    /// Bytes of the object.
    pub bytes: Option<u64>,
    /// The page of this origin may read it.
    pub is_allowed: bool,
}

impl Bucket {
    /// Reads `s3://bucket/prefix`, and finds the rest. `step`: see [`RequestLimits`].
    ///
    /// # Errors
    ///
    /// What is wrong or missing, with the next step.
    pub fn open(address: &str, options: &BucketOptions, step: Duration) -> Result<Bucket, String> {
        let found = config::find(options, &|name| std::env::var_os(name), &read_text)?;
        Bucket::with(address, options.style, found, step)
    }

    fn with(
        address: &str,
        style: Option<AddressStyle>,
        found: config::SigningConfig,
        step: Duration,
    ) -> Result<Bucket, String> {
        let location = Location::parse(address)?;
        let name = &location.name;
        let endpoint = match &found.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None if found.region.starts_with("cn-") => format!("https://s3.{}.amazonaws.com.cn", found.region),
            None => format!("https://s3.{}.amazonaws.com", found.region),
        };
        // A wrong one may hold a password.
        Address::parse(&endpoint, false).map_err(|why| {
            format!("the endpoint of the bucket (--s3-endpoint, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint_url): {why}")
        })?;
        // A certificate for *.s3.REGION.amazonaws.com is for names without dots (AWS: bucket naming rules).
        let style = style.unwrap_or(match found.endpoint.is_some() || name.contains('.') {
            true => AddressStyle::Path,
            false => AddressStyle::VirtualHost,
        });
        let wrong = |why: String| format!("the endpoint {endpoint}, or the bucket {name}: {why}");
        let parsed = endpoint.parse().map_err(|_| wrong("it is not a URL".into()))?;
        let url_style = match style {
            AddressStyle::Path => UrlStyle::Path,
            AddressStyle::VirtualHost => UrlStyle::VirtualHost,
        };
        let signer = rusty_s3::Bucket::new(parsed, url_style, name.clone(), found.region);
        let signer = signer.map_err(|error| wrong(error.to_string()))?;
        Ok(Bucket {
            location,
            endpoint,
            style,
            signer,
            is_temporary: found.credentials.token().is_some(),
            credentials: found.credentials,
            source: found.source,
            ends: found.ends,
            step,
        })
    }

    /// `s3://bucket`
    pub fn address(&self) -> String {
        format!("s3://{}", self.location.name)
    }

    /// The server, its region and the form of its addresses, for a later call.
    pub fn place(&self) -> (&str, &str, AddressStyle) {
        (&self.endpoint, self.signer.region(), self.style)
    }

    /// For people: `s3://bucket/prefix at https://endpoint`.
    pub fn for_people(&self) -> String {
        format!("{} at {}", self.location, self.endpoint)
    }

    /// The key of an object below the prefix.
    pub fn key(&self, name: &str) -> String {
        self.location.key(name)
    }

    /// The name of an object below the prefix; `None` for others.
    pub fn name_of<'a>(&self, key: &'a str) -> Option<&'a str> {
        self.location.name_of(key)
    }

    /// The object's address without a signature.
    pub fn object_url(&self, key: &str) -> String {
        self.signer.object_url(key).into()
    }

    /// Stores a file. To store it twice changes nothing, so it is sent again where that may help.
    ///
    /// # Errors
    ///
    /// The request failed. See `BucketError::is_outcome_unknown`.
    pub fn put(
        &self,
        key: &str,
        (file, kind): (&File, &str),
        watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(), BucketError> {
        let mut action = PutObject::new(&self.signer, Some(&self.credentials), key);
        action.headers_mut().insert("content-type", kind);
        let ask = BucketRequest {
            purpose: &format!("upload to s3://{}/{key}", self.location.name),
            permission: "s3:PutObject",
            headers: &[("Content-Type", kind)],
            body: Some(file),
            ..BucketRequest::default()
        };
        self.act(&action, &ask, watch).map(drop)
    }

    /// Deletes an object. True if the bucket keeps its content as an older version.
    ///
    /// # Errors
    ///
    /// The key can't be one of an object, or the request failed.
    pub fn delete(&self, key: &str) -> Result<bool, BucketError> {
        // The address of another object, or of the bucket itself.
        if !is_key(key) {
            return Err(BucketError::other(format!(
                "cannot delete '{key}': no object has this key"
            )));
        }
        let action = DeleteObject::new(&self.signer, Some(&self.credentials), key);
        let ask = BucketRequest {
            purpose: &format!("delete s3://{}/{key}", self.location.name),
            permission: "s3:DeleteObject",
            ..BucketRequest::default()
        };
        let reply = self.act(&action, &ask, |_| ControlFlow::Continue(()))?;
        Ok(reply.header("x-amz-delete-marker") == Some("true"))
    }

    /// A page of the objects below the prefix, by key. `from` is the end of the page before.
    ///
    /// # Errors
    ///
    /// The request failed, or the reply is not such a list.
    pub fn list(&self, from: Option<&str>) -> Result<Page, BucketError> {
        // The address of the empty key is the bucket's.
        let mut action = GetObject::new(&self.signer, Some(&self.credentials), "");
        let query = action.query_mut();
        query.insert("list-type", "2");
        query.insert("encoding-type", "url");
        if !self.location.prefix.is_empty() {
            query.insert("prefix", format!("{}/", self.location.prefix));
        }
        if let Some(token) = from {
            query.insert("continuation-token", token);
        }
        let ask = BucketRequest {
            purpose: &format!("list {}", self.address()),
            permission: "s3:ListBucket",
            reply_bytes: LIST_BYTES,
            ..BucketRequest::default()
        };
        let reply = self.act(&action, &ask, |_| ControlFlow::Continue(()))?;
        let lies = |why: &str| {
            BucketError::other(format!(
                "cannot {}: the reply is not a list of a bucket: {why}",
                ask.purpose
            ))
        };
        let text = std::str::from_utf8(&reply.body).map_err(|_| lies("it is not UTF-8"))?;
        let (objects, next) = xml::page(text).map_err(|why| lies(&why))?;
        if next.is_some() && next.as_deref() == from {
            return Err(lies("its next page is itself"));
        }
        Ok(Page { objects, next })
    }

    /// Reads a part of an object whose size is `whole`, and the object's ETag.
    ///
    /// # Errors
    ///
    /// The request failed, or the reply is another part or has no ETag: the object may have changed.
    pub fn read(&self, key: &str, part: Range<u64>, whole: u64) -> Result<(Vec<u8>, String), BucketError> {
        let action = GetObject::new(&self.signer, Some(&self.credentials), key);
        let last = part.end.saturating_sub(1);
        let ask = BucketRequest {
            purpose: &format!("read s3://{}/{key}", self.location.name),
            permission: "s3:GetObject",
            headers: &[("Range", &format!("bytes={}-{last}", part.start))],
            reply_bytes: part.end - part.start,
            ..BucketRequest::default()
        };
        let reply = self.act(&action, &ask, |_| ControlFlow::Continue(()))?;
        let lies = |why: &str| BucketError::other(format!("cannot {}: {why}", ask.purpose));
        let range = reply.header("content-range").unwrap_or_default();
        let is_part = match reply.status {
            206 => range == format!("bytes {}-{last}/{whole}", part.start),
            _ => part == (0..whole),
        };
        if !is_part || reply.body.len() as u64 != part.end - part.start {
            return Err(lies("the reply is another part of it, or it has changed"));
        }
        let tag = reply.header("etag").ok_or_else(|| lies("the reply has no ETag"))?;
        let tag = tag.to_owned();
        Ok((reply.body, tag))
    }

    /// A link to an object. It is made here, and no request is sent.
    pub fn link(&self, key: &str, expires: Duration) -> Link {
        let now = SystemTime::now();
        let left = self.ends.map(|ends| ends.duration_since(now).unwrap_or_default());
        let expires = expires
            .min(MAX_EXPIRES)
            .min(left.unwrap_or(MAX_EXPIRES))
            .max(Duration::from_secs(1));
        let action = GetObject::new(&self.signer, Some(&self.credentials), key);
        let end = (now + expires).duration_since(SystemTime::UNIX_EPOCH);
        Link {
            url: action.sign(expires).into(),
            expires_ms: end.map_or(0, |end| end.as_millis() as u64),
            is_temporary: self.is_temporary,
        }
    }

    /// Follows a link to an object of this size, as a browser does for a page with this origin.
    ///
    /// # Errors
    ///
    /// The request failed.
    pub fn probe(&self, link: &Link, origin: &str, size: u64) -> Result<Probe, BucketError> {
        let ask = BucketRequest {
            purpose: "read the profile by its link",
            permission: "s3:GetObject",
            // As the browser, but not all of it.
            headers: &[("Origin", origin), ("Range", "bytes=0-1")],
            // Of a server that knows no ranges.
            reply_bytes: size.saturating_add(REPLY_BYTES),
            ..BucketRequest::default()
        };
        let address = || Address::signed(&link.url);
        let reply = self.send(&ask, Method::GET, address, |_| ControlFlow::Continue(()))?;
        let total = reply.header("content-range").and_then(|range| range.rsplit_once('/'));
        Ok(Probe {
            bytes: match reply.status {
                206 => total.and_then(|(_, total)| total.parse().ok()),
                _ => Some(reply.body.len() as u64),
            },
            is_allowed: matches!(reply.header("access-control-allow-origin"), Some(allowed) if allowed == "*" || allowed == origin),
        })
    }

    fn act<'a, A: S3Action<'a>>(
        &self,
        action: &A,
        ask: &BucketRequest<'_>,
        watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Reply, BucketError> {
        let method = match A::METHOD {
            rusty_s3::Method::Put => Method::PUT,
            rusty_s3::Method::Delete => Method::DELETE,
            _ => Method::GET,
        };
        // Signed anew for each attempt.
        let address = || Address::signed(action.sign(SIGNED_FOR).as_str());
        self.send(ask, method, address, watch)
    }

    fn send(
        &self,
        ask: &BucketRequest<'_>,
        method: Method,
        address: impl Fn() -> Result<Address, String>,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Reply, BucketError> {
        let limits = RequestLimits {
            step: self.step,
            whole: None,
            reply_bytes: ask.reply_bytes,
        };
        let place = BucketAccess {
            bucket: &self.location.name,
            endpoint: &self.endpoint,
            region: self.signer.region(),
            source: &self.source,
            permission: ask.permission,
        };
        let (mut pauses, mut is_outcome_unknown) = (PAUSES.into_iter(), false);
        loop {
            let failed = |why: &dyn fmt::Display| {
                BucketError::other(format!("cannot {}: {why}", ask.purpose)).after(is_outcome_unknown)
            };
            let address = address().map_err(|why| failed(&why))?;
            let request = Request {
                purpose: ask.purpose,
                method: method.clone(),
                address: &address,
                headers: ask.headers,
                secret_headers: &[],
                authorization: None,
                body: ask.body.map(body).transpose().map_err(|error| failed(&error))?,
            };
            let error = match http::send(request, &limits, &mut watch) {
                Ok(reply) => return Ok(reply),
                Err(error) => BucketError::of(error, &place).after(is_outcome_unknown),
            };
            is_outcome_unknown = error.is_outcome_unknown();
            match pauses.next().filter(|_| error.may_be_repeated()) {
                Some(pause) => std::thread::sleep(pause),
                None => return Err(error),
            }
        }
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.for_people())
    }
}

/// What is asked of the server.
struct BucketRequest<'a> {
    /// See [`Request`].
    purpose: &'a str,
    /// What the credentials must permit.
    permission: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: Option<&'a File>,
    reply_bytes: u64,
}

impl Default for BucketRequest<'_> {
    fn default() -> Self {
        BucketRequest {
            purpose: "",
            permission: "",
            headers: &[],
            body: None,
            reply_bytes: REPLY_BYTES,
        }
    }
}

/// The file from its beginning.
fn body(file: &File) -> io::Result<Body> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(0))?;
    let size = file.metadata()?.len();
    Ok(Body::new(file, size))
}

fn read_text(path: &std::path::Path) -> io::Result<String> {
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    File::open(path)?.take(MOST).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(address: &str, endpoint: Option<&str>, style: Option<AddressStyle>) -> Result<Bucket, String> {
        let found = config::SigningConfig {
            credentials: Credentials::new_with_token("AKIAPLANT", "secretplant", "tokenplant"),
            source: "a test".into(),
            ends: None,
            region: "eu-central-1".into(),
            endpoint: endpoint.map(str::to_owned),
        };
        Bucket::with(address, style, found, Duration::from_secs(1))
    }

    #[test]
    fn addresses_have_the_form_that_the_server_knows() {
        let url = |address: &str, endpoint, style| {
            let bucket = bucket(address, endpoint, style).unwrap();
            bucket.object_url(&bucket.key("a b+.json"))
        };
        let here = Some("http://localhost:9000/");
        for (address, endpoint, style, expected) in [
            (
                "s3://shop",
                None,
                None,
                "https://shop.s3.eu-central-1.amazonaws.com/a%20b%2B.json",
            ),
            (
                "s3://my.shop/x/y/",
                None,
                None,
                "https://s3.eu-central-1.amazonaws.com/my.shop/x/y/a%20b%2B.json",
            ),
            ("s3://shop/x", here, None, "http://localhost:9000/shop/x/a%20b%2B.json"),
            (
                "s3://shop/x",
                here,
                Some(AddressStyle::VirtualHost),
                "http://shop.localhost:9000/x/a%20b%2B.json",
            ),
            (
                "s3://shop",
                None,
                Some(AddressStyle::Path),
                "https://s3.eu-central-1.amazonaws.com/shop/a%20b%2B.json",
            ),
            (
                "s3://shop",
                Some("https://xn--bcher-kva.example"),
                None,
                "https://xn--bcher-kva.example/shop/a%20b%2B.json",
            ),
        ] {
            assert_eq!(url(address, endpoint, style), expected);
        }
        for bad in [
            // `xn--...` is taken: see Cargo.toml.
            "https://bücher.example",
            "ftp://x",
            "http://example.org",
            "https://me:hunter2@example.org",
            "https://x/?a",
            "x",
        ] {
            let error = bucket("s3://a", Some(bad), None).unwrap_err();
            assert!(error.contains("endpoint") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_key_that_leads_elsewhere_deletes_nothing() {
        let bucket = bucket("s3://shop", Some("http://127.0.0.1:1"), None).unwrap();
        for key in ["", "..", "a/../b", "/"] {
            let error = bucket.delete(key).unwrap_err().to_string();
            assert!(error.contains("no object has this key"), "{key}: {error}");
        }
    }

    #[test]
    fn a_link_ends_with_the_credentials_and_debug_shows_no_secret() {
        let mut bucket = bucket("s3://shop", None, None).unwrap();
        assert!(!format!("{bucket:?}").contains("plant"), "{bucket:?}");
        let link = bucket.link("a", MAX_EXPIRES * 2);
        assert!(
            link.url.contains("&X-Amz-Expires=604800&") && link.is_temporary,
            "{}",
            link.url
        );
        assert!(!link.url.contains("secretplant"));
        bucket.ends = Some(SystemTime::now() + Duration::from_secs(600));
        let link = bucket.link("a", MAX_EXPIRES);
        // The clock goes on, by seconds where the host takes the CPU away.
        let in_time = |seconds: u64| link.url.contains(&format!("&X-Amz-Expires={seconds}&"));
        assert!((300..600).any(in_time), "{}", link.url);
        bucket.ends = Some(SystemTime::now() - Duration::from_secs(1));
        let link = bucket.link("a", MAX_EXPIRES);
        assert!(link.url.contains("&X-Amz-Expires=1&"), "{}", link.url);
    }
}
