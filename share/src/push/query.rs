//! Asks a server that keeps profiles for what it has of a query in a time range: one profile, added up, as pprof.
//!
//! `pyroscope=URL?query=TYPE{LABELS}&from=now-1h&until=now`, with the names and the defaults of Pyroscope's own links.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::{Destination, Headers, PushError, QuerySelection, ServerKind, parca, pyroscope};
use crate::http::{self, Body, Progress, Request, RequestLimits};

/// A profile of a day of a large service has some 10 MB.
const LIMITS: RequestLimits = RequestLimits {
    step: Duration::from_secs(60),
    whole: None,
    reply_bytes: 256 << 20,
};

/// The default of `from`.
const LAST_HOUR: &str = "now-1h";

/// A question to a server.
#[derive(Debug)]
pub struct Query {
    /// The server that is asked.
    pub server: Destination,
    selected: QuerySelection,
}

impl Query {
    /// The text of a query; `None` if this word of a command line is the name of a file. A file with such a name is
    /// given as `./pyroscope=...`.
    pub fn text(word: &Path) -> Option<&str> {
        let text = word.to_str()?;
        let (kind, _) = text.split_once('=')?;
        ServerKind::ALL.iter().any(|known| known.word() == kind).then_some(text)
    }

    /// Reads a query. Unencrypted connections are for this machine only, unless `any_http`. `now_ms` is since 1970.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and the next step.
    pub fn parse(text: &str, any_http: bool, now_ms: u64) -> Result<Query, String> {
        let (server, query) = text.split_once('?').unwrap_or((text, ""));
        let server = Destination::parse(server, any_http, "diff")?;
        if server.kind == ServerKind::Otlp {
            return Err(
                "collectors of OpenTelemetry pass profiles on and give none back; ask pyroscope=URL?query=... or parca=URL?query=..."
                    .to_owned(),
            );
        }
        let (mut selector, mut from, mut until) = (None, LAST_HOUR.to_owned(), "now".to_owned());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            // It may be a password.
            let wrong = || "a query has the form query=...&from=...&until=...".to_owned();
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            let value = percent_decode_str(value).decode_utf8();
            let value = value
                .map_err(|_| format!("{name}: its value is not UTF-8"))?
                .into_owned();
            match name {
                "query" => selector = Some(value),
                "from" => from = value,
                "until" => until = value,
                _ => return Err(format!("a query has query=, from= and until=, not '{name}'")),
            }
        }
        let selector = selector.filter(|selector| !selector.is_empty()).ok_or_else(|| {
            let word = server.kind.word();
            format!("it does not say which profile; write '{word}=URL?query={{service_name=\"NAME\"}}&from=now-1h'")
        })?;
        let (kind, labels) = match selector.find('{') {
            Some(at) => selector.split_at(at),
            None => (&*selector, "{}"),
        };
        let selected = QuerySelection {
            kind: kind.to_owned(),
            labels: labels.to_owned(),
            from_ms: moment(&from, now_ms)?,
            until_ms: moment(&until, now_ms)?,
        };
        match selected.from_ms < selected.until_ms {
            true => Ok(Query { server, selected }),
            false => Err(format!("from={from} is not before until={until}")),
        }
    }

    /// `{service_name="shop"}`
    pub fn labels(&self) -> &str {
        &self.selected.labels
    }

    /// Asks once, and returns a profile of pprof. `watch` is called meanwhile, and may end it.
    ///
    /// # Errors
    ///
    /// The request failed, or the reply is not the one of such a server.
    pub fn ask(&self, headers: &Headers, watch: impl FnMut(Progress) -> ControlFlow<()>) -> Result<Vec<u8>, PushError> {
        let Destination { kind, address } = &self.server;
        let asked = match kind {
            ServerKind::Parca => parca::ask(address, &self.selected),
            ServerKind::Pyroscope | ServerKind::Otlp => pyroscope::ask(address, &self.selected),
        };
        let asked = asked.map_err(PushError::Reply)?;
        let request = Request {
            purpose: "read a profile",
            method: asked.method,
            address: &asked.address,
            headers: asked.headers,
            secret_headers: headers.others(),
            authorization: headers.authorization(),
            body: asked.body.map(|body| {
                let size = body.len() as u64;
                Body::new(std::io::Cursor::new(body), size)
            }),
        };
        let reply = http::send(request, &LIMITS, watch).map_err(PushError::Http)?;
        match kind {
            ServerKind::Parca => parca::pprof(&reply.body),
            ServerKind::Pyroscope | ServerKind::Otlp => Ok(reply.body),
        }
    }
}

/// `now`, `now-90m`, or a time since 1970 in seconds or milliseconds; in milliseconds since 1970.
fn moment(text: &str, now_ms: u64) -> Result<u64, String> {
    // The year 5138 in seconds, 1973 in milliseconds.
    const SECONDS_BELOW: u64 = 100_000_000_000;
    let ago = |text: &str| {
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let unit_ms = match unit {
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return None,
        };
        now_ms.checked_sub(number.parse::<u64>().ok()?.checked_mul(unit_ms)?)
    };
    let read = match text.strip_prefix("now") {
        Some("") => Some(now_ms),
        Some(rest) => rest.strip_prefix('-').and_then(ago),
        None => text.parse::<u64>().ok().map(|number| match number < SECONDS_BELOW {
            true => number * 1000,
            false => number,
        }),
    };
    read.ok_or_else(|| format!("'{text}' is not a time; write now-1h (with s, m, h, d or w), or seconds since 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_790_000_000_000;

    #[test]
    fn a_query_has_the_form_of_pyroscope_s_links() {
        let parse = |text| Query::parse(text, false, NOW);
        let query = parse(
            "pyroscope=http://localhost:4040/base?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name=%22a%26b%22}&from=now-2d&until=1789999999",
        );
        let query = query.unwrap();
        assert_eq!(query.server.kind, ServerKind::Pyroscope);
        let expected = QuerySelection {
            kind: "process_cpu:cpu:nanoseconds:cpu:nanoseconds".to_owned(),
            labels: "{service_name=\"a&b\"}".to_owned(),
            from_ms: NOW - 2 * 86_400_000,
            until_ms: 1_789_999_999_000,
        };
        assert_eq!(query.selected, expected);
        let short = parse("parca=http://localhost:7070?query={service_name=\"a\"}").unwrap();
        assert_eq!((&*short.selected.kind, short.labels()), ("", "{service_name=\"a\"}"));
        assert_eq!(
            (short.selected.from_ms, short.selected.until_ms),
            (NOW - 3_600_000, NOW)
        );
        for (text, part) in [
            ("pyroscope=http://localhost:4040", "which profile"),
            ("pyroscope=http://localhost:4040?query=", "which profile"),
            ("otlp=http://localhost:4318?query={}", "OpenTelemetry"),
            ("parca=http://localhost:1?query={}&start=1", "'start'"),
            ("parca=http://localhost:1?hidden", "the form query="),
            ("parca=http://localhost:1?query=%ff", "UTF-8"),
            ("parca=http://localhost:1?query={}&from=now", "not before"),
            (
                "parca=http://localhost:1?query={}&from=yesterday",
                "'yesterday' is not a time",
            ),
            ("parca=http://example.org?query={}", "`sprof diff --plain-http`"),
            ("parca=http://me:hidden@localhost?query={}", "password"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && !error.contains("hidden"), "{text}: {error}");
        }
        assert!(Query::text(Path::new("./parca=a")).is_none() && Query::text(Path::new("parca=a")).is_some());
    }

    #[test]
    fn times_are_relative_or_since_1970() {
        for (text, expected) in [
            ("now", Some(NOW)),
            ("now-30s", Some(NOW - 30_000)),
            ("now-1w", Some(NOW - 604_800_000)),
            ("1700000000", Some(1_700_000_000_000)),
            ("1700000000123", Some(1_700_000_000_123)),
            ("now-", None),
            ("now-h", None),
            ("now-1é", None),
            ("now+1h", None),
            ("now-99999999999999999d", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(moment(text, NOW).ok(), expected, "{text}");
        }
    }
}
