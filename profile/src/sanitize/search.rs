//! Paths, home folders and words in a text: where they are, and other words in their place.

use super::path::{homes_in, is_windows, opaque_scheme};

/// Where paths from the root and URLs may start in a text.
pub(super) fn path_starts(text: &str) -> impl Iterator<Item = usize> {
    let is_of_name =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | '\\' | '~' | '$' | ')' | ']' | '>' | '*');
    let places = text.match_indices(['/', '\\']).map(|(at, _)| at);
    places.filter_map(move |at| {
        let before = text[..at].chars().next_back();
        if before == Some(':') {
            let name = text[..at - 1]
                .rfind(|c: char| !c.is_ascii_alphanumeric())
                .map_or(0, |end| end + text[end..].chars().next().map_or(1, char::len_utf8));
            let is_url = text[at..].starts_with("//") && name < at - 1;
            let is_drive = at - 1 == name + 1 && is_windows(&text[name..]);
            if is_url || is_drive {
                return Some(name);
            }
        }
        let starts = text[at..].starts_with('/') && !before.is_some_and(is_of_name);
        starts.then_some(at)
    })
}

/// Words between what ends a path, and where they are.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split(is_end).map(move |token| {
        let at = start;
        start += token.len() + text[start + token.len()..].chars().next().map_or(0, char::len_utf8);
        (at, token)
    })
}

/// Where words start that have a home folder anywhere.
pub(super) fn home_starts(text: &str) -> impl Iterator<Item = usize> {
    let with_home = tokens(text).filter(|(_, token)| homes_in(token).iter().any(|home| home.is_sure));
    with_home.map(|(at, token)| match token.find(['/', '\\']) {
        Some(first) if token.starts_with('-') => at + first,
        _ => at + token.find('=').map_or(0, |end| end + 1),
    })
}

/// Where URLs start that are their own content.
pub(super) fn opaque_starts(text: &str) -> impl Iterator<Item = usize> {
    let schemes = ["data:", "blob:"].into_iter();
    let places = schemes.flat_map(|scheme| text.match_indices(scheme).map(|(at, _)| at));
    places.filter(|at| {
        let before = text[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && opaque_scheme(&text[*at..]).is_some()
    })
}

/// Ends a path in a text.
pub(super) fn is_end(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\'' | '`' | ':' | ';' | ',' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '|'
        )
}

/// True if a home folder that is found here is not a part of other names.
pub(super) fn is_home(text: &str, at: usize, home: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let before = text[..at].chars().next_back();
    let mut after = text[at + home.len()..].chars();
    let goes_on = match after.next() {
        Some('.') => after.next().is_some_and(is_of_name),
        after => after.is_some_and(is_of_name),
    };
    !goes_on && !before.is_some_and(|c| is_of_name(c) || matches!(c, '.' | '/'))
}

/// Replaces a home folder that is a path of its own: `/root` is not in `src/root.rs`.
pub(super) fn replace_home(text: &mut String, home: &str) {
    let places: Vec<usize> = text
        .match_indices(home)
        .map(|(at, _)| at)
        .filter(|at| is_home(text, *at, home))
        .collect();
    for at in places.into_iter().rev() {
        text.replace_range(at..at + home.len(), "~");
    }
}

/// Replaces a word where no letter or digit is beside it. True if the text changed.
pub(super) fn replace_word(text: &mut String, word: &str, instead: &str) -> bool {
    if word.is_empty() || !text.contains(word) {
        return false;
    }
    let is_open = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    let (mut out, mut done) = (String::new(), 0);
    for (at, _) in text.match_indices(word) {
        let end = at + word.len();
        if is_open(text[..at].chars().next_back()) && is_open(text[end..].chars().next()) {
            out.push_str(&text[done..at]);
            out.push_str(instead);
            done = end;
        }
    }
    if done == 0 {
        return false;
    }
    out.push_str(&text[done..]);
    *text = out;
    true
}
