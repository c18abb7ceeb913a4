//! Kinds of code, and the front end's categories, which colour frames.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use names::rust_crate;
use names::source_path::SourcePath;
use names::v8::Tier;
use recording::event::is_shared_memory;
use recording::module::{Module, ModuleKind};
use recording::wait::WaitReason;

/// The kind of a frame's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CodeKind {
    /// Code without a known mapping.
    Unknown,
    /// The executable of a recorded process.
    Program,
    /// A shared library of the program or of a package.
    Library,
    /// The library that sprof loads into programs to record their heap.
    HeapLibrary,
    /// The C and C++ runtime libraries and the dynamic linker; Go's own packages, in the program's file.
    SystemLibrary,
    /// The kernel's code in user space.
    Vdso,
    /// Rust's standard library, in any file. Known only with debug info.
    RustStd,
    /// A package that cargo or Go downloaded, in the program's file. Known only with debug info.
    Dependency,
    /// Executable memory without a file: code of a JIT compiler.
    Jit,
    /// Code of V8's JIT compilers, by tier.
    V8(Tier),
    /// The kernel.
    Kernel,
    /// Not code: marks an unverified, truncated or missing stack.
    Mark(MarkKind),
    /// Not code: the reason of a wait. `None`: the frame that marks a wait.
    Wait(Option<WaitReason>),
}

/// The subject of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MarkKind {
    Unverified,
    Truncated,
    NoUserStack,
    OtherStack,
    /// The stack of a wait is a guess, from another sample.
    Guess,
}

/// A category in the front end.
pub(crate) struct FirefoxCategory {
    pub(crate) name: &'static str,
    /// One of the front end's `CategoryColor`s (src/types/profile.ts).
    pub(crate) color: &'static str,
    /// The first must be `Other`: the category itself.
    pub(crate) subcategories: &'static [&'static str],
}

/// The subcategory of inlined functions.
pub(crate) const INLINED_NAME: &str = "Inlined";
const CODE: &[&str] = &["Other", INLINED_NAME];
const INLINED: usize = 1;

/// The first grey one is the default category of the front end.
pub(crate) const CATEGORIES: &[FirefoxCategory] = &[
    FirefoxCategory {
        name: "Other",
        color: "grey",
        subcategories: &["Other"],
    },
    FirefoxCategory {
        name: "Program",
        color: "yellow",
        subcategories: CODE,
    },
    FirefoxCategory {
        name: "Library",
        color: "green",
        subcategories: CODE,
    },
    FirefoxCategory {
        name: "System library",
        color: "lightblue",
        subcategories: &["Other", INLINED_NAME, "vDSO"],
    },
    FirefoxCategory {
        name: "Rust standard library",
        color: "brown",
        subcategories: CODE,
    },
    FirefoxCategory {
        name: "JIT and anonymous",
        color: "purple",
        // After "Inlined", the names of `Tier::ALL`.
        subcategories: &[
            "Other",
            INLINED_NAME,
            Tier::ALL[0].name(),
            Tier::ALL[1].name(),
            Tier::ALL[2].name(),
            Tier::ALL[3].name(),
            Tier::ALL[4].name(),
            Tier::ALL[5].name(),
        ],
    },
    FirefoxCategory {
        name: "Kernel",
        color: "orange",
        subcategories: CODE,
    },
    FirefoxCategory {
        name: "Incomplete stack",
        color: "lightred",
        subcategories: &[
            "Other",
            "Unverified",
            "Truncated",
            "No user stack",
            "Guess",
            "Other stack",
        ],
    },
    // After "Other", the reasons of `WaitReason::ALL` after `Cpu`, which comes last. The front end leaves out samples
    // of a category of this name where idle samples are not to be included (src/selectors/profile.ts,
    // `getIdleCategoryIndex`).
    FirefoxCategory {
        name: "Idle",
        color: "blue",
        subcategories: &[
            "Other",
            "Sleep",
            "Lock",
            "I/O",
            "Pipe or socket",
            "Poll",
            "Page fault",
            "Child process",
            "Signal or stop",
            "Something else",
            "Reason not known",
            "Waiting for a CPU",
        ],
    },
    FirefoxCategory {
        name: "Dependency",
        color: "magenta",
        subcategories: CODE,
    },
    FirefoxCategory {
        name: "sprof's heap library",
        color: "darkgrey",
        subcategories: CODE,
    },
];

/// True if frames of this category are the program's own code in profiles of sprof: of its file, or compiled at run
/// time.
pub(crate) fn is_own(category: &str) -> bool {
    matches!(category, "Program" | "JIT and anonymous")
}

/// The folder of the package that cargo or Go downloaded and that this source is of.
fn package(source: &str) -> Option<Cow<'_, str>> {
    if let Some(folder) = SourcePath::parse(source).downloaded_folder() {
        return Some(folder.into());
    }
    // `go/pkg/mod/example.org/tool@v1.0.0/`. A downloaded toolchain holds Go's own packages.
    let start = source.find("/go/pkg/mod/")? + "/go/pkg/mod/".len();
    let version = start + source[start..].find('@')?;
    let end = version + source[version..].find('/')?;
    (!source[start..].starts_with("golang.org/toolchain@")).then_some(source[..=end].into())
}

/// True for sources of a standard library, or of a package that cargo, Go or npm downloaded.
pub(crate) fn is_library_source(source: &str) -> bool {
    const LIBRARIES: &[&str] = &[
        "/rustc/",
        "library/core/",
        "library/std/",
        "library/alloc/",
        "library/test/",
        "/node_modules/",
    ];
    // `node:fs`
    CodeKind::is_rust_std_source(source)
        || package(source).is_some()
        || source.starts_with("node:")
        || CodeKind::of_header(source).is_some()
        || LIBRARIES.iter().any(|part| source.contains(part))
}

/// What the functions of a file show about the folders of their sources.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    /// Folders of the downloaded packages that the file was made from: a program from `cargo install` or `go install`
    /// is not a dependency of itself.
    packages: BTreeSet<String>,
    /// The folders of Go's own packages.
    go: BTreeSet<String>,
}

impl Installed {
    /// The packages of a file, from its functions: file name, function, source.
    pub(crate) fn of<'a>(functions: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> Installed {
        let is_crate = |file: &str, krate: &str| {
            let file = file.bytes().map(|byte| if byte == b'-' { b'_' } else { byte });
            file.eq(krate.bytes())
        };
        let folder = |(file, function, source): (&str, &str, &'a str)| {
            let package = package(source)?;
            let is_files = match function.split_once("::") {
                Some((krate, _)) => is_crate(file, krate),
                None => function.starts_with("main."),
            };
            is_files.then(|| package.into_owned())
        };
        let mut installed = Installed::default();
        for function in functions {
            installed.packages.extend(folder(function));
            let go = go_folder(function.1, function.2).filter(|go| !installed.go.contains(*go));
            installed.go.extend(go.map(str::to_owned));
        }
        installed
    }

    /// True for the source of a package that the file was made from.
    pub(crate) fn has(&self, source: &str) -> bool {
        !self.packages.is_empty() && package(source).is_some_and(|package| self.packages.contains(&*package))
    }

    /// True for the source of one of Go's own packages.
    pub(crate) fn is_of_go(&self, source: &str) -> bool {
        // Go writes this instead of the source of its method wrappers.
        source.ends_with("<autogenerated>") || self.go.iter().any(|folder| source.starts_with(folder))
    }
}

/// The folder of Go's own packages: the folder of `runtime`, which every Go program contains. The folder has no fixed
/// name: `/usr/local/go/src`, `/usr/lib/go-1.19/src`. `go/src` in a home folder holds the user's packages.
fn go_folder<'a>(function: &str, source: &'a str) -> Option<&'a str> {
    let end = source
        .rfind("/src/runtime/")
        .filter(|_| function.starts_with("runtime."))?;
    Some(&source[..end + "/src/".len()])
}

impl CodeKind {
    /// Index into [`CATEGORIES`], and into its subcategories.
    pub(crate) fn category(self, inlined: bool) -> (usize, usize) {
        let subcategory = if inlined { INLINED } else { 0 };
        match self {
            CodeKind::Unknown => (0, 0),
            CodeKind::Program => (1, subcategory),
            CodeKind::Library => (2, subcategory),
            CodeKind::SystemLibrary => (3, subcategory),
            CodeKind::Vdso => (3, 2),
            CodeKind::RustStd => (4, subcategory),
            CodeKind::Jit => (5, subcategory),
            CodeKind::V8(tier) => (5, INLINED + 1 + tier as usize),
            CodeKind::Kernel => (6, subcategory),
            CodeKind::Mark(MarkKind::Unverified) => (7, 1),
            CodeKind::Mark(MarkKind::Truncated) => (7, 2),
            CodeKind::Mark(MarkKind::NoUserStack) => (7, 3),
            CodeKind::Mark(MarkKind::Guess) => (7, 4),
            CodeKind::Mark(MarkKind::OtherStack) => (7, 5),
            CodeKind::Wait(None) => (8, 0),
            CodeKind::Wait(Some(WaitReason::Cpu)) => (8, WaitReason::ALL.len()),
            CodeKind::Wait(Some(reason)) => (8, reason as usize),
            CodeKind::Dependency => (9, subcategory),
            CodeKind::HeapLibrary => (10, subcategory),
        }
    }

    /// The kind of a function in code of this kind, by its source; without debug info, by its crate.
    pub(crate) fn of_source(self, source: &str, krate: Option<&str>, installed: &Installed) -> CodeKind {
        match self {
            _ if CodeKind::is_rust_std_source(source) => CodeKind::RustStd,
            CodeKind::Program if source.is_empty() && krate.is_some_and(rust_crate::is_library) => CodeKind::RustStd,
            CodeKind::Program if package(source).is_some() && !installed.has(source) => CodeKind::Dependency,
            CodeKind::Program if installed.is_of_go(source) => CodeKind::SystemLibrary,
            CodeKind::Program => CodeKind::of_header(source).unwrap_or(self),
            kind => kind,
        }
    }

    /// The kind of code that a program has from an installed header: of the C++ library or the compiler, or of another
    /// library.
    fn of_header(source: &str) -> Option<CodeKind> {
        // `/usr/include/c++/12/bits/`, `/usr/include/x86_64-linux-gnu/c++/12/bits/`, `/opt/llvm/include/c++/v1/`.
        let is_of_cxx = |(_, path): (&str, &str)| {
            path.starts_with("c++/") || path.split_once('/').is_some_and(|(_, path)| path.starts_with("c++/"))
        };
        let has = |folder: &str| source.contains(folder);
        if source.split_once("/include/").is_some_and(is_of_cxx) || has("/lib/gcc/") || has("/lib/clang/") {
            return Some(CodeKind::SystemLibrary);
        }
        ["/usr/include/", "/usr/local/include/"]
            .iter()
            .any(|folder| source.starts_with(folder))
            .then_some(CodeKind::Library)
    }

    /// True for the index of the category of waits.
    pub(crate) fn is_wait(category: usize) -> bool {
        category == CodeKind::Wait(None).category(false).0
    }

    /// The kind of a module's code, as far as it follows from the module.
    pub(crate) fn of_module(module: &Module) -> CodeKind {
        match module.kind {
            ModuleKind::Kernel => CodeKind::Kernel,
            ModuleKind::Vdso => CodeKind::Vdso,
            ModuleKind::Jit => CodeKind::Jit,
            ModuleKind::File | ModuleKind::Windows { .. } => match CodeKind::of_file(&module.path) {
                // A program or a library in shared memory (memfd_create), which a recorder has read.
                CodeKind::Jit
                    if is_shared_memory(module.path.as_os_str().as_encoded_bytes()) && module.arch.is_some() =>
                {
                    CodeKind::Library
                }
                kind => kind,
            },
        }
    }

    /// The kind of a mapped file, by its name.
    pub(crate) fn of_file(path: &Path) -> CodeKind {
        let full = path.to_string_lossy();
        // The names that Linux gives to mappings without a file: proc(5), /proc/pid/maps.
        if full.is_empty() || full.starts_with("//anon") || full.starts_with('[') || full.starts_with("/memfd:") {
            return CodeKind::Jit;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.split(".so").next().unwrap_or_default();
        let is_shared = name.contains(".so");
        // The libraries of glibc and musl, the compiler runtimes, and glibc's older `libc-2.31.so` naming.
        const SYSTEM: &[&str] = &[
            "libc",
            "libm",
            "libmvec",
            "libpthread",
            "libdl",
            "librt",
            "libresolv",
            "libutil",
            "libstdc++",
            "libc++",
            "libc++abi",
            "libgcc_s",
            "libunwind",
            "libatomic",
        ];
        let base = stem.split("-2.").next().unwrap_or_default();
        if is_shared && (SYSTEM.contains(&base) || base.starts_with("ld-") || base == "ld") {
            return CodeKind::SystemLibrary;
        }
        if is_shared && name.starts_with("sprof-heap-") {
            return CodeKind::HeapLibrary;
        }
        CodeKind::Library
    }

    /// True if the path is one of Rust's standard library, or of a package that it is built with. A library built from
    /// a release, and not from Git, has its version in the place of the commit.
    fn is_rust_std_source(path: &str) -> bool {
        SourcePath::parse(path).is_of_rust_library()
            || path.split_once("/rustc/").is_some_and(|(_, rest)| {
                rest.split_once('/')
                    .is_some_and(|(_, rest)| rest.starts_with("library/"))
            })
            || path.contains("/rust/deps/")
    }
}

#[cfg(test)]
mod tests {
    use names::source_path::in_profile;

    use super::*;

    #[test]
    fn a_files_kind_is_known_by_name() {
        let kind = |path: &str| CodeKind::of_file(Path::new(path));
        assert_eq!(kind("/usr/lib/x86_64-linux-gnu/libc.so.6"), CodeKind::SystemLibrary);
        assert_eq!(
            kind("/lib/x86_64-linux-gnu/libpthread-2.31.so"),
            CodeKind::SystemLibrary
        );
        assert_eq!(kind("/lib64/ld-linux-x86-64.so.2"), CodeKind::SystemLibrary);
        assert_eq!(kind("/lib/ld-musl-aarch64.so.1"), CodeKind::SystemLibrary);
        assert_eq!(kind("/usr/lib/libcurl.so.4"), CodeKind::Library);
        assert_eq!(
            kind("/tmp/sprof-0/sprof-heap-0123456789abcdef.so"),
            CodeKind::HeapLibrary
        );
        assert_eq!(kind("/usr/lib/libzstd.so.1.5"), CodeKind::Library);
        assert_eq!(kind("//anon"), CodeKind::Jit);
        assert_eq!(kind("/memfd:jit (deleted)"), CodeKind::Jit);
    }

    #[test]
    fn installed_headers_are_library_code() {
        let none = Installed::default();
        for (source, kind) in [
            ("/usr/include/c++/12/bits/stl_algo.h", CodeKind::SystemLibrary),
            (
                "/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h",
                CodeKind::SystemLibrary,
            ),
            ("/opt/llvm/include/c++/v1/__algorithm/sort.h", CodeKind::SystemLibrary),
            (
                "/usr/lib/gcc/x86_64-linux-gnu/12/include/avxintrin.h",
                CodeKind::SystemLibrary,
            ),
            ("/usr/include/boost/array.hpp", CodeKind::Library),
            ("/home/me/app/include/app.h", CodeKind::Program),
            ("/home/me/c++/app.cpp", CodeKind::Program),
        ] {
            assert_eq!(CodeKind::Program.of_source(source, None, &none), kind, "{source}");
            assert_eq!(is_library_source(source), kind != CodeKind::Program, "{source}");
            assert_eq!(CodeKind::Library.of_source(source, None, &none), CodeKind::Library);
        }
    }

    #[test]
    fn rust_std_is_known_by_its_source() {
        let hash = "59807616e1fa2540724bfbac14d7976d7e4a3860";
        assert!(CodeKind::is_rust_std_source(&format!(
            "/rustc/{hash}/library/core/src/iter/range.rs"
        )));
        assert!(!CodeKind::is_rust_std_source("/home/me/library/core/src/lib.rs"));
        assert!(!CodeKind::is_rust_std_source("/rustc/notes.txt"));
    }

    #[test]
    fn without_debug_info_rust_std_is_known_by_its_crate() {
        let none = Installed::default();
        let of = |kind: CodeKind, source: &str, krate: &str| kind.of_source(source, Some(krate), &none);
        assert_eq!(of(CodeKind::Program, "", "alloc"), CodeKind::RustStd);
        assert_eq!(of(CodeKind::Program, "", "words"), CodeKind::Program);
        assert_eq!(
            of(CodeKind::Program, "/home/me/core/src/lib.rs", "core"),
            CodeKind::Program
        );
        assert_eq!(of(CodeKind::Kernel, "", "core"), CodeKind::Kernel);
    }

    #[test]
    fn both_forms_of_a_path_are_of_one_kind() {
        let commit = "59807616e1fa2540724bfbac14d7976d7e4a3860";
        let registry = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        let main = format!("{registry}/my-rg-14.1.1/src/main.rs");
        let installed = Installed::of([("my-rg", "my_rg::main", main.as_str())].into_iter());
        for (path, kind) in [
            (
                format!("/rustc/{commit}/library/proc_macro/src/lib.rs"),
                CodeKind::RustStd,
            ),
            ("/rust/deps/hashbrown-0.16.1/src/map.rs".to_owned(), CodeKind::RustStd),
            (format!("{registry}/hashbrown-0.16.1/src/map.rs"), CodeKind::Dependency),
            (
                "/home/me/.cargo/git/checkouts/a-1949cf8c6b5b557f/34/src/lib.rs".to_owned(),
                CodeKind::Dependency,
            ),
            (main.clone(), CodeKind::Program),
            ("/home/me/app/src/main.rs".to_owned(), CodeKind::Program),
        ] {
            let of_profile = in_profile(&path);
            assert_eq!(CodeKind::Program.of_source(&path, None, &installed), kind, "{path}");
            assert_eq!(
                CodeKind::Program.of_source(&of_profile, None, &installed),
                kind,
                "{of_profile}"
            );
            assert_eq!(is_library_source(&path), is_library_source(&of_profile), "{path}");
            assert_eq!(
                is_library_source(&path),
                kind != CodeKind::Program || path == main,
                "{path}"
            );
        }
    }

    #[test]
    fn dependencies_are_known_by_their_source() {
        let registry = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        let (serde, main) = (
            format!("{registry}/serde_json-1.0.1/src/de.rs"),
            format!("{registry}/my-rg-14.1/src/main.rs"),
        );
        let functions = [
            ("my-rg", "my_rg::main", main.as_str()),
            ("my-rg", "serde_json::de::from_str", &serde),
        ];
        let none = Installed::default();
        assert_eq!(CodeKind::Program.of_source(&serde, None, &none), CodeKind::Dependency);
        assert_eq!(
            CodeKind::Program.of_source(
                "/home/me/.cargo/git/checkouts/a-1949cf8c6b5b557f/34/src/lib.rs",
                None,
                &none
            ),
            CodeKind::Dependency
        );
        assert_eq!(
            CodeKind::Program.of_source("/home/me/go/pkg/mod/example.org/a@v1/a.go", None, &none),
            CodeKind::Dependency
        );
        assert_eq!(
            CodeKind::Program.of_source("/home/me/app/src/main.rs", None, &none),
            CodeKind::Program
        );
        assert_eq!(
            CodeKind::Library.of_source(&serde, None, &none),
            CodeKind::Library,
            "in a file of its own"
        );
        // `cargo install my-rg`.
        let installed = Installed::of(functions.into_iter());
        assert_eq!(CodeKind::Program.of_source(&main, None, &installed), CodeKind::Program);
        assert_eq!(
            CodeKind::Program.of_source(&serde, None, &installed),
            CodeKind::Dependency
        );
        let go = "/home/me/go/pkg/mod/example.org/tool@v1.0.0/main.go";
        assert_eq!(CodeKind::Program.of_source(go, None, &none), CodeKind::Dependency);
        let installed = Installed::of([("tool", "main.main", go)].into_iter());
        assert_eq!(CodeKind::Program.of_source(go, None, &installed), CodeKind::Program);
        for own in [
            "/home/me/app/crates/registry/src/lib.rs",
            "/home/me/git/checkouts/app/src/main.rs",
            "/home/me/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.22.0.linux-amd64/src/runtime/proc.go",
        ] {
            assert_eq!(
                CodeKind::Program.of_source(own, None, &none),
                CodeKind::Program,
                "{own}"
            );
        }
        let hash_map = "/rust/deps/hashbrown-0.16.1/src/raw/mod.rs";
        assert_eq!(CodeKind::Program.of_source(hash_map, None, &none), CodeKind::RustStd);
    }

    #[test]
    fn reasons_of_waits_are_subcategories() {
        for reason in WaitReason::ALL {
            let (category, subcategory) = CodeKind::Wait(Some(reason)).category(false);
            assert!(CodeKind::is_wait(category));
            let category = &CATEGORIES[category];
            let name = category.subcategories[subcategory].to_lowercase();
            match reason {
                WaitReason::Cpu => assert_eq!(name, "waiting for a cpu"),
                WaitReason::Other => assert_eq!(name, "something else"),
                _ => assert_eq!(name, reason.name().to_lowercase()),
            }
        }
    }

    #[test]
    fn tiers_are_subcategories() {
        for tier in Tier::ALL {
            let (category, subcategory) = CodeKind::V8(tier).category(false);
            assert_eq!(category, CodeKind::Jit.category(false).0);
            assert_eq!(CATEGORIES[category].subcategories[subcategory], tier.name());
        }
    }

    #[test]
    fn the_default_category_comes_first_and_every_subcategory_exists() {
        assert_eq!(CATEGORIES[0].color, "grey");
        for kind in [
            CodeKind::Unknown,
            CodeKind::Program,
            CodeKind::Vdso,
            CodeKind::Mark(MarkKind::NoUserStack),
            CodeKind::Kernel,
        ] {
            for inlined in [false, true] {
                let (category, subcategory) = kind.category(inlined);
                assert!(subcategory < CATEGORIES[category].subcategories.len(), "{kind:?}");
            }
        }
    }
}
