//! The page of one profile.

use std::fmt::Write as _;

use profile::text::date::utc;
use profile::text::numbers::{bytes, time};

use super::html::{EscapedText, page, percent};
use super::list::{commit, samples, trend_link};
use super::profile_index::IndexedProfile;
use super::summary::{Function, Summary};

/// Rows of each list of functions.
const ROWS: usize = 25;

/// `ui` is the address of the profile in the profiler UI.
pub(super) fn profile_page(item: &IndexedProfile, ui: &str) -> Vec<u8> {
    let file = item.name();
    let title = match item.summary() {
        Some(summary) if !summary.program.is_empty() => summary.program.to_string(),
        _ => file.clone(),
    };
    let mut body = format!(
        "<header><p><a href=\"../../\">all profiles</a></p>\n<h1>{}</h1>\n<p class=\"file\">{}, {}</p>\n",
        EscapedText(&title),
        EscapedText(&file),
        bytes(item.found.version.bytes as f64)
    );
    match item.summary() {
        Some(summary) => with_summary(&mut body, item, summary, ui),
        None => {
            let why = item.problem().unwrap_or("it was not read yet: load the page again");
            let _ = write!(
                body,
                "</header>\n<p class=\"warn\">{}</p>\n<p class=\"act\"><a href=\"file\">Download the file</a></p>\n",
                EscapedText(why)
            );
        }
    }
    page(&title, "../../", "", &body)
}

fn with_summary(body: &mut String, item: &IndexedProfile, summary: &Summary, ui: &str) {
    let _ = write!(
        body,
        "<p class=\"links\"><a href=\"view/\">Open in the viewer</a> <a href=\"{}\">Open in the Firefox Profiler</a> \
         <a href=\"flame.svg\">Flame graph</a> <a href=\"file\">Download the file</a></p></header>\n<dl>",
        EscapedText(ui)
    );
    let rows = [
        ("Recorded", EscapedText(&utc(item.time_ms())).to_string()),
        ("Commit", commit(summary)),
        ("Machine", EscapedText(&summary.machine).to_string()),
        ("Recorder", EscapedText(&summary.recorded_by).to_string()),
        ("Length", summary.length_ms.map(time).unwrap_or_default()),
        ("Samples", samples(summary)),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(body, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    body.push_str("</dl>\n");
    for note in &summary.notes {
        let _ = writeln!(body, "<p class=\"warn\">{}</p>", EscapedText(note));
    }
    if summary.picture.is_some() {
        body.push_str(
            "<p class=\"act\"><a href=\"flame.svg\"><picture><source media=\"(max-width: 40rem)\" srcset=\"small.svg\">\
             <img class=\"large\" alt=\"flame graph\" src=\"flame.svg\"></picture></a></p>\n",
        );
    }
    let by_self: Vec<&Function> = summary
        .functions
        .iter()
        .filter(|function| function.own.weight > 0.0)
        .collect();
    functions(body, "Functions by self", summary, &by_self);
    functions(body, "Functions by total", summary, &summary.by_total());
}

fn functions(body: &mut String, title: &str, summary: &Summary, rows: &[&Function]) {
    let costs = &summary.scale;
    let _ = write!(
        body,
        "<h2>{title}</h2>\n<div class=\"wide\"><table><thead><tr><th class=\"n\">Self</th>"
    );
    let label = costs.amount_label().map(|label| EscapedText(label).to_string());
    let heads = |kind: &str| match &label {
        Some(label) => format!("<th class=\"n\">{kind}{label}</th>"),
        None => String::new(),
    };
    let _ = writeln!(
        body,
        "{}<th class=\"n\">Total</th>{}<th>Function</th><th>Library</th></tr></thead><tbody>",
        heads("Self "),
        heads("Total ")
    );
    for function in rows.iter().take(ROWS) {
        let amount = |cost| match &label {
            Some(_) => format!("<td class=\"n\">{}</td>", EscapedText(&costs.amount(cost))),
            None => String::new(),
        };
        let _ = writeln!(
            body,
            "<tr><td class=\"n\">{}</td>{}<td class=\"n\">{}</td>{}<td>{}</td><td class=\"file\">{}</td></tr>",
            percent(costs.percent(function.own)),
            amount(function.own),
            percent(costs.percent(function.total)),
            amount(function.total),
            trend_link("../../", summary, function),
            EscapedText(&function.lib)
        );
    }
    body.push_str("</tbody></table></div>\n");
    let left_out = rows.len().saturating_sub(ROWS) + summary.more_functions;
    if left_out > 0 {
        let _ = writeln!(body, "<p class=\"soft act\">{left_out} more: open the viewer.</p>");
    }
}
