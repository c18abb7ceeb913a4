//! Shortens names of functions from Rust and C++ demanglers.

use std::borrow::Cow;

use recording::rust_name::readable;
use recording::v8::without_place;

/// The name with all generic arguments as `_`: one name for all instances of a generic function. C++ return types and
/// parameter lists go too if the name contained generic arguments.
///
/// `alloc::vec::Vec<u8>::push` -> `alloc::vec::Vec<_>::push`, `<Vec<u8> as Clone>::clone` -> `<Vec<_> as Clone>::clone`.
pub fn merged(name: &str) -> String {
    let name = &*with_usual_types(name);
    let style = Style {
        generics: "<_>",
        ..Style::default()
    };
    let path = Path::parse(name, style);
    match path.is_generic {
        true => format!("{}{}", path.join(), path.clone),
        false => name.to_owned(),
    }
}

/// The name without generic arguments, C++ return type and parameters, for rules on names.
pub(super) fn bare(name: &str) -> String {
    Path::parse(name, Style::default()).join()
}

/// A short name by which [`of_name`] finds the function.
pub fn to_ask(name: &str) -> String {
    bare(without_place(&readable(name)))
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

/// [`merged`], without a C++ return type and parameter list, and without the modules of types in angle brackets:
/// `<alloc::vec::Vec<u8> as core::clone::Clone>::clone` -> `<Vec<_> as Clone>::clone`.
pub fn short(name: &str) -> String {
    let style = Style {
        generics: "<_>",
        has_modules: false,
        ..Style::default()
    };
    Path::parse(&with_usual_types(name), style).join()
}

/// The name in two shorter forms, for places with less room: without generic arguments, and of that the last two
/// parts, type and method. No form is or has a part of an argument list.
pub fn labels(name: &str) -> [String; 2] {
    let style = Style {
        has_modules: false,
        has_lambda_parameters: false,
        ..Style::default()
    };
    let name = with_usual_types(name);
    let path = Path::parse(&name, style);
    let last = &path.parts[path.parts.len().saturating_sub(2)..];
    [path.join(), last.join("::")]
}

/// True if the function's name is unknown: an address, a name made of an address, or another profiler's placeholder.
pub fn is_nameless(name: &str) -> bool {
    let is_address = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.starts_with("0x")
        || name.starts_with("[kernel] 0x")
        || name == "[unknown]"
        || name.strip_prefix("fun_").is_some_and(is_address)
}

/// How [`Path::parse`] writes a name.
#[derive(Clone, Copy)]
struct Style {
    /// What stands for generic arguments.
    generics: &'static str,
    /// Keeps the modules of types in angle brackets.
    has_modules: bool,
    /// Keeps the parameters in `{lambda(int)#1}`.
    has_lambda_parameters: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            generics: "",
            has_modules: true,
            has_lambda_parameters: true,
        }
    }
}

/// Demanglers write these before the name of what they are of.
const PREFIXES: &[&str] = &[
    "vtable for ",
    "VTT for ",
    "typeinfo for ",
    "typeinfo name for ",
    "construction vtable for ",
    "guard variable for ",
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
    "TLS init function for ",
    "TLS wrapper function for ",
];

/// The operators of C++, each before those that it begins with.
const OPERATORS: &[&str] = &[
    "()",
    "[]",
    "<=>",
    "<<=",
    ">>=",
    "->*",
    "<<",
    ">>",
    "<=",
    ">=",
    "->",
    "==",
    "!=",
    "&&",
    "||",
    "++",
    "--",
    "+=",
    "-=",
    "*=",
    "/=",
    "%=",
    "^=",
    "&=",
    "|=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "&",
    "|",
    "~",
    "!",
    "=",
    "<",
    ">",
    ",",
    " new[]",
    " delete[]",
    " new",
    " delete",
    " co_await",
    "\"\" ",
    "\"\"",
];

/// A function's name in the parts of its path, without return type, parameters and what follows these.
struct Path<'a> {
    /// One of [`PREFIXES`], or empty.
    prefix: &'a str,
    parts: Vec<String>,
    /// There were generic arguments.
    is_generic: bool,
    /// The compiler's mark of a part or copy of the function: ` [clone .cold]`; or empty.
    clone: &'a str,
}

impl<'a> Path<'a> {
    fn parse(name: &'a str, style: Style) -> Path<'a> {
        let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix));
        let prefix = prefix.map_or("", |prefix| &name[..prefix.len()]);
        let rest = &name[prefix.len()..];
        // A blank ends a return type only where parameters follow: `get size app.js:1:2` has none.
        let parser = Parser::new(rest, style, true);
        let found = parser.run();
        let (parts, is_generic) = match found.has_parameters {
            true => (found.parts, found.is_generic),
            false => {
                let whole = Parser::new(rest, style, false).run();
                (whole.parts, whole.is_generic)
            }
        };
        let clone = rest.rfind(" [clone ").map_or("", |at| &rest[at..]);
        Path {
            prefix,
            parts,
            is_generic,
            clone: if found.has_parameters { clone } else { "" },
        }
    }

    fn join(&self) -> String {
        format!("{}{}", self.prefix, self.parts.join("::"))
    }
}

/// Reads a name from left to right; what is in brackets is one step.
struct Parser<'a> {
    text: &'a str,
    style: Style,
    /// A blank ends a return type.
    has_return_type: bool,
    at: usize,
    parts: Vec<String>,
    part: String,
    is_generic: bool,
    has_parameters: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, style: Style, has_return_type: bool) -> Parser<'a> {
        Parser {
            text,
            style,
            has_return_type,
            at: 0,
            parts: Vec::new(),
            part: String::new(),
            is_generic: false,
            has_parameters: false,
        }
    }

    fn run(mut self) -> Parser<'a> {
        while let Some(next) = self.rest().chars().next() {
            let is_start = self.part.is_empty();
            let group = match next {
                '<' | '(' | '[' | '{' => match group_end(self.rest()) {
                    Some(end) => Some(&self.rest()[..end]),
                    // No name of a demangler: the rest stays. To look for an end at each bracket would take the
                    // square of the length.
                    None => {
                        self.part.push_str(self.rest());
                        break;
                    }
                },
                _ => None,
            };
            match (next, group) {
                (':', _) if self.rest().starts_with("::") => {
                    self.end_part();
                    self.at += 2;
                }
                (' ', _) if self.has_return_type => {
                    self.parts.clear();
                    self.part.clear();
                    self.at += 1;
                }
                ('o', _) if is_start && self.is_operator() => self.operator(),
                ('<', Some(group)) => {
                    self.angle(group, is_start);
                    self.at += group.len();
                }
                ('(', Some(group)) if is_start && self.has_return_type && is_declarator(group) => {
                    // `void (*get<int>(int))(int)` returns a pointer to a function.
                    let inside = &group[1..group.len() - 1];
                    let inside = inside.split_once("::*").map_or(inside, |(_, after)| after);
                    let inside = inside.trim_start_matches(['*', '&', ' ']);
                    let inside = Parser::new(inside, self.style, true).run();
                    self.parts = inside.parts;
                    self.is_generic |= inside.is_generic;
                    self.has_parameters = inside.has_parameters;
                    return self;
                }
                ('(', Some(group)) if !is_start && self.is_before_parameters() => {
                    self.at += group.len();
                    self.has_parameters = true;
                    if !self.goes_on() {
                        break;
                    }
                }
                ('[', Some(group)) if group.starts_with("[abi:") => self.at += group.len(),
                ('{', Some(group)) if !self.style.has_lambda_parameters => {
                    self.part.push_str(&without_lambda_parameters(group));
                    self.at += group.len();
                }
                ('(' | '[' | '{', Some(group)) => {
                    self.part.push_str(group);
                    self.at += group.len();
                }
                (next, _) => {
                    self.part.push(next);
                    self.at += next.len_utf8();
                }
            }
        }
        self.end_part();
        self
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn end_part(&mut self) {
        if !self.part.is_empty() {
            self.parts.push(std::mem::take(&mut self.part));
        }
    }

    /// Go has parts in parentheses: `main.(*Server).Serve`. `decltype(auto) f<int>(int)` has a return type.
    fn is_before_parameters(&self) -> bool {
        !self.part.ends_with(['.', ' ']) && self.part != "decltype"
    }

    /// Generic arguments, or a bracket around a type: `<T as Trait>::f`, `core::slice::<impl [T]>::sort`,
    /// `main()::<lambda(int)>`.
    fn angle(&mut self, group: &str, is_start: bool) {
        let inside = &group[1..group.len() - 1];
        let is_lambda = inside.starts_with("lambda(");
        let is_first = is_start && self.parts.is_empty() || self.part.ends_with(['.', '&', '*', ' ', '(']);
        if is_lambda && !self.style.has_lambda_parameters {
            self.part.push_str("<lambda>");
        } else if is_lambda || inside.starts_with("impl ") || is_first {
            let mut of = String::new();
            self.is_generic |= strip(inside, self.style.generics, &mut of, 1);
            if !self.style.has_modules {
                of = without_modules(&of);
            }
            self.part.extend(["<", &of, ">"]);
        } else {
            self.is_generic = true;
            if is_start && self.style.generics.is_empty() {
                // `drop_in_place::<T>`
                return;
            }
            self.part.push_str(self.style.generics);
        }
    }

    /// True if there is no part of a longer word.
    fn is_operator(&self) -> bool {
        let after = self.rest().strip_prefix("operator");
        after.is_some_and(|after| after.starts_with(|next: char| !next.is_alphanumeric() && next != '_' && next != '.'))
    }

    /// Reads `operator<<`, `operator()`, `operator new`, `operator""_s`, `operator std::vector<int>`.
    fn operator(&mut self) {
        self.part.push_str("operator");
        self.at += "operator".len();
        if let Some(sign) = OPERATORS.iter().find(|sign| self.rest().starts_with(**sign)) {
            self.part.push_str(sign);
            self.at += sign.len();
            // `operator<< <int>`
            let arguments = self.rest().strip_prefix(' ').filter(|after| after.starts_with('<'));
            if let Some(end) = arguments.and_then(group_end) {
                self.at += 1 + end;
                self.is_generic = true;
                if !self.style.generics.is_empty() {
                    self.part.extend([" ", self.style.generics]);
                }
            }
            return;
        }
        // Of the parentheses of a type, more follow: `operator void (*)(int)()`.
        while let Some(next) = self.rest().chars().next() {
            let group = match next {
                '<' | '(' | '[' | '{' => match group_end(self.rest()) {
                    Some(end) => Some(&self.rest()[..end]),
                    None => return,
                },
                _ => None,
            };
            match (next, group) {
                ('(', Some(group)) if !self.rest()[group.len()..].starts_with('(') => break,
                ('<', Some(group)) => {
                    self.part.push_str(self.style.generics);
                    self.is_generic = true;
                    self.at += group.len();
                }
                (_, Some(group)) => {
                    self.part.push_str(group);
                    self.at += group.len();
                }
                (next, None) => {
                    self.part.push(next);
                    self.at += next.len_utf8();
                }
            }
        }
    }

    /// True if a path goes on behind parameters: `main()::{lambda(int)#1}`, `A::f() const::B::g()`.
    fn goes_on(&mut self) -> bool {
        const QUALIFIERS: &[&str] = &[" const", " volatile", " noexcept", " &&", " &", "&&", "&"];
        let mut after = self.rest();
        while let Some(qualifier) = QUALIFIERS.iter().find(|qualifier| after.starts_with(**qualifier)) {
            after = &after[qualifier.len()..];
        }
        let goes_on = after.starts_with("::");
        if goes_on {
            self.at = self.text.len() - after.len();
        }
        goes_on
    }
}

/// The length of the bracket that `text` begins with. `None` if it has no end.
fn group_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut open: Vec<u8> = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        let before = &bytes[..at];
        match byte {
            b'(' | b'[' | b'{' => open.push(*byte),
            b'<' if is_bracket(before) => open.push(b'<'),
            // `fn() -> T`
            b'>' if before.last() == Some(&b'-') => {}
            b'>' if open.last() == Some(&b'<') && !is_after_operator(before) => {
                open.pop();
            }
            b')' | b']' | b'}' => {
                // `(a)<(b)` has no end.
                while open.last() == Some(&b'<') {
                    open.pop();
                }
                open.pop();
            }
            _ => {}
        }
        if open.is_empty() {
            return Some(at + 1);
        }
    }
    None
}

/// False for the sign of a comparison, which stands behind a parenthesis, and for `operator<`.
fn is_bracket(before: &[u8]) -> bool {
    let before = before.trim_ascii_end();
    !is_after_operator(before) && (!before.ends_with(b")") || before.ends_with(b"operator()"))
}

fn is_after_operator(before: &[u8]) -> bool {
    let last = before.iter().rev().take(3);
    let signs = last.take_while(|byte| b"<>=-".contains(byte)).count();
    before.len() > signs && signs < 3 && before[..before.len() - signs].ends_with(b"operator")
}

/// `(*f(int))`, `(&f())`, `(A::*f(int))`; not `(anonymous namespace)`, and not Go's `(*T)`.
fn is_declarator(group: &str) -> bool {
    let inside = &group[1..group.len() - 1];
    let is_pointer = inside.starts_with(['*', '&']) || inside.contains("::*");
    is_pointer && inside.contains('(')
}

/// `{lambda(int)#1}` -> `{lambda#1}`.
fn without_lambda_parameters(group: &str) -> Cow<'_, str> {
    let parameters = group.strip_prefix("{lambda(").and_then(|_| {
        let from = "{lambda".len();
        Some((from, from + group_end(&group[from..])?))
    });
    match parameters {
        Some((from, to)) => format!("{}{}", &group[..from], &group[to..]).into(),
        None => group.into(),
    }
}

/// Without the path of each type: `alloc::vec::Vec<_> as core::clone::Clone` -> `Vec<_> as Clone`.
fn without_modules(types: &str) -> String {
    let mut out = String::with_capacity(types.len());
    // Start of the path that is being written.
    let mut start = 0;
    let mut rest = types;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("::") {
            out.truncate(start);
            rest = after;
            continue;
        }
        out.push(c);
        if !(c.is_alphanumeric() || c == '_') {
            start = out.len();
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Types of the C++ standard library under the names that sources use: `std::__cxx11::basic_string<char,
/// std::char_traits<char>, std::allocator<char> >` is `std::string`.
fn with_usual_types(name: &str) -> Cow<'_, str> {
    const INLINE: &[&str] = &["std::__cxx11::", "std::__1::"];
    if !name.contains("std::") {
        return Cow::Borrowed(name);
    }
    let mut name = Cow::Borrowed(name);
    for namespace in INLINE
        .iter()
        .filter(|namespace| name.contains(**namespace))
        .collect::<Vec<_>>()
    {
        name = name.replace(namespace, "std::").into();
    }
    let mut out = String::new();
    let mut rest = &*name;
    while let Some(at) = rest.find("std::basic_") {
        let (before, of) = rest.split_at(at);
        out.push_str(before);
        let usual = usual_type(&of["std::basic_".len()..]);
        let (usual, len) = usual.unwrap_or_else(|| ("basic_".to_owned(), 0));
        out.push_str("std::");
        out.push_str(&usual);
        rest = &of["std::basic_".len() + len..];
    }
    if out.is_empty() {
        return name;
    }
    out.push_str(rest);
    out.into()
}

/// For `string<char, std::char_traits<char> >`, and what follows: `string`, and the length of what it stands for.
fn usual_type(text: &str) -> Option<(String, usize)> {
    let open = text.find(|next: char| !next.is_ascii_lowercase() && next != '_')?;
    let group = &text[open..];
    let arguments = group.strip_prefix('<')?;
    let (letter, start) = [("", "char"), ("w", "wchar_t")].into_iter().find(|(_, of)| {
        arguments
            .strip_prefix(of)
            .is_some_and(|after| after.starts_with([',', '>']))
    })?;
    // The longest has 90 bytes.
    let end = open + group_end(group.get(..200).unwrap_or(group))?;
    let mut rest = &text[open + 1 + start.len()..end - 1];
    // Other traits and allocators are part of another type.
    for default in ["char_traits", "allocator"] {
        let of = format!(", std::{default}<{start}>");
        rest = rest.strip_prefix(&*of).unwrap_or(rest);
    }
    rest.trim()
        .is_empty()
        .then(|| (format!("{letter}{}", &text[..open]), end))
}

/// Brackets nested deeper stay as they are.
const MAX_DEPTH: usize = 50;

/// Copies types with `instead` for generic arguments. Returns whether there were any.
fn strip(text: &str, instead: &str, out: &mut String, depth: usize) -> bool {
    let mut found = false;
    let mut at = 0;
    while let Some(open) = text[at..].find('<') {
        let open = at + open;
        out.push_str(&text[at..open]);
        if !is_bracket(&text.as_bytes()[..open]) {
            out.push('<');
            at = open + 1;
            continue;
        }
        let Some(close) = group_end(&text[open..]) else {
            out.push_str(&text[open..]);
            return found;
        };
        let inner = &text[open + 1..open + close - 1];
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
        at = open + close;
    }
    out.push_str(&text[at..]);
    found
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
            ("void sort<long*>(long*, long*)", "sort<_>"),
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
    fn labels_are_the_function_and_no_part_of_its_arguments() {
        let iterator = "__gnu_cxx::__normal_iterator<int*, std::vector<int, std::allocator<int> > >";
        let sort = format!(
            "void std::sort<{iterator}, work(int)::{{lambda(int, int)#1}}>({iterator}, work(int)::{{lambda(int, int)#1}})"
        );
        for (name, whole, last) in [
            (&*sort, "std::sort", "std::sort"),
            (
                "bool (anonymous namespace)::f<int>(int)",
                "(anonymous namespace)::f",
                "(anonymous namespace)::f",
            ),
            ("void (*get<int>(int))(int)", "get", "get"),
            ("int (&array<int>())[3]", "array", "array"),
            ("int (A::*member<int>(char))(char)", "member", "member"),
            ("std::enable_if<((4)>(2))&&((1)<(8)), int>::type g<int>(int)", "g", "g"),
            ("decltype(auto) f<int>(int)", "f", "f"),
            (
                "decltype ((fp)(args...)) std::__invoke<int>(int)",
                "std::__invoke",
                "std::__invoke",
            ),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
                "std::operator<<",
                "std::operator<<",
            ),
            (
                "bool operator< <int>(A<int> const&, A<int> const&)",
                "operator<",
                "operator<",
            ),
            (
                "a::Foo<int>::operator->() const",
                "a::Foo::operator->",
                "Foo::operator->",
            ),
            ("a::Foo::operator()<int>(int)", "a::Foo::operator()", "Foo::operator()"),
            (
                "A::operator std::vector<int, std::allocator<int> >() const",
                "A::operator std::vector",
                "A::operator std::vector",
            ),
            (
                "A::operator void (*)(int)()",
                "A::operator void (*)(int)",
                "A::operator void (*)(int)",
            ),
            (
                "operator delete[](void*, unsigned long)",
                "operator delete[]",
                "operator delete[]",
            ),
            (
                "work(std::vector<int>&)::{lambda(int)#1}::operator()(int) const",
                "work::{lambda#1}::operator()",
                "{lambda#1}::operator()",
            ),
            (
                "main()::<lambda(int)>::operator()(int) const",
                "main::<lambda>::operator()",
                "<lambda>::operator()",
            ),
            ("A::f(int) const::B::g(char)", "A::f::B::g", "B::g"),
            ("f(int) requires std::integral<int>", "f", "f"),
            ("work[abi:cxx11]() [clone .cold]", "work", "work"),
            (
                "non-virtual thunk to A<int>::f(int)",
                "non-virtual thunk to A::f",
                "A::f",
            ),
            (
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::compare(char const*) const",
                "std::string::compare",
                "string::compare",
            ),
            (
                "std::__1::basic_string<wchar_t, std::__1::char_traits<wchar_t>, std::__1::allocator<wchar_t>>::append(int)",
                "std::wstring::append",
                "wstring::append",
            ),
            (
                "std::basic_string<char, my::Traits>::size()",
                "std::basic_string::size",
                "basic_string::size",
            ),
            (
                "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
                "<Vec as Clone>::clone",
                "<Vec as Clone>::clone",
            ),
            (
                "core::slice::<impl [T]>::sort",
                "core::slice::<impl [T]>::sort",
                "<impl [T]>::sort",
            ),
            ("app::main::{closure#0}", "app::main::{closure#0}", "main::{closure#0}"),
            (
                "net/http.(*conn).serve.func1",
                "net/http.(*conn).serve.func1",
                "net/http.(*conn).serve.func1",
            ),
            ("-[Shape area:with:]", "-[Shape area:with:]", "-[Shape area:with:]"),
            ("get size app.js:12:3", "get size app.js:12:3", "get size app.js:12:3"),
            ("StubRoutines (1)", "StubRoutines (1)", "StubRoutines (1)"),
            (
                "java.lang.Object.<init>",
                "java.lang.Object.<init>",
                "java.lang.Object.<init>",
            ),
        ] {
            assert_eq!(labels(name), [whole, last], "{name}");
        }
    }

    #[test]
    fn any_text_has_short_forms() {
        // Brackets without an end, in all orders.
        let pieces = [
            "f",
            "<",
            ">",
            "(",
            ")",
            "::",
            " ",
            "operator",
            "{",
            "]",
            "->",
            "*",
            "std::basic_string<char",
        ];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let name = [first, second, third].concat();
                    let _ = (merged(&name), short(&name), labels(&name));
                }
            }
        }
        let deep = format!("{}f{}", "<".repeat(10_000), ">".repeat(10_000));
        assert!(short(&deep).len() <= deep.len());
        for piece in pieces {
            let long = piece.repeat(20_000);
            assert!(labels(&long)[0].len() <= long.len());
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
