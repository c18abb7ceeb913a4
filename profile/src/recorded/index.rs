//! Finds an id by its content without storing the content twice.

/// A hash table of ids with open addressing. The contents stay in the table that the ids refer to.
///
/// A `HashMap<(u32, u32), u32>` takes 13-26 bytes an entry, this table 8-16. Every hit is confirmed by comparing
/// contents: a hash alone would merge different stacks. Each slot that is tried costs a cache miss for its content, so
/// at least half of the slots are empty: a new entry then tries 2.5 slots at most on average, and 8.5 if a quarter is
/// empty (linear probing: Knuth, TAOCP 6.4).
#[derive(Clone, Default)]
pub(crate) struct IdIndex {
    slots: Vec<u32>,
    len: usize,
}

const EMPTY: u32 = u32::MAX;
const FIRST_SLOTS: usize = 64;

impl IdIndex {
    /// What the first slot for this hash holds: in most cases the id that [`IdIndex::find_or_insert`] returns, in the
    /// others another one, or none (`u32::MAX`).
    pub(crate) fn first(&self, hash: u64) -> u32 {
        let mask = self.slots.len().wrapping_sub(1);
        self.slots.get(slot_of(hash, mask)).copied().unwrap_or(EMPTY)
    }

    /// The id with this hash for which `equal` holds. Otherwise stores `new_id` and returns `None`. `hash_of` gives the
    /// hash of a stored id, for growing.
    pub(crate) fn find_or_insert(
        &mut self,
        hash: u64,
        new_id: u32,
        equal: impl Fn(u32) -> bool,
        hash_of: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow(hash_of);
        }
        let mask = self.slots.len() - 1;
        let mut at = slot_of(hash, mask);
        loop {
            let id = self.slots[at];
            if id == EMPTY {
                self.slots[at] = new_id;
                self.len += 1;
                return None;
            }
            if equal(id) {
                return Some(id);
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let size = (self.slots.len() * 2).max(FIRST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; size]);
        let mask = size - 1;
        for id in old.into_iter().filter(|&id| id != EMPTY) {
            let mut at = slot_of(hash_of(id), mask);
            while self.slots[at] != EMPTY {
                at = (at + 1) & mask;
            }
            self.slots[at] = id;
        }
    }
}

/// The top bits of a multiplicative hash are the best, so they are folded down before masking.
fn slot_of(hash: u64, mask: usize) -> usize {
    ((hash ^ (hash >> 32)) as usize) & mask
}
