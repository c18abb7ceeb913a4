//! One string, cleaned.

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::path::{homes_in, is_absolute, is_url_end, is_windows, opaque_scheme, short};
use super::search::{home_starts, is_end, is_home, opaque_starts, path_starts, replace_home, replace_word, tokens};
use super::variables::{VALUE, without_variables};
use super::{KeptPrivate, PrivateWords};
use crate::data::Fields;

/// What a string is, and so what is looked for in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TextKind {
    /// The name of a function: paths and secret values.
    Code,
    /// A path as a whole.
    Path,
    /// A word of the format, or the name of a library: also users and hosts.
    Fixed,
    /// Any other text: also arguments and the environment.
    Text,
}

/// Names that say nothing about who uses them.
const GENERIC: [&str; 17] = [
    "Public",
    "Shared",
    "Default",
    "root",
    "user",
    "users",
    "admin",
    "ubuntu",
    "debian",
    "fedora",
    "runner",
    "vscode",
    "nobody",
    "home",
    "localhost",
    "localdomain",
    "build",
];

/// Fields whose values are words of the format, or the name of another field (`MarkerSchema` and `CounterDisplayConfig`
/// of the front end).
pub(super) const OF_FORMAT: [&str; 9] = [
    "color",
    "colorField",
    "display",
    "format",
    "graphType",
    "key",
    "sampleUnits",
    "unit",
    "weightType",
];

/// Stands for `[argument]` while paths are found: brackets end a path.
const ARGUMENT: &str = "\u{e001}";

/// Whether a path can be in the text. One character is searched for many bytes at a time; two at once are not.
fn has_separator(text: &str) -> bool {
    text.contains('/') || text.contains('\\')
}

pub(super) struct Cleaner {
    include: KeptPrivate,
    homes: Vec<String>,
    /// Words, and what stands for them.
    names: Vec<(String, &'static str)>,
    /// Words that stay: `postgres` runs as the user `postgres`.
    programs: Vec<String>,
    arguments: Vec<String>,
    values: Vec<String>,
    /// Short forms by path. Different paths have different short forms: else functions of two files would become one.
    shortened: FxHashMap<Box<str>, Box<str>>,
    taken: FxHashSet<Box<str>>,
    pub(super) replaced: usize,
}

impl Cleaner {
    pub(super) fn new(private: &PrivateWords, include: KeptPrivate, arguments: &str, programs: Vec<String>) -> Cleaner {
        let mut cleaner = Cleaner {
            include,
            homes: Vec::new(),
            names: Vec::new(),
            programs,
            arguments: Vec::new(),
            values: private
                .values
                .iter()
                .filter(|value| value.len() >= 4)
                .cloned()
                .collect(),
            shortened: FxHashMap::default(),
            taken: FxHashSet::default(),
            replaced: 0,
        };
        for home in &private.homes {
            let home = home.trim_end_matches('/');
            if home.len() > 1 && is_absolute(home) {
                cleaner.homes.push(home.to_owned());
                cleaner.learn(home);
            }
        }
        private.users.iter().for_each(|user| cleaner.add_name(user, "[user]"));
        for host in &private.hosts {
            cleaner.add_name(host, "[host]");
            cleaner.add_name(host.split('.').next().unwrap_or_default(), "[host]");
        }
        if !include.args {
            cleaner.add_arguments(arguments);
            // `taskset -c 1 app`: what runs is a result.
            let programs = &cleaner.programs;
            cleaner.arguments.retain(|word| !programs.contains(word));
        }
        cleaner.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        cleaner.homes.sort_by_key(|home| std::cmp::Reverse(home.len()));
        cleaner
    }

    fn add_name(&mut self, name: &str, instead: &'static str) {
        let is_known = self.names.iter().any(|(known, _)| known == name);
        let is_public = GENERIC.contains(&name) || self.programs.iter().any(|program| program == name);
        if name.len() < 2 || is_known || is_public || name.bytes().all(|byte| byte.is_ascii_digit()) {
            return;
        }
        self.names.push((name.to_owned(), instead));
        // A name may be a part of another one.
        self.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    }

    /// Words of the arguments; the first word is the program. Names of options say nothing.
    fn add_arguments(&mut self, arguments: &str) {
        for word in arguments.split_whitespace().skip(1) {
            let value = match (word.starts_with('-'), word.split_once('=')) {
                (_, Some((_, value))) => value,
                (true, None) => continue,
                (false, None) => word,
            };
            let name = value.rsplit('/').next().unwrap_or_default();
            for part in [word, value, name] {
                let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
                if part.len() >= if is_number { 6 } else { 3 } {
                    self.arguments.push(part.to_owned());
                }
            }
        }
        self.arguments.sort_by_key(|word| std::cmp::Reverse(word.len()));
        self.arguments.dedup();
    }

    /// Finds home folders of other machines, and so users.
    pub(super) fn learn(&mut self, text: &str) {
        if !has_separator(text) {
            return;
        }
        for (at, token) in tokens(text) {
            // In `https://example.org/home/page`, `page` is not a user.
            if token.starts_with("//") && !token.starts_with("///") && text[..at].ends_with(':') {
                continue;
            }
            let users = homes_in(token).into_iter().filter(|home| {
                let is_only = token.matches(['/', '\\']).count() == 2;
                home.is_sure && (!home.below.is_empty() || is_only)
            });
            users.for_each(|home| self.add_name(home.user, "[user]"));
        }
    }

    /// Number of different paths and URLs that became shorter.
    pub(super) fn paths(&self) -> usize {
        self.shortened.iter().filter(|(path, short)| path != short).count()
    }

    /// A name of a process may have the arguments after the program.
    pub(super) fn clean_process(&mut self, name: &mut String) {
        if !self.include.args {
            let ends = [" -", " /", " ./", " ~"].iter().filter_map(|start| name.find(start));
            if let Some(end) = ends.min() {
                name.truncate(end);
                self.replaced += 1;
            }
        }
        self.clean(name, TextKind::Text);
    }

    /// Values of the fields in `of_format` are words of the format.
    pub(super) fn clean_fields(&mut self, fields: &mut Fields, kind: TextKind, of_format: &[&str]) {
        let old = std::mem::take(fields);
        for (mut key, mut value) in old {
            let is_word = of_format.contains(&key.as_str());
            self.clean(&mut key, TextKind::Fixed);
            self.clean_json(&mut value, if is_word { TextKind::Fixed } else { kind }, of_format);
            fields.insert(key, value);
        }
    }

    pub(super) fn clean_json(&mut self, value: &mut Value, kind: TextKind, of_format: &[&str]) {
        match value {
            Value::String(text) => self.clean(text, kind),
            Value::Array(values) => values
                .iter_mut()
                .for_each(|value| self.clean_json(value, kind, of_format)),
            Value::Object(fields) => self.clean_fields(fields, kind, of_format),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Secrets first: a path that is shortened may have a part of one.
    pub(super) fn clean(&mut self, text: &mut String, kind: TextKind) {
        // Ids of processes and threads, which other fields refer to.
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            if self.values.contains(text) {
                *text = "[value]".to_owned();
                self.replaced += 1;
            }
            return;
        }
        let mut is_changed = false;
        for value in self.values.iter().filter(|value| !value.is_empty()) {
            if text.contains(value.as_str()) {
                *text = text.replace(value.as_str(), VALUE);
                is_changed = true;
            }
        }
        if kind == TextKind::Text {
            is_changed |= without_variables(text, self.include.args);
            for word in &self.arguments {
                is_changed |= replace_word(text, word, ARGUMENT);
            }
        }
        if !self.include.paths {
            match kind {
                TextKind::Path => *text = self.shorten(text),
                _ => self.clean_paths(text),
            }
            for home in &self.homes {
                replace_home(text, home);
            }
        }
        if is_changed {
            *text = text.replace(VALUE, "[value]").replace(ARGUMENT, "[argument]");
        }
        if kind != TextKind::Code && !self.include.names {
            for (name, instead) in &self.names {
                is_changed |= replace_word(text, name, instead);
            }
        }
        self.replaced += usize::from(is_changed);
    }

    /// The paths and URLs in a text.
    fn clean_paths(&mut self, text: &mut String) {
        if !has_separator(text) && !text.contains("data:") {
            return;
        }
        let mut out = String::new();
        let mut done = 0;
        let mut starts: Vec<usize> = path_starts(text)
            .chain(opaque_starts(text))
            .chain(home_starts(text))
            .collect();
        starts.sort_unstable();
        for at in starts.into_iter().filter(|at| *at < text.len()) {
            if at < done {
                continue;
            }
            let rest = &text[at..];
            let home = self
                .homes
                .iter()
                .find(|home| rest.starts_with(home.as_str()) && is_home(text, at, home));
            let scheme = rest
                .find(|c: char| !c.is_ascii_alphanumeric())
                .map_or("", |end| &rest[end..]);
            let is_opaque = opaque_scheme(rest).is_some();
            let skipped = home.map_or(if is_windows(rest) { 3 } else { 0 }, String::len);
            // A query has commas, a password any sign.
            let ends = match is_opaque || scheme.starts_with("://") {
                true => is_url_end,
                false => is_end,
            };
            let end = rest[skipped..].find(ends).map_or(rest.len(), |end| skipped + end);
            let path = &rest[..end];
            let levels = path.split(['/', '\\']).filter(|part| !part.is_empty()).count();
            if home.is_none() && !is_opaque && levels < 2 {
                continue;
            }
            out.push_str(&text[done..at]);
            out.push_str(&self.shorten(path));
            done = at + end;
        }
        if done > 0 {
            out.push_str(&text[done..]);
            *text = out;
        }
    }

    fn shorten(&mut self, path: &str) -> String {
        if let Some(known) = self.shortened.get(path) {
            return known.to_string();
        }
        let mut result = short(path, &self.homes).into_owned();
        // A path that stays takes its own name first, so no longer path can take it later.
        let plain = result.clone();
        let mut number = 1;
        while result != path && !self.taken.insert(result.as_str().into()) {
            number += 1;
            result = format!("({number})/{plain}");
        }
        self.taken.insert(result.as_str().into());
        self.shortened.insert(path.into(), result.as_str().into());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str, kind: TextKind) -> String {
        let private = PrivateWords {
            homes: vec!["/home/ann smith".into()],
            users: vec!["ann".into(), "root".into()],
            hosts: vec!["workbench.example.org".into()],
            values: vec!["hunter2hunter2".into(), "/srv/a/hunter3".into(), "12345678".into()],
        };
        let mut cleaner = Cleaner::new(
            &private,
            KeptPrivate::default(),
            "/home/ann/app --key=topsecret 12 input.csv -v",
            vec!["postgres".into()],
        );
        let mut text = text.to_owned();
        cleaner.clean(&mut text, kind);
        text
    }

    #[test]
    fn text_for_people_loses_all_that_is_private() {
        for (text, expected) in [
            (
                "reads /home/ann smith/a/b/c/d.txt, then input.csv",
                "reads b/c/d.txt, then [argument]",
            ),
            ("ann@workbench: 12 ms", "[user]@[host]: 12 ms"),
            ("ann's plan is planned by joann", "[user]'s plan is planned by joann"),
            ("API_KEY=abc app", "API_KEY=[value] app"),
            ("x hunter2hunter2y", "x [value]y"),
            ("in /srv/a/hunter3/b", "in [value]/b"),
            ("12345678", "[value]"),
            ("12345679", "12345679"),
            ("key topsecret", "key [argument]"),
            ("at /srv/topsecret/a/b/c", "at a/b/c"),
            (
                "https://example.org/x?ids=1,2&token=secret4 y",
                "https://example.org/x y",
            ),
            ("https://user:p,wsecret5@example.org/ y", "https://example.org/ y"),
            ("img data:image/png;base64,AAAA y", "img data: y"),
            ("at blob:https://example.org/1-2 y", "at blob: y"),
            ("in -I/home/bob5/inc y", "in -Iinc y"),
            ("in ../../home/bob4/p/x.c:3", "in p/x.c:3"),
            (r"in c:\users\bob15\x.c:3", "in x.c:3"),
            (r"in \\srv\share\Users\bob6\x.c:3", "in x.c:3"),
            ("in /usr/local/google/home/bob7/x.c", "in x.c"),
            ("in ~bob11/x/y", "in x/y"),
            (r#"["API=a b","x"]"#, r#"["API=[value]","x"]"#),
            ("{API=a}; x", "{API=[value]}; x"),
            ("x;API='a b' y", "x;API=[value] y"),
            ("my_token=abc,d y", "my_token=[value] y"),
            ("A==B, n=3", "A==B, n=3"),
            ("root cut", "root cut"),
            ("a/b and a / b", "a/b and a / b"),
            ("PATH-like:/home/bob/bin:/usr/bin", "PATH-like:bin:/usr/bin"),
            (
                "GET https://u:p@example.org/x?t=1 done",
                "GET https://example.org/x done",
            ),
        ] {
            assert_eq!(cleaned(text, TextKind::Text), expected, "{text}");
        }
    }

    #[test]
    fn names_of_functions_lose_only_paths_and_secret_values() {
        for (name, expected) in [
            ("ann::topsecret::input.csv", "ann::topsecret::input.csv"),
            ("operator/(A const&)", "operator/(A const&)"),
            ("<impl at /home/bob/x/y/z/w.rs:3:5>::f", "<impl at y/z/w.rs:3:5>::f"),
            ("f [with T = int]", "f [with T = int]"),
            ("load https://example.org/a.js?t=1", "load https://example.org/a.js"),
        ] {
            assert_eq!(cleaned(name, TextKind::Code), expected, "{name}");
        }
    }

    #[test]
    fn names_that_look_like_the_home_folder_or_the_user_stay() {
        let private = PrivateWords {
            homes: vec!["/root".into()],
            users: vec!["postgres".into()],
            ..PrivateWords::default()
        };
        for (text, expected, kind) in [
            ("src/root.rs", "src/root.rs", TextKind::Path),
            ("src/root/mod.rs", "src/root/mod.rs", TextKind::Path),
            ("crate/root", "crate/root", TextKind::Text),
            ("f at src/root.rs:3", "f at src/root.rs:3", TextKind::Code),
            ("/rooted", "/rooted", TextKind::Text),
            ("/root.rs", "/root.rs", TextKind::Code),
            ("in /root, then", "in ~, then", TextKind::Text),
            ("/root/a", "a", TextKind::Path),
            ("postgres", "postgres", TextKind::Fixed),
        ] {
            let mut cleaner = Cleaner::new(&private, KeptPrivate::default(), "", vec!["postgres".into()]);
            let mut cleaned = text.to_owned();
            cleaner.clean(&mut cleaned, kind);
            assert_eq!(cleaned, expected, "{text}");
        }
    }

    #[test]
    fn different_paths_stay_different() {
        let mut cleaner = Cleaner::new(&PrivateWords::default(), KeptPrivate::default(), "", Vec::new());
        let mut short = |path: &str| {
            let mut path = path.to_owned();
            cleaner.clean(&mut path, TextKind::Path);
            path
        };
        assert_eq!(short("/srv/a/x/src/main.rs"), "x/src/main.rs");
        assert_eq!(short("/srv/b/x/src/main.rs"), "(2)/x/src/main.rs");
        assert_eq!(short("/srv/a/x/src/main.rs"), "x/src/main.rs");
    }
}
