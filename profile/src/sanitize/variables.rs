//! Values of environment variables in a text.

use super::is_secret;

/// Stands for `[value]` while paths are found: brackets end a path.
pub(super) const VALUE: &str = "\u{e000}";

/// Replaces the values of texts that look like environment variables: `NAME=value`, with a name in capitals or the name
/// of a secret. A quoted value ends with its quote. `keeps_options`: `--key=value` stays. True if the text changed.
pub(super) fn without_variables(text: &mut String, keeps_options: bool) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_quote = |c: char| matches!(c, '"' | '\'' | '`');
    let (mut out, mut done) = (String::new(), 0);
    for (at, _) in text.match_indices('=') {
        if at < done {
            continue;
        }
        let head = text[..at].trim_end_matches(is_of_name);
        let name = &text[head.len()..at];
        let is_upper = name.len() >= 2 && !name.starts_with(|c: char| c.is_ascii_digit());
        let is_upper = is_upper && !name.contains(|c: char| c.is_ascii_lowercase());
        let is_kept = keeps_options && !is_upper && head.ends_with('-');
        let value = &text[at + 1..];
        let is_done = value.starts_with("[value]") || value.starts_with(VALUE);
        if !(is_upper || is_secret(name)) || is_kept || is_done || value.starts_with('=') {
            continue;
        }
        let first = value.trim_start_matches('\\').chars().next();
        let before = head.chars().next_back();
        let end = match (first.filter(|c| is_quote(*c)), before) {
            (Some(quote), _) => {
                let open = value.find(quote).map_or(0, |at| at + 1);
                value[open..].find(quote).map(|end| open + end + 1)
            }
            (None, Some(quote)) if is_quote(quote) => value.find(quote),
            (None, Some('{')) => value.find('}'),
            (None, Some('(')) => value.find(')'),
            (None, Some('[')) => value.find(']'),
            (None, _) => value.find(char::is_whitespace),
        };
        let end = end.unwrap_or(value.len());
        if end > 0 {
            out.push_str(&text[done..=at]);
            out.push_str(VALUE);
            done = at + 1 + end;
        }
    }
    if done == 0 {
        return false;
    }
    out.push_str(&text[done..]);
    *text = out;
    true
}
