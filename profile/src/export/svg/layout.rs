//! Selects the drawn nodes and their places.

use std::collections::BTreeSet;

use super::super::label::FrameColor;
use super::super::tree::CallPathTree;
use super::{MARGIN, ROW, SvgOptions};

/// The drawn nodes and their places.
pub(super) struct Layout {
    pub(super) frames: Vec<(u32, FrameBox)>,
    pub(super) kinds: BTreeSet<FrameColor>,
    pub(super) has_inlined: bool,
    /// Number of nodes that are too narrow.
    pub(super) left_out: usize,
    pub(super) rows: usize,
    /// Width between the margins, pixels.
    pub(super) inner_width: f64,
}

pub(super) struct FrameBox {
    /// Weight to the left of it.
    start: u64,
    total: u64,
    /// From the root, in rows.
    pub(super) depth: usize,
    /// The row is also of these functions below the node: each calls only the next one.
    pub(super) folded: Vec<u32>,
}

impl Layout {
    /// `folds`: callers with nothing beside them share a row, below each process and thread. A bare picture begins at
    /// the program's own code instead.
    pub(super) fn new(tree: &CallPathTree, options: &SvgOptions, folds: bool) -> Layout {
        let inner_width = f64::from(options.width.max(200)) - 2.0 * MARGIN as f64;
        let mut layout = Layout {
            frames: Vec::new(),
            kinds: BTreeSet::new(),
            has_inlined: false,
            left_out: 0,
            rows: 1,
            inner_width,
        };
        let total = tree.nodes[0].total;
        let least = (options.min_width.max(0.0) / inner_width * total as f64).min(total as f64);
        let is_drawn = |weight: u64| weight as f64 >= least && weight > 0;
        let is_place = |id: u32| {
            tree.nodes
                .get(id as usize)
                .is_none_or(|node| node.kind == FrameColor::Place)
        };
        // Of each node on the path, the start of its next child and the row of its children.
        let mut path: Vec<(u64, usize)> = Vec::new();
        let mut without_row: Vec<u32> = Vec::new();
        let starts = if options.is_bare {
            own_code(tree, &is_drawn)
        } else {
            Vec::new()
        };
        let walked = tree.walk(|id, depth| {
            let node = &tree.nodes[id as usize];
            path.truncate(depth);
            let (start, row) = path.last().copied().unwrap_or_default();
            if let Some((next, _)) = path.last_mut() {
                *next = next.saturating_add(node.total);
            }
            let drawn = is_drawn(node.total);
            let mut folded = Vec::new();
            if drawn && folds && !options.is_bare && is_place(node.parent) && !is_place(id) {
                folded = only_callees(tree, id, &is_drawn);
                without_row.clone_from(&folded);
            }
            let has_row = match starts.get(id as usize) {
                Some(start) => row > 0 || *start != OwnCode::Below,
                None => !without_row.contains(&id),
            };
            path.push((start, row + usize::from(has_row)));
            if drawn && has_row {
                if folded.is_empty() {
                    layout.kinds.insert(node.kind);
                    layout.has_inlined |= node.inlined;
                }
                let total = node.total;
                let place = FrameBox {
                    start,
                    total,
                    depth: row,
                    folded,
                };
                layout.frames.push((id, place));
                layout.rows = layout.rows.max(row + 1);
            } else if !drawn && node.total > 0 {
                layout.left_out += 1;
            }
            Ok(drawn)
        });
        debug_assert!(walked.is_ok(), "drawing nothing never fails");
        layout
    }

    /// Left edge and width. Adjacent edges are equal after rounding.
    pub(super) fn span(&self, place: &FrameBox, total: u64) -> (u64, u64) {
        let at = |weight: u64| (u128::from(weight) * u128::from(100 * PERCENT) / u128::from(total.max(1))) as u64;
        let start = at(place.start);
        (start, at(place.start.saturating_add(place.total)).saturating_sub(start))
    }

    pub(super) fn y(&self, depth: usize, inverted: bool) -> usize {
        let row = if inverted { depth } else { self.rows - 1 - depth };
        row * ROW
    }
}

/// Where the program's own code begins: its first function that calls several or has a weight of its own.
#[derive(Clone, Copy, PartialEq)]
enum OwnCode {
    Here,
    Below,
    Nowhere,
}

/// For each node.
fn own_code(tree: &CallPathTree, is_drawn: &impl Fn(u64) -> bool) -> Vec<OwnCode> {
    let mut callees = vec![0u32; tree.nodes.len()];
    let mut starts = vec![OwnCode::Nowhere; tree.nodes.len()];
    for id in (0..tree.nodes.len()).rev() {
        let node = &tree.nodes[id];
        // Files of other profilers do not say whose code a frame is.
        let is_own = matches!(node.kind, FrameColor::Program | FrameColor::Jit | FrameColor::Other);
        if is_own && (callees[id] != 1 || is_drawn(node.own)) {
            starts[id] = OwnCode::Here;
        }
        let is_below = starts[id] != OwnCode::Nowhere && is_drawn(node.total);
        if let (Some(callees), true) = (callees.get_mut(node.parent as usize), is_drawn(node.total)) {
            *callees += 1;
        }
        if let (Some(parent), true) = (starts.get_mut(node.parent as usize), is_below) {
            *parent = OwnCode::Below;
        }
    }
    starts
}

/// The functions below `caller` up to the first that calls several or has a weight of its own, without it. None where
/// `caller` would be alone in its row.
fn only_callees(tree: &CallPathTree, caller: u32, is_drawn: &impl Fn(u64) -> bool) -> Vec<u32> {
    let mut folded = Vec::new();
    let mut last = caller;
    while !is_drawn(tree.nodes[last as usize].own) {
        let first = tree.nodes[last as usize].first_child;
        let siblings = std::iter::successors(Some(first), |node| {
            tree.nodes.get(*node as usize).map(|node| node.next_sibling)
        });
        let mut callees =
            siblings.filter(|node| tree.nodes.get(*node as usize).is_some_and(|node| is_drawn(node.total)));
        let (Some(callee), None) = (callees.next(), callees.next()) else {
            break;
        };
        folded.push(callee);
        last = callee;
    }
    folded.pop();
    folded
}

/// Edges are written in parts of a percent: a hundredth of a pixel on the widest screens.
pub(super) const PERCENT: u64 = 10_000;

/// A number of these parts, as a decimal.
pub(super) struct Decimal(pub(super) u64);

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, mut rest) = (self.0 / PERCENT, self.0 % PERCENT);
        write!(f, "{whole}")?;
        if rest == 0 {
            return Ok(());
        }
        let mut digits = 4;
        while rest.is_multiple_of(10) {
            rest /= 10;
            digits -= 1;
        }
        write!(f, ".{rest:0digits$}")
    }
}
