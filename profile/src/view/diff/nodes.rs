//! Finds the nodes of a tree of call paths that changed significantly.

use super::amounts::Side;
use super::samples::Recording;
use super::{Amount, Limits, Total, test};

/// The comparison of a tree's nodes.
pub(crate) struct Nodes {
    pub(crate) base: Total,
    pub(crate) new: Total,
    /// The change of each node. A node's amounts include its descendants.
    pub(crate) changes: Vec<NodeChange>,
}

/// The change of a node.
pub(crate) struct NodeChange {
    pub(crate) base: Amount,
    pub(crate) new: Amount,
    /// Confidence interval of the change of its share. `None`: the change may be chance, or there are too few samples.
    pub(crate) surely: Option<(f64, f64)>,
    /// True if its time changed in the same direction. Otherwise its share changed because other nodes did.
    pub(crate) in_time: bool,
}

/// Compares a tree's nodes. `parents` holds each node's parent, an index less than its own. A sample's place is a node.
pub(crate) fn nodes(parents: &[u32], base: &[Recording], new: &[Recording], limits: Limits) -> Nodes {
    let (base, new) = (side(parents, base), side(parents, new));
    let mut changes = Vec::with_capacity(parents.len());
    let mut tested = Vec::new();
    for node in 0..parents.len() {
        changes.push(NodeChange {
            base: base.amount(node),
            new: new.amount(node),
            surely: None,
            in_time: false,
        });
        tested.extend(test::test(&base, &new, node).map(|answer| (answer, node)));
    }
    tested.sort_by(|(a, _), (b, _)| a.p_of_share.total_cmp(&b.p_of_share));
    let real = test::discoveries(
        tested.iter().map(|(answer, _)| answer.p_of_share),
        limits.false_discoveries,
    );
    for (answer, node) in &tested[..real] {
        let change = &mut changes[*node];
        if (change.new.share - change.base.share).abs() >= limits.least_change {
            change.surely = Some(answer.share_change);
        }
    }
    tested.sort_by(|(a, _), (b, _)| a.p.total_cmp(&b.p));
    let real = test::discoveries(tested.iter().map(|(answer, _)| answer.p), limits.false_discoveries);
    for (_, node) in &tested[..real] {
        changes[*node].in_time = true;
    }
    Nodes {
        base: base.total(),
        new: new.total(),
        changes,
    }
}

fn side(parents: &[u32], recordings: &[Recording]) -> Side {
    let mut side = Side::default();
    for recording in recordings {
        side.add(recording, |place, add| {
            let mut node = place;
            while let Some(parent) = parents.get(node as usize) {
                add(node);
                node = *parent;
            }
        });
    }
    side
}
