//! The cost of each function.

use super::arcs;
use super::cost::Cost;
use super::select::Selection;
use super::sums::by_key;

/// A function with samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunctionRow {
    /// The function, or the representative of several.
    pub func: u32,
    /// Cost of samples in which it ran.
    pub own: Cost,
    /// Cost of samples with it on the stack. A sample counts once.
    pub total: Cost,
}

/// All functions with samples, sorted by self cost, then total cost, largest first, then by name.
pub fn functions(selection: &Selection<'_>) -> Vec<FunctionRow> {
    let frames = selection.data.frames.iter();
    let key: Vec<u32> = frames.map(|frame| selection.representative(frame.func)).collect();
    let (own, total) = by_key(selection, selection.data.funcs.len(), &key);
    let total = arcs::totals(selection, &own).unwrap_or(total);
    let rows = own.into_iter().zip(total).enumerate();
    let mut rows: Vec<FunctionRow> = rows
        .map(|(func, (own, total))| FunctionRow {
            func: func as u32,
            own,
            total,
        })
        .filter(|row| !row.total.is_zero())
        .collect();
    rows.sort_by(|a, b| {
        let by_cost = b.own.weight.total_cmp(&a.own.weight);
        let by_cost = by_cost.then(b.total.weight.total_cmp(&a.total.weight));
        by_cost.then_with(|| (selection.name(a.func), a.func).cmp(&(selection.name(b.func), b.func)))
    });
    rows
}

/// Cost of samples with one of these functions on the stack. A sample counts once.
pub fn total_of(selection: &Selection<'_>, funcs: &[u32]) -> Cost {
    let frames = selection.data.frames.iter();
    let is_other = |func| !funcs.contains(&selection.representative(func));
    let key: Vec<u32> = frames.map(|frame| u32::from(is_other(frame.func))).collect();
    let (_, total) = by_key(selection, 2, &key);
    total.first().copied().unwrap_or_default()
}
