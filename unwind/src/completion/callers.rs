//! The words of live memory that led to the callers of a thread's last deep stack. A walk that needs one of the words
//! reads all of them with one system call.

use crate::walk::copied_stack::StackWord;
use crate::walk::outcome::{WalkEnd, WalkOutcome};
use crate::walk::reuse::LastWalk;

/// Addresses and values of the words, root first.
#[derive(Default)]
pub(crate) struct CallerWords(Vec<StackWord>);

impl CallerWords {
    /// Keeps the words of a walk of `frames` frames that reached the root with live memory. `dump_end`: the address
    /// where the sample's copy of the stack ends.
    pub(crate) fn keep(&mut self, outcome: &WalkOutcome, frames: usize, walk: &LastWalk, dump_end: u64) {
        let (WalkEnd::Root, Some(live_boundary)) = (outcome.end, outcome.live_boundary) else {
            return;
        };
        let words = walk.words_of_last(frames - live_boundary).unwrap_or_default();
        // The step at the live boundary may have read some of its words in the copy.
        let live = words.iter().filter(|(address, _)| *address >= dump_end);
        if !live.clone().eq(&self.0) {
            self.0.clear();
            self.0.extend(live);
        }
    }

    /// The words, root first; empty while no deep stack was walked.
    pub(crate) fn words(&self) -> &[StackWord] {
        &self.0
    }
}
