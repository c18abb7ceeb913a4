//! Draws threads by time: figures of the chosen time, the axis, a strip of all threads and of each.

use std::ops::Range;

use profile::text::numbers::{grouped, time};
use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;
use ratatui_core::style::Style;

use super::canvas::{Canvas, ClickTarget};
use super::page::{NO_NAME, Page};
use super::strips::{TimeStrips, strip_start};
use crate::terminal::columns::{cut, cut_start};

/// What is chosen, in figures.
fn figures(strips: &TimeStrips, page: &Page) -> String {
    let Range { start, end } = strips.chosen();
    let measure = &page.report.measure;
    let cost = |cost: Cost| amount(measure, cost);
    let row = page.row_number();
    let [all, of_row] = strips.costs(row.unwrap_or(usize::MAX));
    let mut text = format!(
        "{} to {}: {}",
        seconds(strips.edges_s[start]),
        seconds(strips.edges_s[end]),
        cost(all)
    );
    if let Some(row) = page.row().filter(|_| strips.parts.threads.len() > 1) {
        text += &format!("; {}: {}", row.name, cost(of_row));
    }
    text
}

fn amount(measure: &CostScale, cost: Cost) -> String {
    let amount = measure.amount_label().map(|_| measure.amount(cost));
    let samples = match cost.samples {
        1 => "1 sample".to_owned(),
        samples => format!("{} samples", grouped(samples)),
    };
    let samples = measure.has_samples.then_some(samples);
    amount.into_iter().chain(samples).collect::<Vec<_>>().join(", ")
}

fn seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        seconds => time(seconds * 1000.0),
    }
}

/// Lines of the axis and of all threads, above the rows.
pub(super) const LINES_ABOVE: usize = 2;

/// Fewest columns of a thread's number behind its name.
const LEAST_PLACE: usize = 6;

/// Draws the figures of the chosen time, the axis, and a strip of all threads and of each.
pub(super) fn draw(canvas: &mut Canvas<'_>, page: &Page, strips: &TimeStrips, height: usize) {
    let start = strip_start(canvas.width());
    canvas.put_to_end(0, 3, &figures(strips, page), canvas.bold());

    // The axis has its ends, and the chosen cells.
    let ends = [strips.edges_s.first(), strips.edges_s.last()].map(|edge| seconds(edge.copied().unwrap_or(0.0)));
    let axis = format!("{} to {}", ends[0], ends[1]);
    canvas.put_in(2..start.saturating_sub(1), 4, &axis, canvas.dim());
    let chosen = strips.chosen();
    let mark = if chosen.len() == 1 { 'v' } else { '=' };
    canvas.fill(start + chosen.start..start + chosen.end, 4, mark, canvas.bold());

    let most = |costs: &[Cost]| costs.iter().map(|cost| cost.weight).fold(0.0, f64::max);
    canvas.put(2, 5, "all", Style::new());
    strip(canvas, 5, &strips.parts.total, most(&strips.parts.total));
    // All threads have one scale.
    let highest = strips.parts.threads.iter().map(|costs| most(costs)).fold(0.0, f64::max);
    let rows = page.report.tables.first().map_or(&[][..], |table| &table.rows);
    let shares = page.columns.first().and_then(|columns| columns.first());
    for (y, (at, row)) in (6..).zip(rows.iter().enumerate().skip(page.top).take(height)) {
        let style = if at == page.cursor {
            canvas.chosen()
        } else {
            Style::new()
        };
        canvas.fill(0..start.saturating_sub(1), y, ' ', style);
        let share = shares.map_or("", |column| column.cells[at].as_str());
        let after = canvas.put_in(
            2..start.saturating_sub(1),
            y,
            &format!("{share:>7}"),
            style.patch(canvas.bold()),
        );
        let space = start.saturating_sub(after + 3);
        let name = cut(if row.name.is_empty() { NO_NAME } else { &row.name }, space);
        // Its end has the number of the thread.
        let left = space.saturating_sub(name.chars().count() + 2);
        let place = if left < LEAST_PLACE {
            String::new()
        } else {
            cut_start(&row.place, left)
        };
        canvas.clickable(0..start, y, ClickTarget::Line(at));
        canvas.put_in(
            after + 2..start.saturating_sub(1),
            y,
            &format!("{name}  {place}"),
            style,
        );
        if let Some(costs) = strips.parts.threads.get(at) {
            strip(canvas, y, costs, highest);
        }
    }
}

/// Draws costs as bars of eighths of a cell.
fn strip(canvas: &mut Canvas<'_>, y: usize, costs: &[Cost], most: f64) {
    const BARS: [char; 9] = [
        ' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
    ];
    // What is not nothing is to be seen.
    let bar = |cost: &Cost| BARS[(cost.weight.max(0.0) / most * 8.0).ceil().clamp(0.0, 8.0) as usize];
    let text: String = costs.iter().map(bar).collect();
    let (start, width) = (strip_start(canvas.width()), canvas.width());
    canvas.clickable(start..width, y, ClickTarget::Time);
    canvas.put_in(start..width, y, &text, Style::new());
}
