//! Totals, callers and callees of files with costs of calls and no call paths: callgrind's.
//!
//! total(function) = self + cost of its calls, without calls of itself
//!
//! The cost of a call includes the callee's own calls, so a total is also the sum of all calls of the function. In a
//! cycle of functions, the same cost is in several arcs. The total of a function is then limited to the cost of the
//! cycle: its functions and their callees outside. Arcs do not determine a closer value.
//!
//! Totals equal those of callgrind_annotate, except for recursion, whose cost callgrind_annotate adds once for each
//! level: a `fib` that took 10 % of a program is 60 % there.

use rustc_hash::FxHashMap;

use super::cost::Cost;
use super::select::Selection;
use crate::data::{Calls, NONE};

/// A caller or a callee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArcRow {
    /// The function.
    pub func: u32,
    /// Number of calls.
    pub calls: u64,
    /// Cost of these calls, including their callees.
    pub cost: Cost,
}

/// Totals by function, at least the self cost; `None` if the file has no arcs.
pub(super) fn totals(selection: &Selection<'_>, own: &[Cost]) -> Option<Vec<Cost>> {
    let sums = sums(selection)?;
    let outgoing = sums.iter().filter(|((caller, callee), _)| caller != callee);
    let mut totals = own.to_vec();
    for ((caller, _), (_, weight)) in outgoing.clone() {
        totals[*caller as usize] += Cost::of_samples(0, *weight);
    }
    let circles = circles(selection, own.len());
    let mut of_circle: FxHashMap<u32, Cost> = FxHashMap::default();
    for (func, circle) in circles.iter().enumerate().filter(|(_, circle)| **circle != NONE) {
        *of_circle.entry(*circle).or_default() += own[func];
    }
    for ((caller, callee), (_, weight)) in outgoing {
        let circle = circles[*caller as usize];
        if circle != NONE && circle != circles[*callee as usize] {
            *of_circle.entry(circle).or_default() += Cost::of_samples(0, *weight);
        }
    }
    for (total, circle) in totals.iter_mut().zip(&circles) {
        if let Some(most) = of_circle.get(circle)
            && total.weight > most.weight
        {
            *total = *most;
        }
    }
    Some(totals)
}

/// Number of functions in cycles of calls. Their totals are upper bounds.
pub fn in_circles(selection: &Selection<'_>) -> usize {
    let circles = circles(selection, selection.data.funcs.len());
    circles.iter().filter(|circle| **circle != NONE).count()
}

/// The callers of any of these functions, without the function itself, largest cost first; `None` if the file has no
/// arcs.
pub fn callers(selection: &Selection<'_>, funcs: &[u32]) -> Option<Vec<ArcRow>> {
    let found = sums(selection)?.into_iter();
    let found = found.filter(|((caller, callee), _)| funcs.contains(callee) && !funcs.contains(caller));
    Some(rows(found.map(|((caller, _), sum)| (caller, sum))))
}

/// The callees of any of these functions, without the function itself, largest cost first; `None` if the file has no
/// arcs.
pub fn callees(selection: &Selection<'_>, funcs: &[u32]) -> Option<Vec<ArcRow>> {
    let found = sums(selection)?.into_iter();
    let found = found.filter(|((caller, callee), _)| funcs.contains(caller) && !funcs.contains(callee));
    Some(rows(found.map(|((_, callee), sum)| (callee, sum))))
}

fn rows(found: impl Iterator<Item = (u32, (u64, f64))>) -> Vec<ArcRow> {
    let mut by_func: FxHashMap<u32, (u64, f64)> = FxHashMap::default();
    for (func, (calls, weight)) in found {
        let sum = by_func.entry(func).or_default();
        *sum = (sum.0.saturating_add(calls), sum.1 + weight);
    }
    let rows = by_func.into_iter().map(|(func, (calls, weight))| ArcRow {
        func,
        calls,
        cost: Cost::of_samples(0, weight),
    });
    let mut rows: Vec<ArcRow> = rows.collect();
    rows.sort_by(|a, b| b.cost.weight.total_cmp(&a.cost.weight).then(a.func.cmp(&b.func)));
    rows
}

/// Adds the cost of calls from each key of frames, if the file has arcs. A function's calls of itself are left out.
pub(super) fn add_by_key(selection: &Selection<'_>, key: &[u32], totals: &mut [Cost]) {
    let Calls::Arcs(arcs) = &selection.data.calls else {
        return;
    };
    let frames = &selection.data.frames;
    for arc in arcs.iter().filter(|arc| selection.has_thread(arc.thread)) {
        let caller = selection.representative(frames[arc.caller as usize].func);
        if caller != selection.representative(arc.callee) {
            totals[key[arc.caller as usize] as usize] += Cost::of_samples(0, arc.weight);
        }
    }
}

type ArcSums = FxHashMap<(u32, u32), (u64, f64)>;

/// Calls between functions and their costs, in the selected threads.
pub(crate) fn sums(selection: &Selection<'_>) -> Option<ArcSums> {
    let Calls::Arcs(arcs) = &selection.data.calls else {
        return None;
    };
    let mut sums = ArcSums::default();
    for arc in arcs.iter().filter(|arc| selection.has_thread(arc.thread)) {
        let caller = selection.representative(selection.data.frames[arc.caller as usize].func);
        let sum = sums.entry((caller, selection.representative(arc.callee))).or_default();
        *sum = (sum.0.saturating_add(arc.calls), sum.1 + arc.weight);
    }
    Some(sums)
}

/// For each function, the number of its cycle of calls, or [`NONE`]: strongly connected components of more than one
/// function (Tarjan 1972, doi:10.1137/0201010), without recursion.
fn circles(selection: &Selection<'_>, funcs: usize) -> Vec<u32> {
    let mut circle_of = vec![NONE; funcs];
    let Some(sums) = sums(selection) else {
        return circle_of;
    };
    let mut callees: Vec<Vec<u32>> = vec![Vec::new(); funcs];
    for (caller, callee) in sums.into_keys() {
        callees[caller as usize].push(callee);
    }
    let (mut index, mut low) = (vec![NONE; funcs], vec![NONE; funcs]);
    let mut is_open = vec![false; funcs];
    let (mut next_index, mut circles) = (0, 0);
    let mut open: Vec<u32> = Vec::new();
    // (function, index of its next callee)
    let mut path: Vec<(u32, usize)> = Vec::new();
    for root in 0..funcs as u32 {
        if index[root as usize] != NONE {
            continue;
        }
        path.push((root, 0));
        while let Some((func, at)) = path.last_mut() {
            let this = *func as usize;
            if *at == 0 {
                (index[this], low[this]) = (next_index, next_index);
                next_index += 1;
                open.push(*func);
                is_open[this] = true;
            }
            if let Some(&callee) = callees[this].get(*at) {
                *at += 1;
                let callee = callee as usize;
                if index[callee] == NONE {
                    path.push((callee as u32, 0));
                } else if is_open[callee] {
                    low[this] = low[this].min(index[callee]);
                }
                continue;
            }
            if low[this] == index[this] {
                let start = open.iter().rposition(|open| *open as usize == this).unwrap_or(0);
                let circle = open.split_off(start);
                for func in &circle {
                    is_open[*func as usize] = false;
                    if circle.len() > 1 {
                        circle_of[*func as usize] = circles;
                    }
                }
                circles += u32::from(circle.len() > 1);
            }
            path.pop();
            if let Some((caller, _)) = path.last() {
                let caller = *caller as usize;
                low[caller] = low[caller].min(low[this]);
            }
        }
    }
    circle_of
}
