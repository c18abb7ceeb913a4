//! Folders of sources that lie elsewhere on this machine.

use std::path::{Path, PathBuf};

use names::source_path::resolved;

/// A folder of the debug info, and where it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMap {
    from: String,
    to: PathBuf,
}

/// `FROM=TO`, as options have it.
impl std::fmt::Display for PathMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.from, self.to.display())
    }
}

impl PathMap {
    /// `from` is a folder or a file as the debug info has it, also a relative one. `.` is the folder of all relative
    /// paths.
    pub fn new(from: &str, to: impl Into<PathBuf>) -> PathMap {
        let whole = from.trim_end_matches('/');
        PathMap {
            from: if whole.is_empty() { from } else { whole }.to_owned(),
            to: to.into(),
        }
    }

    /// The path of the file, and true if the map names this very file and not a folder. `None` if the file is in
    /// another folder, or its path leaves this one.
    pub(crate) fn apply(&self, file: &str) -> Option<(PathBuf, bool)> {
        let file = Path::new(file);
        let rest = match self.from.as_str() {
            "." if file.is_relative() => file,
            from => file.strip_prefix(from).ok()?,
        };
        match rest.to_str()? {
            "" => Some((self.to.clone(), true)),
            rest => Some((self.to.join(&*resolved(rest)?), false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::PathMap;

    #[test]
    fn mapped_paths_stay_in_their_folder() {
        let map = |from: &str, file: &str| PathMap::new(from, "/home/me/app").apply(file);
        let found = |path: &str| Some((PathBuf::from(path), false));
        assert_eq!(map("/build/app", "/build/app/src/a.rs"), found("/home/me/app/src/a.rs"));
        assert_eq!(map("/build/app/", "/build/app/src/../b.rs"), found("/home/me/app/b.rs"));
        assert_eq!(map("/", "/build/a.rs"), found("/home/me/app/build/a.rs"));
        assert_eq!(map("src", "src/a.rs"), found("/home/me/app/a.rs"));
        assert_eq!(map(".", "src/a.rs"), found("/home/me/app/src/a.rs"));
        assert_eq!(map(".", "/src/a.rs"), None);
        assert_eq!(map("/build/app", "/build/application/a.rs"), None);
        assert_eq!(map("/build/app", "/build/app/../../etc/passwd"), None);
        assert_eq!(
            map("/build/app", "/build/app"),
            Some((PathBuf::from("/home/me/app"), true))
        );
    }
}
