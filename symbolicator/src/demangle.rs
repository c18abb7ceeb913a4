//! Demangles symbol names.

use std::fmt;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};
use names::rust_name::readable;

/// Longest demangled name in bytes. Substitutions in a mangled name can double its size with every few characters;
/// the longest seen in real programs (C++ expression templates, nested Rust futures) are below 20 KB.
const MAX_NAME_BYTES: usize = 64 * 1024;

/// Names nested deeper than this stay mangled: the demangler recurses.
const MAX_DEPTH: u32 = 128;

/// Demangles Rust (legacy and v0, in [one form](names::rust_name), without the hash) and C++ (Itanium); other names
/// stay unchanged.
///
/// The leading underscore of a C name stays: in ELF it is part of the name.
///
/// ```
/// assert_eq!(symbolicator::demangle("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
/// assert_eq!(symbolicator::demangle("__libc_start_main"), "__libc_start_main");
/// ```
pub fn demangle(name: &str) -> String {
    // Only names with these prefixes are mangled on ELF. Other names would be misread (C's `_Z` is reserved, `f` is
    // not).
    if (name.starts_with("_R") || name.starts_with("_ZN"))
        && let Ok(rust) = rustc_demangle::try_demangle(name)
    {
        let mut out = BoundedName::default();
        let written = fmt::Write::write_fmt(&mut out, format_args!("{rust:#}"));
        return written.map_or_else(|_| name.to_owned(), |()| readable(&out.0).into_owned());
    }
    if name.starts_with("_Z") || name.starts_with("___Z") {
        return cpp(name)
            .or_else(|| without_types(name))
            .unwrap_or_else(|| name.to_owned());
    }
    name.to_owned()
}

fn cpp(name: &str) -> Option<String> {
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = Symbol::new_with_options(name, &parse).ok()?;
    let mut out = BoundedName::default();
    let options = DemangleOptions::new().recursion_limit(MAX_DEPTH);
    symbol.structured_demangle(&mut out, &options).ok()?;
    Some(without_empty_packs(out.0))
}

/// A function template's name, with `(...)` for its parameters. cpp_demangle 0.5.1 cannot read return types and
/// parameters that depend on `std::is_scalar<T>::value` and the like (`srSt11__is_scalarIT_E`); libstdc++ has such
/// functions for algorithms and strings.
fn without_types(name: &str) -> Option<String> {
    /// Longer names stay mangled: each `E` costs a try.
    const TRIES: usize = 64;
    // Template arguments end with an E. Nothing shorter than all of them is a name.
    let ends = name.match_indices('E').map(|(at, _)| at + 1).take(TRIES);
    let void = |end: usize| cpp(&format!("{}vv", &name[..end]));
    let found = ends.filter_map(void).next()?;
    Some(format!("{}(...)", found.strip_prefix("void ")?.strip_suffix("()")?))
}

/// True for a name that a compiler mangled: of C++, Rust, Swift or D.
pub(crate) fn is_mangled(name: &str) -> bool {
    let is_d = || {
        name.strip_prefix("_D")
            .is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    let starts = ["_Z", "__Z", "___Z", "_R", "$s", "_$s", "$S", "_$S"];
    starts.iter().any(|start| name.starts_with(start)) || is_d()
}

/// `f<A, >(B, )` is `f<A>(B)`: cpp_demangle writes the comma before a parameter pack (`J`) also where the pack is
/// empty.
fn without_empty_packs(name: String) -> String {
    let is_at_pack = |rest: &str| [", >", ", ,", ", )"].iter().any(|end| rest.starts_with(end));
    if !name.match_indices(", ").any(|(at, _)| is_at_pack(&name[at..])) {
        return name;
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while let Some(at) = rest.find(", ") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        out.push_str(before);
        if !is_at_pack(&rest[at..]) {
            out.push_str(", ");
        } else if after.starts_with('>') && out.ends_with('>') {
            // As elsewhere in these names: `A<B<C> >`.
            out.push(' ');
        }
        rest = after;
    }
    out + rest
}

/// A string with a maximum length.
#[derive(Default)]
struct BoundedName(String);

impl fmt::Write for BoundedName {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > MAX_NAME_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn rust_names_lose_their_hash() {
        assert_eq!(
            demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"),
            "core::fmt::Formatter::pad"
        );
        assert_eq!(demangle("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
    }

    #[test]
    fn cpp_names_keep_their_parameters() {
        assert_eq!(demangle("_ZN5space3fooEii"), "space::foo(int, int)");
        assert_eq!(demangle("_ZN5space3fooEi.cold"), "space::foo(int) [clone .cold]");
    }

    #[test]
    fn cpp_names_whose_types_cannot_be_read_are_names() {
        // Names in programs with libstdc++.
        for (mangled, name) in [
            (
                "_ZSt9__fill_a1IPddEN9__gnu_cxx11__enable_ifIXsrSt11__is_scalarIT0_E7__valueEvE6__typeET_S8_RKS4_",
                "std::__fill_a1<double*, double>(...)",
            ),
            (
                "_ZSt4swapIN7Konsole12LinePropertyEENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_E\
                 ESt21is_move_constructibleIS6_ESt18is_move_assignableIS6_EEE5valueEvE4typeERS6_SG_",
                "std::swap<Konsole::LineProperty>(...)",
            ),
        ] {
            assert_eq!(demangle(mangled), name);
        }
        for mangled in ["_ZE", "_ZSt4swapIN7KonsoleE", "_ZÉE"] {
            assert_eq!(demangle(mangled), mangled);
        }
    }

    #[test]
    fn empty_parameter_packs_leave_no_comma() {
        // Names in LLVM.
        for (mangled, name) in [
            (
                "_ZN4llvm15AnalysisManagerINS_6ModuleEJEE5clearEv",
                "llvm::AnalysisManager<llvm::Module>::clear()",
            ),
            (
                "_ZN4llvm11PassManagerINS_6ModuleENS_15AnalysisManagerIS1_JEEEJEE3runERS1_RS3_",
                "llvm::PassManager<llvm::Module, llvm::AnalysisManager<llvm::Module> >::run(llvm::Module&, \
                 llvm::AnalysisManager<llvm::Module>&)",
            ),
            ("_Z1fIiJdEEvT_DpT0_", "void f<int, double>(int, double)"),
            ("_Z1fIiJEEvT_DpT0_", "void f<int>(int)"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }

    #[test]
    fn c_names_stay() {
        for name in [
            "_start",
            "main",
            "__libc_start_main",
            "_Zebra",
            "f",
            "i",
            "_R",
            "_ZN",
            "$s4main3fooyyF",
            "-[Shape area]",
            "",
        ] {
            assert_eq!(demangle(name), name);
        }
    }

    #[test]
    fn names_that_grow_without_bound_stay_mangled() {
        // Each `S<n>_` repeats all that came before it: 2^40 characters when spelled out.
        let mut bomb = String::from("_Z1fPFvv");
        for _ in 0..400 {
            bomb.push_str("PFS_S_S_E");
        }
        assert!(demangle(&bomb).len() <= super::MAX_NAME_BYTES.max(bomb.len()));
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert_eq!(demangle(&deep), deep);
    }
}
