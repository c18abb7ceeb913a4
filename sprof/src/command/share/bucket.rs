//! Shares a file through a bucket. A hash of the content is in the name, so a file that is shared again replaces
//! itself. Then sprof follows the signed link as the browser will.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::ControlFlow;
use std::time::Duration;

use profile::text::date::utc;
use profile::text::numbers::{bytes, count};
use recording::command::{own, quoted};
use sha2::{Digest, Sha256};
use share::s3::{Bucket, Link, MAX_BYTES};
use share::{SharedFolder, SharedObject, SharedProfile};

use super::done::ShareOutcome;
use super::shown::{MORE_TIME, ReadyUpload, now_ms, show_progress};
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Term;
use crate::terminal::style::Style;

/// Most letters of the program's name in the name of its file.
const PROGRAM: usize = 60;

pub(super) struct ToBucket {
    pub(super) bucket: Bucket,
    pub(super) ui: String,
    pub(super) expires: Duration,
    /// True if rows for databases are uploaded, which the UI does not open.
    pub(super) is_rows: bool,
    pub(super) command: &'static str,
}

impl ToBucket {
    /// Size of the largest file that is uploaded.
    pub(super) fn max_bytes(&self) -> u64 {
        MAX_BYTES
    }

    /// Who will be able to read the file, for the user.
    pub(super) fn readers(&self) -> String {
        let bucket = "everybody who may read the bucket can read it until it is deleted";
        match self.is_rows {
            true => bucket.to_owned(),
            false => format!(
                "everybody with the link can read it for {}; {bucket}",
                words(self.expires)
            ),
        }
    }

    /// Uploads the file.
    pub(super) fn share(
        &self,
        file: &File,
        (shown, start_ms): (ReadyUpload, f64),
        kept: &SharedFolder,
        interrupt: &Interrupt,
        term: &Term,
    ) -> Result<ShareOutcome, Failure> {
        let name = self.name(file, &shown.program, start_ms);
        let name = name.map_err(|error| Failure::failed(format_args!("reading what to upload failed: {error}")))?;
        let key = self.bucket.key(&name);
        let object = format!("{}/{key}", self.bucket.address());
        let link = (!self.is_rows).then(|| self.bucket.link(&key, self.expires));
        // Noted before the upload: even after a crash the user can find the file and delete it.
        let entry = kept.add(&self.shared(&key, &object, link.as_ref(), &shown));
        let entry = entry.map_err(|error| {
            let folder = kept.folder().display();
            format!("{object} could not be noted in {folder}: {error}. Nothing was shared")
        })?;
        if let Err(why) = self.put(&key, file, shown.bytes, interrupt, term) {
            // The note stays if it is unknown whether the server has the file.
            if why.is_nothing_there {
                let _ = std::fs::remove_file(entry);
            }
            return Err(Failure::failed(why.message));
        }
        let delete = format!("{} share --delete {}", own(), quoted(&object));
        term.line(format_args!(
            "shared as {}; to delete it: {}",
            term.style(Style::Link, &object),
            term.style(Style::Bold, &delete)
        ));
        let opens = link.as_ref().is_none_or(|link| self.opens(link, shown.bytes, term));
        let url = link
            .as_ref()
            .map(|link| format!("{}/from-url/{}/", self.ui, server::encode(&link.url)));
        Ok(ShareOutcome {
            link: url.unwrap_or_else(|| object.clone()),
            delete,
            server: self.bucket.place().0.to_owned(),
            object: Some(object),
            expires_ms: link.map(|link| link.expires_ms),
            opens,
            shown,
        })
    }

    /// `PROGRAM-DATE-HASH.json.gz`: sorts by program and day, and equal content has an equal name.
    fn name(&self, mut file: &File, program: &str, start_ms: f64) -> io::Result<String> {
        let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 16]);
        file.seek(SeekFrom::Start(0))?;
        loop {
            match file.read(&mut piece)? {
                0 => break,
                read => hash.update(&piece[..read]),
            }
        }
        let hash: String = hash
            .finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let plain = |c: char| match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') => c,
            _ => '-',
        };
        let program: String = program.chars().map(plain).take(PROGRAM).collect();
        let day = if start_ms > 0.0 { utc(start_ms) } else { String::new() };
        let day = day.split(' ').next().unwrap_or_default();
        // A file with a dot at its beginning is hidden.
        let parts = [program.trim_start_matches('.'), day, &hash];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let ending = if self.is_rows { "parquet" } else { "json.gz" };
        Ok(format!("{}.{ending}", parts.join("-")))
    }

    fn shared(&self, key: &str, object: &str, link: Option<&Link>, shown: &ReadyUpload) -> SharedProfile {
        let (endpoint, region, style) = self.bucket.place();
        SharedProfile {
            program: shown.program.clone(),
            bytes: shown.bytes,
            shared_ms: now_ms(),
            object: Some(SharedObject {
                url: self.bucket.object_url(key),
                endpoint: endpoint.to_owned(),
                region: region.to_owned(),
                style,
                expires_ms: link.map(|link| link.expires_ms),
            }),
            ..SharedProfile::new(object, &self.bucket.address(), key, "")
        }
    }

    fn put(&self, key: &str, file: &File, size: u64, interrupt: &Interrupt, term: &Term) -> Result<(), NotPut> {
        let kind = match self.is_rows {
            true => "application/vnd.apache.parquet",
            false => "application/gzip",
        };
        let done = self.bucket.put(key, (file, kind), |progress| {
            show_progress(progress, size, term);
            match interrupt.is_seen() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        term.erase_progress();
        let Err(error) = done else { return Ok(()) };
        let object = format!("{}/{key}", self.bucket.address());
        let is_nothing_there = !error.is_outcome_unknown();
        let mut message = match is_nothing_there {
            true => format!("{error}. Nothing was shared"),
            false => format!(
                "{error}. It is unknown whether the profile arrived. The same command stores it under the same name, and `{} share --delete {}` deletes it",
                own(),
                quoted(&object)
            ),
        };
        if error.is_time_out() && self.command == "share" {
            message = format!("{message}. {MORE_TIME}");
        }
        Err(NotPut {
            message,
            is_nothing_there,
        })
    }

    /// Follows the link as the browser will. False if it does not open; then a warning has the reason and what helps.
    fn opens(&self, link: &Link, size: u64, term: &Term) -> bool {
        let session = match link.is_temporary {
            true => ", and no longer than the session token of the credentials",
            false => "",
        };
        term.line(format_args!(
            "the link works until {}{session}; 7 days are the most that signed links have (--expires)",
            utc(link.expires_ms as f64)
        ));
        let Some(origin) = server::origin_of(&self.ui) else {
            return true;
        };
        let probe = match self.bucket.probe(link, &origin, size) {
            Ok(probe) => probe,
            Err(error) => {
                term.warning(format_args!(
                    "the profile is there, and its link does not work here: {error}"
                ));
                return false;
            }
        };
        if let Some(there) = probe.bytes.filter(|there| *there != size) {
            let (there, size) = (bytes(there as f64), bytes(size as f64));
            term.warning(format_args!(
                "the link leads to {there} instead of {size}: look at what stands in front of {}",
                self.bucket.place().0
            ));
            return false;
        }
        if !probe.is_allowed {
            term.warning(format_args!(
                "the link does not open yet: the bucket lets no page of {origin} read it (CORS: its reply has no Access-Control-Allow-Origin for that \
                 origin). This rule permits it; the command replaces the bucket's other rules, and some servers have a setting of their own instead:"
            ));
            term.always(self.cors_command(&origin));
        }
        probe.is_allowed
    }

    fn cors_command(&self, origin: &str) -> String {
        let endpoint = self.bucket.place().0;
        let rule = serde_json::json!({"CORSRules": [{"AllowedOrigins": [origin], "AllowedMethods": ["GET", "HEAD"], "AllowedHeaders": ["*"]}]});
        format!(
            "aws s3api put-bucket-cors --endpoint-url {} --bucket {} --cors-configuration {}",
            quoted(endpoint),
            quoted(self.bucket.address().trim_start_matches("s3://")),
            quoted(&rule.to_string())
        )
    }
}

/// Why a file was not uploaded.
struct NotPut {
    message: String,
    /// True if it is certain that the server does not have the file.
    is_nothing_there: bool,
}

/// `7 days`, `12 hours`
fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds.is_multiple_of(86_400) => count(seconds / 86_400, "day", "days"),
        seconds if seconds.is_multiple_of(3600) => count(seconds / 3600, "hour", "hours"),
        seconds if seconds.is_multiple_of(60) => count(seconds / 60, "minute", "minutes"),
        seconds => count(seconds, "second", "seconds"),
    }
}
