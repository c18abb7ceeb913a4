//! What was shared, in the user's data folder: one file each, so that several sprofs at once disturb nobody. A store
//! gives a key to delete a profile; a bucket needs the user's own credentials for that, and no secret of it is kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

use crate::files::{free_name, take_name, write_private};
use crate::s3::AddressStyle;

/// Increases when a field changes its meaning.
const VERSION: u32 = 1;

/// A shared profile. Its `Debug` has no key.
#[derive(Clone, Deserialize, Serialize)]
pub struct SharedProfile {
    /// Version of the file.
    pub version: u32,
    /// Where people see the profile.
    pub link: String,
    /// The store's API, or `s3://BUCKET`.
    pub server: String,
    /// The profile's name in the store, or its key in the bucket.
    pub name: String,
    /// The key to delete it; empty for a bucket.
    pub key: String,
    /// The program that was recorded.
    pub program: String,
    /// Unix time, ms.
    pub shared_ms: u64,
    /// Size of the upload.
    pub bytes: u64,
    /// The object, if the profile is in a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<SharedObject>,
}

/// An object of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SharedObject {
    /// Its address without a signature.
    pub url: String,
    /// Address of the bucket's server.
    pub endpoint: String,
    /// The bucket's region.
    pub region: String,
    /// Where the bucket's name stands in addresses.
    pub style: AddressStyle,
    /// Unix time, ms, at which the link ends; `None` if there is no link.
    pub expires_ms: Option<u64>,
}

impl SharedProfile {
    /// A profile that was shared now, without what is known of it later.
    pub fn new(link: &str, server: &str, name: &str, key: &str) -> SharedProfile {
        SharedProfile {
            version: VERSION,
            link: link.to_owned(),
            server: server.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
            program: String::new(),
            shared_ms: 0,
            bytes: 0,
            object: None,
        }
    }
}

impl std::fmt::Debug for SharedProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({})", self.link)
    }
}

/// What the folder of the keys holds.
#[derive(Debug, Default)]
pub struct SharedProfiles {
    /// Shared profiles with the files of their keys, oldest first.
    pub all: Vec<(PathBuf, SharedProfile)>,
    /// Files that do not hold a key of this version.
    pub unread: Vec<PathBuf>,
}

/// The folder of the keys.
#[derive(Debug)]
pub struct SharedFolder {
    folder: PathBuf,
}

impl SharedFolder {
    /// The user's folder: `$XDG_DATA_HOME/sprof/shared`, else `~/.local/share/sprof/shared` (XDG Base Directory
    /// Specification).
    ///
    /// # Errors
    ///
    /// Neither XDG_DATA_HOME nor HOME names a folder.
    pub fn of_user() -> Result<SharedFolder, String> {
        let folder = |name: &str| Some(PathBuf::from(std::env::var_os(name)?)).filter(|folder| folder.is_absolute());
        let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")));
        let data = data.ok_or("there is no folder for the key to delete it again: set XDG_DATA_HOME or HOME")?;
        Ok(SharedFolder {
            folder: data.join("sprof/shared"),
        })
    }

    /// The folder, for messages.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Checks that a key can be kept, by keeping something. Call it before a profile leaves: a lost key can't be made
    /// again.
    ///
    /// # Errors
    ///
    /// The folder can't be made or written.
    pub fn prepare(&self) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = write_private(&self.folder, "trial", &[b' '; 4096])?;
        fs::remove_file(path)
    }

    /// Keeps the key of a profile, or the address of its object. Returns the path of the file.
    ///
    /// # Errors
    ///
    /// The file can't be written.
    pub fn add(&self, shared: &SharedProfile) -> io::Result<PathBuf> {
        SharedFolder::write(&self.folder, shared)
    }

    /// Writes the key into another folder, where no list finds it. Returns the path of the file.
    ///
    /// # Errors
    ///
    /// The file can't be written.
    pub fn write(folder: &Path, shared: &SharedProfile) -> io::Result<PathBuf> {
        let bytes = serde_json::to_vec(shared)?;
        let name = shared.name.rsplit('/').next().unwrap_or_default();
        write_private(folder, &format!("sprof-shared-{name}"), &bytes)
    }

    /// Renames the file of a key to a name that no list finds. Returns its new path.
    ///
    /// # Errors
    ///
    /// The file can't be renamed.
    pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
        let name = |number: u32| match number {
            0 => path.with_extension("gone"),
            number => path.with_extension(format!("{number}.gone")),
        };
        let aside = free_name(0, name, |name| take_name(path, name))?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(aside)
    }

    /// All profiles in the folder, oldest first, and the files that could not be read.
    ///
    /// # Errors
    ///
    /// The folder can't be read. A folder that does not exist is empty.
    pub fn all(&self) -> io::Result<SharedProfiles> {
        let mut found = SharedProfiles::default();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            let shared = fs::read(&path)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<SharedProfile>(&bytes).ok());
            match shared.filter(|shared| shared.version == VERSION) {
                Some(shared) => found.all.push((path, shared)),
                None => found.unread.push(path),
            }
        }
        let order = |shared: &SharedProfile| (shared.shared_ms, shared.link.clone());
        found.all.sort_by_cached_key(|(_, shared)| order(shared));
        Ok(found)
    }
}

/// True if a link leads to a shared profile. A link from a browser has the state of the UI after the name. The link to
/// an object of a bucket has the object's address and a signature in it.
pub fn named_in(shared: &SharedProfile, link: &str) -> bool {
    if let Some(object) = &shared.object {
        let of_ui = link
            .split_once("/from-url/")
            .and_then(|(_, rest)| rest.split('/').next());
        let signed = percent_decode_str(of_ui.unwrap_or(link)).decode_utf8_lossy();
        let url = signed.split('?').next().unwrap_or_default();
        // The object's own address is percent-encoded, and so is what the UI reads.
        return link == shared.link || url == object.url || link.split('?').next() == Some(&object.url);
    }
    let rest = link.strip_prefix(shared.link.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

/// A link for people: a signature stands in the query, and in the address of the UI the query is percent-encoded.
pub fn unsigned(link: &str) -> String {
    let lower = link.to_ascii_lowercase();
    let ends = ["?", "%3f"].iter().filter_map(|end| lower.find(end));
    match ends.min() {
        Some(end) => format!("{}?...", &link[..end]),
        None => link.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_from_the_browser_is_that_of_the_profile() {
        let shared = SharedProfile::new(
            "https://ui.example.org/public/abc",
            "https://api.example.org",
            "abc",
            "key",
        );
        for link in ["", "/", "/calltree/?thread=0", "?v=6"] {
            assert!(
                named_in(&shared, &format!("https://ui.example.org/public/abc{link}")),
                "{link}"
            );
        }
        for other in [
            "",
            "https://ui.example.org/public/abcd",
            "https://other.example.org/public/abc",
            "abc",
        ] {
            assert!(!named_in(&shared, other), "{other}");
        }
    }

    #[test]
    fn a_signed_link_is_that_of_its_object() {
        let url = "https://b.s3.eu-west-1.amazonaws.com/x/a%20b.json.gz";
        let shared = SharedProfile {
            object: Some(SharedObject {
                url: url.into(),
                endpoint: "https://s3.eu-west-1.amazonaws.com".into(),
                region: "eu-west-1".into(),
                style: AddressStyle::VirtualHost,
                expires_ms: Some(1),
            }),
            ..SharedProfile::new("s3://b/x/a b.json.gz", "s3://b", "x/a b.json.gz", "")
        };
        let encoded = "https%3A%2F%2Fb.s3.eu-west-1.amazonaws.com%2Fx%2Fa%2520b.json.gz%3FX-Amz-Signature%3Dabc";
        for link in [
            "s3://b/x/a b.json.gz",
            url,
            &format!("{url}?X-Amz-Signature=abc"),
            &format!("https://ui.example.org/from-url/{encoded}/"),
            &format!("https://ui.example.org/from-url/{encoded}/calltree/?v=11"),
        ] {
            assert!(named_in(&shared, link), "{link}");
        }
        for (signed, shown) in [
            (format!("{url}?X-Amz-Signature=abc"), format!("{url}?...")),
            (
                format!("https://u/from-url/{encoded}/"),
                "https://u/from-url/https%3A%2F%2Fb.s3.eu-west-1.amazonaws.com%2Fx%2Fa%2520b.json.gz?...".to_owned(),
            ),
            ("https://u/public/x".to_owned(), "https://u/public/x".to_owned()),
        ] {
            assert_eq!(unsigned(&signed), shown);
        }
        for other in [
            "",
            "s3://b/x",
            "https://ui.example.org/public/x",
            &format!("{url}2"),
            &encoded.replace("%2520", ""),
        ] {
            assert!(!named_in(&shared, other), "{other}");
        }
        let kept = serde_json::to_string(&shared).unwrap();
        assert_eq!(
            serde_json::from_str::<SharedProfile>(&kept).unwrap().object,
            shared.object
        );
    }

    #[test]
    fn keys_are_for_their_user_and_come_back_in_order() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let kept = SharedFolder {
            folder: folder.path().join("sprof/shared"),
        };
        assert!(kept.all().unwrap().all.is_empty());
        kept.prepare().unwrap();
        for (name, shared_ms) in [("b", 2), ("a", 1), ("b", 3)] {
            let shared = SharedProfile {
                shared_ms,
                ..SharedProfile::new("https://u/public/x", "https://a", name, "key")
            };
            assert!(!format!("{shared:?}").contains("key"));
            kept.add(&shared).unwrap();
        }
        fs::write(kept.folder().join("cut.json"), "{").unwrap();
        let SharedProfiles { all, unread } = kept.all().unwrap();
        let times: Vec<u64> = all.iter().map(|(_, shared)| shared.shared_ms).collect();
        assert_eq!((times, unread.len()), (vec![1, 2, 3], 1));
        for (path, _) in &all {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let mode = fs::metadata(kept.folder()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
