//! The crate that defines a function: by its symbol, or by its source.
//!
//! That is where the function is written, not where the compiler made code of it: `core::iter::Map<I, F>::next` is of
//! `core` in each program that has its own copy, and also where it was inlined.

use crate::rust_name::closing;
use crate::source_path::SourcePath;

/// The crates of Rust's library that may implement each other's traits: a crate knows those before it. `test` is
/// missing: only tests have it, and many programs are called so.
const LIBRARY: &[&str] = &["core", "alloc", "std", "proc_macro"];

/// Further crates of Rust's library that programs contain.
const RUNTIME: &[&str] = &["compiler_builtins", "panic_abort", "panic_unwind", "std_detect"];

/// True for a crate of Rust's library.
pub fn is_library(krate: &str) -> bool {
    LIBRARY.contains(&krate) || RUNTIME.contains(&krate)
}

/// The crate of a function, by its symbol and its source. For code of other languages, the package that it was compiled
/// from. `None` if neither the symbol nor the source names one.
///
/// The symbol is exact, but for implementations of traits in the legacy mangling: `<T as Trait>::f` may be of the crate
/// of `T` or of `Trait`. There the source decides, if it is cargo's or Rust's, and else `of_impl`.
pub fn of_function(mangled: &str, demangled: &str, source: Option<&str>) -> Option<String> {
    let by_symbol = match of_symbol(mangled) {
        Some(Root::Crate(name)) => Some(name),
        Some(Root::Trait) => of_trait(demangled),
        None => None,
    };
    by_symbol
        .map(str::to_owned)
        .or_else(|| of_source(source?))
        .or_else(|| of_impl(demangled).filter(|_| is_rust(mangled)).map(str::to_owned))
}

/// What a mangled name begins with.
enum Root<'a> {
    Crate(&'a str),
    /// A type whose trait provides the method: the function belongs to the trait's crate.
    Trait,
}

fn of_symbol(mangled: &str) -> Option<Root<'_>> {
    if let Some(path) = mangled.strip_prefix("_R") {
        return of_v0(path);
    }
    let name = identifier(mangled.strip_prefix("_ZN").filter(|_| is_rust(mangled))?)?;
    // `_$LT$u32$u20$as`; the hash alone.
    let is_path =
        |name: &str| !name.starts_with("_$") && !name.contains('$') && !mangled.ends_with(&format!("{name}E"));
    is_path(name).then_some(Root::Crate(name))
}

/// True for both manglings of Rust: names of the legacy one end in a hash, those of C++ begin like them.
fn is_rust(mangled: &str) -> bool {
    let legacy = || {
        // `.llvm.1234` may follow.
        let ends = [mangled.strip_suffix('E').map(str::len), mangled.rfind("E.")];
        ends.into_iter().flatten().any(|end| {
            let hash = end.checked_sub(19).and_then(|start| mangled.get(start..end));
            let digits = hash.and_then(|hash| hash.strip_prefix("17h"));
            digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        })
    };
    mangled.starts_with("_R") || mangled.starts_with("_ZN") && legacy()
}

/// What a path of the v0 mangling begins with ("Symbol grammar" in rustc's book): of an implementation, the crate of
/// the implementation.
fn of_v0(mut path: &str) -> Option<Root<'_>> {
    loop {
        let (tag, rest) = path.split_at_checked(1)?;
        path = match tag {
            "C" => {
                let rest = without_disambiguator(rest)?;
                // `_` separates a name that begins with a digit or `_`.
                let end = rest.find(|next: char| !next.is_ascii_digit())?;
                let name = rest[end..].strip_prefix('_').unwrap_or(&rest[end..]);
                let name = name.get(..rest[..end].parse().ok()?)?;
                // What the allocator and the panic handler are called by, whoever defines them
                // (rustc_std_internal_symbol).
                return Some(Root::Crate(if name == "__rustc" { "std" } else { name }));
            }
            "Y" => return Some(Root::Trait),
            // A namespace of one letter.
            "N" => rest.get(1..)?,
            "I" => rest,
            "M" | "X" => without_disambiguator(rest)?,
            _ => return None,
        };
    }
}

fn without_disambiguator(text: &str) -> Option<&str> {
    match text.strip_prefix('s') {
        Some(number) => number.split_once('_').map(|(_, rest)| rest),
        None => Some(text),
    }
}

/// `core` of `4core`.
fn identifier(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (len, rest) = text.split_at(digits);
    rest.get(..len.parse().ok()?)
}

/// The crate of Rust's library, or of a package, that a source is of. A checkout of a repository may have several
/// crates.
fn of_source(source: &str) -> Option<String> {
    match SourcePath::parse(source) {
        SourcePath::RustLibrary { path, .. } | SourcePath::InstalledRustLibrary { path } => {
            Some(match path.strip_prefix("library/")?.split_once('/')?.0 {
                // Modules of these crates: `core::core_arch`, `core::simd`, `std::backtrace_rs`.
                "stdarch" | "portable-simd" => "core".to_owned(),
                "backtrace" => "std".to_owned(),
                name => name.replace('-', "_"),
            })
        }
        SourcePath::Package { package, .. } => {
            // `0.10.1` of `sha-1-0.10.1`.
            let is_version = |(at, _): &(usize, &str)| {
                let major = package[at + 1..].split('.').next().unwrap_or_default();
                !major.is_empty() && major.bytes().all(|byte| byte.is_ascii_digit())
            };
            let (at, _) = package.match_indices('-').find(is_version)?;
            Some(package[..at].replace('-', "_"))
        }
        SourcePath::Checkout { .. } | SourcePath::Other(_) => None,
    }
}

/// The crate of an implementation, by its name: that of the type or that of the trait, and not Rust's library if one of
/// them is not. `None` if both are of other crates. Rust's library has implementations for all types, too: `<app::T as
/// core::convert::Into<U>>::into`; those are known by their source.
fn of_impl(demangled: &str) -> Option<&str> {
    let (of, by) = type_and_trait(demangled)?;
    let (of, by) = (root(of), by.and_then(root));
    let in_library = |name: &str| LIBRARY.iter().position(|krate| *krate == name);
    match (of, by) {
        (Some(of), Some(by)) => match (in_library(of), in_library(by)) {
            (Some(of_at), Some(by_at)) => Some(if of_at > by_at { of } else { by }),
            (None, Some(_)) => Some(of),
            (Some(_), None) => Some(by),
            (None, None) => (of == by).then_some(of),
        },
        (of, by) => of.or(by),
    }
}

/// The crate of the trait of `<T as Trait>::f`.
fn of_trait(demangled: &str) -> Option<&str> {
    root(type_and_trait(demangled)?.1?)
}

/// `T` and `Trait` of `<T as Trait>::f`; `T` of `<T>::f`.
fn type_and_trait(demangled: &str) -> Option<(&str, Option<&str>)> {
    let inside = demangled.strip_prefix('<')?;
    let inside = &inside[..closing(inside)?];
    Some(match top_level_as(inside) {
        Some(at) => (&inside[..at], Some(&inside[at + " as ".len()..])),
        None => (inside, None),
    })
}

/// Where ` as ` is that is in no other brackets.
fn top_level_as(text: &str) -> Option<usize> {
    let mut depth = 0i32;
    let mut found = None;
    let mut before = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            b'>' if before == b'-' => {}
            b'>' | b')' | b']' => depth -= 1,
            b' ' if depth == 0 && text[at..].starts_with(" as ") => found = found.or(Some(at)),
            _ => {}
        }
        before = byte;
    }
    found
}

/// The crate that a path begins with: `a` of `&mut [a::B<c::D>]`. `None` for `u32`, `(a::B, c::D)` and `T`.
fn root(text: &str) -> Option<&str> {
    let mut path = text;
    while let Some(rest) = ["&", "mut ", "*const ", "*mut ", "[", "dyn "]
        .iter()
        .find_map(|sign| path.strip_prefix(sign))
    {
        path = rest;
    }
    let end = path
        .find(|next: char| !next.is_alphanumeric() && next != '_')
        .unwrap_or(path.len());
    (end > 0 && path[end..].starts_with("::")).then(|| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mangled: &str, demangled: &str, source: &str) -> Option<String> {
        of_function(mangled, demangled, Some(source).filter(|source| !source.is_empty()))
    }

    #[test]
    fn a_symbol_begins_with_its_crate() {
        for (mangled, expected) in [
            // core::fmt::Formatter::pad
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", Some("core")),
            ("_ZN5words5merge17h0123456789abcdefE.llvm.123", Some("words")),
            ("_ZN10_my_crate_5merge17h0123456789abcdefE", Some("_my_crate_")),
            // C++: std::thread::join(), and a variable.
            ("_ZNSt6thread4joinEv", None),
            ("_ZN3app5tableE", None),
            ("main", None),
            // `mycrate::foo`, `<mycrate::Example>::foo` and `<mycrate::Example as mycrate::Trait>::foo` of rustc's
            // book.
            ("_RNvCskwGfYPst2Cb_7mycrate3foo", Some("mycrate")),
            ("_RNvMs_CskwGfYPst2Cb_7mycrateNtB2_7Example3foo", Some("mycrate")),
            (
                "_RNvXCskwGfYPst2Cb_7mycrateNtB2_7ExampleNtB2_5Trait3foo",
                Some("mycrate"),
            ),
            // <app::T as core::clone::Clone>::clone, implemented in app, of core's instance in another crate.
            ("_RINvNtC4core3ptr13drop_in_placeNtC3app1TEB2_", Some("core")),
            ("_RNCNvC3app4main0", Some("app")),
            ("_RNvC3__ab4main", Some("_ab")),
            ("_RNvCskwGfYPst2Cb_7___rustc14___rust_dealloc", Some("std")),
            ("_RNvYNtC3app1TNtC4core1D1fB2_", None),
            // A closure in the static `TABLE`.
            (
                "_ZN4core3ptr60drop_in_place$LT$app..TABLE..$u7b$$u7b$closure$u7d$$u7d$$GT$17h0123456789abcdefE",
                Some("core"),
            ),
            ("_R", None),
            ("_RC99999999999999999999x", None),
            ("_ZN99a17h0123456789abcdefE", None),
            ("_ZN17h0123456789abcdefE", None),
        ] {
            assert_eq!(of(mangled, "", "").as_deref(), expected, "{mangled}");
        }
    }

    #[test]
    fn implementations_are_of_the_crate_of_their_source_and_else_by_the_rule_of_orphans() {
        const LEGACY: &str = "_ZN20_$LT$a$u20$as$u20$b$GT$1f17h0123456789abcdefE";
        let vec = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/alloc/src/vec/mod.rs";
        for (demangled, source, expected) in [
            ("<words::Table as core::clone::Clone>::clone", "", Some("words")),
            ("<words::Table as core::convert::Into<U>>::into", vec, Some("alloc")),
            ("<u32 as words::Work>::go", "src/main.rs", Some("words")),
            ("<&mut alloc::vec::Vec<a::B> as words::Work>::go", "", Some("words")),
            ("<alloc::vec::Vec<T> as core::ops::Drop>::drop", "", Some("alloc")),
            ("<a::B as c::D<e::F>>::go", "", None),
            ("<a::B<<c::D as e::F>::G> as a::H>::go", "", Some("a")),
            ("<(a::B, u8) as core::hash::Hash>::hash", "", Some("core")),
            ("<alloc::vec::Vec<u8> as std::io::Write>::write_all", "", Some("std")),
            // A program may be called `test`.
            ("<test::T as serde::Serialize>::serialize", "", None),
            ("<[u8]>::len", "", None),
            ("<", "", None),
            ("<>", "", None),
        ] {
            assert_eq!(of(LEGACY, demangled, source).as_deref(), expected, "{demangled}");
            assert_eq!(of("f", demangled, "").as_deref(), None, "not a name of Rust");
        }
    }

    #[test]
    fn provided_methods_are_of_the_crate_of_their_trait() {
        for (mangled, demangled, expected) in [
            (
                "_RNvYNtC3app2ItNtNtNtNtC4core4iter6traits8iterator8Iterator3nthB4_",
                "<app::It as core::iter::traits::iterator::Iterator>::nth",
                "core",
            ),
            (
                "_RNvYINtNtC5alloc3vec3VechENtNtC3std2io5Write9write_fmtC3app",
                "<alloc::vec::Vec<u8> as std::io::Write>::write_fmt",
                "std",
            ),
        ] {
            assert_eq!(of(mangled, demangled, "").as_deref(), Some(expected), "{demangled}");
        }
    }

    #[test]
    fn sources_of_packages_have_their_crate() {
        let registry = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        for (source, expected) in [
            (format!("{registry}/rustc-hash-2.1.1/src/lib.rs"), Some("rustc_hash")),
            (format!("{registry}/sha-1-0.10.1/src/lib.rs"), Some("sha_1")),
            (
                format!("{registry}/zstd-sys-2.0.16+zstd.1.5.7/zstd/lib/compress.c"),
                Some("zstd_sys"),
            ),
            (
                "cargo:index.crates.io-1949cf8c6b5b557f:serde-1.0.1:src/de.rs".to_owned(),
                Some("serde"),
            ),
            ("/rust/deps/hashbrown-0.16.1/src/map.rs".to_owned(), Some("hashbrown")),
            ("lib/rustlib/src/rust/library/std/src/io/mod.rs".to_owned(), Some("std")),
            (
                "lib/rustlib/src/rust/library/stdarch/crates/core_arch/src/x86/sse2.rs".to_owned(),
                Some("core"),
            ),
            ("/home/me/app/src/main.rs".to_owned(), None),
            (
                "git/checkouts/serde-1949cf8c6b5b557f/59807616/src/de.rs".to_owned(),
                None,
            ),
        ] {
            assert_eq!(of("work", "work", &source).as_deref(), expected, "{source}");
        }
    }
}
