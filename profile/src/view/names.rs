//! Shortens names of functions from Rust and C++ demanglers.

use recording::rust_name::{closing, readable};
use recording::v8::without_place;

/// The name with all generic arguments as `_`: one name for all instances of a generic function. A C++ parameter list goes too if it
/// contained generic arguments.
///
/// `alloc::vec::Vec<u8>::push` -> `alloc::vec::Vec<_>::push`, `<Vec<u8> as Clone>::clone` -> `<Vec<_> as Clone>::clone`.
pub fn merged(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let generic = strip(name, "<_>", &mut out, 0);
    if generic {
        drop_parameters(&mut out);
    }
    out
}

/// The name without generic arguments and C++ parameters, for rules on names.
pub(super) fn bare(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    strip(name, "", &mut out, 0);
    drop_parameters(&mut out);
    out
}

/// Indices of the names that match the function `asked`: equal names; or else names that equal it or end with its path once generic
/// arguments, parameters and places are removed: `app::parse`, Go's `app.parse` and JavaScript's `parse app.js:1:2` match `parse`.
pub fn of_name<'a>(names: impl Iterator<Item = &'a str> + Clone, asked: &str) -> Vec<usize> {
    if asked.is_empty() {
        return Vec::new();
    }
    let asked = &*readable(asked);
    let indices = |is_it: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let named = names.clone().enumerate().filter(|(_, name)| is_it(name));
        named.map(|(index, _)| index).collect()
    };
    let exact = indices(&|name| readable(name) == asked);
    if !exact.is_empty() {
        return exact;
    }
    indices(&|name| {
        let name = &*readable(name);
        let bare = bare(without_place(name));
        let before = bare.strip_suffix(asked);
        before.is_some_and(|before| before.is_empty() || before.ends_with("::") || before.ends_with('.'))
            || merged(name) == asked
    })
}

/// [`merged`], without a C++ parameter list and without the modules of types in angle brackets:
/// `<alloc::vec::Vec<u8> as core::clone::Clone>::clone` -> `<Vec<_> as Clone>::clone`.
pub fn short(name: &str) -> String {
    let mut merged = merged(name);
    drop_parameters(&mut merged);
    let (mut out, mut depth) = (String::with_capacity(merged.len()), 0usize);
    // Start of the path that is being written.
    let mut start = 0;
    let mut rest = merged.as_str();
    while let Some(c) = rest.chars().next() {
        if depth > 0 && rest.starts_with("::") {
            out.truncate(start);
            rest = &rest[2..];
            continue;
        }
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        out.push(c);
        if !(c.is_alphanumeric() || c == '_') {
            start = out.len();
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// True if the function's name is unknown: an address, a name made of an address, or another profiler's placeholder.
pub fn is_nameless(name: &str) -> bool {
    let is_address = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.starts_with("0x")
        || name.starts_with("[kernel] 0x")
        || name == "[unknown]"
        || name.strip_prefix("fun_").is_some_and(is_address)
}

/// Brackets nested deeper stay as they are.
const MAX_DEPTH: usize = 50;

/// Copies `text` with `instead` for generic arguments. Returns whether there were any.
fn strip(text: &str, instead: &str, out: &mut String, depth: usize) -> bool {
    let mut found = false;
    let mut at = 0;
    while let Some(open) = text[at..].find('<') {
        let open = at + open;
        out.push_str(&text[at..open]);
        if out.ends_with("operator") {
            // `operator<`, `operator<<`, `operator<=>`: no bracket.
            let end = text[open..].find(|c| !matches!(c, '<' | '=' | '>'));
            at = end.map_or(text.len(), |end| open + end);
            out.push_str(&text[open..at]);
            continue;
        }
        let Some(close) = closing(&text[open + 1..]).map(|close| open + 1 + close) else {
            out.push_str(&text[open..]);
            return found;
        };
        let inner = &text[open + 1..close];
        // `<T as Trait>::f`, `core::slice::<impl [T]>::sort`: a bracket around a type, not after one.
        let around = !out.ends_with(|c: char| c.is_alphanumeric() || "_:)]}".contains(c)) || inner.starts_with("impl ");
        if around && depth < MAX_DEPTH {
            out.push('<');
            found |= strip(inner, instead, out, depth + 1);
            out.push('>');
        } else {
            if instead.is_empty() && out.ends_with("::") {
                out.truncate(out.len() - 2);
            }
            out.push_str(instead);
            found = true;
        }
        at = close + 1;
    }
    out.push_str(&text[at..]);
    found
}

/// `f(int, char const*) const` -> `f`; `(anonymous namespace)::f` and `operator()` keep theirs.
fn drop_parameters(name: &mut String) {
    let end = name.trim_end_matches(" const").len();
    if !name[..end].ends_with(')') {
        return;
    }
    let mut depth = 0usize;
    for (at, byte) in name[..end].bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => {
                depth -= 1;
                if depth == 0 {
                    let is_name = at == 0 || name[..at].ends_with("operator") || name[..at].ends_with("::");
                    if !is_name {
                        name.truncate(at);
                    }
                    return;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_generics_have_one_name() {
        for (name, expected) in [
            ("alloc::vec::Vec<T,A>::push", "alloc::vec::Vec<_>::push"),
            ("<alloc::vec::Vec<u8>>::push", "<alloc::vec::Vec<_>>::push"),
            ("core::iter::map::<fn(u8) -> Option<u8>, ()>", "core::iter::map::<_>"),
            (
                "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
                "<alloc::vec::Vec<_> as core::clone::Clone>::clone",
            ),
            (
                "core::slice::<impl [T]>::sort_unstable_by::{{closure}}",
                "core::slice::<impl [T]>::sort_unstable_by::{{closure}}",
            ),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "std::vector<_>::push_back",
            ),
            ("void sort<long*>(long*, long*)", "void sort<_>"),
            ("operator<(A const&, A const&)", "operator<(A const&, A const&)"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)"),
            ("main", "main"),
            ("a < b", "a < b"),
        ] {
            assert_eq!(merged(name), expected);
        }
    }

    #[test]
    fn a_function_is_meant_by_its_name_or_its_last_parts() {
        let names = [
            "app::parse::<u8>",
            "app::reparse",
            "main.parse",
            "ns::f(int)",
            "f",
            "a::f",
            "get size app.js:12:3",
        ];
        for (asked, expected) in [
            ("get size", &[6][..]),
            ("get size app.js:12:3", &[6]),
            ("parse", &[0, 2]),
            ("app::parse", &[0]),
            ("app::parse::<_>", &[0]),
            ("app::reparse", &[1]),
            ("ns::f", &[3]),
            ("f", &[4]),
            ("pars", &[]),
            ("", &[]),
        ] {
            assert_eq!(of_name(names.into_iter(), asked), expected, "{asked}");
        }
    }

    #[test]
    fn bare_names_have_neither_types_nor_parameters() {
        for (name, expected) in [
            ("alloc::vec::Vec<T,A>::push", "alloc::vec::Vec::push"),
            (
                "core::ptr::drop_in_place::<alloc::string::String>",
                "core::ptr::drop_in_place",
            ),
            ("operator new(unsigned long)", "operator new"),
            ("foo::operator()(int) const", "foo::operator()"),
            ("std::ostream::operator<<(int)", "std::ostream::operator<<"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ] {
            assert_eq!(bare(name), expected);
        }
    }

    #[test]
    fn short_names_keep_the_function_s_own_path() {
        assert_eq!(
            short("<alloc::vec::Vec<u8> as core::clone::Clone>::clone"),
            "<Vec<_> as Clone>::clone"
        );
        assert_eq!(short("alloc::vec::Vec<u8>::push"), "alloc::vec::Vec<_>::push");
        assert_eq!(short("std::map<int, int>::at"), "std::map<_>::at");
        assert_eq!(
            short("v8::internal::String::Hash(v8::internal::Guard const&) const"),
            "v8::internal::String::Hash"
        );
    }
}
