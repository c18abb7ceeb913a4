//! The page of a function: its share in the profiles of a program, by time.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use profile::text::date::utc;
use profile::text::numbers::count;
use profile::view::cost::Cost;

use super::super::listener::encode;
use super::html::{EscapedText, PageQuery, page, percent};
use super::list::commit;
use super::profile_index::{IndexedProfile, ProfileIndex};
use super::summary::Summary;

/// Profiles of the chart, the newest.
const POINTS: usize = 500;

/// Size of the chart, and room for its scale.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 60.0;
const EDGE: f64 = 14.0;

/// A profile of the program.
struct Point<'a> {
    item: &'a IndexedProfile,
    summary: &'a Summary,
    /// Self and total; `None` if the function is not among the hottest ones of this profile.
    cost: Option<(Cost, Cost)>,
}

pub(super) fn trend(shelf: &ProfileIndex, query: &PageQuery) -> Vec<u8> {
    let (function, program) = (query.get("function").unwrap_or_default(), query.get("program"));
    let lib = query.get("library");
    let shown = shelf.shown();
    let of_program = shown.items.iter().filter_map(|item| Some((item, item.summary()?)));
    let of_program = of_program.filter(|(_, summary)| program.is_none_or(|program| program == &*summary.program));
    let mut points: Vec<Point<'_>> = of_program
        .map(|(item, summary)| Point {
            item,
            summary,
            cost: summary.cost_of(function, lib),
        })
        .take(POINTS)
        .collect();
    // The oldest is at the left.
    points.reverse();
    let mut body = format!(
        "<header><p><a href=\"./\">all profiles</a></p>\n<h1 class=\"name\">{}</h1>\n<p class=\"soft\">",
        EscapedText(function)
    );
    if let Some(lib) = lib {
        let _ = write!(body, "of {} ", EscapedText(lib));
    }
    let seen = points.iter().filter(|point| point.cost.is_some()).count();
    let _ = write!(
        body,
        "in {}{}",
        count(points.len() as u64, "profile", "profiles"),
        program.map_or_else(String::new, |program| format!(" of {}", EscapedText(program)))
    );
    let pending = shown.items.iter().filter(|item| item.made.is_none()).count();
    if pending > 0 {
        let _ = write!(body, "; {pending} are not read yet");
    }
    body.push_str("</p></header>\n");
    if seen == 0 {
        body.push_str("<p class=\"empty\">No profile has this function among its hottest ones. Names are whole names, as on the page of a profile.</p>\n");
        suggestions(&mut body, &points, function, program);
    } else {
        chart(&mut body, &points);
        table(&mut body, &points);
    }
    page(function, "", "", &body)
}

/// Functions with the text in their name.
fn suggestions(body: &mut String, points: &[Point<'_>], function: &str, program: Option<&str>) {
    const SHOWN: usize = 30;
    if function.is_empty() {
        return;
    }
    let mut found = BTreeSet::new();
    for point in points {
        let names = point.summary.functions.iter().map(|function| &*function.name);
        found.extend(names.filter(|name| name.contains(function)).take(SHOWN));
    }
    if found.is_empty() {
        return;
    }
    body.push_str("<p class=\"act\">With this text in their names:</p>\n<ul>\n");
    for name in found.into_iter().take(SHOWN) {
        let program = encode(program.unwrap_or_default());
        let _ = writeln!(
            body,
            "<li><a class=\"name\" href=\"trend?program={}&amp;function={}\">{}</a></li>",
            EscapedText(&program),
            EscapedText(&encode(name)),
            EscapedText(name)
        );
    }
    body.push_str("</ul>\n");
}

fn chart(body: &mut String, points: &[Point<'_>]) {
    let shares = |point: &Point<'_>| {
        let (own, total) = point.cost?;
        let costs = &point.summary.scale;
        Some([costs.percent(own), costs.percent(total)])
    };
    let most = points
        .iter()
        .filter_map(shares)
        .map(|[_, total]| total)
        .fold(0.0, f64::max);
    let top = scale(most);
    let inner = WIDTH - LEFT - EDGE;
    let step = inner / points.len().saturating_sub(1).max(1) as f64;
    let x = |at: usize| match points.len() {
        1 => LEFT + inner / 2.0,
        _ => LEFT + step * at as f64,
    };
    let y = |share: f64| EDGE + (HEIGHT - 2.0 * EDGE) * (1.0 - (share / top).clamp(0.0, 1.0));
    let _ = writeln!(
        body,
        "<figure><svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"share of each profile\">"
    );
    for part in [0.0, 0.5, 1.0] {
        let (line, label) = (y(top * part), percent(top * part));
        let _ = writeln!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{line:.1}\" y2=\"{line:.1}\"/>\
             <text class=\"scale\" x=\"{}\" y=\"{:.1}\">{label}</text>",
            WIDTH - EDGE,
            LEFT - 6.0,
            line + 4.0
        );
    }
    for (kind, class) in [(1, "total"), (0, "self")] {
        // A profile without the function interrupts the line.
        let mut line = String::new();
        let mut dots = String::new();
        let mut is_down = false;
        for (at, point) in points.iter().enumerate() {
            let Some(shares) = shares(point) else {
                is_down = false;
                continue;
            };
            let (x, y) = (x(at), y(shares[kind]));
            let _ = write!(line, "{}{x:.1} {y:.1}", if is_down { "L" } else { "M" });
            is_down = true;
            let _ = writeln!(
                dots,
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{class} {}, {}{}</title></circle>",
                percent(shares[kind]),
                utc(point.item.time_ms()),
                match &point.summary.commit {
                    Some(commit) => format!(", commit {}", EscapedText(commit)),
                    None => String::new(),
                }
            );
        }
        let _ = write!(body, "<path class=\"{class}\" d=\"{line}\"/>\n{dots}");
    }
    body.push_str(
        "</svg>\n<figcaption><span class=\"key self\"></span> self <span class=\"key total\"></span> total, of all samples of each profile, \
         the oldest at the left</figcaption></figure>\n",
    );
}

/// The end of the scale: a round number of percent above the largest share.
fn scale(most: f64) -> f64 {
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
    steps.into_iter().find(|step| most <= *step).unwrap_or(100.0)
}

fn table(body: &mut String, points: &[Point<'_>]) {
    body.push_str(
        "<div class=\"wide\"><table><thead><tr><th>Recorded</th><th>Commit</th><th class=\"n\">Self</th><th class=\"n\">Self amount</th>\
         <th class=\"n\">Total</th><th class=\"n\">Total amount</th><th>Profile</th><th>Machine</th></tr></thead><tbody>\n",
    );
    for point in points.iter().rev() {
        let costs = &point.summary.scale;
        let when = utc(point.item.time_ms());
        let _ = write!(
            body,
            "<tr><td class=\"when\">{}</td><td class=\"commit\">{}</td>",
            when.trim_end_matches(" UTC"),
            commit(point.summary)
        );
        match point.cost {
            Some((own, total)) => {
                for cost in [own, total] {
                    let _ = write!(
                        body,
                        "<td class=\"n\">{}</td><td class=\"n\">{}</td>",
                        percent(costs.percent(cost)),
                        EscapedText(&costs.amount(cost))
                    );
                }
            }
            None => body.push_str("<td colspan=\"4\" class=\"soft\">not among the hottest functions</td>"),
        }
        let _ = writeln!(
            body,
            "<td class=\"file\"><a href=\"p/{}/\">{}</a></td><td class=\"file\">{}</td></tr>",
            point.item.found.id,
            EscapedText(&point.item.name()),
            EscapedText(&point.summary.machine)
        );
    }
    body.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn scales_end_with_round_numbers() {
        for (most, end) in [(0.0, 0.1), (0.3, 0.5), (50.0, 50.0), (50.1, 100.0), (100.0, 100.0)] {
            assert_eq!(scale(most), end, "{most}");
        }
    }
}
