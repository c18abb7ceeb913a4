//! Credentials, region and endpoint, where the tools of AWS look for them: options, variables, then a profile in
//! `~/.aws/credentials` and `~/.aws/config` (AWS SDKs and Tools Reference Guide: shared config and credentials files).

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use rusty_s3::Credentials;
use serde::{Deserialize, Serialize};

/// Keys of profiles whose credentials come from a service. The tools of AWS ask it.
const FROM_SERVICES: [&str; 5] = [
    "role_arn",
    "sso_session",
    "sso_start_url",
    "credential_process",
    "web_identity_token_file",
];
/// Prints such credentials as variables.
const EXPORT: &str = "eval \"$(aws configure export-credentials --format env)\" takes them from the tools of AWS";
/// A server that is not Amazon's has one region, and most of them don't care for its name.
const ANY_REGION: &str = "us-east-1";

/// Where a bucket is, as far as options say it.
#[derive(Clone, Debug, Default)]
pub struct BucketOptions {
    /// Address of the server; `None` is the environment's, or Amazon's.
    pub endpoint: Option<String>,
    /// The bucket's region; `None` is the environment's.
    pub region: Option<String>,
    /// Where the bucket's name stands; `None`: as the server expects it.
    pub style: Option<AddressStyle>,
}

/// Where the name of the bucket stands in addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressStyle {
    /// `https://endpoint/bucket/key`
    Path,
    /// `https://bucket.endpoint/key`
    VirtualHost,
}

/// What was found.
pub(super) struct SigningConfig {
    pub(super) credentials: Credentials,
    /// Where the credentials are from, for people.
    pub(super) source: String,
    /// When they end, if that is known.
    pub(super) ends: Option<SystemTime>,
    pub(super) region: String,
    /// `None` is Amazon's.
    pub(super) endpoint: Option<String>,
}

/// A section of a file of settings, by key.
type Section = HashMap<String, String>;

/// Finds what signing needs. `env` gives a variable, `read` a file.
///
/// # Errors
///
/// What is missing or can't be read, with the next step.
pub(super) fn find(
    options: &BucketOptions,
    env: &dyn Fn(&str) -> Option<OsString>,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<SigningConfig, String> {
    let variable = |name: &str| match env(name).map(OsString::into_string) {
        Some(Ok(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Some(Err(_)) => Err(format!("the variable {name} is not UTF-8")),
        None => Ok(None),
    };
    let first = |names: &[&str]| {
        let values = names.iter().map(|name| variable(name));
        values
            .collect::<Result<Vec<_>, _>>()
            .map(|values| values.into_iter().flatten().next())
    };
    let profile = AwsProfile::read(first(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"])?, env, read)?;
    let endpoint = match &options.endpoint {
        Some(endpoint) => Some(endpoint.clone()),
        None => first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])?.or_else(|| profile.get("endpoint_url")),
    };
    let region = match &options.region {
        Some(region) => Some(region.clone()),
        None => first(&["AWS_REGION", "AWS_DEFAULT_REGION"])?.or_else(|| profile.get("region")),
    };
    let region = region.or_else(|| endpoint.as_ref().map(|_| ANY_REGION.to_owned()));
    let region =
        region.ok_or("in which region is the bucket? Name it with --s3-region, in AWS_REGION or in the profile")?;
    if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(format!(
            "'{region}' is not the name of a region, for example eu-central-1"
        ));
    }
    let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
    let [id, secret, token] = keys.map(variable);
    let (credentials, source) = match (id?, secret?) {
        (Some(id), Some(secret)) => (credentials(id, secret, token?), "AWS_ACCESS_KEY_ID".to_owned()),
        (None, None) => profile.credentials()?,
        _ => {
            return Err(
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together, and one of them is not set".into(),
            );
        }
    };
    let ends = match source.as_str() {
        "AWS_ACCESS_KEY_ID" => variable("AWS_CREDENTIAL_EXPIRATION")?.and_then(|text| text.parse::<Timestamp>().ok()),
        _ => None,
    };
    Ok(SigningConfig {
        credentials,
        source,
        ends: ends.map(SystemTime::from),
        region,
        endpoint,
    })
}

fn credentials(id: String, secret: String, token: Option<String>) -> Credentials {
    match token {
        Some(token) => Credentials::new_with_token(id, secret, token),
        None => Credentials::new(id, secret),
    }
}

/// A profile of the user's files.
struct AwsProfile {
    name: String,
    /// From the file of credentials, then from the file of settings.
    sections: [Section; 2],
}

impl AwsProfile {
    fn read(
        named: Option<String>,
        env: &dyn Fn(&str) -> Option<OsString>,
        read: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<AwsProfile, String> {
        let name = named.clone().unwrap_or_else(|| "default".to_owned());
        let path = |variable: &str, file: &str| {
            let named = env(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
            named.or_else(|| Some(PathBuf::from(env("HOME")?).join(".aws").join(file)))
        };
        let section = |path: Option<PathBuf>, heads: &[String]| {
            let Some(path) = path else { return Ok(None) };
            match read(&path) {
                Ok(text) => Ok(section(&text, heads)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(format!("reading {} failed: {error}", path.display())),
            }
        };
        let secret = section(
            path("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            std::slice::from_ref(&name),
        )?;
        let heads = match name.as_str() {
            "default" => vec![name.clone(), "profile default".to_owned()],
            name => vec![format!("profile {name}")],
        };
        let settings = section(path("AWS_CONFIG_FILE", "config"), &heads)?;
        if named.is_some() && secret.is_none() && settings.is_none() {
            return Err(format!(
                "there is no profile {name} in the files of AWS: check AWS_PROFILE"
            ));
        }
        Ok(AwsProfile {
            name,
            sections: [secret.unwrap_or_default(), settings.unwrap_or_default()],
        })
    }

    fn get(&self, key: &str) -> Option<String> {
        self.sections.iter().find_map(|section| section.get(key).cloned())
    }

    fn credentials(&self) -> Result<(Credentials, String), String> {
        // Not one part from each file.
        for section in &self.sections {
            let part = |key: &str| section.get(key).cloned();
            if let (Some(id), Some(secret)) = (part("aws_access_key_id"), part("aws_secret_access_key")) {
                let source = format!("the profile {}", self.name);
                return Ok((credentials(id, secret, part("aws_session_token")), source));
            }
        }
        if FROM_SERVICES.iter().any(|key| self.get(key).is_some()) {
            return Err(format!(
                "the credentials of the profile {} come from a service, which sprof does not ask: {EXPORT}",
                self.name
            ));
        }
        Err(format!(
            "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile in AWS_PROFILE. Those of roles and of \
             single sign-on: {EXPORT}"
        ))
    }
}

/// A section with one of the heads: lines of `key = value`. `None` if the file has no such section.
fn section(text: &str, heads: &[String]) -> Option<Section> {
    let (mut found, mut is_it) = (None, false);
    for line in text.lines() {
        // Nested settings are indented.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        let line = line.trim_end();
        if let Some(head) = line
            .strip_prefix('[')
            .and_then(|line| line.split_once(']'))
            .map(|(head, _)| head)
        {
            let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
            is_it = heads.contains(&head);
            if is_it {
                found.get_or_insert_with(Section::new);
            }
        } else if let (true, Some((key, value)), Some(found)) = (is_it, line.split_once('='), &mut found) {
            // A comment is set off by a space.
            let value = value.split(" #").next().unwrap_or_default().trim();
            // An empty one is none: a signature with an empty session token is refused.
            if !value.is_empty() {
                found.insert(key.trim().to_ascii_lowercase(), value.to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "\
# keys
[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key=hidden1
aws_session_token =

[team]
aws_access_key_id=AKIATEAM
aws_secret_access_key = hidden2 # of the team
aws_session_token = hidden3==
";
    const CONFIG: &str = "\
[default]
region = eu-central-1
[profile  team]
region=eu-west-1
s3 =
  addressing_style = path
endpoint_url = https://s3.example.org
[profile role]
role_arn = arn:aws:iam::1:role/x
[team]
region = wrong
";

    fn found(options: &BucketOptions, variables: &[(&str, &str)]) -> Result<SigningConfig, String> {
        let env = |name: &str| match name {
            "HOME" => Some(OsString::from("/home/u")),
            _ => variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value)),
        };
        find(options, &env, &|path| match path.to_str() {
            Some("/home/u/.aws/credentials") => Ok(CREDENTIALS.to_owned()),
            Some("/home/u/.aws/config") => Ok(CONFIG.to_owned()),
            Some("/denied") => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn keys(found: &SigningConfig) -> (&str, &str, Option<&str>) {
        let credentials = &found.credentials;
        (credentials.key(), credentials.secret(), credentials.token())
    }

    #[test]
    fn options_count_before_variables_and_variables_before_the_profile() {
        let none = BucketOptions::default();
        let default = found(&none, &[]).unwrap();
        assert_eq!(keys(&default), ("AKIADEFAULT", "hidden1", None));
        assert_eq!((default.region.as_str(), &default.endpoint), ("eu-central-1", &None));
        assert_eq!(default.source, "the profile default");
        let team = found(&none, &[("AWS_PROFILE", "team")]).unwrap();
        assert_eq!(keys(&team), ("AKIATEAM", "hidden2", Some("hidden3==")));
        assert_eq!(team.region, "eu-west-1");
        assert_eq!(team.endpoint.as_deref(), Some("https://s3.example.org"));
        let all = [
            ("AWS_ACCESS_KEY_ID", "AKIAENV"),
            ("AWS_SECRET_ACCESS_KEY", "hidden4"),
            ("AWS_SESSION_TOKEN", "hidden5"),
            ("AWS_CREDENTIAL_EXPIRATION", "2026-11-24T11:13:23+00:00"),
            ("AWS_DEFAULT_REGION", "us-west-2"),
            ("AWS_ENDPOINT_URL", "https://all.example.org"),
            ("AWS_ENDPOINT_URL_S3", "https://objects.example.org"),
        ];
        let of_env = found(&none, &all).unwrap();
        assert_eq!(keys(&of_env), ("AKIAENV", "hidden4", Some("hidden5")));
        assert_eq!(of_env.region, "us-west-2");
        assert_eq!(of_env.endpoint.as_deref(), Some("https://objects.example.org"));
        assert!(of_env.ends.is_some() && default.ends.is_none());
        let options = BucketOptions {
            endpoint: Some("http://localhost:9000".into()),
            region: Some("here".into()),
            style: None,
        };
        let given = found(&options, &all).unwrap();
        assert_eq!(
            (given.region.as_str(), given.endpoint.as_deref()),
            ("here", Some("http://localhost:9000"))
        );
        let elsewhere = [
            ("HOME", "/"),
            ("AWS_CONFIG_FILE", "/x"),
            ("AWS_ENDPOINT_URL", "https://e.example.org"),
        ];
        assert_eq!(found(&none, &elsewhere).unwrap().region, ANY_REGION);
    }

    #[test]
    fn what_is_missing_is_said_without_a_secret() {
        let none = BucketOptions::default();
        for (variables, words) in [
            (&[("AWS_PROFILE", "other")][..], "no profile other"),
            (&[("AWS_PROFILE", "role"), ("AWS_REGION", "x")], "export-credentials"),
            (&[("AWS_CONFIG_FILE", "/x")], "--s3-region"),
            (&[("AWS_CONFIG_FILE", "/denied")], "reading /denied failed"),
            (&[("AWS_REGION", "a/b")], "'a/b' is not the name of a region"),
            (&[("AWS_SECRET_ACCESS_KEY", "hidden")], "belong together"),
            (
                &[("AWS_SHARED_CREDENTIALS_FILE", "/x"), ("AWS_REGION", "x")],
                "set AWS_ACCESS_KEY_ID",
            ),
        ] {
            let error = found(&none, variables).err().unwrap();
            assert!(error.contains(words) && !error.contains("hidden"), "{words}: {error}");
        }
    }
}
