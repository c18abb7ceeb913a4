//! Source files, only those that the debug info of an address names.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::error::SymbolError;
use crate::symbolicator::Entry;
use crate::{ModuleKey, Symbolicator};

/// Largest source file in bytes. Generated code reaches several MB; the UI can't show more.
const MAX_BYTES: u64 = 32 << 20;

/// Why there is no source text.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// The look-up of the address failed.
    #[error(transparent)]
    Symbols(#[from] SymbolError),
    /// The debug info of the address does not name the file.
    #[error("the debug info of {module} at {address:#x} does not name {file}; only files that it names are served")]
    NotNamed {
        /// Debug name of the module.
        module: String,
        /// Relative address.
        address: u64,
        /// The file asked for.
        file: String,
    },
    /// The file is not where the debug info says.
    #[error("could not read the source file {}: {reason}", .path.display())]
    Unreadable {
        /// The path tried.
        path: PathBuf,
        /// Why, and the next step where there is one.
        reason: String,
    },
}

impl Symbolicator {
    /// The text of `file` (a path from a look-up), if the debug info of this relative address names it.
    pub fn source(&self, key: &ModuleKey, address: u64, file: &str) -> Result<String, SourceError> {
        self.source_of(&*self.find(key)?, address, file)
    }

    fn source_of(&self, entry: &Entry, address: u64, file: &str) -> Result<String, SourceError> {
        let infos = self.lookup_entry(entry, &[address])?;
        let named = infos
            .iter()
            .flat_map(|info| &info.frames)
            .any(|frame| frame.file.as_deref() == Some(file));
        if !named {
            return Err(SourceError::NotNamed {
                module: entry.module.name(),
                address,
                file: file.to_owned(),
            });
        }
        match rust_library_path(file) {
            Some((commit, path)) => read(&installed_rust_source(file, commit, &path)?),
            None => read(Path::new(file)),
        }
    }
}

fn unreadable(path: &Path, reason: impl ToString) -> SourceError {
    SourceError::Unreadable {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn read(path: &Path) -> Result<String, SourceError> {
    if !path.is_absolute() {
        return Err(unreadable(
            path,
            "the debug info has no folder for it; build without path remapping to see it",
        ));
    }
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unreadable(
            path,
            "it is not on this machine; put the sources there, or look at the profile where the program was built",
        ),
        _ => unreadable(path, error),
    })?;
    // Opening a FIFO waits for a writer; a device never ends.
    if !metadata.is_file() {
        return Err(unreadable(path, "not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(
            path,
            format_args!("larger than {MAX_BYTES} bytes; open it in an editor"),
        ));
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// `/rustc/<commit>/library/core/src/a.rs` -> (commit, `library/core/src/a.rs`). The debug info of the standard library has such paths;
/// the files lie elsewhere on the user's machine.
fn rust_library_path(file: &str) -> Option<(&str, PathBuf)> {
    let (commit, path) = file.strip_prefix("/rustc/")?.split_once('/')?;
    let plain = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut out = PathBuf::new();
    // `library/std/src/../../backtrace/src/lib.rs` exists; a path that leaves the sources is refused.
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => out.push(part),
            Component::ParentDir if out.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    (plain && out.starts_with("library")).then_some((commit, out))
}

/// Finds the file in a toolchain of rustup that was built from this very commit and has the component rust-src.
fn installed_rust_source(file: &str, commit: &str, path: &Path) -> Result<PathBuf, SourceError> {
    let home = std::env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".rustup")));
    let toolchains = home.map(|home| home.join("toolchains"));
    let mut same_commit = None;
    for entry in toolchains
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .flatten()
    {
        let rustlib = entry.path().join("lib/rustlib");
        if !built_from(&rustlib, commit) {
            continue;
        }
        let source = rustlib.join("src/rust").join(path);
        if source.is_file() {
            return Ok(source);
        }
        same_commit = Some(entry.file_name().to_string_lossy().into_owned());
    }
    let reason = match same_commit {
        Some(toolchain) => format!(
            "toolchain {toolchain} has it, but not the sources; run `rustup component add rust-src --toolchain {toolchain}`"
        ),
        None => format!(
            "no installed toolchain was built from Rust commit {commit}; install the one that built the program, with \
             `rustup toolchain install VERSION --component rust-src`"
        ),
    };
    Err(unreadable(Path::new(file), reason))
}

/// The manifest that rustup keeps with a toolchain has the commits of its components.
fn built_from(rustlib: &Path, commit: &str) -> bool {
    const MAX_MANIFEST_BYTES: u64 = 16 << 20;
    let Ok(file) = std::fs::File::open(rustlib.join("multirust-channel-manifest.toml")) else {
        return false;
    };
    let mut text = Vec::new();
    if file.take(MAX_MANIFEST_BYTES).read_to_end(&mut text).is_err() {
        return false;
    }
    memchr::memmem::find(&text, format!("git_commit_hash = \"{commit}\"").as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::rust_library_path;

    #[test]
    fn standard_library_paths_do_not_climb_out() {
        let commit = "59807616e1fa2540724bfbac14d7976d7e4a3860";
        let path = |rest: &str| rust_library_path(&format!("/rustc/{commit}/{rest}")).map(|(_, path)| path);
        assert_eq!(
            path("library/core/src/a.rs").unwrap().to_str(),
            Some("library/core/src/a.rs")
        );
        assert_eq!(
            path("library/std/src/../../b/c.rs").unwrap().to_str(),
            Some("library/b/c.rs")
        );
        assert_eq!(path("library/../../../../etc/passwd"), None);
        assert_eq!(path("library/../etc/passwd"), None);
        assert_eq!(rust_library_path("/rustc/../x/library/a.rs"), None);
    }
}
