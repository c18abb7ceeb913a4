//! Whether a symbol is the function that someone named.
//!
//! Functions are named as in the source: `function`, `app::module::function`, `Type::method`. Additions of the compiler
//! are left out: arguments, template and generic arguments, return types, hashes, suffixes of copies. A name means all
//! instances of a generic function; the full name or the symbol's name means one of them.

use names::rust_name::readable;

use crate::demangle::demangle;

/// Suffixes of copies of a function: gcc's constant propagation and removed arguments, names made unique by LTO. Calls
/// go to the copies.
const COPIES: [&str; 5] = ["constprop", "isra", "lto_priv", "llvm", "localalias"];
/// Suffixes of parts of a function: its middle jumps to them.
const PARTS: [&str; 2] = ["cold", "part"];

/// A function by its name.
pub(super) struct FunctionPattern {
    /// As the user wrote it.
    typed: String,
    /// In the form of demangled names.
    name: String,
    plain: String,
    /// The last part of the name, which is in the symbol's name, mangled or not.
    identifier: String,
}

/// How a symbol matches a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameMatch {
    /// The function.
    Whole,
    /// A part of the function, outlined by the compiler.
    Part,
    /// A function with the same last part of the name in another scope.
    Similar,
    No,
}

impl FunctionPattern {
    pub(super) fn new(name: &str) -> FunctionPattern {
        let typed = name.to_owned();
        let name = &*readable(name);
        let plain = plain(name);
        let identifier = plain
            .rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .next()
            .unwrap_or_default()
            .to_owned();
        FunctionPattern {
            typed,
            name: name.to_owned(),
            plain,
            identifier,
        }
    }

    /// Compares a symbol, mangled or not.
    pub(super) fn matches(&self, symbol: &str) -> NameMatch {
        if symbol == self.typed {
            return NameMatch::Whole;
        }
        // To demangle all symbols of a large program takes a second.
        if !symbol.contains(&self.identifier) {
            return NameMatch::No;
        }
        let (base, suffix) = split_suffix(symbol);
        let full = demangle(base);
        let found = plain(&full);
        let same = base == self.name || full == self.name || found == self.plain && self.plain == self.name;
        match (same, suffix) {
            (true, Suffix::None | Suffix::Copy) => NameMatch::Whole,
            (true, Suffix::Part) => NameMatch::Part,
            (false, Suffix::None) if !self.plain.is_empty() && ends_in_path(&found, &self.plain) => NameMatch::Similar,
            _ => NameMatch::No,
        }
    }

    /// Compares a name of the debug info, which may lack the path.
    pub(super) fn is_meant(&self, name: &str) -> bool {
        self.matches(name) == NameMatch::Whole
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suffix {
    None,
    Copy,
    Part,
}

/// `work.constprop.0` is `work`, a copy.
fn split_suffix(symbol: &str) -> (&str, Suffix) {
    let Some((base, suffix)) = symbol.split_once('.') else {
        return (symbol, Suffix::None);
    };
    let mut kind = Suffix::None;
    for word in suffix.split('.') {
        if PARTS.contains(&word) {
            return (base, Suffix::Part);
        }
        if COPIES.contains(&word) {
            kind = Suffix::Copy;
        }
    }
    match kind {
        // The symbol has a dot in its name.
        Suffix::None => (symbol, Suffix::None),
        kind => (base, kind),
    }
}

fn ends_in_path(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|before| before.ends_with("::"))
}

/// The path of a function without arguments of any kind: `int space::max<int>(int, int)` is `space::max`.
fn plain(name: &str) -> String {
    let name = name.split(" [clone").next().unwrap_or(name);
    // `<T as Trait>::method`: brackets at the start are a part of the path.
    let keep_until = if name.starts_with('<') { closing(name, 0) } else { 0 };
    let mut out = name.get(..keep_until).unwrap_or_default().to_owned();
    let mut at = keep_until;
    while let Some(c) = name.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = &name[at..];
        if rest.starts_with("operator") && !out.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            let end = at + operator_bytes(rest);
            out.push_str(&name[at..end]);
            at = end;
            continue;
        }
        match c {
            '<' => {
                at = closing(name, at);
                // Rust writes `path::<T>`.
                if out.ends_with("::") {
                    out.truncate(out.len() - 2);
                }
                continue;
            }
            '(' if rest.starts_with("(anonymous namespace)") => {
                out.push_str("(anonymous namespace)");
                at += "(anonymous namespace)".len();
                continue;
            }
            '{' => {
                let end = closing(name, at);
                out.push_str(&name[at..end]);
                at = end;
                continue;
            }
            '(' | '[' => break,
            // The return type of a template.
            ' ' => out.clear(),
            c => out.push(c),
        }
        at += c.len_utf8();
    }
    out
}

/// Length of `operator<<` in `operator<<(...)`.
fn operator_bytes(rest: &str) -> usize {
    if rest.starts_with("operator()") {
        return "operator()".len();
    }
    let is_word = rest
        .as_bytes()
        .get("operator".len())
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if is_word {
        "operator".len()
    } else {
        rest.find('(').unwrap_or(rest.len())
    }
}

/// The index behind the bracket that closes the one at `at`; the end if none does.
fn closing(name: &str, at: usize) -> usize {
    let mut depth = 0usize;
    let mut before = ' ';
    for (index, c) in name.char_indices().skip_while(|(index, _)| *index < at) {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            // `->`, in the types of Rust's functions.
            '>' if before == '-' => {}
            '>' | ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
        if depth == 0 {
            return index + c.len_utf8();
        }
    }
    name.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_without_what_the_compiler_adds() {
        for (full, path) in [
            ("work", "work"),
            ("space::foo(int, int)", "space::foo"),
            ("int space::max<int>(int, int)", "space::max"),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "std::vector::push_back",
            ),
            (
                "(anonymous namespace)::hidden(unsigned long)",
                "(anonymous namespace)::hidden",
            ),
            ("app::module::function", "app::module::function"),
            ("app::generic::<u64>", "app::generic"),
            ("app::generic::<fn(u8) -> u64>::inner", "app::generic::inner"),
            (
                "<app::Type as core::fmt::Display>::fmt",
                "<app::Type as core::fmt::Display>::fmt",
            ),
            ("app::main::{closure}", "app::main::{closure}"),
            (
                "main::{lambda(int)#1}::operator()(int) const",
                "main::{lambda(int)#1}::operator()",
            ),
            ("space::operator<<(std::ostream&, int)", "space::operator<<"),
            ("space::foo(int) [clone .cold]", "space::foo"),
            ("", ""),
        ] {
            assert_eq!(plain(full), path, "{full}");
        }
    }

    #[test]
    fn a_function_is_meant_by_its_path_its_whole_name_or_its_symbol() {
        let matches = |name: &str, symbol: &str| FunctionPattern::new(name).matches(symbol);
        let symbol = "_ZN5space3fooEii";
        for name in ["space::foo", "space::foo(int, int)", symbol] {
            assert_eq!(matches(name, symbol), NameMatch::Whole, "{name}");
        }
        assert_eq!(matches("foo", symbol), NameMatch::Similar);
        assert_eq!(matches("space::foo(int)", symbol), NameMatch::No, "another overload");
        assert_eq!(matches("space::fo", symbol), NameMatch::No);
        let legacy = "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE";
        assert_eq!(matches("core::fmt::Formatter::pad", legacy), NameMatch::Whole);
        assert_eq!(matches("Formatter::pad", legacy), NameMatch::Similar);
        // `crate::one::<u64>` in the v0 mangling: all instances, or one of them.
        let generic = "_RINvCs1234_5crate3oneyEB2_";
        assert_eq!(matches("crate::one", generic), NameMatch::Whole);
        assert_eq!(matches("crate::one::<u64>", generic), NameMatch::Whole);
        assert_eq!(matches("crate::one::<u32>", generic), NameMatch::No);
    }

    #[test]
    fn copies_are_the_function_and_parts_are_not() {
        let matches = |symbol: &str| FunctionPattern::new("work").matches(symbol);
        assert_eq!(matches("work.constprop.0"), NameMatch::Whole);
        assert_eq!(matches("work.isra.0.constprop.1"), NameMatch::Whole);
        assert_eq!(matches("work.cold"), NameMatch::Part);
        assert_eq!(matches("work.part.0"), NameMatch::Part);
        assert_eq!(matches("work.other"), NameMatch::No);
        assert_eq!(matches("homework"), NameMatch::No);
        assert_eq!(
            FunctionPattern::new("work.cold").matches("work.cold"),
            NameMatch::Whole,
            "who asks for it"
        );
    }

    proptest! {
        // The same cases in each run.
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_names_are_compared(name in "[a-z:<>(){}\\[\\] &-]{0,40}|.{0,30}", symbol in "[a-z:<>(){}\\[\\] .-]{0,40}|.{0,30}") {
            let wanted = FunctionPattern::new(&name);
            wanted.matches(&symbol);
            prop_assert_eq!(wanted.matches(&name), NameMatch::Whole);
        }
    }
}
