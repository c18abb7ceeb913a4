//! The frames of a flame graph: each row of a tree as wide as its share, below its caller.

use std::ops::Range;

use profile::view::cost::Cost;

use crate::report::Table;

/// The frames of a flame graph.
pub(crate) struct FlameGraph {
    /// For each row of the table, where its frame begins and ends: shares of the whole, 0 to 1.
    spans: Vec<(f64, f64)>,
    /// The row that has the whole width.
    pub(crate) zoom: Option<usize>,
}

impl FlameGraph {
    pub(crate) fn new(table: &Table, whole: Cost) -> FlameGraph {
        // For each level, where its next frame begins.
        let mut next = vec![0.0];
        let spans = table.rows.iter().map(|row| {
            next.truncate(row.depth + 1);
            let from = next.last().copied().unwrap_or(0.0);
            let to = from + row.total.unwrap_or_default().share_of(whole).max(0.0);
            if let Some(next) = next.last_mut() {
                *next = to;
            }
            next.push(from);
            (from, to)
        });
        FlameGraph {
            spans: spans.collect(),
            zoom: None,
        }
    }

    /// The cells of a row's frame on `width` cells. Frames that are smaller than half a cell have none.
    pub(crate) fn cells(&self, row: usize, width: usize) -> Range<usize> {
        let (from, to) = self.spans[row];
        let (first, last) = self.zoom.map_or((0.0, 1.0), |zoom| self.spans[zoom]);
        let cell = |at: f64| {
            ((at - first) / (last - first) * width as f64)
                .round()
                .clamp(0.0, width as f64) as usize
        };
        cell(from)..cell(to)
    }

    pub(crate) fn is_drawn(&self, row: usize, width: usize) -> bool {
        !self.cells(row, width).is_empty()
    }
}
