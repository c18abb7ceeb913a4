//! The cost of each line and each instruction of a function.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::arcs;
use super::cost::Cost;
use super::select::Selection;
use super::sums::by_key;
use crate::category::{CATEGORIES, CodeKind};
use crate::data::{Data, NONE};

/// A source file with lines of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct FileLines {
    /// Index of a text: its path.
    pub file: u32,
    /// A frame of the function in this file with an address, by which the source text is requested; or [`NONE`].
    pub frame: u32,
    /// (self, total) of each line with samples.
    pub lines: BTreeMap<u32, (Cost, Cost)>,
    /// Self cost of all lines.
    pub own: Cost,
}

/// True if these functions were compiled as the program ran.
pub fn are_jit(selection: &Selection<'_>, funcs: &[u32]) -> bool {
    let data = selection.data;
    let jit = CATEGORIES[CodeKind::Jit.category(false).0].name;
    let mut frames = data
        .frames
        .iter()
        .filter(|frame| funcs.contains(&selection.representative(frame.func)));
    frames.all(|frame| {
        let category = data.categories.get(frame.category as usize);
        category.is_some_and(|category| category.name == jit)
    })
}

/// Costs by line of any of these functions; the file with the largest self cost first.
pub fn lines_of(selection: &Selection<'_>, funcs: &[u32]) -> Vec<FileLines> {
    let data = selection.data;
    // All other code is key 0.
    let mut places: Vec<(u32, u32)> = vec![(NONE, NONE)];
    let mut keys: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    let mut frame_of: FxHashMap<u32, u32> = FxHashMap::default();
    let mut key = Vec::with_capacity(data.frames.len());
    for (index, frame) in data.frames.iter().enumerate() {
        let file = data.line_file(frame);
        let is_ours = funcs.contains(&selection.representative(frame.func));
        if !is_ours || file == NONE || frame.line == NONE {
            key.push(0);
            continue;
        }
        if frame.address.is_some() {
            frame_of.entry(file).or_insert(index as u32);
        }
        key.push(*keys.entry((file, frame.line)).or_insert_with(|| {
            places.push((file, frame.line));
            places.len() as u32 - 1
        }));
    }
    let (own, mut total) = by_key(selection, places.len(), &key);
    arcs::add_by_key(selection, &key, &mut total);
    let mut files: BTreeMap<u32, FileLines> = BTreeMap::new();
    for (&(file, line), (own, total)) in places.iter().zip(own.into_iter().zip(total)).skip(1) {
        if total.is_zero() {
            continue;
        }
        let of_file = files.entry(file).or_insert_with(|| FileLines {
            file,
            frame: frame_of.get(&file).copied().unwrap_or(NONE),
            lines: BTreeMap::new(),
            own: Cost::default(),
        });
        of_file.lines.insert(line, (own, total));
        of_file.own += own;
    }
    let mut files: Vec<FileLines> = files.into_values().collect();
    files.sort_by(|a, b| b.own.weight.total_cmp(&a.own.weight));
    files
}

/// Self cost by library and relative address, of samples in the machine code of any of these functions or of functions
/// inlined into it.
pub fn addresses_of(selection: &Selection<'_>, funcs: &[u32]) -> BTreeMap<u32, BTreeMap<u64, Cost>> {
    let data = selection.data;
    let mut found: BTreeMap<u32, BTreeMap<u64, Cost>> = BTreeMap::new();
    for (stack, cost) in selection.own.iter().enumerate().filter(|(_, cost)| !cost.is_zero()) {
        let leaf = data.frames[selection.stacks[stack].frame as usize];
        let (Some(address), true) = (leaf.address, leaf.lib != NONE) else {
            continue;
        };
        if funcs.contains(&selection.representative(machine_function(selection, stack))) {
            *found.entry(leaf.lib).or_default().entry(address).or_default() += *cost;
        }
    }
    found
}

/// The function whose machine code contains a stack's leaf: the leaf, or the function that it is inlined into.
pub(crate) fn machine_function(selection: &Selection<'_>, mut stack: usize) -> u32 {
    let data: &Data = selection.data;
    loop {
        let node = selection.stacks[stack];
        let frame = data.frames[node.frame as usize];
        if !frame.is_inlined() || node.prefix == NONE {
            return frame.func;
        }
        stack = node.prefix as usize;
    }
}

/// The functions that these are inlined into, with the cost of their samples there, largest first.
pub fn inlined_into(selection: &Selection<'_>, funcs: &[u32]) -> Vec<(u32, Cost)> {
    let mut found: FxHashMap<u32, Cost> = FxHashMap::default();
    for (stack, cost) in selection.own.iter().enumerate().filter(|(_, cost)| !cost.is_zero()) {
        let into = selection.representative(machine_function(selection, stack));
        if funcs.contains(&selection.func(stack as u32)) && !funcs.contains(&into) {
            *found.entry(into).or_default() += *cost;
        }
    }
    let mut found: Vec<(u32, Cost)> = found.into_iter().collect();
    found.sort_by(|a, b| b.1.weight.total_cmp(&a.1.weight).then(a.0.cmp(&b.0)));
    found
}
