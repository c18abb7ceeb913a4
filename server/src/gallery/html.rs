//! Pages as text. Whatever comes from a file or a request goes through [`EscapedText`].

use std::fmt;

use profile::text::push_shown;

/// Loads nothing but this server's style and pictures; runs no script.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
                                 frame-ancestors 'none'";

/// Text in HTML, also in attributes in quotes (<https://html.spec.whatwg.org/#escapingString>).
pub(super) struct EscapedText<'a>(pub(super) &'a str);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::with_capacity(self.0.len());
        for c in self.0.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                c => push_shown(&mut out, c),
            }
        }
        f.write_str(&out)
    }
}

/// A page. `up` is the way from its address to the first page: nothing, or `../../`.
pub(super) fn page(title: &str, up: &str, head: &str, body: &str) -> Vec<u8> {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{} - sprof</title>\n\
         <link rel=\"stylesheet\" href=\"{up}style.css\">\n{head}</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        EscapedText(title)
    )
    .into_bytes()
}

/// The form of a query in an address: names and values, decoded.
pub(super) struct PageQuery(Vec<(String, String)>);

impl PageQuery {
    /// Reads `a=1&b=2` (<https://url.spec.whatwg.org/#urlencoded-parsing>).
    pub(super) fn parse(query: &str) -> PageQuery {
        let decoded = |text: &str| {
            let spaces = text.replace('+', " ");
            let bytes = percent_encoding::percent_decode_str(&spaces);
            bytes.decode_utf8_lossy().into_owned()
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        PageQuery(pairs.map(|(name, value)| (decoded(name), decoded(value))).collect())
    }

    /// The first value of this name that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let named = self
            .0
            .iter()
            .filter(|(known, value)| known == name && !value.is_empty());
        named.map(|(_, value)| value.as_str()).next()
    }
}

/// `12.3 %`
pub(super) fn percent(share: f64) -> String {
    format!("{share:.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(
            EscapedText("</td><b onclick='x' a=\"y\">&\u{1b}\u{202e}").to_string(),
            "&lt;/td&gt;&lt;b onclick=&#39;x&#39; a=&quot;y&quot;&gt;&amp;\\u001b\\u202e"
        );
    }

    #[test]
    fn queries_are_read_as_browsers_write_them() {
        let query = PageQuery::parse("a=&a=x+y%26%3c&=z&b&c=1=2&%ff=1");
        assert_eq!(query.get("a"), Some("x y&<"));
        assert_eq!(
            (query.get("b"), query.get("c"), query.get("d")),
            (None, Some("1=2"), None)
        );
    }
}
