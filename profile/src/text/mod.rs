//! Text for people: text from outside as one line that is safe to show, [`numbers`] and [`date`]s.
//!
//! Names of processes, threads, libraries and functions can contain any characters. On a terminal, an escape sequence
//! in a name moves the cursor, fakes lines, or sets the clipboard (OSC 52).

pub mod date;
pub mod numbers;

use std::borrow::Cow;

use recording::heap::HeapGrowth;

/// True for a character that a terminal obeys instead of showing it: controls (C0, DEL, C1), line separators, and those
/// that change the direction of the text around them (Unicode TR36, "bidirectional text spoofing").
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text as one line. A tab becomes a space; other characters that a terminal obeys become escapes as in JSON,
/// `\u001b`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\t' => out.push(' '),
            c => push_shown(&mut out, c),
        }
    }
    Cow::Owned(out)
}

/// How much of the growth in memory the sampled heap is, as a sentence. `None` where memory grew so little that neither
/// is known.
pub fn heap_growth_text(growth: HeapGrowth) -> Option<String> {
    const LEAST: u64 = 1 << 20;
    let HeapGrowth {
        seen,
        grown,
        processes,
        unmeasured,
    } = growth;
    (grown >= LEAST).then(|| {
        let mut text = format!(
            "heap seen: {} of the {} that memory grew by",
            numbers::bytes(seen as f64),
            numbers::bytes(grown as f64)
        );
        if processes > 1 {
            text.push_str(&format!(
                " ({} processes, each at its peak)",
                numbers::grouped(processes)
            ));
        }
        if unmeasured > 0 {
            let ended = numbers::count(unmeasured, "process", "processes");
            text.push_str(&format!("; {ended} ended before that was read"));
        }
        text
    })
}

/// Appends a character in a form that is safe to show.
pub fn push_shown(out: &mut String, c: char) {
    match is_obeyed(c) {
        true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        false => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(one_line("\u{1b}[31mred\u{7}"), "\\u001b[31mred\\u0007");
        assert_eq!(one_line("a\nb\r\tc\u{9b}2J"), "a\\u000ab\\u000d c\\u009b2J");
        assert_eq!(one_line("\u{202e}gpj.exe"), "\\u202egpj.exe");
    }

    #[test]
    fn names_in_any_language_stay() {
        for name in ["", "operator new[](unsigned long)", "größe", "名前", "🦀"] {
            assert!(matches!(one_line(name), Cow::Borrowed(same) if same == name));
        }
    }
}
