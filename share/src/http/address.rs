//! Addresses that requests may go to.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ureq::http::Uri;

use super::Secret;

/// What stays as it is in a part of a path (RFC 3986, 2.3: unreserved characters).
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Shorter values of a query stand in many texts: they are not secrets.
const MIN_SECRET: usize = 16;

/// An `https://` address, or an `http://` address of this machine. Its `Debug` has scheme and host alone: a path may
/// hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    uri: Uri,
}

impl Address {
    /// Reads an address. Unencrypted connections are for this machine only, unless `any_http`.
    ///
    /// # Errors
    ///
    /// Why no request may go there, with the next step.
    pub fn parse(text: &str, any_http: bool) -> Result<Address, String> {
        let example = "for example https://profiles.example.org/api";
        let uri: Uri = text.parse().map_err(|_| format!("it is not a URL; {example}"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(format!("a URL starts with https:// and has a host; {example}"));
        };
        if authority.as_str().contains('@') {
            return Err("a password in an address would be seen by others; leave it away".into());
        }
        if authority.host().is_empty() || authority.as_str().ends_with(':') {
            return Err(format!("it has no host, or no port after the colon; {example}"));
        }
        // The path of a request replaces the query, and `Uri` drops a fragment.
        if text.contains(['?', '#']) {
            return Err("an address has no query and no fragment here; leave out what follows ? or #".into());
        }
        let address = Address { uri: uri.clone() };
        match scheme {
            "https" => Ok(address),
            "http" if any_http || address.is_loopback() => Ok(address),
            "http" => Err("http:// is not encrypted, and is for this machine only; use https://".into()),
            _ => Err(format!("a URL starts with https://; {example}")),
        }
    }

    /// Reads an address whose query is a secret, such as a signature.
    ///
    /// # Errors
    ///
    /// As of [`parse`](Address::parse).
    pub fn signed(text: &str) -> Result<Address, String> {
        Address::parse_with_query(text, false)
    }

    fn parse_with_query(text: &str, any_http: bool) -> Result<Address, String> {
        let Some((plain, query)) = text.split_once('?') else {
            return Address::parse(text, any_http);
        };
        let base = Address::parse(plain, any_http)?;
        let mut pieces = base.uri.into_parts();
        let path = pieces.path_and_query.as_ref().map_or("/", |path| path.path());
        // The text may hold the secret.
        let wrong = |_| "its query has characters that no address has".to_owned();
        pieces.path_and_query = Some(format!("{path}?{query}").parse().map_err(wrong)?);
        let uri = Uri::from_parts(pieces).map_err(|error| error.to_string())?;
        Ok(Address { uri })
    }

    /// Reads an address of any kind that may hold a user and a password (`https://USER:PASSWORD@HOST/`), which become
    /// the value of `Authorization`.
    ///
    /// # Errors
    ///
    /// As of [`parse`](Address::parse).
    pub fn with_password(text: &str) -> Result<(Address, Option<Secret>), String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let Some((user, host)) = authority.rsplit_once('@') else {
            return Ok((Address::parse(text, true)?, None));
        };
        let user: Vec<u8> = percent_decode_str(user).collect();
        let secret = Secret::new(format!("Basic {}", BASE64_STANDARD.encode(user)));
        Ok((Address::parse(&format!("{scheme}://{host}{path}"), true)?, Some(secret)))
    }

    /// The address in a `Location` header: a whole one, or a path on this server.
    ///
    /// # Errors
    ///
    /// It is none, or it is not encrypted, and this one is.
    pub(super) fn redirected(&self, location: &str) -> Result<Address, String> {
        let is_path = location.starts_with('/');
        let start = if is_path { self.host() } else { String::new() };
        Address::parse_with_query(&(start + location), !self.is_https())
    }

    /// What no error may repeat of the query, as it is sent and as it is meant.
    pub(super) fn secrets(&self) -> Vec<String> {
        let query = self.uri.query().unwrap_or_default();
        let values = query.split('&').filter_map(|pair| pair.split_once('='));
        let secrets = values.map(|(_, value)| value).filter(|value| value.len() >= MIN_SECRET);
        let both = secrets.flat_map(|value| [value.into(), percent_decode_str(value).decode_utf8_lossy()]);
        both.map(|value| value.into_owned()).collect()
    }

    /// An address below this one. Each part is one level, whatever characters it has.
    ///
    /// # Errors
    ///
    /// A part is empty, `.` or `..`, or the result is not an address.
    pub fn below(&self, parts: &[&str]) -> Result<Address, String> {
        let mut path = self.uri.path().trim_end_matches('/').to_owned();
        for part in parts {
            if matches!(*part, "" | "." | "..") {
                return Err(format!("'{part}' can't be a part of an address"));
            }
            path.push('/');
            path.extend(utf8_percent_encode(part, PART));
        }
        self.with_path(&path)
    }

    /// This address with a query of names and values, whatever characters they have.
    ///
    /// # Errors
    ///
    /// The result is not an address.
    pub fn with_query(&self, pairs: &[(&str, &str)]) -> Result<Address, String> {
        let encoded = |text| utf8_percent_encode(text, PART);
        let pairs = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let path = format!("{}?{}", self.uri.path(), pairs.collect::<Vec<_>>().join("&"));
        self.with_path(&path)
    }

    fn with_path(&self, path: &str) -> Result<Address, String> {
        let mut pieces = self.uri.clone().into_parts();
        pieces.path_and_query = Some(path.parse().map_err(|_| format!("'{path}' can't be a path"))?);
        let uri = Uri::from_parts(pieces).map_err(|error| error.to_string())?;
        Ok(Address { uri })
    }

    /// Scheme and host, for people: `https://api.example.org`.
    pub fn host(&self) -> String {
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        format!("{}://{authority}", self.uri.scheme_str().unwrap_or_default())
    }

    /// True for `localhost` and the addresses that reach this machine only (RFC 6761, 6.3; RFC 1122, 3.2.1.3; RFC 4291,
    /// 2.5.3).
    pub fn is_loopback(&self) -> bool {
        let host = self.uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback_ip = bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        is_loopback_ip || host.eq_ignore_ascii_case("localhost")
    }

    pub(super) fn is_https(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.host())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unencrypted_connections_stay_on_this_machine() {
        for here in [
            "http://127.0.0.1:8000",
            "http://127.1.2.3/api",
            "http://localhost:1/",
            "http://[::1]:80/x",
            "https://example.org",
        ] {
            assert!(Address::parse(here, false).is_ok(), "{here}");
        }
        for elsewhere in [
            "http://example.org/",
            "http://127.0.0.1.example.org/",
            "http://localhost.example.org/",
            "http://10.0.0.1/",
            "http://[fe80::1]/",
        ] {
            assert!(Address::parse(elsewhere, false).unwrap_err().contains("https://"));
            assert!(Address::parse(elsewhere, true).is_ok(), "{elsewhere}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_next_step() {
        for bad in [
            "",
            "example.org",
            "ftp://example.org",
            "file:///etc/passwd",
            "https://",
            "https://a b",
            "https:///x",
            "https://example.org:/",
            "http://a\r\nb",
            "https://example.org/x?sig=hunter2",
            "https://example.org/x#part",
        ] {
            assert!(Address::parse(bad, true).is_err(), "{bad:?}");
        }
        let secret = Address::parse("https://me:hunter2@example.org/", true).unwrap_err();
        assert!(!secret.contains("hunter2"), "{secret}");
    }

    #[test]
    fn a_part_of_a_path_stays_one_level() {
        let base = Address::parse("https://example.org/api/", false).unwrap();
        let below = base.below(&["profile", "a/../b?c#d e"]).unwrap();
        assert_eq!(
            below.uri().to_string(),
            "https://example.org/api/profile/a%2F..%2Fb%3Fc%23d%20e"
        );
        assert!(base.below(&[".."]).is_err());
        let asked = base.below(&["query"]).unwrap().with_query(&[("a.b", "{c=\"d&e\"}")]);
        let asked = asked.unwrap().uri().to_string();
        assert_eq!(asked, "https://example.org/api/query?a.b=%7Bc%3D%22d%26e%22%7D");
        let signed = Address::parse("https://example.org/hunter2", false).unwrap();
        assert_eq!(format!("{signed:?}"), "Address(https://example.org)");
        let query = Address::parse("https://example.org/x?sig=hunter2", false).unwrap_err();
        assert!(query.contains("query") && !query.contains("hunter2"), "{query}");
    }

    #[test]
    fn a_password_in_an_address_becomes_a_header() {
        let (address, secret) = Address::with_password("http://me:p%40ss@example.org:8002/a@b").unwrap();
        assert_eq!(address.uri().to_string(), "http://example.org:8002/a@b");
        assert_eq!(secret.unwrap().expose(), "Basic bWU6cEBzcw==");
        let (address, secret) = Address::with_password("https://example.org/a@b").unwrap();
        assert_eq!((address.uri().path(), secret), ("/a@b", None));
        assert!(Address::with_password("me:hunter2@example.org").is_err());
    }

    #[test]
    fn a_redirect_leads_to_an_address_that_is_as_safe() {
        let encrypted = Address::parse("https://example.org/a", false).unwrap();
        let to = |location| encrypted.redirected(location).map(|address| address.uri().to_string());
        assert_eq!(to("/b/c?d=e").unwrap(), "https://example.org/b/c?d=e");
        assert_eq!(to("https://example.com/b%20c").unwrap(), "https://example.com/b%20c");
        assert!(to("http://example.org/b").is_err() && to("file:///etc/passwd").is_err() && to("b").is_err());
        let plain = Address::parse("http://example.org/a", true).unwrap();
        assert!(plain.redirected("http://example.com/b").is_ok());
    }

    #[test]
    fn the_query_of_a_signed_address_is_not_shown() {
        let text = "https://example.org/a%20b?list=2&sig=hunter2%2Fhunter2%2Fhunter2";
        let signed = Address::signed(text).unwrap();
        assert_eq!(signed.uri().to_string(), text);
        assert_eq!(format!("{signed:?}"), "Address(https://example.org)");
        assert_eq!(
            signed.secrets(),
            ["hunter2%2Fhunter2%2Fhunter2", "hunter2/hunter2/hunter2"]
        );
        assert!(Address::signed("http://example.org/?sig=x").is_err());
        let wrong = Address::signed("https://example.org/?sig=hunter2 hunter2").unwrap_err();
        assert!(!wrong.contains("hunter2"), "{wrong}");
    }
}
