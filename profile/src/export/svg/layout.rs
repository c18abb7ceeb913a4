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
    pub(super) depth: usize,
}

impl Layout {
    pub(super) fn new(tree: &CallPathTree, options: &SvgOptions) -> Layout {
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
        // The start of the next child of each node on the path.
        let mut starts: Vec<u64> = Vec::new();
        let walked = tree.walk(|id, depth| {
            let node = &tree.nodes[id as usize];
            starts.truncate(depth);
            let start = starts.last().copied().unwrap_or(0);
            if let Some(next) = starts.last_mut() {
                *next = next.saturating_add(node.total);
            }
            starts.push(start);
            let drawn = node.total as f64 >= least && node.total > 0;
            if drawn {
                let total = node.total;
                layout.frames.push((id, FrameBox { start, total, depth }));
                layout.kinds.insert(node.kind);
                layout.has_inlined |= node.inlined;
                layout.rows = layout.rows.max(depth + 1);
            } else if node.total > 0 {
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
