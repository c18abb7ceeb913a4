//! Fits names and texts into a number of columns.

use profile::text::one_line;
use profile::view::names::{merged, short};

/// The text as the terminal shows it, so that its columns can be counted.
pub(crate) fn clean(text: &str) -> String {
    one_line(text).into_owned()
}

/// Fits a function's name. A long name loses generic arguments first, then paths, then its middle.
pub(crate) fn function(name: &str, columns: usize) -> String {
    let name = clean(name);
    let fits = |name: &String| name.chars().count() <= columns;
    if fits(&name) {
        return name;
    }
    let shorter = [merged(&name), short(&name)].into_iter().find(fits);
    shorter.unwrap_or_else(|| cut_middle(&short(&name), columns))
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
        assert_eq!(function(name, 80), name);
        assert_eq!(function(name, 30), "std::map<_>::at");
        let long = format!("start{}end", "x".repeat(500));
        let cut = function(&long, 30);
        assert_eq!(cut.chars().count(), 30);
        assert!(cut.starts_with("start") && cut.ends_with("end"), "{cut}");
        assert_eq!(function("é\u{1b}[31m", 20), "é\\u001b[31m");
    }
}
