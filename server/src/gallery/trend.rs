//! The page of a function: its share in the profiles of a program, by time.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use profile::text::date::utc;
use profile::text::numbers::count;
use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;
use profile::view::names::short;

use super::super::listener::encode;
use super::html::{EscapedText, PageQuery, page, percent};
use super::list::commit;
use super::profile_index::{IndexedProfile, ProfileIndex};
use super::summary::Summary;

/// Profiles of the chart, the newest.
const POINTS: usize = 500;

/// Size of the chart, and room for its scale.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 168.0;
const LEFT: f64 = 60.0;
const EDGE: f64 = 14.0;
const DATES: f64 = 34.0;
const DATE_WIDTH: f64 = 96.0;

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
        "<header><p><a href=\"./\">all profiles</a></p>\n<h1>{}</h1>\n<p class=\"soft\">",
        EscapedText(&short(function))
    );
    if short(function) != function {
        let _ = write!(body, "{}<br>", EscapedText(function));
    }
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
    let mut machines = points.iter().map(|point| &*point.summary.machine);
    let only_machine = machines
        .next()
        .filter(|first| machines.all(|machine| machine == *first));
    if let Some(machine) = only_machine.filter(|machine| !machine.is_empty()) {
        let _ = write!(body, ", recorded on {}", EscapedText(machine));
    }
    body.push_str("</p></header>\n");
    if seen == 0 {
        body.push_str("<p class=\"empty\">No profile has this function among its hottest ones. Names are whole names, as on the page of a profile.</p>\n");
        suggestions(&mut body, &points, function, program);
    } else {
        chart(&mut body, &points, "self", |scale, (own, _)| scale.percent(own));
        chart(&mut body, &points, "total", |scale, (_, total)| scale.percent(total));
        table(&mut body, &points, only_machine.is_none());
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

/// A chart of one share, with a scale of its own: a large total must not flatten a small self.
fn chart(body: &mut String, points: &[Point<'_>], name: &str, share: fn(&CostScale, (Cost, Cost)) -> f64) {
    let shares: Vec<Option<f64>> = (points.iter())
        .map(|point| Some(share(&point.summary.scale, point.cost?)))
        .collect();
    let known = || shares.iter().flatten().copied();
    let scale = Scale::new(known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    let inner = WIDTH - LEFT - EDGE;
    let step = inner / points.len().saturating_sub(1).max(1) as f64;
    let x = |at: usize| match points.len() {
        1 => LEFT + inner / 2.0,
        _ => LEFT + step * at as f64,
    };
    let bottom = HEIGHT - DATES;
    let y = |share: f64| EDGE + (bottom - EDGE) * (1.0 - (share - scale.from) / (scale.to - scale.from));
    let _ = writeln!(
        body,
        "<figure><svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{name} share of each profile\">"
    );
    for line in scale.lines() {
        let at = y(line);
        let _ = writeln!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"scale\" x=\"{}\" y=\"{:.1}\">{}</text>",
            WIDTH - EDGE,
            LEFT - 6.0,
            at + 4.0,
            percent(line)
        );
    }
    let dates: Vec<String> = points.iter().map(|point| utc(point.item.time_ms())).collect();
    let day = |at: usize| dates[at].split(' ').next().unwrap_or_default();
    let mut free = 0.0;
    for at in (0..points.len()).filter(|at| *at == 0 || day(*at) != day(at - 1)) {
        // The first and the last label stay inside of the chart.
        let middle = x(at).clamp(DATE_WIDTH / 2.0, WIDTH - DATE_WIDTH / 2.0);
        if middle - DATE_WIDTH / 2.0 < free {
            continue;
        }
        free = middle + DATE_WIDTH / 2.0 + 8.0;
        let _ = writeln!(
            body,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{bottom}\" y2=\"{1}\"/>\
             <text class=\"date\" x=\"{middle:.1}\" y=\"{2}\">{3}</text>",
            x(at),
            bottom + 5.0,
            HEIGHT - 4.0,
            day(at)
        );
    }
    // A profile without the function interrupts the line.
    let mut line = String::new();
    let mut dots = String::new();
    let mut is_down = false;
    for (at, (point, share)) in points.iter().zip(&shares).enumerate() {
        let Some(share) = *share else {
            is_down = false;
            continue;
        };
        let (x, y) = (x(at), y(share));
        let _ = write!(line, "{}{x:.1} {y:.1}", if is_down { "L" } else { "M" });
        is_down = true;
        let _ = writeln!(
            dots,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{name} {}, {}{}</title></circle>",
            percent(share),
            dates[at],
            match &point.summary.commit {
                Some(commit) => format!(", commit {}", EscapedText(commit)),
                None => String::new(),
            }
        );
    }
    let _ = writeln!(
        body,
        "<path d=\"{line}\"/>\n{dots}</svg>\n\
         <figcaption><b>{name}</b> share of each profile, the oldest at the left{}</figcaption></figure>",
        match scale.from > 0.0 {
            true => format!("; the scale begins at {}", percent(scale.from)),
            false => String::new(),
        }
    );
}

/// The scale of a chart, percent.
struct Scale {
    from: f64,
    to: f64,
    step: f64,
}

impl Scale {
    /// Round numbers around the shares. A fifth of the largest share is the shortest scale, so that chance is not drawn
    /// as a large change.
    fn new(least: f64, most: f64) -> Scale {
        let span = (most - least).max(most / 5.0).max(0.1);
        let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
        let step = steps.into_iter().find(|step| span <= 4.0 * step).unwrap_or(25.0);
        let middle = (least + most) / 2.0;
        let from = ((least.min(middle - span / 2.0) / step).floor() * step).max(0.0);
        let to = (most.max(middle + span / 2.0) / step).ceil() * step;
        Scale {
            from,
            to: to.min(100.0),
            step,
        }
    }

    fn lines(&self) -> impl Iterator<Item = f64> {
        let steps = ((self.to - self.from) / self.step).round() as u32;
        (0..=steps).map(|at| self.from + self.step * f64::from(at))
    }
}

fn table(body: &mut String, points: &[Point<'_>], names_machine: bool) {
    let _ = writeln!(
        body,
        "<div class=\"wide\"><table><thead><tr><th>Recorded</th><th>Commit</th><th class=\"n\">Self</th><th class=\"n\">Self amount</th>\
         <th class=\"n\">Total</th><th class=\"n\">Total amount</th><th>Profile</th>{}</tr></thead><tbody>",
        if names_machine { "<th>Machine</th>" } else { "" }
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
        let _ = write!(
            body,
            "<td class=\"file\"><a href=\"p/{}/\">{}</a></td>",
            point.item.found.id,
            EscapedText(&point.item.name()),
        );
        if names_machine {
            let _ = write!(body, "<td class=\"file\">{}</td>", EscapedText(&point.summary.machine));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::Scale;

    #[test]
    fn scales_show_the_change_and_have_round_numbers() {
        for (least, most, lines) in [
            (0.0, 0.0, &[0.0, 0.1][..]),
            (30.0, 60.0, &[30.0, 40.0, 50.0, 60.0]),
            (75.0, 80.0, &[65.0, 70.0, 75.0, 80.0, 85.0, 90.0]),
            (100.0, 100.0, &[90.0, 95.0, 100.0]),
        ] {
            let found: Vec<f64> = Scale::new(least, most).lines().collect();
            assert_eq!(found, lines, "{least} to {most}");
        }
    }
}
