//! Fits names and texts into a number of columns.

use profile::text::one_line;
use profile::view::names::{labels, merged, short, written};

/// The text as the terminal shows it, so that its columns can be counted.
pub(crate) fn clean(text: &str) -> String {
    one_line(text).into_owned()
}

/// Fits a function's name as people write it. A long name loses generic arguments first, then paths, then its middle.
pub(crate) fn function(name: &str, columns: usize) -> String {
    let name = clean(name);
    let fits = |name: &String| name.chars().count() <= columns;
    let [plain, last] = labels(&name);
    let forms = [written(&name), merged(&name), short(&name), plain];
    forms
        .into_iter()
        .find(fits)
        .unwrap_or_else(|| cut_middle(&last, columns))
}

/// Cuts the middle: both ends of a name are the most useful parts.
fn cut_middle(text: &str, columns: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= columns {
        return text.to_owned();
    }
    let keep = columns.saturating_sub(1);
    let (start, end) = (&chars[..keep / 3], &chars[chars.len() - (keep - keep / 3)..]);
    start.iter().chain(['…'].iter()).chain(end).collect()
}

/// Cuts the start: the end of a path is the most useful part.
pub(crate) fn cut_start(text: &str, columns: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    match chars.len() <= columns {
        true => text.to_owned(),
        false => ['…']
            .iter()
            .chain(&chars[chars.len() - columns.saturating_sub(1)..])
            .collect(),
    }
}

/// Breaks a text at blanks into lines of at most `columns` columns. `start` begins the first line, `indent` the others.
pub(crate) fn wrapped(start: &str, text: &str, indent: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used, mut is_fresh) = (start.to_owned(), start.chars().count(), true);
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if !is_fresh && used + 1 + len > columns {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            (used, is_fresh) = (indent.chars().count(), true);
        }
        if !is_fresh {
            line.push(' ');
        }
        line.push_str(word);
        (used, is_fresh) = (used + usize::from(!is_fresh) + len, false);
    }
    lines.push(line);
    lines
}

/// Cuts the end.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    match text.chars().count() <= columns {
        true => text.to_owned(),
        false => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_as_little_as_possible() {
        let name = "std::map<std::string, std::vector<int>>::at(std::string const&)";
        assert_eq!(function(name, 80), "std::map<std::string, std::vector<int>>::at");
        assert_eq!(function(name, 30), "std::map<_>::at");
        let long = format!("start{}end", "x".repeat(500));
        let cut = function(&long, 30);
        assert_eq!(cut.chars().count(), 30);
        assert!(cut.starts_with("start") && cut.ends_with("end"), "{cut}");
        assert_eq!(function("é\u{1b}[31m", 20), "é\\u001b[31m");
    }

    #[test]
    fn lines_are_wrapped_at_80_columns_and_indented() {
        let lines = wrapped("  ok    ", &"word ".repeat(30), "        ", 80);
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:?}");
        assert!(
            lines[1..].iter().all(|line| line.starts_with("        word")),
            "{lines:?}"
        );
        assert_eq!(lines.concat().matches("word").count(), 30);
        let lines = wrapped("", &"x".repeat(100), "", 80);
        assert_eq!(lines.len(), 1, "what can't be broken stays whole");
    }
}
