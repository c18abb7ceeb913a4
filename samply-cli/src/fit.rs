//! Names and texts in a given number of columns.

use profile::text::one_line;
use profile::view::names::{merged, short};

/// The text as it will be shown, so that its columns can be counted.
pub(crate) fn clean(text: &str) -> String {
    one_line(text).into_owned()
}

/// A function's name: whole where it fits, else without generic arguments, else without their paths, else without its middle.
pub(crate) fn function(name: &str, columns: usize) -> String {
    let name = clean(name);
    let fits = |name: &String| name.chars().count() <= columns;
    if fits(&name) {
        return name;
    }
    let shorter = [merged(&name), short(&name)].into_iter().find(fits);
    shorter.unwrap_or_else(|| cut_middle(&short(&name), columns))
}

/// Both ends of a name tell most.
fn cut_middle(text: &str, columns: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= columns {
        return text.to_owned();
    }
    let keep = columns.saturating_sub(1);
    let (start, end) = (&chars[..keep / 3], &chars[chars.len() - (keep - keep / 3)..]);
    start.iter().chain(['…'].iter()).chain(end).collect()
}

/// The end of a path tells most.
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

/// The beginning.
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
