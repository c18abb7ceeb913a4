//! Finds the nodes of a tree of call paths that changed significantly.

use super::amounts::Side;
use super::samples::RecordingSamples;
use super::test::{Tested, significant};
use super::tree::PlaceTree;
use super::{DiffLimits, KeyAmount, SideTotal};

/// The comparison of a tree's nodes.
pub(crate) struct ComparedNodes {
    pub(crate) base: SideTotal,
    pub(crate) new: SideTotal,
    /// The change of each node. A node's amounts include its descendants.
    pub(crate) changes: Vec<NodeChange>,
}

/// The change of a node.
pub(crate) struct NodeChange {
    pub(crate) base: KeyAmount,
    pub(crate) new: KeyAmount,
    /// Confidence interval of the change of its share.
    pub(crate) range: (f64, f64),
    pub(crate) verdict: NodeVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeVerdict {
    /// Share and time changed in the same direction.
    Changed,
    /// The share changed. The time of others may be the cause.
    OfShare,
    /// No change of the limit or more.
    Within,
    /// The range holds no change, and also a change of the limit or more.
    Undecided,
}

/// Compares a tree's nodes. `parents` holds each node's parent, an index less than its own. A sample's place is a node.
pub(crate) fn nodes(
    parents: &[u32],
    base: &[RecordingSamples],
    new: &[RecordingSamples],
    limits: DiffLimits,
) -> ComparedNodes {
    let tree = PlaceTree::of_nodes(parents);
    let side = |recordings: &[RecordingSamples]| {
        let mut side = Side::default();
        recordings.iter().for_each(|recording| side.add(recording, &tree));
        side
    };
    let (base, new) = (side(base), side(new));
    let (mut of_share, mut of_both) = (Vec::new(), Vec::new());
    let mut changes: Vec<NodeChange> = (0..parents.len())
        .map(|node| {
            let tested = Tested::new(&base, &new, node, false);
            if let Some(tested) = &tested {
                of_share.extend(tested.p_of_share.map(|p| (p, node)));
                of_both.extend(tested.p.map(|p| (p, node)));
            }
            NodeChange {
                base: base.amount(node),
                new: new.amount(node),
                range: tested.as_ref().map_or((-1.0, 1.0), |tested| tested.share_change),
                verdict: match tested {
                    Some(tested) if tested.is_within(limits.least_change) => NodeVerdict::Within,
                    _ => NodeVerdict::Undecided,
                },
            }
        })
        .collect();
    for (p_of, verdict) in [(of_share, NodeVerdict::OfShare), (of_both, NodeVerdict::Changed)] {
        for node in significant(p_of, limits.false_discoveries) {
            let change = &mut changes[node];
            if (change.new.share - change.base.share).abs() >= limits.least_change {
                change.verdict = verdict;
            }
        }
    }
    ComparedNodes {
        base: base.total(),
        new: new.total(),
        changes,
    }
}
