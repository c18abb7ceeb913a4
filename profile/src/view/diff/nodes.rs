//! Which nodes of a tree of call paths changed, by more than chance.

use super::amounts::Side;
use super::samples::Recording;
use super::{Amount, Limits, Total, test};

/// What became of the nodes of a tree.
pub(crate) struct Nodes {
    pub(crate) base: Total,
    pub(crate) new: Total,
    /// Of each node. A node's amounts hold those of all nodes below it.
    pub(crate) changes: Vec<NodeChange>,
}

/// What became of a node.
pub(crate) struct NodeChange {
    pub(crate) base: Amount,
    pub(crate) new: Amount,
    /// The change of its share is between these, where it is no chance. `None`: chance, or too few samples to tell.
    pub(crate) surely: Option<(f64, f64)>,
    /// True if its time changed, too, and in the same direction; else the share did because other things changed.
    pub(crate) in_time: bool,
}

/// Compares the nodes of a tree, of which each has its parent's index, less than its own. The samples' places are nodes.
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
        side.add(recording, |sample, add| {
            let mut node = sample.place;
            while let Some(parent) = parents.get(node as usize) {
                add(node);
                node = *parent;
            }
        });
    }
    side
}
