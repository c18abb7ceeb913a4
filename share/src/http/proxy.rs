//! The proxy that the environment names: `HTTPS_PROXY` (for `http://` `HTTP_PROXY`), else `ALL_PROXY`, each also in
//! lower case. `NO_PROXY` lists hosts to reach without it: `example.org` is that host and all below it, `.example.org`
//! those below, `*` all. This machine is always reached directly.

use std::ffi::OsString;

use ureq::{Proxy, ProxyProtocol};

use super::address::Address;
use super::error::FailureReason;

/// The proxy for an address; `env` gives a variable.
///
/// # Errors
///
/// A variable names something else than an HTTP proxy. It is not ignored: the user wants no direct connection.
pub(super) fn of(address: &Address, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<Proxy>, FailureReason> {
    if address.is_loopback() {
        return Ok(None);
    }
    let of_scheme = match address.is_https() {
        true => ["HTTPS_PROXY", "https_proxy"],
        false => ["HTTP_PROXY", "http_proxy"],
    };
    let of_scheme = of_scheme.iter().chain(&["ALL_PROXY", "all_proxy"]);
    let Some((variable, text)) = first(of_scheme, env)? else {
        return Ok(None);
    };
    let wrong = || FailureReason::ProxyVariable(variable);
    let given = Proxy::new(&text).map_err(|_| wrong())?;
    if !matches!(given.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) {
        return Err(wrong());
    }
    // The builder alone takes exceptions that are not the library's own reading of the environment.
    let mut built = Proxy::builder(given.protocol()).host(given.host()).port(given.port());
    if let Some(user) = given.username() {
        built = built.username(user);
    }
    if let Some(password) = given.password() {
        built = built.password(password);
    }
    let exceptions = first(["NO_PROXY", "no_proxy"].iter(), env)?.map_or_else(String::new, |(_, text)| text);
    for exception in exceptions.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        built = built.no_proxy(exception);
        if !exception.starts_with(['.', '*']) {
            built = built.no_proxy(&format!(".{exception}"));
        }
    }
    let proxy = built.build().map_err(|_| wrong())?;
    Ok(Some(proxy).filter(|proxy| !proxy.is_no_proxy(address.uri())))
}

/// The first variable that is not empty.
fn first<'a>(
    mut names: impl Iterator<Item = &'a &'static str>,
    env: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<(&'static str, String)>, FailureReason> {
    let found = names.find_map(|name| Some((*name, env(name).filter(|value| !value.is_empty())?)));
    let Some((name, value)) = found else {
        return Ok(None);
    };
    let value = value.into_string().map_err(|_| FailureReason::Variable(name))?;
    Ok(Some((name, value)))
}

/// The proxy for people, without user and password.
pub(super) fn name(proxy: &Proxy) -> String {
    format!("{}:{}", proxy.host(), proxy.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(address: &str, variables: &[(&str, &str)]) -> Result<Option<String>, FailureReason> {
        let address = Address::parse(address, true).unwrap();
        let env = |name: &str| {
            let mut found = variables.iter().filter(|(key, _)| *key == name);
            found.next().map(|(_, value)| OsString::from(value))
        };
        Ok(of(&address, &env)?.as_ref().map(name))
    }

    #[test]
    fn the_variable_of_the_scheme_counts_and_this_machine_needs_none() {
        let both = [("HTTPS_PROXY", "http://a:1"), ("http_proxy", "b:2")];
        assert_eq!(proxy("https://example.org", &both).unwrap().unwrap(), "a:1");
        assert_eq!(proxy("http://example.org", &both).unwrap().unwrap(), "b:2");
        assert_eq!(
            proxy("https://example.org", &[("all_proxy", "c")]).unwrap().unwrap(),
            "c:80"
        );
        assert_eq!(proxy("https://example.org", &[("HTTPS_PROXY", "")]).unwrap(), None);
        for here in ["https://127.0.0.1", "http://localhost:3", "https://[::1]"] {
            assert_eq!(proxy(here, &both).unwrap(), None, "{here}");
        }
    }

    #[test]
    fn exceptions_are_those_of_curl() {
        let with = |exceptions: &str| {
            let all = [("HTTPS_PROXY", "http://a:1"), ("NO_PROXY", exceptions)];
            proxy("https://api.example.org", &all).unwrap().is_none()
        };
        for direct in ["*", "api.example.org", "example.org", "x, example.org", ".example.org"] {
            assert!(with(direct), "{direct}");
        }
        for proxied in ["", "example.com", "ample.org", "api"] {
            assert!(!with(proxied), "{proxied}");
        }
        let empty = [
            ("HTTPS_PROXY", "http://a:1"),
            ("NO_PROXY", ""),
            ("no_proxy", "example.org"),
        ];
        assert_eq!(proxy("https://api.example.org", &empty).unwrap(), None);
    }

    #[test]
    fn a_wrong_proxy_is_not_ignored_and_its_password_is_not_shown() {
        for wrong in ["socks5://a:1", "http://", "http://me:hunter2@"] {
            let error = proxy("https://example.org", &[("HTTPS_PROXY", wrong)]).unwrap_err();
            assert!(matches!(error, FailureReason::ProxyVariable("HTTPS_PROXY")), "{wrong}");
        }
        let named = proxy("https://example.org", &[("HTTPS_PROXY", "http://me:hunter2@a:1")]);
        assert_eq!(named.unwrap().unwrap(), "a:1");

        use std::os::unix::ffi::OsStringExt as _;
        for bad in ["https_proxy", "no_proxy"] {
            let address = Address::parse("https://example.org", false).unwrap();
            let error = of(&address, &|name| match name {
                _ if name == bad => Some(OsString::from_vec(b"http://a\xff:1".to_vec())),
                "ALL_PROXY" => Some("http://a:1".into()),
                _ => None,
            });
            assert!(
                matches!(error, Err(FailureReason::Variable(name)) if name == bad),
                "{bad}"
            );
        }
    }
}
