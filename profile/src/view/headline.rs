//! Where the time went, in a sentence: what a page says first.

use rustc_hash::FxHashMap;

use super::cost::{Cost, FEW_SAMPLES};
use super::functions::functions;
use super::own_code::{innermost_with, own_functions};
use super::select::Selection;

/// With this share of all, a function says where the time went: the innermost of them on the hottest stack. That is
/// `main` in a program whose `main` sorts, in code of the standard library.
const HALF: f64 = 0.5;

/// A function, and what ran in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headline {
    /// The function.
    pub func: u32,
    /// Its share of all, with what it calls.
    pub share: f64,
    /// The function with the largest self cost on its stacks; it may be the function itself.
    pub hottest: u32,
    /// Self cost of that one, as a share of the function's.
    pub part: f64,
}

/// The program's innermost function with half of what is selected, or else the one with most. Where no function is
/// known to be the program's, the one with the largest self cost. `None` if there are too few samples.
pub fn headline(selection: &Selection<'_>) -> Option<Headline> {
    let whole = selection.total;
    if whole.samples < FEW_SAMPLES {
        return None;
    }
    let row = (innermost_with(selection, HALF))
        .or_else(|| own_functions(selection).first().copied())
        .or_else(|| functions(selection).first().copied())?;
    let mut is_inside = Vec::with_capacity(selection.stacks.len());
    let mut costs: FxHashMap<u32, Cost> = FxHashMap::default();
    for (stack, own) in selection.stacks.iter().zip(&selection.own) {
        let func = selection.representative(selection.data.frames[stack.frame as usize].func);
        let inside = func == row.func || is_inside.get(stack.prefix as usize).is_some_and(|inside| *inside);
        is_inside.push(inside);
        if inside {
            *costs.entry(func).or_default() += *own;
        }
    }
    let hottest = costs
        .into_iter()
        .max_by(|a, b| a.1.weight.total_cmp(&b.1.weight).then(b.0.cmp(&a.0)));
    let (hottest, cost) = hottest?;
    Some(Headline {
        func: row.func,
        share: row.total.share_of(whole),
        hottest,
        part: cost.share_of(row.total),
    })
}
