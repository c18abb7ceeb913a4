//! Texts of the picture: escaped, fitted, numbers in the usual form.

use std::fmt;

use super::super::Counted;

/// Text for XML 1.0 (section 2.2). Characters that XML excludes are replaced.
pub(super) struct Xml<'a>(pub(super) &'a str);

impl fmt::Display for Xml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_special) {
            let (plain, special) = rest.split_at(at);
            f.write_str(plain)?;
            let mut chars = special.chars();
            f.write_str(match chars.next() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                Some('\t' | '\n' | '\r') => " ",
                _ => "\u{fffd}",
            })?;
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '&' | '<' | '>' | '"' | '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

/// Width of a character of the frames' font: 12 pixels high, monospaced.
const CHAR_PIXELS: f64 = 7.25;

/// The part of a name that fits into a frame; page.js does the same when widths change. First generic arguments go, then the path, then the
/// end, to keep the most informative part.
pub(super) fn fit(name: &str, pixels: f64) -> String {
    let room = ((pixels - 6.0) / CHAR_PIXELS).max(0.0) as usize;
    let fits = |text: &str| text.chars().count() <= room;
    if room < 3 {
        return String::new();
    }
    if fits(name) {
        return name.to_owned();
    }
    let plain = without_arguments(name);
    if fits(&plain) {
        return plain;
    }
    let short = last_parts(&plain);
    if fits(short) {
        return short.to_owned();
    }
    let mut text: String = short.chars().take(room - 1).collect();
    text.push('\u{2026}');
    text
}

/// `a::b<c::D>::e(int)` without `<c::D>` and `(int)`. A bracket at the start stays: `<T as Trait>::f`.
fn without_arguments(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut depth = 0usize;
    let mut last = ' ';
    for c in name.chars() {
        let opens = matches!(c, '<' | '(') && (depth > 0 || last.is_alphanumeric() || matches!(last, '_' | ':'));
        if opens {
            depth += 1;
        } else if depth > 0 && matches!(c, '>' | ')') && last != '-' {
            depth -= 1;
        } else if depth == 0 {
            text.push(c);
        }
        last = c;
    }
    if text.is_empty() {
        name.to_owned()
    } else {
        text.replace("::::", "::")
    }
}

/// The last two parts of a path: type and method.
fn last_parts(name: &str) -> &str {
    let mut ends = name.rmatch_indices("::").map(|(at, _)| at).filter(|at| *at > 0);
    ends.next();
    ends.next().map_or(name, |at| &name[at + 2..])
}

/// `1,234 samples`, `1.23 s`, `1.2 MB`.
pub(super) fn amount(weight: u64, counted: Counted) -> String {
    let scaled = |units: &[(f64, &str)], weight: u64| {
        let weight = weight as f64;
        let (scale, unit) = units.iter().rfind(|(scale, _)| weight >= *scale).unwrap_or(&units[0]);
        format!("{:.2} {unit}", weight / scale)
    };
    match counted {
        Counted::Samples => count(weight, "sample"),
        Counted::Nanoseconds if weight < 1000 => format!("{weight} ns"),
        Counted::Nanoseconds => scaled(&[(1e3, "\u{b5}s"), (1e6, "ms"), (1e9, "s")], weight),
        Counted::Bytes if weight < 1000 => count(weight, "byte"),
        Counted::Bytes => scaled(&[(1e3, "KB"), (1e6, "MB"), (1e9, "GB")], weight),
        Counted::Named => grouped(weight),
    }
}

/// `1 thread`, `1,234 threads`.
pub(super) fn count(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(count))
}

/// `1,234`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_cannot_be_broken_by_names() {
        let text = Xml("<T as &'a \"x\">\u{0}\n]]>").to_string();
        assert_eq!(text, "&lt;T as &amp;'a &quot;x&quot;&gt;\u{fffd} ]]&gt;");
    }

    #[test]
    fn names_keep_what_tells_most() {
        let name = "alloc::vec::Vec<alloc::string::String>::push(int)";
        let at = |chars: f64| fit(name, chars * CHAR_PIXELS + 7.0);
        assert_eq!(at(60.0), name);
        assert_eq!(at(30.0), "alloc::vec::Vec::push");
        assert_eq!(at(10.0), "Vec::push");
        assert_eq!(at(6.0), "Vec::\u{2026}");
        assert_eq!(at(2.0), "");
        assert_eq!(without_arguments("<A as B<C>>::f"), "<A as B>::f");
        assert_eq!(without_arguments("f::<fn() -> u8>"), "f::");
        assert_eq!(without_arguments("(anonymous)"), "(anonymous)");
        assert_eq!(last_parts("main"), "main");
    }

    #[test]
    fn amounts_in_their_units() {
        assert_eq!(amount(1, Counted::Samples), "1 sample");
        assert_eq!(amount(1_234_567, Counted::Samples), "1,234,567 samples");
        assert_eq!(amount(999, Counted::Nanoseconds), "999 ns");
        assert_eq!(amount(1_500_000, Counted::Nanoseconds), "1.50 ms");
        assert_eq!(amount(2_000_000_000, Counted::Nanoseconds), "2.00 s");
        assert_eq!(amount(1_500_000, Counted::Bytes), "1.50 MB");
    }
}
