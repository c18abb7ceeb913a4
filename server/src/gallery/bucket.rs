//! A bucket of profiles. A file is downloaded when it is read, and kept nowhere.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use share::s3::{self, BucketObject, is_key};
use tempfile::NamedTempFile;

use super::source::{ENTRIES, FileVersion, FoundFile, Listing, NotOpened, OpenedFile, ProfileSource, may_be_profile};

/// A list that is younger is not made again: a request for each 1,000 objects costs time and money.
const FRESH: Duration = Duration::from_secs(30);

/// Bytes of a request. Each has to come within the limit of one wait.
const PIECE_BYTES: u64 = 4 << 20;

/// A page counts as this number of [`ENTRIES`] at least: a list never takes requests without end.
const PAGE: usize = 100;

pub(super) struct BucketSource {
    bucket: s3::Bucket,
    files: TemporaryFiles,
}

impl BucketSource {
    pub(super) fn new(bucket: s3::Bucket) -> BucketSource {
        BucketSource {
            bucket,
            files: TemporaryFiles::default(),
        }
    }

    fn download(&self, key: &str, version: FileVersion, mut file: &File) -> Result<(), NotOpened> {
        let mut at = 0;
        while at < version.bytes {
            let end = version.bytes.min(at + PIECE_BYTES);
            let read = self.bucket.read(key, at..end, version.bytes);
            let (piece, etag) = read.map_err(|error| NotOpened {
                why: error.to_string(),
                is_passing: error.may_be_repeated(),
            })?;
            // All pieces are of one version.
            if mark(&etag) != version.mark {
                return Err("the file has changed: load the page again".to_owned().into());
            }
            let full = |error| format!("writing a temporary file failed: {error}; TMPDIR names another folder");
            file.write_all(&piece).map_err(full)?;
            at = end;
        }
        Ok(())
    }
}

impl ProfileSource for BucketSource {
    fn name(&self) -> String {
        self.bucket.for_people()
    }

    fn fresh(&self) -> Duration {
        FRESH
    }

    fn list(&self) -> Result<Listing, String> {
        let (mut files, mut seen, mut unusable, mut next) = (Vec::new(), 0, 0, None);
        loop {
            let page = self.bucket.list(next.as_deref()).map_err(|error| error.to_string())?;
            seen += page.objects.len().max(PAGE);
            for object in page.objects {
                match found(&self.bucket, object) {
                    Ok(found) => files.extend(found),
                    Err(NoAddress) => unusable += 1,
                }
            }
            next = page.next;
            if next.is_none() || seen >= ENTRIES {
                break;
            }
        }
        // A key that comes twice is one object.
        files.sort_by(|a: &FoundFile, b| a.key.cmp(&b.key));
        files.dedup_by(|a, b| a.key == b.key);
        let mut listing = Listing::of(files, &[(unusable, "objects have keys that can't be addresses")]);
        if next.is_some() {
            listing.notes.push(format!(
                "the bucket has more objects here than sprof looks at ({ENTRIES}): the rest was not looked at"
            ));
        }
        Ok(listing)
    }

    fn open(&self, found: &FoundFile) -> Result<OpenedFile, NotOpened> {
        let opened = self.files.new_file()?;
        let key = found.key.to_str().ok_or_else(|| "the key is not UTF-8".to_owned())?;
        self.download(&self.bucket.key(key), found.version, &opened.file)?;
        Ok(opened)
    }
}

/// The downloaded files that are open.
#[derive(Default)]
struct TemporaryFiles(Mutex<Vec<Weak<File>>>);

impl TemporaryFiles {
    /// Each file takes up to `--max-size` of the disk as long as a visitor reads it.
    const MOST: usize = 16;

    fn new_file(&self) -> Result<OpenedFile, NotOpened> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|file| file.strong_count() > 0);
        if all.len() >= Self::MOST {
            return Err(NotOpened {
                why: format!("{} files of the bucket are being read: try again later", Self::MOST),
                is_passing: true,
            });
        }
        let failed = |error| format!("making a temporary file failed: {error}; TMPDIR names another folder");
        let (file, path) = NamedTempFile::new().map_err(failed)?.into_parts();
        // Before it is filled: no name stays behind, whatever ends sprof.
        let opened = OpenedFile::temporary(file, path);
        all.push(Arc::downgrade(&opened.file));
        Ok(opened)
    }
}

/// The key of the object can't be a part of an address.
struct NoAddress;

/// A file that may be a profile; `None` for others.
fn found(bucket: &s3::Bucket, object: BucketObject) -> Result<Option<FoundFile>, NoAddress> {
    let Some(key) = bucket.name_of(&object.key) else {
        return Ok(None);
    };
    let path = Path::new(key);
    let is_hidden = key
        .split('/')
        .any(|part| part.starts_with('.') && !matches!(part, "." | ".."));
    if key.ends_with('/') || is_hidden || !path.file_name().is_some_and(may_be_profile) {
        return Ok(None);
    }
    if !is_key(key) {
        return Err(NoAddress);
    }
    let version = FileVersion {
        modified: object.modified.unwrap_or(SystemTime::UNIX_EPOCH),
        bytes: object.bytes,
        mark: mark(&object.etag),
    };
    Ok(Some(FoundFile::new(PathBuf::from(key), version)))
}

/// The ETag, which is different for another content. Lists of some servers have it without the quotes of the header.
fn mark(etag: &str) -> (u64, u64) {
    let hash = Sha256::digest(etag.trim_matches('"').as_bytes());
    let part = |at: usize| hash[at..at + 8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    (part(0), part(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visitors_that_read_slowly_fill_no_disk() {
        let files = TemporaryFiles::default();
        let mut open: Vec<OpenedFile> = (0..TemporaryFiles::MOST).map(|_| files.new_file().unwrap()).collect();
        let refusal = files.new_file().err().unwrap();
        assert!(refusal.is_passing && refusal.why.contains("try again"), "{refusal:?}");
        open.pop();
        assert!(files.new_file().is_ok());
    }

    #[test]
    fn an_etag_is_the_same_without_its_quotes() {
        assert_eq!(mark("\"5d41\""), mark("5d41"));
        assert_ne!(mark("5d41"), mark("5d42"));
    }
}
