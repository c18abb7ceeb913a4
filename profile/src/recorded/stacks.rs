//! All stacks of a profile as one tree: a stack is a node, and its parent is its caller's stack.

use super::index::IdIndex;
use super::tables::FrameId;

/// Index into [`StackTree`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StackId(pub(crate) u32);

/// No stack: the `prefix` of a root.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct StackNode {
    prefix: u32,
    frame: u32,
    /// Hash of the whole path from the root.
    hash: u32,
}

/// The stack tree in topological order: a prefix comes before the stacks that it is the prefix of.
#[derive(Clone, Default)]
pub(crate) struct StackTree {
    nodes: Vec<StackNode>,
    index: IdIndex,
    // Reused from stack to stack.
    hashes: Vec<u32>,
    guesses: Vec<(u32, StackNode)>,
}

impl StackTree {
    pub(crate) fn with_capacity(len: usize) -> Self {
        StackTree {
            nodes: Vec::with_capacity(len),
            ..StackTree::default()
        }
    }

    /// The stack of `frame` with the caller's stack `prefix`.
    pub(crate) fn intern(&mut self, prefix: Option<StackId>, frame: FrameId) -> StackId {
        let (prefix, before) = self.path(prefix);
        self.find_or_push(StackNode {
            prefix,
            frame: frame.0,
            hash: hash(before, frame.0),
        })
    }

    /// The stacks that these frames make, one after the other, on top of `prefix`.
    ///
    /// To find a stack takes its prefix, and both the slot of the index and the node are seldom in a cache. The hash is
    /// of the path, so that all slots can be read at once, and then all nodes: a look-up that waits for the one before
    /// it takes several times as long.
    pub(crate) fn intern_all(
        &mut self,
        prefix: Option<StackId>,
        frames: impl Iterator<Item = FrameId> + Clone,
        mut found: impl FnMut(StackId),
    ) {
        let (mut prefix, mut path) = self.path(prefix);
        self.hashes.clear();
        self.hashes.extend(frames.clone().map(|frame| {
            path = hash(path, frame.0);
            path
        }));
        self.guesses.clear();
        let (nodes, index) = (&self.nodes, &self.index);
        let none = StackNode {
            prefix: NONE,
            frame: u32::MAX,
            hash: 0,
        };
        self.guesses
            .extend(self.hashes.iter().map(|hash| (index.first(u64::from(*hash)), none)));
        for (id, node) in &mut self.guesses {
            *node = nodes.get(*id as usize).copied().unwrap_or(none);
        }
        for (at, frame) in frames.enumerate() {
            let node = StackNode {
                prefix,
                frame: frame.0,
                hash: self.hashes[at],
            };
            let (id, guess) = self.guesses[at];
            let stack = match (guess.prefix, guess.frame) == (prefix, frame.0) {
                true => StackId(id),
                false => self.find_or_push(node),
            };
            found(stack);
            prefix = stack.0;
        }
    }

    /// A stack as the prefix of others: its number, and the hash of its path.
    fn path(&self, stack: Option<StackId>) -> (u32, u32) {
        match stack {
            Some(stack) => (stack.0, self.nodes[stack.0 as usize].hash),
            None => (NONE, 0),
        }
    }

    fn find_or_push(&mut self, node: StackNode) -> StackId {
        let Self { nodes, index, .. } = self;
        let found = index.find_or_insert(
            u64::from(node.hash),
            nodes.len() as u32,
            |id| {
                let known = &nodes[id as usize];
                (known.prefix, known.frame) == (node.prefix, node.frame)
            },
            |id| u64::from(nodes[id as usize].hash),
        );
        StackId(found.unwrap_or_else(|| {
            nodes.push(node);
            nodes.len() as u32 - 1
        }))
    }

    /// Appends a stack that is known to be new. [`StackTree::intern`] does not find it afterwards.
    pub(crate) fn append(&mut self, prefix: Option<StackId>, frame: FrameId) -> StackId {
        let (prefix, hash) = (prefix.map_or(NONE, |stack| stack.0), 0);
        self.nodes.push(StackNode {
            prefix,
            frame: frame.0,
            hash,
        });
        StackId(self.nodes.len() as u32 - 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn prefix(&self, stack: StackId) -> Option<StackId> {
        let prefix = self.nodes[stack.0 as usize].prefix;
        (prefix != NONE).then_some(StackId(prefix))
    }

    pub(crate) fn frame(&self, stack: StackId) -> FrameId {
        FrameId(self.nodes[stack.0 as usize].frame)
    }

    /// All stacks, parents first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StackId, Option<StackId>, FrameId)> + '_ {
        (0..self.nodes.len() as u32).map(|id| (StackId(id), self.prefix(StackId(id)), self.frame(StackId(id))))
    }

    /// Frees the memory that only growing needs.
    pub(crate) fn freeze(&mut self) {
        self.index = IdIndex::default();
        self.nodes.shrink_to_fit();
    }
}

/// Hash of a path with one more frame: the upper half of a product by 2^64 / golden ratio (Knuth, TAOCP 6.4).
fn hash(path: u32, frame: u32) -> u32 {
    (((u64::from(path) << 32) | u64::from(frame)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_the_same_however_many_are_looked_up_at_once() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut at_once, mut one_by_one) = (StackTree::default(), StackTree::default());
        for _ in 0..20_000 {
            let prefix = match at_once.len() as u64 {
                0 => None,
                len => Some(StackId(random(len) as u32)).filter(|stack| stack.0 % 5 > 0),
            };
            let frames: Vec<FrameId> = (0..random(6)).map(|_| FrameId(random(9) as u32)).collect();
            let mut found = Vec::new();
            at_once.intern_all(prefix, frames.iter().copied(), |stack| found.push(stack));
            let mut parent = prefix;
            for (frame, stack) in frames.iter().zip(&found) {
                parent = Some(one_by_one.intern(parent, *frame));
                assert_eq!(parent, Some(*stack));
            }
            assert_eq!(found.len(), frames.len());
        }
        assert!(at_once.iter().eq(one_by_one.iter()));
        // No stack is there twice.
        let distinct: std::collections::HashSet<_> =
            at_once.iter().map(|(_, prefix, frame)| (prefix, frame.0)).collect();
        assert_eq!(distinct.len(), at_once.len());
    }
}
