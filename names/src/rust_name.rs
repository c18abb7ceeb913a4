//! One form for the names of Rust functions, whichever mangling and debug info they come from.

use std::borrow::Cow;

/// A longer name stays as it is: each bracket is followed to its end.
const MAX_BYTES: usize = 64 << 10;

/// The name as it stands in the source, as far as the demangled name shows it.
///
/// - `app::main::{{closure}}` (legacy mangling) is `app::main::{closure}`.
/// - `sort::driftsort::<u32>` (v0 mangling) is `sort::driftsort<u32>`, as in debug info.
/// - `<alloc::vec::Vec<u8>>::push` (v0) is `alloc::vec::Vec<u8>::push`; `<T as Trait>::f`, `<[u8]>::len` and
///   `<u64>::pow` stay.
///
/// Names of C++ stay: `operator<`, and gcc's `main()::<lambda(int)>`.
pub fn readable(name: &str) -> Cow<'_, str> {
    if name.len() > MAX_BYTES || !name.contains("::<") && !name.contains("{{closure}}") && !name.starts_with('<') {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let (of, rest) = inherent(name).unwrap_or(("", name));
    push_readable(&mut out, of);
    push_readable(&mut out, rest);
    Cow::Owned(out)
}

fn push_readable(out: &mut String, name: &str) {
    let mut rest = name;
    while let Some(at) = rest.find("::<").into_iter().chain(rest.find("{{closure}}")).min() {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{{closure}}") {
            out.push_str("{closure}");
            rest = after;
            continue;
        }
        let after = &rest["::".len()..];
        if !is_arguments(after) {
            out.push_str("::");
        }
        out.push('<');
        rest = &after[1..];
    }
    out.push_str(rest);
}

/// True for `<u32>::f` and `<u32>`; not for `<impl [T]>::sort`, which is around a type, Java's `<init>`, gcc's
/// `<lambda(int)>` and .NET's `<Main>b__0`.
fn is_arguments(text: &str) -> bool {
    let Some((inside, after)) = text
        .strip_prefix('<')
        .and_then(|text| Some(text.split_at(closing(text)?)))
    else {
        return false;
    };
    let is_other = inside.starts_with("impl ") || inside.starts_with("lambda(") || ["init", "clinit"].contains(&inside);
    let continues = after[1..].starts_with(|next: char| next.is_alphanumeric() || next == '_' || next == '$');
    !is_other && !continues
}

/// Index in `inside` of the angle bracket that closes the one right before `inside`. `None` if none does.
pub fn closing(inside: &str) -> Option<usize> {
    let (mut depth, mut before) = (0usize, 0);
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            // `fn() -> T`
            b'>' if before == b'-' => {}
            b'>' if depth == 0 => return Some(at),
            b'>' => depth -= 1,
            _ => {}
        }
        before = byte;
    }
    None
}

/// (`a::Table<u32>`, `::merge`) of `<a::Table<u32>>::merge`. Only a type with a path reads as one without its bracket.
fn inherent(name: &str) -> Option<(&str, &str)> {
    let inside = name.strip_prefix('<')?;
    let (of, after) = inside.split_at_checked(closing(inside)?)?;
    // Before its arguments, a path has none of what a trait, a pointer, a tuple or a slice has.
    let is_path = !of.split('<').next()?.contains([' ', '[', '(', '&', '*']) && !of.ends_with(']');
    // `<a::B<c> as d::E>`
    let is_type = of
        .find('<')
        .is_none_or(|at| closing(&of[at + 1..]).is_some_and(|end| !of[at + 1 + end..].contains(' ')));
    let after = after.strip_prefix('>')?;
    (is_path && is_type && of.contains("::") && after.starts_with("::")).then_some((of, after))
}

/// The name of a function whose debug info has `plain`, given the name that its symbol has: the symbol has the path,
/// the debug info knows what a closure is. `None` if they are not names of one function. Arguments are not compared:
/// compilers write them in several forms.
///
/// (`merge`, `words::merge`) is `words::merge`; (`{async_block#0}`, `app::main::{closure}`) is
/// `app::main::{async_block}`; (`{async_fn#0}`, `app::fetch::{closure}`), the state machine of an `async fn`, is
/// `app::fetch`.
pub fn with_path(plain: &str, symbol: &str) -> Option<String> {
    let plain = without_arguments(plain);
    let (path, last) = last_part(symbol)?;
    if without_arguments(last) == plain {
        return (!path.is_empty()).then(|| symbol.to_owned());
    }
    // A name from the legacy mangling has no number.
    let number = last.strip_prefix("{closure").filter(|_| !path.is_empty())?;
    let (kind, plain_number) = plain
        .strip_prefix('{')?
        .split_at_checked(plain.find(['#', '}'])?.checked_sub(1)?)?;
    if number.starts_with('#') && number != plain_number {
        return None;
    }
    match kind {
        "closure" => Some(symbol.to_owned()),
        "async_fn" => Some(path.to_owned()),
        kind @ ("async_block" | "async_closure") => Some(format!("{path}::{{{kind}{number}")),
        _ => None,
    }
}

fn without_arguments(part: &str) -> &str {
    match part.find('<') {
        Some(at) if at > 0 => &part[..at],
        _ => part,
    }
}

/// Splits a path before its last part: (`<T as a::Trait>`, `f<b::C>`) for `<T as a::Trait>::f<b::C>`. The first part is
/// empty if the name has one part. `None` if brackets do not match.
pub fn last_part(name: &str) -> Option<(&str, &str)> {
    let bytes = name.as_bytes();
    let mut depth = 0usize;
    let mut at = bytes.len();
    while at > 0 {
        at -= 1;
        match bytes[at] {
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth += 1,
            b'<' | b'(' | b'[' | b'{' => depth = depth.checked_sub(1)?,
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => return Some((&name[..at - 1], &name[at + 1..])),
            _ => {}
        }
    }
    Some(("", name))
}

#[cfg(test)]
mod tests {
    use super::{readable, with_path};

    #[test]
    fn both_manglings_give_one_form() {
        for (name, expected) in [
            ("words::words::merge", "words::words::merge"),
            ("words::main::{{closure}}", "words::main::{closure}"),
            (
                "tokio::spawn::<lambda_runtime::Ctx>",
                "tokio::spawn<lambda_runtime::Ctx>",
            ),
            ("a::f::{{closure}}::{{closure}}", "a::f::{closure}::{closure}"),
            (
                "a::sort::<u32, <u32 as a::Ord>::lt>",
                "a::sort<u32, <u32 as a::Ord>::lt>",
            ),
            ("<alloc::vec::Vec<u8>>::push", "alloc::vec::Vec<u8>::push"),
            (
                "<a::Table<fn(u8) -> u8>>::merge::<u8>",
                "a::Table<fn(u8) -> u8>::merge<u8>",
            ),
            ("<u32 as words::Work>::go", "<u32 as words::Work>::go"),
            (
                "<a::B as c::D<e::F>>::go::{closure#0}",
                "<a::B as c::D<e::F>>::go::{closure#0}",
            ),
            ("<[u8]>::len", "<[u8]>::len"),
            ("<u64>::wrapping_mul", "<u64>::wrapping_mul"),
            ("<*const a::B>::add", "<*const a::B>::add"),
            ("core::slice::<impl [T]>::sort", "core::slice::<impl [T]>::sort"),
        ] {
            assert_eq!(readable(name), expected);
            assert_eq!(readable(expected), expected, "once is enough");
        }
    }

    #[test]
    fn names_of_others_stay() {
        for name in [
            "main",
            "operator< <int>(a<int> const&)",
            "main()::<lambda(int)>",
            "java.lang.String::<init>",
            "App.Program::<Main>b__0",
            "App.Program::<Main>$(string[])",
            "(anonymous namespace)::f(std::vector<int>)",
            "<",
            "<>",
            "<a",
            "<a::b",
            "<a::b>>>",
            "<lambda(int)>::operator()(int) const",
            "",
        ] {
            assert_eq!(readable(name), name);
        }
    }

    #[test]
    fn names_of_the_debug_info_get_the_path_of_their_symbol() {
        for (plain, symbol, expected) in [
            ("merge", "words::merge", Some("words::merge")),
            ("go", "<u32 as words::Work>::go", Some("<u32 as words::Work>::go")),
            ("merge<u32>", "words::Table<T>::merge", Some("words::Table<T>::merge")),
            (
                "sort<u32, fn(&u32) -> bool>",
                "a::sort<u32, <u32 as b::C>::lt>",
                Some("a::sort<u32, <u32 as b::C>::lt>"),
            ),
            ("{closure#1}", "app::main::{closure}", Some("app::main::{closure}")),
            (
                "{closure#0}<()>",
                "std::rt::lang_start::{closure#0}",
                Some("std::rt::lang_start::{closure#0}"),
            ),
            ("{async_fn#0}", "app::fetch::{closure}", Some("app::fetch")),
            (
                "{async_block#1}",
                "app::main::{closure#1}",
                Some("app::main::{async_block#1}"),
            ),
            ("{async_fn#0}<T>", "app::fetch<T>::{closure#0}", Some("app::fetch<T>")),
            (
                "{async_block#0}",
                "app::fetch::{closure}::{closure}",
                Some("app::fetch::{closure}::{async_block}"),
            ),
            ("{closure#1}", "app::main::{closure#0}", None),
            // Functions that the linker made one, and C.
            ("merge", "words::split", None),
            ("merge", "words::remerge", None),
            ("work", "work", None),
            ("work", "work.constprop.0", None),
            ("{async_fn#0}", "{closure}", None),
            ("", "words::merge", None),
            ("{", "}", None),
        ] {
            assert_eq!(with_path(plain, symbol).as_deref(), expected, "{plain} of {symbol}");
        }
    }
}
