//! All stacks of a profile as one tree: a stack is a node, and its parent is its caller's stack.

use super::index::Index;
use super::tables::FrameId;

/// Index into [`Stacks`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StackId(pub(crate) u32);

/// No stack: the `prefix` of a root, the `last_child` of a leaf.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    prefix: u32,
    frame: u32,
    /// The child that was found last. Most nodes have one child: a first look here saves the hash table's cache misses (`--example
    /// million`: 1.2 us a sample without it).
    last_child: u32,
}

/// The stack tree in topological order: a prefix comes before the stacks that it is the prefix of.
#[derive(Clone)]
pub(crate) struct Stacks {
    nodes: Vec<Node>,
    last_root: u32,
    index: Index,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks {
            nodes: Vec::new(),
            last_root: NONE,
            index: Index::default(),
        }
    }
}

impl Stacks {
    pub(crate) fn with_capacity(len: usize) -> Self {
        Stacks {
            nodes: Vec::with_capacity(len),
            ..Stacks::default()
        }
    }

    /// The stack of `frame` with the caller's stack `prefix`.
    pub(crate) fn intern(&mut self, prefix: Option<StackId>, frame: FrameId) -> StackId {
        let prefix = prefix.map_or(NONE, |stack| stack.0);
        let last = match self.nodes.get(prefix as usize) {
            Some(node) => node.last_child,
            None => self.last_root,
        };
        if self.nodes.get(last as usize).is_some_and(|node| node.frame == frame.0) {
            return StackId(last);
        }
        let Self { nodes, index, .. } = self;
        let new_id = nodes.len() as u32;
        let found = index.find_or_insert(
            hash(prefix, frame.0),
            new_id,
            |id| {
                let node = &nodes[id as usize];
                node.prefix == prefix && node.frame == frame.0
            },
            |id| {
                let node = &nodes[id as usize];
                hash(node.prefix, node.frame)
            },
        );
        let id = found.unwrap_or_else(|| self.push(prefix, frame));
        match self.nodes.get_mut(prefix as usize) {
            Some(node) => node.last_child = id,
            None => self.last_root = id,
        }
        StackId(id)
    }

    /// Appends a stack that is known to be new. [`Stacks::intern`] does not find it afterwards.
    pub(crate) fn append(&mut self, prefix: Option<StackId>, frame: FrameId) -> StackId {
        StackId(self.push(prefix.map_or(NONE, |stack| stack.0), frame))
    }

    fn push(&mut self, prefix: u32, frame: FrameId) -> u32 {
        let id = self.nodes.len() as u32;
        self.nodes.push(Node {
            prefix,
            frame: frame.0,
            last_child: NONE,
        });
        id
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
        self.index = Index::default();
        self.nodes.shrink_to_fit();
    }
}

fn hash(prefix: u32, frame: u32) -> u64 {
    // 2^64 / golden ratio (Knuth, TAOCP 6.4): spreads neighbouring (prefix, frame) pairs over the top bits.
    ((u64::from(prefix) << 32) | u64::from(frame)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
