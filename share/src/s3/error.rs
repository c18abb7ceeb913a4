//! What a refusal means: the server's code and words, and the next step.

use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::fmt::rfc2822::DateTimeParser;

use super::xml;
use crate::http::{self, FailureReason, Reply};

/// A clock that differs by less is right enough (Amazon refuses from 15 minutes on).
const CLOCK: Duration = Duration::from_secs(5 * 60);
/// Characters of a code; the longest of Amazon's has 38.
const MAX_CODE: usize = 48;

/// Why something was not done. It holds no secret.
#[derive(Debug)]
pub struct BucketError {
    cause: Cause,
    /// The server may have acted on this attempt or on an earlier one.
    is_outcome_unknown: bool,
}

#[derive(Debug)]
enum Cause {
    Http {
        error: Box<http::HttpError>,
        /// What helps.
        hint: Option<Box<str>>,
    },
    /// A whole sentence.
    Other(String),
}

/// What a request is about.
pub(super) struct BucketAccess<'a> {
    pub(super) bucket: &'a str,
    pub(super) endpoint: &'a str,
    pub(super) region: &'a str,
    /// Where the credentials are from.
    pub(super) source: &'a str,
    /// What they must permit.
    pub(super) permission: &'a str,
}

impl BucketError {
    pub(super) fn of(mut error: http::HttpError, place: &BucketAccess<'_>) -> BucketError {
        let is_outcome_unknown = error.is_outcome_unknown();
        let Some(reply) = error.reply.take() else {
            return BucketError {
                cause: Cause::Http {
                    error: error.into(),
                    hint: None,
                },
                is_outcome_unknown,
            };
        };
        let text = String::from_utf8_lossy(&reply.body);
        let refusal = xml::refusal(&text).unwrap_or_default();
        // Nothing that could be a secret: codes are letters.
        let code = Some(refusal.code.as_str())
            .filter(|code| (1..=MAX_CODE).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphabetic()));
        if let (Some(code), FailureReason::Status(status, _)) = (code, &error.reason) {
            let said = reply.said(&refusal.message);
            error.reason = FailureReason::Status(*status, format!("{code}: {said}"));
        }
        let region = reply.header("x-amz-bucket-region").unwrap_or(&refusal.region);
        let hint = hint(code.unwrap_or_default(), &reply, region, place);
        let hint = hint.map(Into::into);
        BucketError {
            cause: Cause::Http {
                error: error.into(),
                hint,
            },
            is_outcome_unknown,
        }
    }

    /// Nothing was sent, or the reply is not as it should be. `why` is a whole sentence.
    pub(super) fn other(why: String) -> BucketError {
        BucketError {
            cause: Cause::Other(why),
            is_outcome_unknown: false,
        }
    }

    /// The error after several attempts; one of them may have succeeded.
    pub(super) fn after(self, is_outcome_unknown: bool) -> BucketError {
        BucketError {
            is_outcome_unknown: self.is_outcome_unknown || is_outcome_unknown,
            ..self
        }
    }

    /// True if the same request may have more luck soon. It has the same effect.
    pub fn may_be_repeated(&self) -> bool {
        let Cause::Http { error, .. } = &self.cause else {
            return false;
        };
        match error.reason {
            FailureReason::Refused
            | FailureReason::Unreachable(_)
            | FailureReason::Closed
            | FailureReason::TimedOut(..) => true,
            FailureReason::Status(status, _) => matches!(status, 408 | 429 | 500..),
            _ => false,
        }
    }

    /// True if more time may help.
    pub fn is_time_out(&self) -> bool {
        matches!(&self.cause, Cause::Http { error, .. } if error.is_time_out())
    }

    /// True if the server may have acted on the request.
    pub fn is_outcome_unknown(&self) -> bool {
        self.is_outcome_unknown
    }
}

/// The next step, by the server's code and by its clock.
fn hint(code: &str, reply: &Reply, region: &str, place: &BucketAccess<'_>) -> Option<String> {
    let source = place.source;
    if let Some(hint) = (400..=403).contains(&reply.status).then(|| of_clocks(reply)).flatten() {
        return Some(hint);
    }
    let is_region = region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && region.len() <= 40;
    Some(match code {
        "NoSuchBucket" => format!(
            "There is no bucket {} at {}: check its name and --s3-endpoint. sprof makes no bucket",
            place.bucket, place.endpoint
        ),
        "RequestTimeTooSkewed" => "Set this machine's clock".to_owned(),
        "InvalidAccessKeyId" => format!("The access key is not known there. It is from {source}"),
        "SignatureDoesNotMatch" => {
            format!("The secret key is wrong ({source}), or something on the way changes requests")
        }
        "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => {
            format!("The session token is no longer valid. It is from {source}: get new credentials")
        }
        "PermanentRedirect"
        | "TemporaryRedirect"
        | "AuthorizationHeaderMalformed"
        | "AuthorizationQueryParametersError"
        | "IllegalLocationConstraintException" => match region {
            "" => format!(
                "The region may be wrong: sprof used {}; --s3-region names another one",
                place.region
            ),
            region if is_region => format!("The bucket is in the region {region}: use --s3-region {region}"),
            _ => return None,
        },
        _ if reply.status == 403 => format!("The credentials ({source}) must permit {}", place.permission),
        _ => return None,
    })
}

/// A signature holds for minutes around the time in it.
fn of_clocks(reply: &Reply) -> Option<String> {
    let date = DateTimeParser::new().parse_timestamp(reply.header("date")?).ok()?;
    let (server, now) = (SystemTime::from(date), SystemTime::now());
    let (off, word) = match now.duration_since(server) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    let minutes = off.as_secs() / 60;
    (off > CLOCK).then(|| format!("This machine's clock is {minutes} minutes {word} the server's: set it"))
}

impl fmt::Display for BucketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Http { error, hint } => {
                error.fmt(f)?;
                hint.as_ref().map_or(Ok(()), |hint| write!(f, ". {hint}"))
            }
            Cause::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BucketError {}
