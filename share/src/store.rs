//! The protocol of the Firefox Profiler's store: a profile is sent to `/compressed-store`, and the reply is a JSON Web
//! Token (RFC 7519). Its payload names the profile, and the token is the key to delete it.

use std::fmt;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::ops::ControlFlow;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::http::{self, Address, Body, FailureReason, HttpError, Method, Progress, Request, RequestLimits, Secret};

const PUBLIC_API: &str = "https://api.profiler.firefox.com";
/// The largest body that the public store takes.
pub const PUBLIC_MAX_BYTES: u64 = 150_000_000;
/// Each call has it, or the server refuses the call.
const ACCEPT: (&str, &str) = ("Accept", "application/vnd.firefox-profiler+json;version=1.0");
/// A token has some hundred bytes.
const MAX_REPLY_BYTES: u64 = 64 << 10;
/// Waits before the second and the third attempt, where nobody took the first one.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];

/// A store of profiles.
#[derive(Debug)]
pub struct Store {
    api: Address,
    /// The address as the user names it.
    url: String,
    step: Duration,
}

/// What the store said about a profile that it took.
#[derive(Debug)]
pub struct Uploaded {
    /// The profile's name in the store, which is a part of the link.
    pub name: String,
    /// The key to delete it.
    pub key: Secret,
}

/// Why a profile was not uploaded, as far as that is known.
#[derive(Debug)]
pub enum UploadError {
    /// The request failed.
    Http(HttpError),
    /// The reply to the whole profile is not a token. Holds the host and what came instead.
    NoToken(String, &'static str),
    /// The profile's file can't be read again.
    File(std::io::Error),
}

impl Store {
    /// The public store, or another one. `step`: see [`RequestLimits`].
    ///
    /// # Errors
    ///
    /// Why no store can have the address, with the next step.
    pub fn new(url: Option<&str>, step: Duration) -> Result<Store, String> {
        let url = url.unwrap_or(PUBLIC_API).trim_end_matches('/');
        Ok(Store {
            api: Address::parse(url, false)?,
            url: url.to_owned(),
            step,
        })
    }

    /// True for the store of the Firefox Profiler, which everyone can read.
    pub fn is_public(&self) -> bool {
        self.url == PUBLIC_API
    }

    /// The address, for people and for the next call.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn limits(&self) -> RequestLimits {
        RequestLimits {
            step: self.step,
            whole: None,
            reply_bytes: MAX_REPLY_BYTES,
        }
    }

    /// Sends a profile: JSON in gzip. It is sent again only where no byte of it can have arrived.
    ///
    /// # Errors
    ///
    /// The file can't be read, the request failed, or the reply is not a token.
    pub fn upload(
        &self,
        file: &File,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Uploaded, UploadError> {
        let address = self.api.below(&["compressed-store"]);
        let address = address.map_err(|error| UploadError::File(std::io::Error::other(error)))?;
        let mut pauses = PAUSES.into_iter();
        loop {
            let mut body = file.try_clone().map_err(UploadError::File)?;
            body.seek(SeekFrom::Start(0)).map_err(UploadError::File)?;
            let size = body.metadata().map_err(UploadError::File)?.len();
            let request = Request {
                purpose: "upload the profile",
                method: Method::POST,
                address: &address,
                headers: &[ACCEPT],
                secret_headers: &[],
                authorization: None,
                body: Some(Body::new(body, size)),
            };
            match (http::send(request, &self.limits(), &mut watch), pauses.next()) {
                (Ok(reply), _) => {
                    return uploaded(&reply.body).map_err(|what| UploadError::NoToken(self.api.host(), what));
                }
                (Err(error), Some(pause)) if error.may_be_repeated() => std::thread::sleep(pause),
                (Err(error), _) => return Err(UploadError::Http(error)),
            }
        }
    }

    /// Deletes a profile.
    ///
    /// # Errors
    ///
    /// The name can't be one of a profile, or the request failed. See [`deleted`] for status 404.
    pub fn delete(&self, name: &str, key: &Secret) -> Result<(), HttpError> {
        let purpose = "delete the profile";
        let address = self.api.below(&["profile", name]);
        let address = address.map_err(|why| HttpError::unmade(purpose, self.api.host(), why))?;
        let request = Request {
            purpose,
            method: Method::DELETE,
            address: &address,
            headers: &[ACCEPT],
            secret_headers: &[],
            authorization: Some(&Secret::new(format!("Bearer {}", key.expose()))),
            body: None,
        };
        http::send(request, &self.limits(), |_| ControlFlow::Continue(())).map(drop)
    }
}

/// True if the store has deleted the profile, by the result of [`Store::delete`]. False for status 404: the store has
/// no such profile, or something else is at its address.
///
/// # Errors
///
/// All other errors of the request.
pub fn deleted(result: Result<(), HttpError>) -> Result<bool, HttpError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.reason, FailureReason::Status(404, _)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl UploadError {
    /// True if more time may help.
    pub fn is_time_out(&self) -> bool {
        matches!(self, UploadError::Http(error) if error.is_time_out())
    }

    /// True if the store may have the profile although nobody has the key to delete it.
    fn is_outcome_unknown(&self) -> bool {
        match self {
            UploadError::Http(error) => error.is_outcome_unknown(),
            UploadError::NoToken(..) => true,
            UploadError::File(_) => false,
        }
    }
}

impl fmt::Display for UploadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UploadError::Http(error) => error.fmt(f)?,
            UploadError::NoToken(host, what) => write!(
                f,
                "cannot upload the profile: {host}: the reply is {what}, not the token of a store of profiles; check the address"
            )?,
            UploadError::File(error) => write!(f, "cannot upload the profile: reading it failed: {error}")?,
        }
        match self.is_outcome_unknown() {
            true => write!(
                f,
                ". It is unknown whether the profile arrived. sprof has no key to delete it, and does not send it twice by itself"
            ),
            false => write!(f, ". Nothing was shared"),
        }
    }
}

/// Reads the reply. It never gets into an error: it may hold the key.
fn uploaded(reply: &[u8]) -> Result<Uploaded, &'static str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Payload {
        profile_token: String,
    }
    let text = std::str::from_utf8(reply).map_err(|_| "no text")?.trim();
    if text.is_empty() {
        return Err("empty");
    }
    if text.starts_with('<') {
        return Err("an HTML page");
    }
    let parts: Vec<&str> = text.split('.').collect();
    let &[_, payload, signature] = &parts[..] else {
        return Err("some other text");
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_signed = !signature.is_empty() && text.bytes().all(|byte| byte == b'.' || is_name(byte));
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok().filter(|_| is_signed);
    let payload: Payload = serde_json::from_slice(&payload.ok_or("some other text")?)
        .map_err(|_| "a token without the name of a profile")?;
    let name = payload.profile_token;
    if name.is_empty() || name.len() > 128 || !name.bytes().all(is_name) {
        return Err("a token with a wrong name of a profile");
    }
    Ok(Uploaded {
        name,
        key: Secret::new(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_the_profile() {
        // printf '{"profileToken":"abc"}' | basenc --base64url
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJwcm9maWxlVG9rZW4iOiJhYmMifQ.c2ln";
        let found = uploaded(format!("{token}\n").as_bytes()).unwrap();
        assert_eq!((found.name.as_str(), found.key.expose()), ("abc", token));
        assert!(!format!("{found:?}").contains("eyJ"));
        for wrong in [
            "",
            "<html>",
            "ok",
            "a.b",
            "eyJhbGciOiJIUzI1NiJ9.e30.c2ln",
            "eyJhbGciOiJIUzI1NiJ9.eyJwcm9maWxlVG9rZW4iOiJhYmMifQ.",
            "eyJhbGciOiJIUzI1NiJ9.eyJwcm9maWxlVG9rZW4iOiJhYmMifQ.c2 ln",
            // {"profileToken":"../x"}, {"profileToken":""}, {"profileToken":1}
            "e30.eyJwcm9maWxlVG9rZW4iOiIuLi94In0.c2ln",
            "e30.eyJwcm9maWxlVG9rZW4iOiIifQ.c2ln",
            "e30.eyJwcm9maWxlVG9rZW4iOjF9.c2ln",
        ] {
            assert!(uploaded(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(uploaded(&[0xff, 0xfe]).is_err());
    }
}
