//! Self and total cost by function, or by any other key of frames. A recursive key counts once for each sample.

use super::callees::Callees;
use super::cost::Cost;
use super::select::Selection;
use crate::data::NONE;

/// Self and total cost of each key. `key` holds the key of each frame, less than `keys`; a frame with [`NONE`] does not
/// count.
pub(super) fn by_key(selection: &Selection<'_>, keys: usize, key: &[u32]) -> (Vec<Cost>, Vec<Cost>) {
    let stacks = &selection.stacks;
    let key_of = |stack: usize| key[stacks[stack].frame as usize] as usize;
    let mut own = vec![Cost::default(); keys];
    let mut total = vec![Cost::default(); keys];
    for (stack, cost) in selection.own.iter().enumerate().filter(|(_, cost)| !cost.is_zero()) {
        if let Some(own) = own.get_mut(key_of(stack)) {
            *own += *cost;
        }
    }
    let totals = selection.totals();

    let callees = Callees::new(stacks);
    // A depth-first walk counts each key on the path. Only the first occurrence adds to the total.
    let mut on_path = vec![0u32; keys];
    let mut path: Vec<u32> = Vec::new();
    let mut next = callees.first_root();
    loop {
        if next != NONE {
            let stack = next as usize;
            let key = key_of(stack);
            if let Some(on_path) = on_path.get_mut(key) {
                if *on_path == 0 {
                    total[key] += totals[stack];
                }
                *on_path += 1;
            }
            path.push(next);
            next = callees.first(next);
        } else if let Some(done) = path.pop() {
            if let Some(on_path) = on_path.get_mut(key_of(done as usize)) {
                *on_path -= 1;
            }
            next = callees.next(done);
        } else {
            return (own, total);
        }
    }
}
