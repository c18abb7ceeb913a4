//! Texts of the picture: escaped, fitted, numbers in the usual form.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::super::ExportUnit;
use crate::view::names::{labels, short};

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
                Some('\n') => "\n",
                Some('\t' | '\r') => " ",
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

/// The first of a name's forms that fits into a frame, or the start of the last one. page.js does the same when widths
/// change.
pub(super) fn fit(forms: &[String], pixels: f64) -> String {
    let room = ((pixels - 6.0) / CHAR_PIXELS).max(0.0) as usize;
    if room < 3 {
        return String::new();
    }
    if let Some(form) = forms.iter().find(|form| form.chars().count() <= room) {
        return form.clone();
    }
    let shortest = forms.last().map_or("", String::as_str);
    let mut text: String = shortest.chars().take(room - 1).collect();
    text.push('\u{2026}');
    text
}

/// The forms of a row's name: as the viewer shows it, and shorter ones. A row may be of several functions.
pub(super) fn forms(names: &[impl AsRef<str>]) -> Vec<String> {
    if let [first, .., last] = names {
        let number = names.len();
        let [first, last] = [first, last].map(|name| short(name.as_ref()));
        return vec![
            format!("{number} callers: {first} \u{2026} {last}"),
            format!("{number} callers"),
        ];
    }
    let name = names.first().map_or("", AsRef::as_ref);
    let mut forms = vec![short(name)];
    for form in labels(name) {
        if form.chars().count() < forms[forms.len() - 1].chars().count() && !form.is_empty() {
            forms.push(form);
        }
    }
    forms
}

/// A line's parts in lines that are at most this wide.
pub(super) fn wrapped(line: &str, pixels: f64) -> Vec<String> {
    /// The font of such lines is 11 pixels high.
    const SMALL_CHAR_PIXELS: f64 = 6.65;
    const DOT: &str = " \u{b7} ";
    let room = (pixels / SMALL_CHAR_PIXELS) as usize;
    let mut lines: Vec<String> = Vec::new();
    for part in line.split(DOT) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + DOT.len() + part.chars().count() <= room => {
                *line += &(DOT.to_owned() + part)
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

/// The names that have other forms, with these, as a list for page.js.
pub(super) fn other_forms(names: &BTreeMap<String, Vec<String>>) -> Value {
    let others = names
        .iter()
        .filter(|(name, forms)| !matches!(&forms[..], [form] if form == *name));
    json!(others.collect::<Vec<_>>())
}

/// A value for page.js. Nothing in it is markup or ends the script.
pub(super) fn script(value: &Value) -> String {
    let shown = |c| {
        if matches!(c, '\u{fffe}' | '\u{ffff}') {
            '\u{fffd}'
        } else {
            c
        }
    };
    let text: String = value.to_string().chars().map(shown).collect();
    text.replace('<', "\\u003c").replace('>', "\\u003e")
}

/// `1,234 samples`, `1.23 s`, `1.2 MB`.
pub(super) fn amount(weight: u64, counted: ExportUnit) -> String {
    let scaled = |units: &[(f64, &str)], weight: u64| {
        let weight = weight as f64;
        let (scale, unit) = units.iter().rfind(|(scale, _)| weight >= *scale).unwrap_or(&units[0]);
        format!("{:.2} {unit}", weight / scale)
    };
    match counted {
        ExportUnit::Samples => count(weight, "sample"),
        ExportUnit::Nanoseconds if weight < 1000 => format!("{weight} ns"),
        ExportUnit::Nanoseconds => scaled(&[(1e3, "\u{b5}s"), (1e6, "ms"), (1e9, "s")], weight),
        ExportUnit::Bytes if weight < 1000 => count(weight, "byte"),
        ExportUnit::Bytes => scaled(&[(1e3, "KB"), (1e6, "MB"), (1e9, "GB")], weight),
        ExportUnit::Named => grouped(weight),
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
        assert_eq!(text, "&lt;T as &amp;'a &quot;x&quot;&gt;\u{fffd}\n]]&gt;");
    }

    #[test]
    fn names_keep_what_tells_most() {
        let at = |name: &str, chars: f64| fit(&forms(&[name]), chars * CHAR_PIXELS + 7.0);
        let name = "alloc::vec::Vec<alloc::string::String>::push(int)";
        assert_eq!(at(name, 60.0), "alloc::vec::Vec<_>::push");
        assert_eq!(at(name, 22.0), "alloc::vec::Vec::push");
        assert_eq!(at(name, 10.0), "Vec::push");
        assert_eq!(at(name, 6.0), "Vec::\u{2026}");
        assert_eq!(at(name, 2.0), "");
        let name = "void std::__introsort_loop<int*, long, __ops::_Iter_comp_iter<work(int)::{lambda(int, int)#1}> >(int*, int*, long, \
                    __ops::_Iter_comp_iter<work(int)::{lambda(int, int)#1}>)";
        assert_eq!(at(name, 400.0), "std::__introsort_loop<_>");
        assert_eq!(at(name, 22.0), "std::__introsort_loop");
        assert_eq!(at(name, 12.0), "std::__intr\u{2026}");
    }

    #[test]
    fn amounts_in_their_units() {
        assert_eq!(amount(1, ExportUnit::Samples), "1 sample");
        assert_eq!(amount(1_234_567, ExportUnit::Samples), "1,234,567 samples");
        assert_eq!(amount(999, ExportUnit::Nanoseconds), "999 ns");
        assert_eq!(amount(1_500_000, ExportUnit::Nanoseconds), "1.50 ms");
        assert_eq!(amount(2_000_000_000, ExportUnit::Nanoseconds), "2.00 s");
        assert_eq!(amount(1_500_000, ExportUnit::Bytes), "1.50 MB");
    }
}
