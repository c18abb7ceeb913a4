//! Reads names of Rust and C++ demanglers as paths.

use std::borrow::Cow;

/// How [`FunctionPath::parse`] writes a name.
#[derive(Clone, Copy)]
pub(super) struct NameStyle {
    /// What stands for generic arguments; `None` keeps them.
    pub(super) generics: Option<&'static str>,
    /// Keeps the modules of types in angle brackets.
    pub(super) has_modules: bool,
    /// Keeps the parameters in `{lambda(int)#1}`.
    pub(super) has_lambda_parameters: bool,
}

impl Default for NameStyle {
    fn default() -> NameStyle {
        NameStyle {
            generics: Some(""),
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
pub(super) struct FunctionPath<'a> {
    /// One of [`PREFIXES`], or empty.
    prefix: &'a str,
    pub(super) parts: Vec<String>,
    /// There were generic arguments.
    pub(super) is_generic: bool,
    /// The compiler's mark of a part or copy of the function: ` [clone .cold]`; or empty.
    pub(super) clone: &'a str,
}

impl<'a> FunctionPath<'a> {
    pub(super) fn parse(name: &'a str, style: NameStyle) -> FunctionPath<'a> {
        let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix));
        let prefix = prefix.map_or("", |prefix| &name[..prefix.len()]);
        let rest = &name[prefix.len()..];
        // A blank ends a return type only where parameters follow: `get size app.js:1:2` has none.
        let parser = NameParser::new(rest, style, true);
        let found = parser.run();
        let (parts, is_generic) = match found.has_parameters {
            true => (found.parts, found.is_generic),
            false => {
                let whole = NameParser::new(rest, style, false).run();
                (whole.parts, whole.is_generic)
            }
        };
        let clone = rest.rfind(" [clone ").map_or("", |at| &rest[at..]);
        FunctionPath {
            prefix,
            parts,
            is_generic,
            clone: if found.has_parameters { clone } else { "" },
        }
    }

    pub(super) fn join(&self) -> String {
        format!("{}{}", self.prefix, self.parts.join("::"))
    }
}

/// Reads a name from left to right; what is in brackets is one step.
struct NameParser<'a> {
    text: &'a str,
    style: NameStyle,
    /// A blank ends a return type.
    has_return_type: bool,
    at: usize,
    parts: Vec<String>,
    part: String,
    is_generic: bool,
    has_parameters: bool,
}

impl<'a> NameParser<'a> {
    fn new(text: &'a str, style: NameStyle, has_return_type: bool) -> NameParser<'a> {
        NameParser {
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

    fn run(mut self) -> NameParser<'a> {
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
                    let inside = NameParser::new(inside, self.style, true).run();
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
            match self.style.generics {
                Some(generics) => self.is_generic |= strip(inside, generics, &mut of, 1),
                None => of.push_str(inside),
            }
            if !self.style.has_modules {
                of = without_modules(&of);
            }
            self.part.extend(["<", &of, ">"]);
        } else {
            self.is_generic = true;
            // Without arguments, `drop_in_place::<T>` has no further part.
            self.part.push_str(self.style.generics.unwrap_or(group));
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
                let generics = self.style.generics.unwrap_or(&self.rest()[1..=end]);
                self.at += 1 + end;
                self.is_generic = true;
                if !generics.is_empty() {
                    self.part.extend([" ", generics]);
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
                    self.part.push_str(self.style.generics.unwrap_or(group));
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
pub(super) fn with_usual_types(name: &str) -> Cow<'_, str> {
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
        if len > 0 {
            rest = rest
                .strip_prefix(' ')
                .filter(|after| after.starts_with('>'))
                .unwrap_or(rest);
        }
    }
    out.push_str(rest);
    without_allocators(&out).into()
}

/// Without the allocators that containers have by default: `std::vector<int, std::allocator<int> >` is
/// `std::vector<int>`.
fn without_allocators(name: &str) -> String {
    const ALLOCATOR: &str = ", std::allocator<";
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(ALLOCATOR) {
        let open = at + ALLOCATOR.len() - 1;
        let Some(end) = group_end(&rest[open..]) else { break };
        out.push_str(&rest[..at]);
        rest = &rest[open + end..];
        // `> >` is `>>` since C++11.
        rest = rest
            .strip_prefix(' ')
            .filter(|after| after.starts_with('>'))
            .unwrap_or(rest);
    }
    out + rest
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
