//! Paths of source files: one meaning for the form that debug info has and for the form that profiles have.
//!
//! Profiles have the special paths of the Firefox Profiler (its src/utils/special-paths.ts) where they are true. The
//! front end then shows the source on a machine that lacks the file, and the path has no home folder:
//!
//! | debug info | profile |
//! |---|---|
//! | `/rustc/<commit>/library/core/src/a.rs` | `git:github.com/rust-lang/rust:library/core/src/a.rs:<commit>` |
//! | `~/.cargo/registry/src/index.crates.io-<hash>/serde-1.0.1/src/de.rs` | `cargo:index.crates.io-<hash>:serde-1.0.1:src/de.rs` |
//! | `/cargo/registry/25cdd57fae9f0462/serde-1.0.1/src/de.rs` | `cargo:25cdd57fae9f0462:serde-1.0.1:src/de.rs` |
//! | `/rust/deps/hashbrown-0.16.1/src/map.rs` | `cargo:crates.io:hashbrown-0.16.1:src/map.rs` |
//! | `~/.cargo/registry/src/example.org-<hash>/own-1.0.0/src/a.rs` | `registry/src/example.org-<hash>/own-1.0.0/src/a.rs` |
//! | `~/.cargo/git/checkouts/serde-<hash>/59807616/src/de.rs` | `git/checkouts/serde-<hash>/59807616/src/de.rs` |
//! | `~/.rustup/toolchains/<name>/lib/rustlib/src/rust/library/core/src/a.rs` | `lib/rustlib/src/rust/library/core/src/a.rs` |
//!
//! All other paths stay as they are, also the paths of the program's own sources.
//!
//! The last three stay local. rustc writes the path of an installed rust-src into what it inlines from there, without
//! the commit. For any `cargo:` path the front end asks crates.io, whatever the registry: the name of a private package
//! would go to crates.io, and what came back might be another package. A checkout has no URL in its path, and cargo's
//! file that has the URL may hold a private one. The front end knows versions of three numbers only; `1.0.0-rc.1` and
//! `0.11.0+wasi` stay local as well. So does `library/backtrace`, a repository of its own, whose commit is not in the
//! path. `library/stdarch` was one, too, until July 2025: for older compilers GitHub has no such file, and the front
//! end says so. `/rust/deps` is of crates.io: library/Cargo.lock of Rust names no other source.
//!
//! A double click in the front end asks the local server first (`/source/v1`, src/utils/fetch-source.ts), with the
//! profile's form, and goes to the internet only where that has no answer: so nothing is lost by special paths where
//! the file is on this machine. The front end skips the server for functions without an address, as pprof files have
//! them.

use std::borrow::Cow;
use std::fmt;

/// What the path of a source file means. Equal for all forms of the path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourcePath<'a> {
    /// A file of Rust's standard library.
    RustLibrary {
        /// The commit of the Rust repository: 40 hex digits.
        commit: &'a str,
        /// Below the repository: `library/core/src/a.rs`.
        path: Cow<'a, str>,
    },
    /// A file of the standard library in the component rust-src of a toolchain. The path does not have the commit.
    InstalledRustLibrary {
        /// Below the repository: `library/core/src/a.rs`.
        path: Cow<'a, str>,
    },
    /// A file of a package from a registry.
    Package {
        /// Where the package is from.
        registry: Registry<'a>,
        /// Name and version: `serde-1.0.1`.
        package: &'a str,
        /// Below the package.
        path: Cow<'a, str>,
    },
    /// A file of a Git repository that cargo checked out.
    Checkout {
        /// Cargo's folder: the repository's name and a hash of its URL.
        repository: &'a str,
        /// The start of the commit.
        commit: &'a str,
        /// Below the repository.
        path: Cow<'a, str>,
    },
    /// Any other path, as it is.
    Other(&'a str),
}

/// Where cargo has a package from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Registry<'a> {
    /// The registry's folder in `registry/src` of cargo: host and hash.
    Folder(&'a str),
    /// The hash of the registry alone: paths that cargo has trimmed (`trim-paths`). Rust's own builds have them, for
    /// dependencies of the standard library.
    Hash(&'a str),
    /// Rust's standard library is built with the package.
    RustLibrary,
}

/// The registry in the profile's form of packages that the standard library is built with. Folders of cargo end in a
/// hash.
const CRATES_IO: &str = "crates.io";
/// crates.io in [`Registry::Hash`] (cargo's tests of `SourceId`).
const CRATES_IO_HASH: &str = "25cdd57fae9f0462";
/// Folders of the Git index of crates.io, before and since Rust 1.85. Others at GitHub differ in the hash.
const CRATES_IO_GIT: [&str; 2] = ["github.com-1ecc6299db9ec823", "github.com-25cdd57fae9f0462"];
const RUST: &str = "github.com/rust-lang/rust";
/// The folder of rust-src in a toolchain.
const RUST_SRC: &str = "lib/rustlib/src/rust/";

impl<'a> SourcePath<'a> {
    /// Reads a path in any form.
    pub fn parse(text: &'a str) -> SourcePath<'a> {
        known(text).unwrap_or(SourcePath::Other(text))
    }

    /// True for files of Rust's standard library, and of packages that it is built with.
    pub fn is_of_rust_library(&self) -> bool {
        let registry = match self {
            SourcePath::Package { registry, .. } => Some(registry),
            _ => None,
        };
        matches!(
            self,
            SourcePath::RustLibrary { .. } | SourcePath::InstalledRustLibrary { .. }
        ) || registry == Some(&Registry::RustLibrary)
    }

    /// The folder of the package, equal for all files of the package. `None` if cargo did not download the file for
    /// this program.
    pub fn downloaded_folder(&self) -> Option<String> {
        match self {
            SourcePath::Package { registry, package, .. } if *registry != Registry::RustLibrary => {
                Some(format!("{}/{package}/", registry.folder()))
            }
            SourcePath::Checkout { repository, commit, .. } => Some(format!("git/checkouts/{repository}/{commit}/")),
            _ => None,
        }
    }

    /// The path in the form of debug info. Paths in cargo's home folder start below the folder.
    pub fn plain(&self) -> Cow<'a, str> {
        match self {
            SourcePath::RustLibrary { commit, path } => format!("/rustc/{commit}/{path}").into(),
            SourcePath::InstalledRustLibrary { path } => format!("{RUST_SRC}{path}").into(),
            SourcePath::Package {
                registry,
                package,
                path,
            } => format!("{}/{package}/{path}", registry.folder()).into(),
            SourcePath::Checkout {
                repository,
                commit,
                path,
            } => format!("git/checkouts/{repository}/{commit}/{path}").into(),
            SourcePath::Other(text) => (*text).into(),
        }
    }

    /// The path for people: without commit and registry. Special paths of other sources (`hg:`, `git:` of other
    /// repositories) have their path alone, as in the front end.
    pub fn short(&self) -> Cow<'a, str> {
        match self {
            SourcePath::RustLibrary { path, .. } | SourcePath::InstalledRustLibrary { path } => path.clone(),
            SourcePath::Package { package, path, .. } => format!("{package}/{path}").into(),
            SourcePath::Checkout { .. } => self.plain(),
            SourcePath::Other(text) => {
                let is_special = text.starts_with("git:") || text.starts_with("hg:");
                let mut parts = text.split(':').skip(2);
                match (is_special, parts.next(), parts.next()) {
                    (true, Some(path), Some(_)) => path.into(),
                    _ => (*text).into(),
                }
            }
        }
    }
}

/// The path in the form of profiles.
impl fmt::Display for SourcePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourcePath::RustLibrary { commit, path }
                if !path.starts_with("library/backtrace/") && !path.contains(':') =>
            {
                write!(f, "git:{RUST}:{path}:{commit}")
            }
            SourcePath::Package {
                registry,
                package,
                path,
            } if registry.is_crates_io() && is_known_version(package) && !path.contains(':') => {
                write!(f, "cargo:{}:{package}:{path}", registry.name())
            }
            other => f.write_str(&other.plain()),
        }
    }
}

/// The path of a source file in the form of profiles.
pub fn in_profile(path: &str) -> Cow<'_, str> {
    match SourcePath::parse(path) {
        SourcePath::Other(path) => path.into(),
        known => known.to_string().into(),
    }
}

impl<'a> Registry<'a> {
    fn named(name: &'a str) -> Option<Registry<'a>> {
        match name {
            CRATES_IO => Some(Registry::RustLibrary),
            hash if is_hash(hash) => Some(Registry::Hash(hash)),
            folder => ends_in_hash(folder).then_some(Registry::Folder(folder)),
        }
    }

    fn name(self) -> &'a str {
        match self {
            Registry::Folder(name) | Registry::Hash(name) => name,
            Registry::RustLibrary => CRATES_IO,
        }
    }

    /// Where debug info has the packages of the registry, without cargo's home folder.
    pub fn folder(self) -> Cow<'static, str> {
        match self {
            Registry::Folder(name) => format!("registry/src/{name}").into(),
            Registry::Hash(hash) => format!("/cargo/registry/{hash}").into(),
            Registry::RustLibrary => "/rust/deps".into(),
        }
    }

    /// True for crates.io itself.
    pub fn is_crates_io(self) -> bool {
        match self {
            Registry::Folder(name) => name.starts_with("index.crates.io-") || CRATES_IO_GIT.contains(&name),
            Registry::Hash(hash) => hash == CRATES_IO_HASH,
            Registry::RustLibrary => true,
        }
    }
}

/// `None` for other paths.
fn known(text: &str) -> Option<SourcePath<'_>> {
    if let Some(rest) = text.strip_prefix("/rustc/") {
        let (commit, path) = rest.split_once('/')?;
        return rust_library(commit, path);
    }
    if let Some(rest) = text.strip_prefix("git:") {
        let (path, commit) = rest.strip_prefix(RUST)?.strip_prefix(':')?.split_once(':')?;
        return rust_library(commit, path);
    }
    if let Some(rest) = text.strip_prefix("cargo:") {
        let (registry, rest) = rest.split_once(':')?;
        let (package, path) = rest.split_once(':')?;
        return in_package(Registry::named(registry)?, package, path);
    }
    if let Some(rest) = text.strip_prefix("/rust/deps/") {
        let (package, path) = rest.split_once('/')?;
        return in_package(Registry::RustLibrary, package, path);
    }
    if let Some((hash, rest)) = text
        .strip_prefix("/cargo/registry/")
        .and_then(|rest| rest.split_once('/'))
        && is_hash(hash)
    {
        let (package, path) = rest.split_once('/')?;
        return in_package(Registry::Hash(hash), package, path);
    }
    if let Some((toolchain, path)) = text.split_once(RUST_SRC)
        && (toolchain.is_empty() || toolchain.ends_with('/'))
    {
        let path = resolved(path)?;
        let is_library = path.starts_with("library/");
        return is_library.then_some(SourcePath::InstalledRustLibrary { path });
    }
    // A repository may have folders of the same names, but not with cargo's hash.
    let below = |folder: &str| {
        let places = text.match_indices(folder);
        let mut places = places.filter(|(at, _)| *at == 0 || text.as_bytes()[at - 1] == b'/');
        places.find_map(|(at, _)| {
            let mut parts = text[at + folder.len()..].splitn(3, '/');
            let parts = (parts.next()?, parts.next()?, parts.next()?);
            ends_in_hash(parts.0).then_some(parts)
        })
    };
    if let Some((registry, package, path)) = below("registry/src/") {
        return in_package(Registry::Folder(registry), package, path);
    }
    let (repository, commit, path) = below("git/checkouts/")?;
    let path = resolved(path)?;
    let is_commit = !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then_some(SourcePath::Checkout {
        repository,
        commit,
        path,
    })
}

fn rust_library<'a>(commit: &'a str, path: &'a str) -> Option<SourcePath<'a>> {
    let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    // `library/std/src/../../backtrace/src/lib.rs` exists.
    let path = resolved(path)?;
    (is_commit && path.starts_with("library/")).then_some(SourcePath::RustLibrary { commit, path })
}

fn in_package<'a>(registry: Registry<'a>, package: &'a str, path: &'a str) -> Option<SourcePath<'a>> {
    let is_folder = !matches!(package, "" | "." | "..") && !package.contains('/');
    let path = resolved(path)?;
    is_folder.then_some(SourcePath::Package {
        registry,
        package,
        path,
    })
}

/// The path without `.` and `..`; `None` if nothing is left, or if the path leaves its folder.
pub fn resolved(path: &str) -> Option<Cow<'_, str>> {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    if path.split('/').all(is_plain) {
        return Some(path.into());
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/").into())
}

/// True if the front end finds name and version: `serde_json-1.0.1`. Its versions are three numbers.
fn is_known_version(package: &str) -> bool {
    let Some((name, version)) = package.rsplit_once('-') else {
        return false;
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty()
        && name.bytes().all(is_name)
        && version.split('.').count() == 3
        && version.split('.').all(is_number)
}

fn ends_in_hash(folder: &str) -> bool {
    let hash = folder.rsplit_once('-').map(|(_, hash)| hash);
    hash.is_some_and(is_hash) && !folder.contains('/')
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "59807616e1fa2540724bfbac14d7976d7e4a3860";
    const REGISTRY: &str = "index.crates.io-1949cf8c6b5b557f";

    /// The profile's form of a path means the same, and is its own form.
    fn profile_form(path: &str) -> String {
        let form = in_profile(path).into_owned();
        assert_eq!(in_profile(&form), form, "{path}");
        let meaning = SourcePath::parse(path);
        if !matches!(meaning, SourcePath::Other(_)) {
            assert_eq!(SourcePath::parse(&form), meaning, "{path}");
            assert_eq!(SourcePath::parse(&meaning.plain()), meaning, "{path}");
        }
        form
    }

    #[test]
    fn files_that_the_front_end_can_download_have_its_special_paths() {
        for (path, expected) in [
            (
                format!("/rustc/{COMMIT}/library/core/src/iter/range.rs"),
                format!("git:github.com/rust-lang/rust:library/core/src/iter/range.rs:{COMMIT}"),
            ),
            (
                format!("/rustc/{COMMIT}/library/core/src/../../stdarch/crates/core_arch/src/x86/sse2.rs"),
                format!("git:github.com/rust-lang/rust:library/stdarch/crates/core_arch/src/x86/sse2.rs:{COMMIT}"),
            ),
            (
                format!("/home/me/.cargo/registry/src/{REGISTRY}/serde_json-1.0.1/src/de.rs"),
                format!("cargo:{REGISTRY}:serde_json-1.0.1:src/de.rs"),
            ),
            (
                "/usr/local/cargo/registry/src/github.com-1ecc6299db9ec823/tokio-1.6.1/src/runtime/task/mod.rs"
                    .to_owned(),
                "cargo:github.com-1ecc6299db9ec823:tokio-1.6.1:src/runtime/task/mod.rs".to_owned(),
            ),
            (
                "/cargo/registry/25cdd57fae9f0462/hashbrown-0.17.1/src/raw.rs".to_owned(),
                "cargo:25cdd57fae9f0462:hashbrown-0.17.1:src/raw.rs".to_owned(),
            ),
            (
                "/rust/deps/hashbrown-0.16.1/src/raw/mod.rs".to_owned(),
                "cargo:crates.io:hashbrown-0.16.1:src/raw/mod.rs".to_owned(),
            ),
        ] {
            assert_eq!(profile_form(&path), expected);
        }
    }

    #[test]
    fn what_the_front_end_cannot_download_stays_local_and_has_no_home_folder() {
        for below in [
            // Another registry, also one whose index is at GitHub.
            "registry/src/example.org-0123456789abcdef/own-1.0.0/src/lib.rs",
            "registry/src/github.com-0123456789abcdef/own-1.0.0/src/lib.rs",
            // Versions that the front end does not know.
            "registry/src/index.crates.io-1949cf8c6b5b557f/wasi-0.11.0+wasi/src/lib.rs",
            "registry/src/index.crates.io-1949cf8c6b5b557f/serde-2.0.0-rc.1/src/lib.rs",
            "registry/src/index.crates.io-1949cf8c6b5b557f/odd-1.0.0/src/a:b.rs",
            "git/checkouts/serde-2ac3c8a2d6f4a1b0/59807616/src/de.rs",
        ] {
            assert_eq!(profile_form(&format!("/home/me/.cargo/{below}")), below);
            assert_eq!(profile_form(below), below);
        }
        let installed = "lib/rustlib/src/rust/library/core/src/option.rs";
        assert_eq!(
            profile_form(&format!(
                "/home/me/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/{installed}"
            )),
            installed
        );
        let backtrace = format!("/rustc/{COMMIT}/library/backtrace/src/lib.rs");
        assert_eq!(profile_form(&backtrace), backtrace);
        assert_eq!(
            profile_form(&format!("/rustc/{COMMIT}/library/std/src/../../backtrace/src/lib.rs")),
            backtrace
        );
    }

    #[test]
    fn other_paths_stay_as_they_are() {
        for path in [
            "",
            "/home/me/app/src/main.rs",
            "src/main.rs",
            "/rustc/1.95.0/library/core/src/a.rs",
            "/home/me/app/crates/registry/src/lib.rs",
            "/home/me/app/crates/registry/src/short-12/a-1.0.0/lib.rs",
            "/home/me/git/checkouts/app/src/main.rs",
            "/home/me/go/pkg/mod/example.org/a@v1/a.go",
            "/home/me/lib/rustlib/src/rust/src/libcore/option.rs",
            "/home/me/glib/rustlib/src/rust/library/a.rs",
            "node:fs",
            "https://example.org/app.js",
            "hg:hg.mozilla.org/mozilla-central:widget/nsAppShell.mm:997f00815e6b",
            "git:github.com/torvalds/linux:arch/x86/mm/fault.c:v5.15",
            "git:github.com/rust-lang/rust:library/core/src/a.rs:1.95.0",
            "cargo:elsewhere:serde-1.0.1:src/de.rs",
        ] {
            assert_eq!(SourcePath::parse(path), SourcePath::Other(path));
            assert_eq!(profile_form(path), path);
        }
    }

    #[test]
    fn no_path_leaves_its_folder() {
        for path in [
            format!("/rustc/{COMMIT}/library/../../../../etc/passwd"),
            format!("/rustc/{COMMIT}/library/../etc/passwd"),
            format!("git:github.com/rust-lang/rust:library/../../etc/passwd:{COMMIT}"),
            format!("cargo:{REGISTRY}:..:../etc/passwd"),
            format!("cargo:{REGISTRY}:a/../..-1.0.0:etc/passwd"),
            format!("cargo:{REGISTRY}:serde-1.0.1:../../../etc/passwd"),
            "cargo:../../etc-0123456789abcdef:serde-1.0.1:src/de.rs".to_owned(),
            "/home/me/lib/rustlib/src/rust/library/../../etc/passwd".to_owned(),
            "/rust/deps/../etc/passwd".to_owned(),
            "/rust/deps/a-1.0.0/../../etc/passwd".to_owned(),
            "git/checkouts/a-2ac3c8a2d6f4a1b0/59807616/..".to_owned(),
            "git/checkouts/a-2ac3c8a2d6f4a1b0/../src/de.rs".to_owned(),
        ] {
            assert_eq!(SourcePath::parse(&path), SourcePath::Other(&path));
        }
    }

    #[test]
    fn people_read_short_paths() {
        let short = |path: &str| SourcePath::parse(path).short().into_owned();
        assert_eq!(
            short(&format!("/rustc/{COMMIT}/library/core/src/a.rs")),
            "library/core/src/a.rs"
        );
        assert_eq!(
            short(&format!("cargo:{REGISTRY}:serde-1.0.1:src/de.rs")),
            "serde-1.0.1/src/de.rs"
        );
        assert_eq!(
            short("git:github.com/torvalds/linux:arch/x86/mm/fault.c:v5.15"),
            "arch/x86/mm/fault.c"
        );
        assert_eq!(short("/home/me/app/src/main.rs"), "/home/me/app/src/main.rs");
        assert_eq!(
            short("lib/rustlib/src/rust/library/core/src/a.rs"),
            "library/core/src/a.rs"
        );
        assert_eq!(short("git:a"), "git:a");
    }

    #[test]
    fn packages_have_one_folder() {
        let folder = |path: &str| SourcePath::parse(path).downloaded_folder();
        let plain = format!("/home/me/.cargo/registry/src/{REGISTRY}/serde-1.0.1/src/de.rs");
        assert_eq!(folder(&plain), folder(&in_profile(&plain)));
        assert!(folder(&plain).is_some());
        assert_eq!(folder("/rust/deps/hashbrown-0.16.1/src/map.rs"), None);
        assert_eq!(folder("/home/me/app/src/main.rs"), None);
    }
}
