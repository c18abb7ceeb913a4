//! Draws a tree as a flame graph.

use profile::view::names::short;
use ratatui_core::style::{Modifier, Style};

use super::canvas::{Canvas, ClickTarget};
use super::colors::{ColorDepth, FunctionColors};
use super::page::Page;
use crate::terminal::columns::{clean, cut};

/// Draws the figures of the chosen frame, and the frames from the first level on the screen.
pub(super) fn draw(canvas: &mut Canvas<'_>, page: &Page, colors: &FunctionColors, height: usize) {
    let (Some(flame), Some(table), Some(row)) = (&page.flame, page.report.tables.first(), page.row()) else {
        return;
    };
    // Figures first: a name may be longer than the line.
    let mut x = 0;
    for (at, column) in page.columns[0].iter().enumerate() {
        let style = if at == 0 { canvas.bold() } else { Style::new() };
        x = canvas.put(x, 3, column.cells[page.cursor].trim(), style) + 1;
        x = canvas.put(x, 3, &column.head, canvas.dim()) + 2;
    }
    canvas.put_to_end(x, 3, &row.name, canvas.bold());
    canvas.put_to_end(x + clean(&row.name).chars().count() + 2, 3, &row.place, canvas.dim());
    let width = canvas.width();
    for (at, row) in table.rows.iter().enumerate() {
        let Some(level) = row.depth.checked_sub(page.top).filter(|level| *level < height) else {
            continue;
        };
        let cells = flame.cells(at, width);
        if cells.is_empty() {
            continue;
        }
        let style = match (at == page.cursor, colors.style(row.func, canvas.colors)) {
            (true, _) => canvas.chosen().add_modifier(Modifier::BOLD),
            (false, style) => style,
        };
        let name = cut(&short(&clean(&row.name)), cells.len() - 1);
        let (edge, filling) = match canvas.colors {
            ColorDepth::None => ("|", '-'),
            _ => ("\u{258f}", ' '),
        };
        canvas.clickable(cells.clone(), 4 + level, ClickTarget::Line(at));
        canvas.fill(cells.clone(), 4 + level, filling, style);
        canvas.put_in(cells.clone(), 4 + level, edge, style);
        canvas.put_in(cells.start + 1..cells.end, 4 + level, &name, style);
    }
}
