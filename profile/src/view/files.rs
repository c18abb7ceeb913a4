//! The cost of each source file.

use super::cost::Cost;
use super::select::Selection;
use super::sums::by_key;
use crate::data::NONE;

/// Cost of samples with a line of the file on the stack, by the text of the file's path. A sample counts once. Files
/// without samples are left out.
pub fn file_totals(selection: &Selection<'_>) -> Vec<(u32, Cost)> {
    let data = selection.data;
    let key: Vec<u32> = (data.frames.iter()).map(|frame| data.line_file(frame)).collect();
    let keys = key
        .iter()
        .filter(|file| **file != NONE)
        .max()
        .map_or(0, |file| *file as usize + 1);
    let (_, total) = by_key(selection, keys, &key);
    (0..).zip(total).filter(|(_, cost)| !cost.is_zero()).collect()
}
