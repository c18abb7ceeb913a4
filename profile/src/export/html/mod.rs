//! The viewer: a page that shows a profile in any browser, and loads nothing.
//!
//! [`write()`] makes one file of page and profile. A server gives the same page ([`served_page`]) and its data
//! ([`served_data`]). The weights of all samples are those of [`Picked`]; the page adds them up over what the user
//! selects.
//!
//! 1. `data`: what the page needs of a profile. `stacks`: call chains; `kinds`: samples; `heap`: blocks of memory;
//!    `threads`: rows of the timeline; `markers`; `about`: the head; `columns`: their numbers; `diff`: two sides.
//! 2. `js/`: the page. The files are one script in this order, so a function may be used in files before its own; `tsc`
//!    checks them (`sprof/tests/suite/viewer/`).
//!
//! The page's code and data are gzip in base64, which `boot.js` unpacks. The policy (CSP) permits these two scripts and
//! this style alone, by their hashes: a name from a profile that the page took for code would still do nothing.

mod about;
mod columns;
mod data;
mod diff;
mod heap;
mod kinds;
mod markers;
mod stacks;
mod start;
mod threads;

use std::io::{self, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use super::svg::differential;
use super::{Picked, PickedTime};
use crate::data::Data;
use crate::view::diff::DiffLimits;

pub use start::{StartLinks, start_page};

/// What the page shows besides the profile.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOptions<'a> {
    /// What limits the data, a sentence each.
    pub notes: &'a [String],
    /// The page can ask the server for source files.
    pub is_served: bool,
}

/// Level for data that stay on this machine, where somebody waits for them. For a million samples with 1.7 million call
/// paths, the best level takes 3 s longer and makes 7.7 MB instead of 11 (a debug build).
const SERVED: Compression = Compression::fast();

const BOOT: &str = include_str!("js/boot.js");
const STYLE: &str = include_str!("style.css");
const BODY: &str = include_str!("body.html");
const SCRIPTS: [&str; 24] = [
    include_str!("js/words.js"),
    include_str!("js/profile.js"),
    include_str!("js/heap.js"),
    include_str!("js/sums.js"),
    include_str!("js/state.js"),
    include_str!("js/address.js"),
    include_str!("js/tip.js"),
    include_str!("js/table.js"),
    include_str!("js/tree.js"),
    include_str!("js/flame.js"),
    include_str!("js/spans.js"),
    include_str!("js/rows.js"),
    include_str!("js/timeline.js"),
    include_str!("js/room.js"),
    include_str!("js/chart.js"),
    include_str!("js/heat.js"),
    include_str!("js/highlight.js"),
    include_str!("js/source.js"),
    include_str!("js/jumps.js"),
    include_str!("js/asm.js"),
    include_str!("js/markers.js"),
    include_str!("js/diff.js"),
    include_str!("js/menu.js"),
    include_str!("js/page.js"),
];

/// Writes a profile, with all its events, and the viewer as one HTML file.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(data: Data, options: &PageOptions<'_>, mut out: impl Write) -> io::Result<()> {
    let title = match data.product.as_str() {
        "" => "sprof".to_owned(),
        product => format!("{product} - sprof"),
    };
    let data = gzip(
        &data::data(data, options).map_err(io::Error::other)?,
        Compression::best(),
    )?;
    page(&title, Some(&data), &mut out)
}

/// What a page says of two sides besides their samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiffOptions<'a> {
    /// What is compared.
    pub title: &'a str,
    /// What limits the comparison, a sentence each.
    pub notes: &'a [String],
}

/// Writes the comparison of two sides, as [`diff`](crate::view::diff::diff) makes it, and the viewer as one HTML file.
///
/// # Errors
/// Write errors of `out`. An error if the recordings have different units, or no samples by time.
pub fn write_diff(
    base: &[Data],
    new: &[Data],
    limits: DiffLimits,
    options: &DiffOptions<'_>,
    mut out: impl Write,
) -> io::Result<()> {
    let data = gzip(&compared(base, new, limits, options)?, Compression::best())?;
    page(&format!("{} - sprof", options.title), Some(&data), &mut out)
}

/// The data of a comparison for [`served_page`]; gzip.
///
/// # Errors
/// As [`write_diff`].
pub fn diff_data(base: &[Data], new: &[Data], limits: DiffLimits, options: &DiffOptions<'_>) -> io::Result<Vec<u8>> {
    gzip(&compared(base, new, limits, options)?, SERVED)
}

fn compared(base: &[Data], new: &[Data], limits: DiffLimits, options: &DiffOptions<'_>) -> io::Result<Vec<u8>> {
    let [before, after] = [base, new].map(|side| {
        side.iter()
            .map(|data| Picked::new(data, PickedTime::Cpu))
            .collect::<Vec<_>>()
    });
    differential::check(&before, &after)?;
    Ok(diff::data(base, new, limits, options))
}

/// The page without data: it loads them from `data`, beside its own address.
///
/// # Errors
///
/// None is known: the page is written to memory.
pub fn served_page() -> io::Result<Vec<u8>> {
    let mut html = Vec::new();
    page("sprof", None, &mut html)?;
    Ok(html)
}

/// The data of a profile for [`served_page`]; gzip.
///
/// # Errors
///
/// None is known: the data is written to memory.
pub fn served_data(data: Data, options: &PageOptions<'_>) -> io::Result<Vec<u8>> {
    gzip(&data::data(data, options).map_err(io::Error::other)?, SERVED)
}

/// The policy of a page (Content-Security-Policy).
pub fn policy(is_served: bool) -> String {
    let connect = if is_served { "connect-src 'self'; " } else { "" };
    format!(
        "default-src 'none'; {connect}script-src {} {}; style-src {}; base-uri 'none'; form-action 'none'",
        hash(BOOT),
        hash(&script()),
        hash(STYLE)
    )
}

/// A script or style that a policy permits.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// The scripts without the lines that are comments: types and explanations are a quarter of the bytes.
fn script() -> String {
    let mut is_comment = false;
    let lines = SCRIPTS.iter().flat_map(|script| script.lines()).filter(|line| {
        let line = line.trim();
        // Of a cast, `/** @type {...} */ (value)`, the line goes on.
        let starts = line.starts_with("/**") && line.find("*/").is_none_or(|end| end + 2 == line.len());
        let is_left_out = is_comment || starts || line.starts_with("//");
        is_comment = (is_comment || starts) && !line.ends_with("*/");
        !is_left_out
    });
    format!(
        "(() => {{\n\"use strict\";\n{}\n}})();\n",
        lines.collect::<Vec<_>>().join("\n")
    )
}

fn page(title: &str, data: Option<&[u8]>, out: &mut dyn Write) -> io::Result<()> {
    let code = gzip(format!("{STYLE}\0{}", script()).as_bytes(), Compression::best())?;
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"sprof-viewer\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n</head>\n{BODY}\
         <script type=\"application/octet-stream\" id=\"code\">{}</script>\n",
        policy(data.is_none()),
        escaped(title),
        BASE64_STANDARD.encode(&code)
    )?;
    if let Some(data) = data {
        out.write_all(b"<script type=\"application/octet-stream\" id=\"data\">")?;
        // Whole groups of three bytes: no padding in between.
        for piece in data.chunks(3 << 16) {
            out.write_all(BASE64_STANDARD.encode(piece).as_bytes())?;
        }
        out.write_all(b"</script>\n")?;
    }
    write!(out, "<script>{BOOT}</script>\n</body>\n</html>\n")?;
    out.flush()
}

fn gzip(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut gz = GzEncoder::new(Vec::new(), level);
    gz.write_all(bytes)?;
    gz.finish()
}

/// Text in HTML (<https://html.spec.whatwg.org/#escapingString>).
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => crate::text::push_shown(&mut out, c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_hold_nothing_that_ends_them() {
        for text in [BOOT, BODY, STYLE].into_iter().chain(SCRIPTS) {
            assert!(!text.contains('\r') && !text.contains('\0'));
        }
        assert!(!script().contains("@param") && script().contains("/** @type"));
        assert!(!BOOT.contains("</script") && !BOOT.contains("<!--"));
        assert!(script().is_ascii(), "other characters are written as escapes");
    }

    #[test]
    fn a_title_is_text() {
        assert_eq!(
            escaped("</title><b>&\u{1b}\u{202e}"),
            "&lt;/title&gt;&lt;b&gt;&amp;\\u001b\\u202e"
        );
    }
}
