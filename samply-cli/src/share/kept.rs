//! The keys of shared profiles, in the user's data folder: one file each, so that several sprofs at once disturb nobody.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::output::{free_name, take_name, write_private};

/// Increases when a field changes its meaning.
const VERSION: u32 = 1;

/// A shared profile. Its `Debug` has no key.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Shared {
    pub(crate) version: u32,
    pub(crate) link: String,
    /// The store's API.
    pub(crate) server: String,
    /// The profile's name in the store.
    pub(crate) name: String,
    /// The key to delete it.
    pub(crate) key: String,
    pub(crate) program: String,
    /// Unix time, ms.
    pub(crate) shared_ms: u64,
    /// Size of the upload.
    pub(crate) bytes: u64,
}

impl Shared {
    pub(crate) fn new(link: &str, server: &str, name: &str, key: &str) -> Shared {
        Shared {
            version: VERSION,
            link: link.to_owned(),
            server: server.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
            program: String::new(),
            shared_ms: 0,
            bytes: 0,
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({})", self.link)
    }
}

/// What the folder of the keys holds.
#[derive(Debug, Default)]
pub(crate) struct Everything {
    /// Shared profiles with the files of their keys, oldest first.
    pub(crate) all: Vec<(PathBuf, Shared)>,
    /// Files that are no keys of this version.
    pub(crate) unread: Vec<PathBuf>,
}

/// The folder of the keys.
#[derive(Debug)]
pub(crate) struct Kept {
    folder: PathBuf,
}

impl Kept {
    /// `$XDG_DATA_HOME/sprof/shared`, else `~/.local/share/sprof/shared` (XDG Base Directory Specification).
    pub(crate) fn of_user() -> Result<Kept, String> {
        let folder = |name: &str| Some(PathBuf::from(std::env::var_os(name)?)).filter(|folder| folder.is_absolute());
        let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")));
        let data = data.ok_or("there is no folder for the key to delete it again: set XDG_DATA_HOME or HOME")?;
        Ok(Kept {
            folder: data.join("sprof/shared"),
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Checks that a key can be kept, by keeping something. Before a profile leaves: a key that is lost can't be had again.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = write_private(&self.folder, "trial", &[b' '; 4096])?;
        fs::remove_file(path)
    }

    /// Keeps the key of a profile.
    pub(crate) fn add(&self, shared: &Shared) -> io::Result<()> {
        Kept::write(&self.folder, shared).map(drop)
    }

    /// Writes the key into another folder, where no list finds it.
    pub(crate) fn write(folder: &Path, shared: &Shared) -> io::Result<PathBuf> {
        let bytes = serde_json::to_vec(shared)?;
        write_private(folder, &format!("sprof-shared-{}", shared.name), &bytes)
    }

    /// Renames the file of a key to one that no list finds. Gives its new path.
    pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
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

    /// All that is in the folder.
    pub(crate) fn all(&self) -> io::Result<Everything> {
        let mut found = Everything::default();
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
                .and_then(|bytes| serde_json::from_slice::<Shared>(&bytes).ok());
            match shared.filter(|shared| shared.version == VERSION) {
                Some(shared) => found.all.push((path, shared)),
                None => found.unread.push(path),
            }
        }
        let order = |shared: &Shared| (shared.shared_ms, shared.link.clone());
        found.all.sort_by_cached_key(|(_, shared)| order(shared));
        Ok(found)
    }
}

/// True if a link is that of a shared profile. A link from a browser has the state of the UI after the name.
pub(crate) fn named_in(shared: &Shared, link: &str) -> bool {
    let rest = link.strip_prefix(shared.link.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_from_the_browser_is_that_of_the_profile() {
        let shared = Shared::new(
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
    fn keys_are_for_their_user_and_come_back_in_order() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept {
            folder: folder.path().join("sprof/shared"),
        };
        assert!(kept.all().unwrap().all.is_empty());
        kept.prepare().unwrap();
        for (name, shared_ms) in [("b", 2), ("a", 1), ("b", 3)] {
            let shared = Shared {
                shared_ms,
                ..Shared::new("https://u/public/x", "https://a", name, "key")
            };
            assert!(!format!("{shared:?}").contains("key"));
            kept.add(&shared).unwrap();
        }
        fs::write(kept.folder().join("cut.json"), "{").unwrap();
        let Everything { all, unread } = kept.all().unwrap();
        let times: Vec<u64> = all.iter().map(|(_, shared)| shared.shared_ms).collect();
        assert_eq!((times, unread.len()), (vec![1, 2, 3], 1));
        for (path, _) in &all {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let mode = fs::metadata(kept.folder()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
