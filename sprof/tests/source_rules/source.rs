//! Reads one file of Rust source: what its modules define, which names they import and which paths they use.
//!
//! The tokens come from `proc-macro2`, so comments and strings can't be taken for code. Code for tests (`#[cfg(test)]`)
//! is left out.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One module: a file, or the braces of `mod name { ... }`.
#[derive(Default)]
pub(crate) struct ModuleSource {
    /// Functions, constants, macros and types.
    pub(crate) items: BTreeSet<String>,
    /// Structs, enums, traits, unions and type aliases, with their lines, also those inside functions.
    pub(crate) types: Vec<(String, usize)>,
    pub(crate) children: Vec<ChildModule>,
    pub(crate) uses: Vec<UsedName>,
    /// Paths of at least two segments outside of `use`, with their lines.
    pub(crate) paths: Vec<(Vec<String>, usize)>,
    /// Names that stand alone or begin a path.
    pub(crate) names: BTreeSet<String>,
    unsafe_lines: Vec<usize>,
}

/// `mod name;` or `mod name { ... }`.
pub(crate) struct ChildModule {
    pub(crate) name: String,
    /// The value of `#[path = "..."]`.
    pub(crate) path: Option<String>,
    /// The module in braces.
    pub(crate) inline: Option<ModuleSource>,
}

/// One name of a `use` declaration.
pub(crate) struct UsedName {
    pub(crate) path: Vec<String>,
    /// The name it has here; `None` for `*`.
    pub(crate) name: Option<String>,
    /// The declaration begins with `pub`, of any reach.
    pub(crate) is_public: bool,
    pub(crate) line: usize,
}

impl ModuleSource {
    /// Reads the text of a file. An error names the line that is no Rust.
    pub(crate) fn parse(text: &str) -> Result<ModuleSource, String> {
        let tokens: TokenStream = text
            .parse()
            .map_err(|error: proc_macro2::LexError| format!("line {}: {error}", error.span().start().line))?;
        Ok(ModuleSource::of_items(&tokens.into_iter().collect::<Vec<_>>()))
    }

    /// The lines of the keyword `unsafe`, in this module and in those inside its braces.
    pub(crate) fn unsafe_lines(&self) -> Vec<usize> {
        let inside = self.children.iter().filter_map(|child| child.inline.as_ref());
        inside.fold(self.unsafe_lines.clone(), |lines, module| {
            [lines, module.unsafe_lines()].concat()
        })
    }

    fn of_items(tokens: &[TokenTree]) -> ModuleSource {
        let mut module = ModuleSource::default();
        let mut rest = tokens;
        while !rest.is_empty() {
            let attributes = Attributes::take(&mut rest);
            let item = take_item(&mut rest);
            if !attributes.is_test {
                module.add_item(item, attributes.path);
            }
        }
        module
    }

    fn add_item(&mut self, item: &[TokenTree], path: Option<String>) {
        let keyword = item.iter().position(|token| {
            word(token).is_some_and(|word| {
                [
                    "use",
                    "mod",
                    "fn",
                    "struct",
                    "enum",
                    "trait",
                    "type",
                    "union",
                    "static",
                    "macro_rules",
                    "impl",
                    "const",
                ]
                .contains(&&*word)
            })
        });
        let Some(keyword) = keyword else {
            return self.add_code(item);
        };
        let name = item[keyword + 1..].iter().find_map(word).unwrap_or_default();
        match &*word(&item[keyword]).unwrap() {
            "use" => self.add_use(&item[keyword..], keyword > 0),
            "mod" => {
                let inline = item.iter().find_map(braces);
                self.children.push(ChildModule {
                    name,
                    path,
                    inline: inline.map(|tokens| ModuleSource::of_items(&tokens)),
                });
            }
            "impl" => self.add_code(item),
            // Types inside functions are found with the rest of the code; an `impl` or a trait has types that are no
            // names of their own.
            "type" | "union" => {
                self.types.push((name.clone(), line(&item[keyword])));
                self.items.insert(name);
                self.add_code(item);
            }
            // `const fn name`, `const unsafe fn name`.
            "const" if ["fn", "unsafe", "extern", "async"].contains(&&*name) => {
                let mut words = item[keyword + 1..].iter().filter_map(word);
                words.find(|word| word == "fn");
                self.items.extend(words.next());
                self.add_code(item);
            }
            _ => {
                self.items.insert(name);
                self.add_code(item);
            }
        }
    }

    /// Adds the names of `use a::{b, c::d as e};`, which may stand inside a function.
    fn add_use(&mut self, tokens: &[TokenTree], is_public: bool) {
        let line = line(&tokens[0]);
        let mut names = Vec::new();
        use_tree(&tokens[1..], &mut Vec::new(), &mut names);
        self.uses.extend(names.into_iter().map(|(path, name)| UsedName {
            path,
            name,
            is_public,
            line,
        }));
    }

    /// Adds the paths of any code, and the types that it defines.
    fn add_code(&mut self, tokens: &[TokenTree]) {
        let mut rest = tokens;
        let mut before = [' '; 2];
        while let Some(token) = rest.first() {
            if is_punct(token, '#') && matches!(rest.get(1), Some(TokenTree::Group(_))) {
                if Attributes::take(&mut rest).is_test {
                    take_item(&mut rest);
                }
                continue;
            }
            match token {
                TokenTree::Group(group) => self.add_code(&group.stream().into_iter().collect::<Vec<_>>()),
                // A lifetime, a field, a method.
                TokenTree::Ident(_) if before[1] == '\'' || before[1] == '.' && before[0] != '.' => {}
                TokenTree::Ident(_) => {
                    let first = word(token).unwrap();
                    if first == "use" {
                        let end = rest.iter().position(|token| is_punct(token, ';'));
                        if let Some(end) = end {
                            self.add_use(&rest[..end], false);
                            rest = &rest[end..];
                            continue;
                        }
                    }
                    if ["struct", "enum", "trait"].contains(&&*first) {
                        let name = rest.get(1).and_then(word);
                        self.types.extend(name.map(|name| (name, line(token))));
                    }
                    if first == "unsafe" {
                        self.unsafe_lines.push(line(token));
                    }
                    let mut path = vec![first];
                    let mut at = 1;
                    while let [colon, colons, segment, ..] = &rest[at..]
                        && is_punct(colon, ':')
                        && is_punct(colons, ':')
                        && let Some(segment) = word(segment)
                    {
                        path.push(segment);
                        at += 3;
                    }
                    self.names.insert(path[0].clone());
                    if path.len() > 1 {
                        self.paths.push((path, line(token)));
                    }
                    rest = &rest[at..];
                    before = [' '; 2];
                    continue;
                }
                _ => {}
            }
            before = [before[1], shape(token)];
            rest = &rest[1..];
        }
    }
}

/// What is in front of an item.
struct Attributes {
    is_test: bool,
    path: Option<String>,
}

impl Attributes {
    fn take(rest: &mut &[TokenTree]) -> Attributes {
        let mut attributes = Attributes {
            is_test: false,
            path: None,
        };
        loop {
            let after = match rest {
                [hash, TokenTree::Group(_), ..] if is_punct(hash, '#') => 1,
                [hash, mark, TokenTree::Group(_), ..] if is_punct(hash, '#') && is_punct(mark, '!') => 2,
                _ => return attributes,
            };
            let TokenTree::Group(group) = &rest[after] else {
                unreachable!()
            };
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            match &*tokens.first().and_then(word).unwrap_or_default() {
                "test" => attributes.is_test = true,
                "cfg" => attributes.is_test |= needs_test(&tokens),
                "path" => {
                    attributes.path = tokens
                        .last()
                        .map(|value| value.to_string().trim_matches('"').to_owned())
                }
                _ => {}
            }
            *rest = &rest[after + 1..];
        }
    }
}

/// True for `cfg(test)` and `cfg(all(test, unix))`, not for `cfg(not(test))` and `cfg(any(test, unix))`.
fn needs_test(cfg: &[TokenTree]) -> bool {
    let Some(TokenTree::Group(group)) = cfg.get(1) else {
        return false;
    };
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    (0..tokens.len()).any(|at| match &*word(&tokens[at]).unwrap_or_default() {
        "test" => true,
        "all" => needs_test(&tokens[at..]),
        _ => false,
    })
}

/// Takes the tokens up to the end of an item: a semicolon, or the braces of what has a body.
fn take_item<'a>(rest: &mut &'a [TokenTree]) -> &'a [TokenTree] {
    let words: Vec<String> = rest
        .iter()
        .take(6)
        .map_while(|token| word(token).or(Some(" ".to_owned())))
        .collect();
    let first = words
        .iter()
        .position(|word| !["pub", " "].contains(&&**word))
        .unwrap_or(0);
    let ends_by_semicolon = match &**words.get(first).unwrap_or(&String::new()) {
        "use" | "static" | "type" | "let" => true,
        "const" => !words[first..].iter().take(4).any(|word| word == "fn"),
        _ => false,
    };
    let end = rest
        .iter()
        .position(|token| is_punct(token, ';') || !ends_by_semicolon && braces(token).is_some());
    let (item, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
    *rest = after;
    item
}

/// Adds the path and the name here of each leaf of a use tree.
fn use_tree(tokens: &[TokenTree], prefix: &mut Vec<String>, names: &mut Vec<(Vec<String>, Option<String>)>) {
    let length = prefix.len();
    let mut alias = None;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Group(group) => {
                let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                for tree in tokens.split(|token| is_punct(token, ',')) {
                    use_tree(tree, prefix, names);
                }
                prefix.truncate(length);
                return;
            }
            token if is_punct(token, '*') => {
                names.push((prefix.clone(), None));
                prefix.truncate(length);
                return;
            }
            token => match word(token) {
                Some(word) if word == "as" => {
                    alias = tokens.get(at + 1).and_then(self::word);
                    break;
                }
                Some(word) => prefix.push(word),
                None => {}
            },
        }
        at += 1;
    }
    if prefix.len() > length {
        let mut path = prefix.clone();
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let name = alias.or_else(|| path.last().cloned());
        names.push((path, name));
    }
    prefix.truncate(length);
}

fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

fn braces(token: &TokenTree) -> Option<Vec<TokenTree>> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream().into_iter().collect()),
        _ => None,
    }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn shape(token: &TokenTree) -> char {
    match token {
        TokenTree::Punct(punct) => punct.as_char(),
        TokenTree::Group(_) => ')',
        _ => ' ',
    }
}

fn line(token: &TokenTree) -> usize {
    token.span().start().line
}
