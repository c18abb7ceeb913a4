//! What ran, in the words of each server, from options and from the environment.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use profile::export::parquet::RanColumns;

use crate::commit;
use crate::http::{HeaderName, Secret};

/// Headers that belong to the request itself.
const OWN: [&str; 7] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "expect",
];

/// OpenTelemetry's names (its conventions for resources).
const SERVICE: &str = "service.name";
const VERSION: &str = "service.version";
const COMMIT: &str = "vcs.ref.head.revision";
const HOST: &str = "host.name";

/// What is known of the program that ran, under OpenTelemetry's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

/// What the user says of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct GivenLabels<'a> {
    /// What ran.
    pub service: Option<&'a str>,
    /// Its version.
    pub version: Option<&'a str>,
    /// The commit that it was built from.
    pub commit: Option<&'a str>,
    /// Further labels: names and values.
    pub labels: &'a [(String, String)],
}

impl Labels {
    /// Options count first, then the commit of the recording, then the environment, then the name of the program.
    ///
    /// # Errors
    ///
    /// A variable can't be read.
    pub fn new(
        given: GivenLabels<'_>,
        program: &str,
        recorded_commit: Option<&str>,
        variable: &dyn Fn(&str) -> Result<Option<String>, String>,
    ) -> Result<Labels, String> {
        let mut labels = BTreeMap::new();
        labels.insert(SERVICE.to_owned(), program.to_owned());
        if let Some(commit) = commit::of_variables(variable)? {
            labels.insert(COMMIT.to_owned(), commit);
        }
        let attributes = "OTEL_RESOURCE_ATTRIBUTES";
        if let Some(text) = variable(attributes)? {
            labels.extend(pairs(&text).map_err(|why| format!("{attributes}: {why}"))?);
        }
        if let Some(service) = variable("OTEL_SERVICE_NAME")? {
            labels.insert(SERVICE.to_owned(), service);
        }
        let own = [
            (SERVICE, given.service),
            (VERSION, given.version),
            (COMMIT, given.commit.or(recorded_commit)),
        ];
        let own = own
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        labels.extend(own.chain(given.labels.iter().cloned()));
        Ok(Labels(labels))
    }

    /// What ran.
    pub fn service(&self) -> &str {
        self.0.get(SERVICE).map_or("", String::as_str)
    }

    /// Under OpenTelemetry's names.
    pub fn of_opentelemetry(&self) -> Vec<(String, String)> {
        self.0
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// In the columns of rows.
    pub fn of_rows(&self) -> RanColumns {
        let mut labels = self.0.clone();
        RanColumns {
            service: labels.remove(SERVICE),
            version: labels.remove(VERSION),
            commit: labels.remove(COMMIT),
            host: labels.remove(HOST),
            labels: labels.into_iter().collect(),
        }
    }

    /// Under names that Prometheus allows: letters, digits and `_`. `commit`: the server's own name of a commit.
    pub(super) fn of_prometheus(&self, commit: &str) -> BTreeMap<String, String> {
        let labels = self.0.iter().map(|(name, value)| match name.as_str() {
            COMMIT => (commit.to_owned(), value.clone()),
            name => (prometheus_name(name), value.clone()),
        });
        labels.collect()
    }
}

/// `[a-zA-Z_][a-zA-Z0-9_]*` (Prometheus, data model).
pub(super) fn prometheus_name(name: &str) -> String {
    let first = name.starts_with(|c: char| c.is_ascii_digit()).then_some('_');
    let rest = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    first.into_iter().chain(rest).collect()
}

/// What a server needs to let sprof in.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    authorization: Option<Secret>,
    /// Headers whose values may also be secrets.
    others: Vec<(String, Secret)>,
}

impl Headers {
    /// Reads `Name=value,Name=value`, values percent-encoded, as OTEL_EXPORTER_OTLP_HEADERS has them.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without the text itself.
    pub fn parse(text: &str) -> Result<Headers, String> {
        let mut headers = Headers::default();
        for (at, (name, value)) in pairs(text)?.into_iter().enumerate() {
            let (part, value) = (at + 1, Secret::new(value));
            let Ok(name) = name.parse::<HeaderName>() else {
                return Err(format!("part {part} has a name that headers can't have"));
            };
            if OWN.contains(&name.as_str()) {
                return Err(format!("part {part} is the header {name}, which sprof sets itself"));
            }
            if !value.fits_header() {
                return Err(format!("part {part} has a value that headers can't have"));
            }
            match name.as_str() {
                "authorization" => headers.authorization = Some(value),
                name => headers.others.push((name.to_owned(), value)),
            }
        }
        Ok(headers)
    }

    pub(super) fn authorization(&self) -> Option<&Secret> {
        self.authorization.as_ref()
    }

    pub(super) fn others(&self) -> &[(String, Secret)] {
        &self.others
    }
}

/// `name=value` with commas between them; values are percent-encoded (W3C Baggage, as OpenTelemetry's variables have
/// it).
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pairs = parts.enumerate().map(|(at, part)| {
        // The part itself may hold a password.
        let wrong = || format!("part {} is not NAME=VALUE", at + 1);
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
        match name.trim() {
            "" => Err(wrong()),
            name => Ok((name.to_owned(), value.into_owned())),
        }
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Result<Option<String>, String> {
        let value = match name {
            "OTEL_RESOURCE_ATTRIBUTES" => "service.name=other,service.version=1.2,deployment.environment=my%20test",
            "CI_COMMIT_SHA" => "2f3a91c",
            _ => return Ok(None),
        };
        Ok(Some(value.to_owned()))
    }

    #[test]
    fn options_count_before_the_environment() {
        let labels = Labels::new(GivenLabels::default(), "words", None, &|_| Ok(None)).unwrap();
        let error = Labels::new(GivenLabels::default(), "words", None, &|name| Err(name.to_owned()));
        assert_eq!(error.unwrap_err(), "GITHUB_SHA");
        assert_eq!(labels.service(), "words");
        let labels = Labels::new(GivenLabels::default(), "words", None, &environment).unwrap();
        assert_eq!(labels.service(), "other");
        let region = [("region".to_owned(), "eu".to_owned())];
        let given = GivenLabels {
            service: Some("shop"),
            labels: &region,
            ..GivenLabels::default()
        };
        let of_recording = Labels::new(GivenLabels::default(), "words", Some("77aa"), &environment).unwrap();
        assert_eq!(of_recording.of_rows().commit.as_deref(), Some("77aa"));
        let labels = Labels::new(given, "words", None, &environment).unwrap();
        let expected = [
            ("commit", "2f3a91c"),
            ("deployment_environment", "my test"),
            ("region", "eu"),
            ("service_name", "shop"),
            ("service_version", "1.2"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(labels.of_prometheus("commit"), BTreeMap::from(expected));
        assert_eq!(prometheus_name("1.a-b"), "_1_a_b");
        let rows = labels.of_rows();
        let known = [&rows.service, &rows.version, &rows.commit, &rows.host].map(Option::as_deref);
        assert_eq!(known, [Some("shop"), Some("1.2"), Some("2f3a91c"), None]);
        let names: Vec<&str> = rows.labels.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["deployment.environment", "region"]);
    }

    #[test]
    fn no_error_and_no_debug_text_shows_a_header() {
        let headers = Headers::parse("authorization=Bearer%20hidden, X-Scope-OrgID=team").unwrap();
        assert_eq!(headers.authorization().unwrap().expose(), "Bearer hidden");
        assert_eq!(headers.others(), [("x-scope-orgid".to_owned(), Secret::new("team"))]);
        assert!(!format!("{headers:?}").contains("hidden"));
        let error = Headers::parse("a=b,hidden").unwrap_err();
        assert!(error.contains("part 2") && !error.contains("hidden"), "{error}");
        for (bad, what) in [
            ("a=b,c d=hidden", "part 2 has a name"),
            ("a=b,c=hidden%0d%0aX: y", "part 2 has a value"),
            ("Authorization=hidden%00", "part 1 has a value"),
            ("a=b,Host=hidden", "part 2 is the header host"),
            ("Transfer-Encoding=hidden", "the header transfer-encoding"),
        ] {
            let error = Headers::parse(bad).unwrap_err();
            assert!(error.contains(what) && !error.contains("hidden"), "{error}");
        }
    }
}
