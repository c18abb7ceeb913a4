//! All stacks of a profile as one tree: a stack is a node, its parent is the stack of the caller.

use super::index::Index;
use super::tables::FrameId;

/// Index into [`Stacks`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StackId(pub(crate) u32);

/// `prefix` of a root.
const ROOT: u32 = u32::MAX;

/// The stack tree in topological order: `prefix[i] < i`.
#[derive(Clone, Default)]
pub(crate) struct Stacks {
    prefix: Vec<u32>,
    frame: Vec<u32>,
    index: Index,
}

impl Stacks {
    /// The stack in which `frame` was called by `prefix`.
    pub(crate) fn intern(&mut self, prefix: Option<StackId>, frame: FrameId) -> StackId {
        let prefix = prefix.map_or(ROOT, |stack| stack.0);
        let Self {
            prefix: prefixes,
            frame: frames,
            index,
        } = self;
        let new_id = prefixes.len() as u32;
        let found = index.find_or_insert(
            hash(prefix, frame.0),
            new_id,
            |id| prefixes[id as usize] == prefix && frames[id as usize] == frame.0,
            |id| hash(prefixes[id as usize], frames[id as usize]),
        );
        if let Some(id) = found {
            return StackId(id);
        }
        self.push(prefix, frame)
    }

    /// Appends a stack that is known to be new; it can't be found by [`Stacks::intern`] afterwards.
    pub(crate) fn append(&mut self, prefix: Option<StackId>, frame: FrameId) -> StackId {
        self.push(prefix.map_or(ROOT, |stack| stack.0), frame)
    }

    fn push(&mut self, prefix: u32, frame: FrameId) -> StackId {
        let id = self.prefix.len() as u32;
        self.prefix.push(prefix);
        self.frame.push(frame.0);
        StackId(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.prefix.len()
    }

    pub(crate) fn prefix(&self, stack: StackId) -> Option<StackId> {
        match self.prefix[stack.0 as usize] {
            ROOT => None,
            prefix => Some(StackId(prefix)),
        }
    }

    pub(crate) fn frame(&self, stack: StackId) -> FrameId {
        FrameId(self.frame[stack.0 as usize])
    }

    /// All stacks, parents first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StackId, Option<StackId>, FrameId)> + '_ {
        (0..self.prefix.len() as u32).map(|id| (StackId(id), self.prefix(StackId(id)), self.frame(StackId(id))))
    }

    /// Gives back what only growing needs.
    pub(crate) fn freeze(&mut self) {
        self.index = Index::default();
        self.prefix.shrink_to_fit();
        self.frame.shrink_to_fit();
    }
}

fn hash(prefix: u32, frame: u32) -> u64 {
    // 2^64 / golden ratio (Knuth, TAOCP 6.4): spreads neighbouring (prefix, frame) pairs over the top bits.
    ((u64::from(prefix) << 32) | u64::from(frame)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
