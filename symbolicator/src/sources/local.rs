//! Where source files of Rust's library and of cargo's packages are on this machine.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use names::source_path::{Registry, SourcePath};
use recording::regular_file;
use rustc_hash::FxHashMap;

/// Finds the files in the folders of rustup and cargo. A package of one version has the same files in every folder of
/// its registry, and a commit of Rust in every toolchain.
#[derive(Debug, Default)]
pub struct LocalSources {
    cargo_home: Option<PathBuf>,
    rustup_home: Option<PathBuf>,
    /// What toolchains were built from, by their manifest. A manifest has 1 MB and is read again only if it was written
    /// to.
    builds: FxHashMap<PathBuf, (Option<SystemTime>, Option<ToolchainBuild>)>,
}

/// What a toolchain was built from.
#[derive(Clone, Debug)]
struct ToolchainBuild {
    /// The beginning of the commit.
    commit: String,
    version: String,
}

impl LocalSources {
    /// Looks in `CARGO_HOME` and `RUSTUP_HOME`, or else in the home folder.
    pub fn of_user() -> LocalSources {
        let folder = |named: &str, in_home: &str| -> Option<PathBuf> {
            let is_set = |folder: &OsString| !folder.is_empty();
            let named = std::env::var_os(named).filter(is_set).map(PathBuf::from);
            named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(in_home)))
        };
        LocalSources {
            cargo_home: folder("CARGO_HOME", ".cargo"),
            rustup_home: folder("RUSTUP_HOME", ".rustup"),
            builds: FxHashMap::default(),
        }
    }

    /// The path for other tools that read source files: the path of the file on this machine, or else the path in the
    /// debug info. `None` for plain paths, which stay as they are.
    pub fn local_path(&mut self, path: &str) -> Option<String> {
        let path = SourcePath::parse(path);
        if let SourcePath::Other(_) = path {
            return None;
        }
        Some(match self.find(&path) {
            Ok(Some(found)) => found.to_string_lossy().into_owned(),
            Ok(None) | Err(_) => path.plain().into_owned(),
        })
    }

    /// The file on this machine. `Ok(None)` if this is not a path of Rust's library or of cargo. The error says what to
    /// type.
    pub(crate) fn find(&mut self, file: &SourcePath<'_>) -> Result<Option<PathBuf>, String> {
        match file {
            SourcePath::RustLibrary { commit, path } => self.in_toolchain(commit, path).map(Some),
            SourcePath::Package {
                registry: Registry::Folder(_),
                ..
            }
            | SourcePath::Checkout { .. } => {
                let found = self.cargo_home.as_ref().map(|home| home.join(&*file.plain()));
                Ok(found.filter(|file| file.is_file()))
            }
            SourcePath::Package {
                registry,
                package,
                path,
            } => self.in_registry(*registry, package, path).map(Some),
            SourcePath::InstalledRustLibrary { .. } | SourcePath::Other(_) => Ok(None),
        }
    }

    /// A package whose path has no folder of cargo: one that Rust's standard library is built with, mostly. Another
    /// registry may have another package of this name and version.
    fn in_registry(&self, registry: Registry<'_>, package: &str, path: &str) -> Result<PathBuf, String> {
        let is_it = |name: &str| match registry {
            Registry::Hash(hash) if !registry.is_crates_io() => name.ends_with(&format!("-{hash}")),
            _ => Registry::Folder(name).is_crates_io(),
        };
        let home = self.cargo_home.as_ref();
        let registries = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok());
        let copies = registries.into_iter().flatten().flatten();
        let copies = copies.filter(|folder| folder.file_name().to_str().is_some_and(is_it));
        let mut copies = copies.map(|registry| registry.path().join(package).join(path));
        copies.find(|copy| copy.is_file()).ok_or_else(|| {
            let whose = match registry {
                Registry::RustLibrary => " is a crate that Rust's standard library is built with, and",
                _ => "",
            };
            let folder = registry.folder();
            format!(
                "{package}{whose} is not in cargo's folder on this machine; download it and give --path-map {folder}/{package}=FOLDER"
            )
        })
    }

    /// A file of a toolchain of rustup that was built from this very commit and has the component rust-src.
    fn in_toolchain(&mut self, commit: &str, path: &str) -> Result<PathBuf, String> {
        let sources = self.toolchain_sources(commit)?;
        let source = sources.join(path);
        if source.is_file() {
            Ok(source)
        } else {
            Err(format!("{} has no such file", sources.display()))
        }
    }

    /// The folder of the sources of the Rust repository, in a toolchain that was built from this commit.
    fn toolchain_sources(&mut self, commit: &str) -> Result<PathBuf, String> {
        let home = self.rustup_home.as_ref();
        let toolchains = home.and_then(|home| std::fs::read_dir(home.join("toolchains")).ok());
        let mut same_commit = None;
        for entry in toolchains.into_iter().flatten().flatten() {
            let rustlib = entry.path().join("lib/rustlib");
            let Some(version) = self.version_built_from(&rustlib, commit) else {
                continue;
            };
            let sources = rustlib.join("src/rust");
            if sources.join("library").is_dir() {
                return Ok(sources);
            }
            same_commit = Some((entry.file_name().to_string_lossy().into_owned(), version));
        }
        Err(match same_commit {
            Some((toolchain, version)) => format!(
                "toolchain {toolchain} (Rust {version}) was built from this commit, but its sources are not installed; run `rustup component add rust-src --toolchain \
                 {toolchain}`"
            ),
            None => format!(
                "no installed toolchain was built from Rust commit {commit}; install the one that built the program, with \
                 `rustup toolchain install VERSION --component rust-src`"
            ),
        })
    }

    /// The version of a toolchain that was built from this commit.
    fn version_built_from(&mut self, rustlib: &Path, commit: &str) -> Option<String> {
        let manifest = rustlib.join("multirust-channel-manifest.toml");
        let written = std::fs::metadata(&manifest).and_then(|file| file.modified()).ok();
        let known = self.builds.get(&manifest).filter(|(when, _)| *when == written);
        let build = match known {
            Some((_, build)) => build.clone(),
            None => {
                let build = build_of(&manifest);
                self.builds.insert(manifest, (written, build.clone()));
                build
            }
        }?;
        commit.starts_with(&build.commit).then_some(build.version)
    }
}

/// What a toolchain was built from. The manifest that rustup keeps with a toolchain has the version of each component,
/// with the beginning of the commit: `version = "1.95.0 (59807616e 2026-04-14)"`.
fn build_of(manifest: &Path) -> Option<ToolchainBuild> {
    const MAX_MANIFEST_BYTES: u64 = 16 << 20;
    /// Shorter beginnings are of several commits.
    const MIN_DIGITS: usize = 7;
    let file = regular_file::open(manifest).ok()?;
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
            return (short.len() >= MIN_DIGITS).then(|| ToolchainBuild {
                commit: short.to_owned(),
                version: version.to_owned(),
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut local = LocalSources {
                rustup_home: Some(home.path().into()),
                ..LocalSources::default()
            };
            local.find(&SourcePath::parse(&file))
        };
        manifest("nightly", "1.97.0-nightly (e50aa6fba 2026-05-19)");
        let none = find().unwrap_err();
        assert!(
            none.contains("no installed toolchain") && none.contains(commit),
            "{none}"
        );
        let rustlib = manifest("stable", "1.95.0 (59807616e 2026-04-14)");
        let missing = find().unwrap_err();
        assert!(
            missing.contains("(Rust 1.95.0)") && missing.contains("rustup component add rust-src --toolchain stable"),
            "{missing}"
        );
        let source = rustlib.join("src/rust/library/core/src/a.rs");
        std::fs::create_dir_all(source.parent().unwrap()).unwrap();
        std::fs::write(&source, "").unwrap();
        assert_eq!(find().unwrap(), Some(source));
    }

    #[test]
    fn a_manifest_is_read_again_only_if_it_was_written_to_and_sources_are_found_once_they_are_there() {
        let home = tempfile::tempdir().unwrap();
        let rustlib = home.path().join("toolchains/stable/lib/rustlib");
        let sources = rustlib.join("src/rust/library/core/src");
        std::fs::create_dir_all(&rustlib).unwrap();
        let manifest = rustlib.join("multirust-channel-manifest.toml");
        let write = |commit: &str, time: SystemTime| {
            let text = format!("[pkg.rustc]\nversion = \"1.95.0 ({commit} 2026-04-14)\"\n");
            std::fs::write(&manifest, text).unwrap();
            let file = std::fs::File::options().write(true).open(&manifest).unwrap();
            file.set_modified(time).unwrap();
        };
        let mut local = LocalSources {
            rustup_home: Some(home.path().into()),
            ..LocalSources::default()
        };
        let mut find = || {
            let file = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/a.rs";
            local.find(&SourcePath::parse(file))
        };
        let then = SystemTime::UNIX_EPOCH;
        let later = then + std::time::Duration::from_secs(1);
        write("59807616e", then);
        assert!(find().unwrap_err().contains("rustup component add"));
        // The advice was followed, while a server runs.
        std::fs::create_dir_all(&sources).unwrap();
        std::fs::write(sources.join("a.rs"), "").unwrap();
        assert_eq!(find().unwrap(), Some(sources.join("a.rs")));
        // Another text of the same time is not read.
        write("e50aa6fba", then);
        assert!(find().is_ok());
        write("e50aa6fba", later);
        assert!(find().unwrap_err().contains("no installed toolchain"));
    }

    #[test]
    fn other_tools_get_the_file_on_this_machine_or_the_path_of_debug_info() {
        let home = tempfile::tempdir().unwrap();
        let mut local = LocalSources {
            cargo_home: Some(home.path().into()),
            ..LocalSources::default()
        };
        let registry = "index.crates.io-1949cf8c6b5b557f";
        let here = |below: &str| {
            let file = home.path().join(below);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            Some(file.to_str().unwrap().to_owned())
        };
        let serde = here(&format!("registry/src/{registry}/serde-1.0.1/src/de.rs"));
        let hashbrown = here(&format!("registry/src/{registry}/hashbrown-0.16.1/src/map.rs"));
        let checkout = here("git/checkouts/a-2ac3c8a2d6f4a1b0/59807616/src/lib.rs");
        let commit = "59807616e1fa2540724bfbac14d7976d7e4a3860";
        let unknown = |path: &str| Some(path.to_owned());
        for (path, expected) in [
            (format!("cargo:{registry}:serde-1.0.1:src/de.rs"), serde.clone()),
            (
                format!("/home/other/.cargo/registry/src/{registry}/serde-1.0.1/src/de.rs"),
                serde,
            ),
            (
                "cargo:crates.io:hashbrown-0.16.1:src/map.rs".to_owned(),
                hashbrown.clone(),
            ),
            (
                "cargo:25cdd57fae9f0462:hashbrown-0.16.1:src/map.rs".to_owned(),
                hashbrown,
            ),
            (
                "git/checkouts/a-2ac3c8a2d6f4a1b0/59807616/src/lib.rs".to_owned(),
                checkout,
            ),
            (
                format!("cargo:{registry}:serde-1.0.2:src/de.rs"),
                unknown(&format!("registry/src/{registry}/serde-1.0.2/src/de.rs")),
            ),
            (
                "cargo:crates.io:hashbrown-0.16.2:src/map.rs".to_owned(),
                unknown("/rust/deps/hashbrown-0.16.2/src/map.rs"),
            ),
            (
                format!("git:github.com/rust-lang/rust:library/core/src/a.rs:{commit}"),
                unknown(&format!("/rustc/{commit}/library/core/src/a.rs")),
            ),
            ("/home/me/app/src/main.rs".to_owned(), None),
        ] {
            assert_eq!(local.local_path(&path), expected, "{path}");
        }
    }
}
