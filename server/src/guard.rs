//! Access checks: the Host header against DNS rebinding, the token, and the UI's origin for cross-origin requests.

use std::net::IpAddr;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Uri};

/// True if the host is `localhost`, an IP number that the server listens on, or one of its names. A web page that
/// points a name of its own at 127.0.0.1 sends that name, and is refused.
pub(super) fn is_our_host(parts: &Parts, listening_on: IpAddr, names: &[String]) -> bool {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    // `GET http://other/ HTTP/1.1` names the host twice; both must be the server's (RFC 9112 3.2.2).
    let in_target = parts
        .uri
        .authority()
        .is_none_or(|authority| is_ours(authority.as_str(), listening_on, names));
    in_target && host.to_str().is_ok_and(|host| is_ours(host, listening_on, names))
}

pub(super) fn is_ours(authority: &str, listening_on: IpAddr, names: &[String]) -> bool {
    // The port is not compared: `ssh -L` may have changed it, and a page cannot choose the host part.
    let Ok(uri) = authority.parse::<Uri>() else {
        return false;
    };
    if authority.contains(['@', '/', '?', '#']) {
        return false;
    }
    let Some(host) = uri.host() else { return false };
    if authority.len() > host.len() && uri.port_u16().is_none() {
        return false;
    }
    if host.eq_ignore_ascii_case("localhost") || names.iter().any(|name| host.eq_ignore_ascii_case(name)) {
        return true;
    }
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(ip) => ip == listening_on || ip.is_loopback() || listening_on.is_unspecified(),
        Err(_) => false,
    }
}

/// Compares in constant time.
pub(super) fn is_token(given: &str, token: &str) -> bool {
    given.len() == token.len() && given.bytes().zip(token.bytes()).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

/// The origin (scheme, host, port) of an address, as browsers write it. `None` if the text is not an address with a
/// scheme and a host.
pub fn origin_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let (scheme, host) = (uri.scheme_str()?, uri.host()?.to_ascii_lowercase());
    match (scheme, uri.port_u16()) {
        (_, None) | ("http", Some(80)) | ("https", Some(443)) => Some(format!("{scheme}://{host}")),
        (_, Some(port)) => Some(format!("{scheme}://{host}:{port}")),
    }
}

/// Headers that a browser sends, and expects in the answer, before a public page may talk to a local server. Chrome 98
/// to 141 spell it "private", the newer draft "local".
const LOCAL_NETWORK: [(HeaderName, HeaderName); 2] = [
    (
        HeaderName::from_static("access-control-request-private-network"),
        HeaderName::from_static("access-control-allow-private-network"),
    ),
    (
        HeaderName::from_static("access-control-request-local-network"),
        HeaderName::from_static("access-control-allow-local-network"),
    ),
];

/// Lets pages of the UI's origin read the response.
pub(super) fn allow_origin(response: &mut HeaderMap, request: &HeaderMap, ui_origin: Option<&str>) {
    response.append(header::VARY, HeaderValue::from_static("Origin"));
    let Some(ui_origin) = ui_origin else { return };
    if request
        .get(header::ORIGIN)
        .is_some_and(|origin| origin.as_bytes() == ui_origin.as_bytes())
        && let Ok(origin) = HeaderValue::from_str(ui_origin)
    {
        response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
}

/// Answers a preflight request (Fetch standard, "CORS-preflight fetch").
pub(super) fn allow_preflight(response: &mut HeaderMap, request: &HeaderMap, methods: &'static str) {
    response.insert(header::ALLOW, HeaderValue::from_static(methods));
    if !response.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
        return;
    }
    response.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    // The UI sets User-Agent by itself, so its requests need a preflight.
    let headers = HeaderValue::from_static("user-agent, content-type");
    response.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, headers);
    response.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    for (asked, allowed) in LOCAL_NETWORK {
        if request.get(asked).is_some_and(|value| value == "true") {
            response.insert(allowed, HeaderValue::from_static("true"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_numbers_or_localhost() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        for ours in [
            "127.0.0.1",
            "127.0.0.1:3000",
            "localhost:8080",
            "LOCALHOST",
            "[::1]:3000",
            "[::1]",
        ] {
            assert!(is_ours(ours, loopback, &[]), "{ours}");
        }
        for other in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil@127.0.0.1",
            "10.0.0.1:3000",
            "127.0.0.1/",
            "[::1",
            "0x7f.1",
            "2130706433",
            "localhost:99999",
        ] {
            assert!(!is_ours(other, loopback, &[]), "{other}");
        }
        assert!(is_ours("10.0.0.1:3000", IpAddr::from([0, 0, 0, 0]), &[]));
        assert!(!is_ours("evil.example", IpAddr::from([0, 0, 0, 0]), &[]));
        let names = ["profiles.example.org".to_owned()];
        assert!(is_ours("Profiles.example.org:3000", loopback, &names));
        assert!(!is_ours("example.org", loopback, &names));
    }

    #[test]
    fn origins_as_browsers_write_them() {
        assert_eq!(
            origin_of("https://profiler.firefox.com").as_deref(),
            Some("https://profiler.firefox.com")
        );
        assert_eq!(
            origin_of("https://Example.org:443/ui").as_deref(),
            Some("https://example.org")
        );
        assert_eq!(
            origin_of("http://localhost:4242").as_deref(),
            Some("http://localhost:4242")
        );
    }

    #[test]
    fn tokens_match_whole() {
        assert!(is_token("abc", "abc"));
        assert!(!is_token("abd", "abc"));
        assert!(!is_token("ab", "abc"));
        assert!(!is_token("", "abc"));
    }
}
