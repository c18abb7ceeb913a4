//! Strips of cells, each for a thread by time, and the range that is chosen in them.

use std::ops::Range;

use profile::data::Data;
use profile::view::cost::Cost;
use profile::view::select::Selection;
use profile::view::timeline::{Timeline, timeline};

use crate::args::value::TimeRange;

/// The strips of a page, and the part of the time that is chosen.
pub(crate) struct TimeStrips {
    /// The edges of all cells, seconds.
    pub(crate) edges_s: Vec<f64>,
    pub(crate) parts: Timeline,
    /// The chosen cell.
    pub(crate) cursor: usize,
    /// The other end of the range that is being chosen.
    pub(crate) anchor: Option<usize>,
}

/// True if samples have times.
pub(crate) fn has_times(data: &Data) -> bool {
    let times = data.threads.iter().map(|thread| &thread.samples.time_ms);
    let mut ends = times.flat_map(|times| times.first().into_iter().chain(times.last()));
    let first = ends.next();
    !data.is_summed && data.length_ms().is_some() && ends.any(|time| Some(time) != first)
}

impl TimeStrips {
    /// The selected samples in `cells` parts of the selected time.
    pub(crate) fn new(selection: &Selection<'_>, range: Option<TimeRange>, cells: usize) -> TimeStrips {
        let length_s = selection.data.length_ms().unwrap_or(0.0) / 1000.0;
        let from_s = range.and_then(|range| range.from_s).unwrap_or(0.0).max(0.0);
        let to_s = range
            .and_then(|range| range.to_s)
            .map_or(length_s, |to| to.min(length_s))
            .max(from_s);
        let step_s = (to_s - from_s) / cells as f64;
        // Two digits more than cells differ in: people read the command.
        let digits = (1.0 - step_s.max(1e-9).log10().floor()).clamp(0.0, 12.0) as usize;
        let rounded = |seconds: f64| format!("{seconds:.digits$}").parse().unwrap_or(seconds);
        let edges_s: Vec<f64> = (0..=cells).map(|cell| rounded(from_s + step_s * cell as f64)).collect();
        // As a condition on the time has them.
        let edges_ms: Vec<f64> = edges_s.iter().map(|edge| edge * 1000.0).collect();
        TimeStrips {
            parts: timeline(selection, &edges_ms),
            edges_s,
            cursor: 0,
            anchor: None,
        }
    }

    pub(crate) fn cells(&self) -> usize {
        self.edges_s.len() - 1
    }

    /// Chooses the time that is chosen in other strips.
    pub(crate) fn keep_state(&mut self, earlier: &TimeStrips) {
        let same_time = |cell: usize| {
            let middle_s = (earlier.edges_s[cell] + earlier.edges_s[cell + 1]) / 2.0;
            let cells_before = self.edges_s[1..].partition_point(|end_s| *end_s <= middle_s);
            cells_before.min(self.cells().saturating_sub(1))
        };
        (self.cursor, self.anchor) = (same_time(earlier.cursor), earlier.anchor.map(same_time));
    }

    pub(crate) fn choose(&mut self, cell: usize) {
        self.cursor = cell.min(self.cells().saturating_sub(1));
    }

    /// The chosen cells.
    pub(crate) fn chosen(&self) -> Range<usize> {
        let anchor = self.anchor.unwrap_or(self.cursor);
        self.cursor.min(anchor)..self.cursor.max(anchor) + 1
    }

    /// The chosen range, as a condition. Where it begins or ends with the strips, it has their condition.
    pub(crate) fn range(&self, of_strips: Option<TimeRange>) -> Option<TimeRange> {
        let Range { start, end } = self.chosen();
        let bound = |cell: usize, outer: usize, bound: Option<f64>| match cell == outer {
            true => bound,
            false => self.edges_s.get(cell).copied(),
        };
        let from_s = bound(start, 0, of_strips.and_then(|range| range.from_s));
        let to_s = bound(end, self.cells(), of_strips.and_then(|range| range.to_s));
        (from_s.is_some() || to_s.is_some()).then_some(TimeRange { from_s, to_s })
    }

    /// The cost of all threads and of one row in the chosen cells.
    pub(crate) fn costs(&self, row: usize) -> [Cost; 2] {
        let sum = |costs: Option<&Vec<Cost>>| {
            costs
                .and_then(|costs| costs.get(self.chosen()))
                .unwrap_or_default()
                .iter()
                .copied()
                .sum()
        };
        [sum(Some(&self.parts.total)), sum(self.parts.threads.get(row))]
    }
}

/// Columns of a thread's share and name at most, and as a part of the screen.
const NAME_COLUMNS: usize = 34;

/// The column at which strips begin, on a screen of this width in columns.
pub(super) fn strip_start(width: usize) -> usize {
    NAME_COLUMNS.min(width * 2 / 5)
}
