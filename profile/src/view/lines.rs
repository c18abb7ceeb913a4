//! The cost of each source line.

use rustc_hash::FxHashMap;

use super::arcs;
use super::cost::Cost;
use super::select::Selection;
use super::sums::by_key;
use crate::data::NONE;

/// A line with samples, or a function without lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineRow {
    /// Index of a text: the path of the source file, or [`NONE`].
    pub file: u32,
    /// From 1, or [`NONE`].
    pub line: u32,
    /// The function with the largest cost there. A line can be part of several functions: instances of a generic one.
    pub func: u32,
    /// Cost of samples in which it ran.
    pub own: Cost,
    /// Cost of samples in which it or its callees ran. A sample counts once.
    pub total: Cost,
}

/// All lines with samples, sorted by self cost, then total cost, largest first, then by place. Code without a known
/// line is a row of its function.
pub fn lines(selection: &Selection<'_>) -> Vec<LineRow> {
    let data = selection.data;
    // The key of a line, or of a function without lines.
    let mut keys: FxHashMap<(u32, u32, u32), u32> = FxHashMap::default();
    let mut rows: Vec<LineRow> = Vec::new();
    let mut key_of_frame = Vec::with_capacity(data.frames.len());
    for frame in &data.frames {
        let func = selection.representative(frame.func);
        let file = data.line_file(frame);
        let is_known = file != NONE && frame.line != NONE;
        let place = match is_known {
            true => (file, frame.line, NONE),
            false => (file, NONE, func),
        };
        let next = rows.len() as u32;
        let key = *keys.entry(place).or_insert(next);
        if key == next {
            rows.push(LineRow {
                file,
                line: place.1,
                func,
                own: Cost::default(),
                total: Cost::default(),
            });
        }
        key_of_frame.push(key);
    }
    let (own, mut total) = by_key(selection, rows.len(), &key_of_frame);
    arcs::add_by_key(selection, &key_of_frame, &mut total);

    let mut own_of_frame = vec![Cost::default(); data.frames.len()];
    for (stack, cost) in selection.stacks.iter().zip(&selection.own) {
        own_of_frame[stack.frame as usize] += *cost;
    }
    let mut most = vec![0.0; rows.len()];
    for (frame, &key) in key_of_frame.iter().enumerate() {
        let (key, weight) = (key as usize, own_of_frame[frame].weight);
        if weight > most[key] {
            most[key] = weight;
            rows[key].func = selection.representative(data.frames[frame].func);
        }
    }
    for (row, (own, total)) in rows.iter_mut().zip(own.into_iter().zip(total)) {
        (row.own, row.total) = (own, total);
    }
    rows.retain(|row| !row.total.is_zero());
    rows.sort_by(|a, b| {
        let by_cost = b.own.weight.total_cmp(&a.own.weight);
        let by_cost = by_cost.then(b.total.weight.total_cmp(&a.total.weight));
        by_cost.then_with(|| (data.text(a.file), a.line, a.func).cmp(&(data.text(b.file), b.line, b.func)))
    });
    rows
}
