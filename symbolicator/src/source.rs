//! Source files, only those that the debug info of an address names.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use recording::symbol::SymbolSource;

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
    /// The profile has the file's name, and the debug info that has it is not on this machine.
    #[error(
        "the debug info of {module}, which names {file}, was not found; give its folder with --symbol-dir, or download it with --debuginfod"
    )]
    NoDebugInfo {
        /// Debug name of the module.
        module: String,
        /// The file asked for.
        file: String,
    },
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
        self.source_of(&*self.find(key)?, address, file, read)
    }

    /// The same for a profile that others get. Debug info may name any file: only what looks like a source is given, and to root only what all
    /// users may read.
    pub fn source_to_embed(&self, key: &ModuleKey, address: u64, file: &str) -> Result<String, SourceError> {
        self.source_of(&*self.find(key)?, address, file, read_to_embed)
    }

    fn source_of(
        &self,
        entry: &Entry,
        address: u64,
        file: &str,
        read: fn(&Path) -> Result<String, SourceError>,
    ) -> Result<String, SourceError> {
        let infos = self.lookup_entry(entry, &[address])?;
        let named = infos
            .iter()
            .flat_map(|info| &info.frames)
            .any(|frame| frame.file.as_deref() == Some(file));
        let source = self.looked_up_in(&entry.module);
        if !named && matches!(source, SymbolSource::Files { debug_info: false, .. }) {
            return Err(SourceError::NoDebugInfo {
                module: entry.module.name(),
                file: file.to_owned(),
            });
        }
        if !named {
            return Err(SourceError::NotNamed {
                module: entry.module.name(),
                address,
                file: file.to_owned(),
            });
        }
        if let Some(mapped) = self.options().path_maps.iter().find_map(|map| map.apply(file)) {
            return read(&mapped);
        }
        let local = match rust_library_path(file) {
            Some((commit, path)) => {
                installed_rust_source(file, commit, &path, rustup_home()).and_then(|path| read(&path))
            }
            None => read(Path::new(file)),
        };
        let local = local.or_else(|missing| read_crate_of_std(file, read).unwrap_or(Err(missing)));
        let servers = (self.options().debuginfod.as_ref()).filter(|_| Path::new(file).is_absolute());
        let download = || read(&servers?.source(entry.module.build_id.as_ref()?, file)?).ok();
        local.or_else(|missing| download().ok_or(missing))
    }
}

/// A folder of the debug info, and where it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMap {
    from: String,
    to: PathBuf,
}

impl PathMap {
    /// `from` is a folder or a file as the debug info has it, also a relative one; `.` is that of all relative ones.
    pub fn new(from: &str, to: impl Into<PathBuf>) -> PathMap {
        let whole = from.trim_end_matches('/');
        PathMap {
            from: if whole.is_empty() { from } else { whole }.to_owned(),
            to: to.into(),
        }
    }

    /// `None` if the file is in another folder, or its path leaves this one.
    fn apply(&self, file: &str) -> Option<PathBuf> {
        let file = Path::new(file);
        let rest = match self.from.as_str() {
            "." if file.is_relative() => file,
            from => file.strip_prefix(from).ok()?,
        };
        let mut path = self.to.clone();
        path.extend(resolved(rest)?.components());
        Some(path)
    }
}

/// The path without `.` and `..`; `None` if it leaves its folder.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => out.push(part),
            Component::ParentDir if out.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(out)
}

fn unreadable(path: &Path, reason: impl ToString) -> SourceError {
    SourceError::Unreadable {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// What names of source files end in. Headers of C++ have no ending.
const SOURCE_ENDINGS: &[&str] = &[
    "adb", "ads", "asm", "c", "cc", "cjs", "cpp", "cr", "cu", "cuh", "cxx", "d", "def", "f", "f90", "go", "h", "hh",
    "hpp", "hs", "hxx", "inc", "inl", "ipp", "java", "js", "jsx", "kt", "l", "m", "mjs", "ml", "mm", "nim", "pas",
    "py", "rs", "s", "S", "scala", "swift", "tcc", "td", "ts", "tsx", "y", "zig",
];

fn read_to_embed(path: &Path) -> Result<String, SourceError> {
    if !path.is_absolute() {
        return read(path);
    }
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let refused = |why: &str| Err(unreadable(path, format_args!("{why}; it is not put into a profile")));
    let is_source = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| SOURCE_ENDINGS.contains(&ending))
            || ending.is_none() && path.to_string_lossy().contains("/include/c++/")
    };
    if !is_source(path) || !is_source(&real) || ["/proc", "/sys", "/dev"].iter().any(|folder| real.starts_with(folder))
    {
        return refused("by its name it is no source file");
    }
    let is_open = |metadata: std::fs::Metadata| metadata.mode() & 0o004 != 0;
    if rustix::process::geteuid().is_root() && std::fs::metadata(&real).is_ok_and(|metadata| !is_open(metadata)) {
        return refused("not all users may read it");
    }
    match String::from_utf8(read_bytes(&real)?) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => refused("it holds no text"),
    }
}

fn read(path: &Path) -> Result<String, SourceError> {
    let bytes = read_bytes(path)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, SourceError> {
    if !path.is_absolute() {
        let text = path.to_string_lossy();
        let reason = match text.split_once(':').filter(|(scheme, _)| *scheme == "node") {
            Some(_) => "it is a script inside of node, and no file",
            None => "the debug info has a relative path; give the folder of these sources with --path-map .=FOLDER",
        };
        return Err(unreadable(path, reason));
    }
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unreadable(
            path,
            "it is not on this machine; say where its folder is with --path-map FROM=TO, or look at the profile where the program was built",
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
    Ok(bytes)
}

/// A source file of Rust's library: `/rustc/<commit>/library/core/src/a.rs` -> (commit, `library/core/src/a.rs`). The debug info of the standard library has such paths;
/// the files lie elsewhere on the user's machine.
pub fn rust_library_path(file: &str) -> Option<(&str, PathBuf)> {
    let (commit, path) = file.strip_prefix("/rustc/")?.split_once('/')?;
    let plain = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    // `library/std/src/../../backtrace/src/lib.rs` exists; a path that leaves the sources is refused.
    let out = resolved(Path::new(path))?;
    (plain && out.starts_with("library")).then_some((commit, out))
}

/// `/rust/deps/hashbrown-0.16.1/src/map.rs`: a crate that Rust's standard library is built with. Where cargo has downloaded the same version, its
/// files are the same. `None` for other paths.
fn read_crate_of_std(
    file: &str,
    read: fn(&Path) -> Result<String, SourceError>,
) -> Option<Result<String, SourceError>> {
    let path = resolved(Path::new(file.strip_prefix("/rust/deps/")?))?;
    let package = path.components().next()?.as_os_str().to_string_lossy().into_owned();
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok());
    let mut copies = registries
        .into_iter()
        .flatten()
        .flatten()
        .map(|registry| registry.path().join(&path));
    Some(match copies.find(|copy| copy.is_file()) {
        Some(copy) => read(&copy),
        None => Err(unreadable(
            Path::new(file),
            format_args!(
                "{package} is a crate that Rust's standard library is built with; download it and give --path-map /rust/deps/{package}=FOLDER"
            ),
        )),
    })
}

fn rustup_home() -> Option<PathBuf> {
    let named = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".rustup")))
}

/// Finds the file in a toolchain of rustup that was built from this very commit and has the component rust-src.
fn installed_rust_source(
    file: &str,
    commit: &str,
    path: &Path,
    rustup_home: Option<PathBuf>,
) -> Result<PathBuf, SourceError> {
    let toolchains = rustup_home.and_then(|home| std::fs::read_dir(home.join("toolchains")).ok());
    let mut same_commit = None;
    for entry in toolchains.into_iter().flatten().flatten() {
        let rustlib = entry.path().join("lib/rustlib");
        let Some(version) = built_from(&rustlib, commit) else {
            continue;
        };
        let source = rustlib.join("src/rust").join(path);
        if source.is_file() {
            return Ok(source);
        }
        same_commit = Some((entry.file_name().to_string_lossy().into_owned(), version));
    }
    let reason = match same_commit {
        Some((toolchain, version)) => format!(
            "toolchain {toolchain} (Rust {version}) was built from this commit, but its sources are not installed; run `rustup component add rust-src --toolchain \
             {toolchain}`"
        ),
        None => format!(
            "no installed toolchain was built from Rust commit {commit}; install the one that built the program, with \
             `rustup toolchain install VERSION --component rust-src`"
        ),
    };
    Err(unreadable(Path::new(file), reason))
}

/// The version of a toolchain that was built from this commit. The manifest that rustup keeps with a toolchain has the version of each
/// component, with the beginning of the commit: `version = "1.95.0 (59807616e 2026-04-14)"`.
fn built_from(rustlib: &Path, commit: &str) -> Option<String> {
    const MAX_MANIFEST_BYTES: u64 = 16 << 20;
    /// Shorter beginnings are of several commits.
    const MIN_DIGITS: usize = 7;
    let file = std::fs::File::open(rustlib.join("multirust-channel-manifest.toml")).ok()?;
    let lines = BufReader::new(file.take(MAX_MANIFEST_BYTES))
        .lines()
        .map_while(Result::ok);
    let mut in_rustc = false;
    for line in lines {
        if line.starts_with('[') {
            in_rustc = line == "[pkg.rustc]";
            continue;
        }
        if let Some(version) = line.strip_prefix("version = \"").filter(|_| in_rustc) {
            let (version, rest) = version.split_once(" (")?;
            let short = rest.split(' ').next()?;
            return (short.len() >= MIN_DIGITS && commit.starts_with(short)).then(|| version.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{PathMap, installed_rust_source, rust_library_path};

    #[test]
    fn sources_of_rusts_library_are_those_of_the_toolchain_of_that_commit() {
        let home = tempfile::tempdir().unwrap();
        // As rustup writes it: pkg.rust is all components together.
        let manifest = |name: &str, version: &str| {
            let rustlib = home.path().join("toolchains").join(name).join("lib/rustlib");
            std::fs::create_dir_all(&rustlib).unwrap();
            let text = format!(
                "manifest-version = \"2\"\n\n[pkg.cargo]\nversion = \"0.96.0 (f2d3ce0bd 2026-03-21)\"\n\n[pkg.rustc]\nversion = \"{version}\"\n"
            );
            std::fs::write(rustlib.join("multirust-channel-manifest.toml"), text).unwrap();
            rustlib
        };
        let commit = "59807616e1fa2540724bfbac14d7976d7e4a3860";
        let file = format!("/rustc/{commit}/library/core/src/a.rs");
        let find = || {
            installed_rust_source(
                &file,
                commit,
                Path::new("library/core/src/a.rs"),
                Some(home.path().into()),
            )
        };
        manifest("nightly", "1.97.0-nightly (e50aa6fba 2026-05-19)");
        let none = find().unwrap_err().to_string();
        assert!(
            none.contains("no installed toolchain") && none.contains(commit),
            "{none}"
        );
        let rustlib = manifest("stable", "1.95.0 (59807616e 2026-04-14)");
        let missing = find().unwrap_err().to_string();
        assert!(
            missing.contains("(Rust 1.95.0)") && missing.contains("rustup component add rust-src --toolchain stable"),
            "{missing}"
        );
        let source = rustlib.join("src/rust/library/core/src/a.rs");
        std::fs::create_dir_all(source.parent().unwrap()).unwrap();
        std::fs::write(&source, "").unwrap();
        assert_eq!(find().unwrap(), source);
    }

    #[test]
    fn mapped_paths_stay_in_their_folder() {
        let map = |from: &str, file: &str| PathMap::new(from, "/home/me/app").apply(file);
        let found = |path: &str| Some(PathBuf::from(path));
        assert_eq!(map("/build/app", "/build/app/src/a.rs"), found("/home/me/app/src/a.rs"));
        assert_eq!(map("/build/app/", "/build/app/src/../b.rs"), found("/home/me/app/b.rs"));
        assert_eq!(map("/", "/build/a.rs"), found("/home/me/app/build/a.rs"));
        assert_eq!(map("src", "src/a.rs"), found("/home/me/app/a.rs"));
        assert_eq!(map(".", "src/a.rs"), found("/home/me/app/src/a.rs"));
        assert_eq!(map(".", "/src/a.rs"), None);
        assert_eq!(map("/build/app", "/build/application/a.rs"), None);
        assert_eq!(map("/build/app", "/build/app/../../etc/passwd"), None);
        assert_eq!(map("/build/app", "/build/app"), found("/home/me/app"));
    }

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
