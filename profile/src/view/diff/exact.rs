//! Compares other profilers' counts exactly. They have no statistics: callgrind counts each instruction, and a pprof
//! file holds sums without times.

use rustc_hash::FxHashMap;

use super::amounts::Side;
use super::keys::{self, ComparedKeys};
use super::{Change, Compared, Comparison, DiffLimits, KeyAmount, SideTotal, Sides, by_change};
use crate::data::{Calls, Data};
use crate::view::functions::functions;
use crate::view::select::{Filter, select};

/// One side: the cost of each key a run, and the total cost.
pub(super) struct ExactCosts {
    of_key: FxHashMap<usize, f64>,
    pub(super) total: SideTotal,
}

impl ExactCosts {
    pub(super) fn new(files: &[Data], what: Compared, keys: &mut ComparedKeys) -> ExactCosts {
        let side = Side::new(files, what, keys);
        let mut figures = ExactCosts {
            of_key: FxHashMap::default(),
            total: SideTotal {
                samples: 0,
                ..side.total()
            },
        };
        let has_arcs = files.iter().any(|data| data.calls != Calls::Paths);
        if what == Compared::Total && has_arcs {
            for data in files {
                figures.add_totals(data, keys, files.len());
            }
            return figures;
        }
        for key in 0..keys.len() {
            let per_run = side.amount(key).per_run;
            if per_run != 0.0 {
                figures.of_key.insert(key, per_run);
            }
        }
        figures
    }

    /// Adds total costs that call paths do not give.
    fn add_totals(&mut self, data: &Data, keys: &mut ComparedKeys, runs: usize) {
        let key_of_frame = keys::of_frames(data, Compared::Total, keys);
        let mut key_of_func: FxHashMap<u32, u32> = FxHashMap::default();
        for (frame, key) in data.frames.iter().zip(key_of_frame) {
            key_of_func.entry(frame.func).or_insert(key);
        }
        // An empty filter names nothing, so nothing can be missing.
        let Ok(selection) = select(data, &Filter::default()) else {
            return;
        };
        for row in functions(&selection) {
            if let Some(key) = key_of_func.get(&row.func) {
                *self.of_key.entry(*key as usize).or_default() += row.total.weight / runs as f64;
            }
        }
    }

    pub(super) fn amount(&self, key: usize) -> KeyAmount {
        let per_run = self.of_key.get(&key).copied().unwrap_or(0.0);
        KeyAmount {
            samples: 0,
            share: if self.total.per_run > 0.0 {
                per_run / self.total.per_run
            } else {
                0.0
            },
            per_run,
        }
    }
}

/// Compares two sides. A change is a change of the amount: if one function changes, many shares change.
pub(super) fn diff(base: &[Data], new: &[Data], what: Compared, limits: DiffLimits) -> Comparison {
    let mut keys = ComparedKeys::default();
    let files = [base, new];
    let (base, new) = (
        ExactCosts::new(base, what, &mut keys),
        ExactCosts::new(new, what, &mut keys),
    );
    let whole = base.total.per_run.max(new.total.per_run);
    let all = (0..keys.len()).filter(|key| base.of_key.contains_key(key) || new.of_key.contains_key(key));
    let all: Vec<usize> = all.collect();
    let changes = all.iter().filter_map(|&key| {
        let (before, after) = (base.amount(key), new.amount(key));
        let change = after.per_run - before.per_run;
        if change == 0.0 || change.abs() < limits.least_change * whole {
            return None;
        }
        let of_all = change / whole;
        Some(keys.named(key, [before, after], (of_all, of_all), 0.0))
    });
    let sides = Sides::exact(base.total, new.total, files);
    let mut changes: Vec<Change> = changes.collect();
    changes.sort_by(|a, b| by_change(sides.delta_of(a), sides.delta_of(b), a, b));
    Comparison {
        sides,
        changes,
        tested: all.len(),
        undecided: None,
    }
}
