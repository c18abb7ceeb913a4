//! Object storage on this machine: a stand-in that keeps the contract of Amazon S3 to the letter, signatures included,
//! and `s3rver` from npm, a server of others.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};

use super::client::installed;
use super::store::{Answer, State, UI};
use super::{temp_dir, tests_dir};

/// The stand-in knows these credentials.
pub(crate) const KEY_ID: &str = "AKIAPLANTEDKEYID";
pub(crate) const SECRET_KEY: &str = "plantedsecretkey/plantedsecretkey";
pub(crate) const TOKEN: &str = "plantedsessiontoken/plantedsessiontoken==";
const REGION: &str = "eu-central-1";
/// Keys of a page of a list: few, so that lists have pages.
const PAGE: usize = 2;

/// The contract of S3. Pages of [`UI`] may read the bucket `open`; `versioned` keeps what is deleted; no other bucket
/// but `closed` is there.
pub(crate) fn s3(call: &str, headers: &HashMap<String, &str>, body: &[u8], state: &mut State) -> Answer {
    let (method, target) = call.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query: Vec<(String, String)> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect();
    if let Some(refusal) = refused(method, path, &query, headers, state.clock_ahead_s) {
        return refusal;
    }
    let decoded_path = decoded(path);
    let (bucket, key) = decoded_path[1..].split_once('/').unwrap_or((&decoded_path[1..], ""));
    if !["open", "closed", "versioned"].contains(&bucket) {
        return error(404, "NoSuchBucket", "The specified bucket does not exist", "");
    }
    let get = |name: &str| {
        query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let mut answer = match (method, key) {
        ("GET", "") => list(
            bucket,
            get("prefix").unwrap_or_default(),
            get("continuation-token"),
            state,
        ),
        ("GET", _) => match state.objects.get(&decoded_path) {
            Some((bytes, _)) => object(bytes, headers),
            None => error(404, "NoSuchKey", "The specified key does not exist.", ""),
        },
        ("PUT", _) => {
            let times = state.objects.get(&decoded_path).map_or(0, |(_, times)| *times);
            state.objects.insert(decoded_path.clone(), (body.to_vec(), times + 1));
            Answer {
                headers: format!("ETag: {}\r\n", etag(body)),
                ..Answer::text(200, "")
            }
        }
        ("DELETE", _) => {
            state.objects.remove(&decoded_path);
            let marker = if bucket == "versioned" {
                "x-amz-delete-marker: true\r\n"
            } else {
                ""
            };
            Answer {
                headers: marker.into(),
                ..Answer::text(204, "")
            }
        }
        _ => error(405, "MethodNotAllowed", "The specified method is not allowed", ""),
    };
    if bucket == "open" && headers.get("origin") == Some(&UI) {
        write!(answer.headers, "Access-Control-Allow-Origin: {UI}\r\n").unwrap();
    }
    answer
}

fn object(bytes: &[u8], headers: &HashMap<String, &str>) -> Answer {
    let range = headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let mut answer = Answer {
        status: 200,
        headers: format!("ETag: {}\r\n", etag(bytes)),
        body: bytes.to_vec(),
    };
    if let Some((from, to)) = range {
        let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
        let to = to.min(bytes.len() - 1);
        answer.status = 206;
        write!(answer.headers, "Content-Range: bytes {from}-{to}/{}\r\n", bytes.len()).unwrap();
        answer.body = bytes[from..=to].to_vec();
    }
    answer
}

fn list(bucket: &str, prefix: &str, from: Option<&str>, state: &State) -> Answer {
    let start = format!("/{bucket}/");
    let keys = state
        .objects
        .iter()
        .filter_map(|(path, (bytes, _))| Some((path.strip_prefix(&start)?, bytes)));
    let keys = keys.filter(|(key, _)| key.starts_with(prefix) && from.is_none_or(|from| *key > from));
    let keys: Vec<_> = keys.collect();
    let mut xml = "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><EncodingType>url</EncodingType>".to_owned();
    for (key, bytes) in keys.iter().take(PAGE) {
        let (etag, size) = (etag(bytes).replace('"', "&quot;"), bytes.len());
        let encoded = encoded(key, true).replace("%20", "+");
        write!(
            xml,
            "<Contents><Key>{encoded}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>{etag}</ETag><Size>{size}</Size></Contents>"
        )
        .unwrap();
    }
    if keys.len() > PAGE {
        let last = keys[PAGE - 1].0;
        write!(
            xml,
            "<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>"
        )
        .unwrap();
    }
    xml.push_str("</ListBucketResult>");
    Answer::text(200, xml)
}

fn error(status: u16, code: &str, message: &str, more: &str) -> Answer {
    Answer::text(
        status,
        format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"),
    )
}

fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", &hex(&Sha256::digest(bytes))[..32])
}

/// What is wrong with the signature, which is in the query (AWS: authenticating requests by query parameters, Signature
/// Version 4).
fn refused(
    method: &str,
    path: &str,
    query: &[(String, String)],
    headers: &HashMap<String, &str>,
    clock_ahead_s: u64,
) -> Option<Answer> {
    let get = |name: &str| {
        query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let denied = |why: &str| Some(error(403, "AccessDenied", why, ""));
    let (Some(credential), Some(date), Some(expires), Some(signed), Some(signature)) = (
        get("X-Amz-Credential"),
        get("X-Amz-Date"),
        get("X-Amz-Expires"),
        get("X-Amz-SignedHeaders"),
        get("X-Amz-Signature"),
    ) else {
        return denied("Access Denied");
    };
    let [key, day, region, "s3", "aws4_request"] = credential.split('/').collect::<Vec<_>>()[..] else {
        return denied("the credential has no scope");
    };
    if key != KEY_ID {
        let more = format!("<AWSAccessKeyId>{key}</AWSAccessKeyId>");
        return Some(error(
            403,
            "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.",
            &more,
        ));
    }
    if region != REGION {
        let message = format!("the region '{region}' is wrong; expecting '{REGION}'");
        let more = format!("<Region>{REGION}</Region>");
        return Some(error(400, "AuthorizationQueryParametersError", &message, &more));
    }
    if get("X-Amz-Security-Token").is_some_and(|token| token != TOKEN) {
        return Some(error(403, "ExpiredToken", "The provided token has expired.", ""));
    }
    let expires: u64 = expires.parse().unwrap();
    assert!((1..=604_800).contains(&expires));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + clock_ahead_s;
    if !date.starts_with(day) || now > seconds(date) + expires {
        return denied("Request has expired");
    }
    let names: Vec<&str> = signed.split(';').collect();
    assert!(names.is_sorted() && names.contains(&"host"), "{signed}");
    let mut canonical_headers = String::new();
    for name in &names {
        writeln!(canonical_headers, "{name}:{}", headers.get(*name).unwrap_or(&"").trim()).unwrap();
    }
    let mut pairs: Vec<(String, String)> = query
        .iter()
        .filter(|(name, _)| name != "X-Amz-Signature")
        .map(|(name, value)| (encoded(name, false), encoded(value, false)))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let canonical = format!(
        "{method}\n{path}\n{}\n{canonical_headers}\n{signed}\nUNSIGNED-PAYLOAD",
        pairs.join("&")
    );
    let scope = format!("{day}/{region}/s3/aws4_request");
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
        hex(&Sha256::digest(&canonical))
    );
    let parts = [day, region, "s3", "aws4_request", &to_sign];
    let expected = parts
        .iter()
        .fold(format!("AWS4{SECRET_KEY}").into_bytes(), |key, part| {
            hmac(&key, part.as_bytes())
        });
    if hex(&expected) != signature {
        // As Amazon does, with what must not be repeated.
        let more = format!("<StringToSign>{to_sign}</StringToSign><SignatureProvided>{signature}</SignatureProvided>");
        return Some(error(
            403,
            "SignatureDoesNotMatch",
            &format!("The request signature we calculated does not match the signature you provided: {signature}"),
            &more,
        ));
    }
    None
}

/// RFC 2104, for keys of any length.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    match key.len() > 64 {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let inner = Sha256::digest([&block.map(|byte| byte ^ 0x36)[..], text].concat());
    Sha256::digest([&block.map(|byte| byte ^ 0x5c)[..], &inner].concat()).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `20261124T111323Z` as Unix time.
fn seconds(date: &str) -> u64 {
    let date: jiff::civil::DateTime = jiff::fmt::strtime::parse("%Y%m%dT%H%M%SZ", date)
        .and_then(|parsed| parsed.to_datetime())
        .unwrap();
    let time = date.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
    u64::try_from(time.as_second()).unwrap()
}

pub(crate) fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .unwrap()
        .into_owned()
}

/// RFC 3986 without its unreserved characters.
fn encoded(text: &str, keeps_slash: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            b'/' if keeps_slash => out.push('/'),
            _ => write!(out, "%{byte:02X}").unwrap(),
        }
    }
    out
}

/// The signed address in a link to the UI.
pub(crate) fn signed_address(link: &str) -> String {
    let rest = link
        .strip_prefix(&format!("{UI}/from-url/"))
        .unwrap_or_else(|| panic!("{link}"));
    decoded(rest.strip_suffix('/').unwrap())
}

/// Follows a signed `http://` address. Gives status, headers and body.
pub(crate) fn get(address: &str) -> (u16, String, Vec<u8>) {
    let (host, target) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(
        stream,
        "GET /{target} HTTP/1.1\r\nHost: {host}\r\nOrigin: {UI}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(reply[..end].to_vec()).unwrap();
    (head[9..12].parse().unwrap(), head, reply.split_off(end + 4))
}

/// `s3rver`; ends with this.
pub(crate) struct S3rver {
    child: Child,
    pub(crate) endpoint: String,
    _folder: tempfile::TempDir,
}

impl S3rver {
    /// With the buckets `open` and `closed`; `None` (after saying so) where it is not installed.
    pub(crate) fn start() -> Option<S3rver> {
        let script = installed("node_modules/s3rver/bin/s3rver.js")?;
        let node = installed("node_modules/.bin/node")?;
        let folder = temp_dir();
        let mut child = Command::new(node)
            .arg(script)
            .args(["--silent", "--address", "127.0.0.1", "--port", "0", "--directory"])
            .arg(folder.path())
            .args(["--configure-bucket", "open"])
            .arg(tests_dir().join("client/cors.xml"))
            .args(["--configure-bucket", "closed"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| line.unwrap().strip_prefix("S3rver listening on ").map(str::to_owned));
        std::thread::spawn(move || lines.for_each(drop));
        Some(S3rver {
            child,
            endpoint: format!("http://{}", address.unwrap()),
            _folder: folder,
        })
    }
}

impl Drop for S3rver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
