//! What completes the stacks of a thread that are deeper than their dumps, and whether it is still there.
//!
//! A recorder that wakes up and reads the callers of one thread needs a tenth of the time that it needs to process samples, too. So it
//! leaves the samples in the rings while the words that led to the callers stay what they are, and completes the stacks with these words
//! later, also if the process has ended by then.

use recording::event::Pid;
use recording::sink::TargetMemory;

use crate::last_walk::{LastWalk, Word};
use crate::outcome::{End, Outcome, Point};
use crate::stack_memory::LiveBlocks;

/// The callers that the last stacks of a thread had in live memory.
#[derive(Default)]
pub(crate) struct Callers {
    /// The words that led to them, root first.
    words: Vec<Word>,
    /// The callers, leaf first, to the root.
    points: Vec<Point>,
    /// The lowest end of a dump that they complete.
    known_from: u64,
    /// The end of a dump that needs none of them.
    whole_from: Option<u64>,
    /// They completed a stack since the last round ended.
    are_used: bool,
    /// The thread was sampled since they were read.
    has_run: bool,
}

impl Callers {
    /// Takes the callers of a walk. `dump_end`: the end of the stack's bytes in the sample.
    pub(crate) fn take(&mut self, outcome: &Outcome, points: &[Point], walk: &LastWalk, dump_end: u64) {
        if outcome.end != End::Root {
            return;
        }
        let Some(live_boundary) = outcome.live_boundary else {
            let highest = walk.words_of_last(points.len()).and_then(<[Word]>::first);
            self.whole_from = Some(highest.map_or(dump_end, |(address, _)| address.saturating_add(8)));
            return;
        };
        let Some(words) = walk.words_of_last(points.len() - live_boundary) else {
            return self.forget();
        };
        self.are_used = true;
        // Of the step at the live boundary, the dump may have some.
        let live = words.iter().filter(|(address, _)| *address >= dump_end);
        let same = live
            .clone()
            .zip(&self.words)
            .take_while(|(new, known)| new == known)
            .count();
        let count = live.clone().count();
        let is_other = same < count.min(self.words.len()) || self.words.is_empty();
        // A dump that ends anywhere in the frame at the live boundary needs the same words. One of rustc's frames has 540 KiB.
        let from = { points.get(live_boundary) }.map_or(dump_end, |frame| frame.sp.min(dump_end));
        self.known_from = match is_other {
            true => from,
            false => self.known_from.min(from),
        };
        if is_other || count > self.words.len() {
            self.words.clear();
            self.words.extend(live);
            self.points.clear();
            self.points
                .extend_from_slice(points.get(live_boundary + 1..).unwrap_or_default());
        }
    }

    pub(crate) fn forget(&mut self) {
        self.words.clear();
        self.points.clear();
    }

    /// Nothing in live memory is known.
    pub(crate) fn are_none(&self) -> bool {
        self.words.is_empty()
    }

    /// The words that led to them, root first.
    pub(crate) fn words(&self) -> &[Word] {
        &self.words
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Whether a stack with a dump that ends here can be completed with these words, or is whole. Takes down that the thread has run.
    pub(crate) fn may_wait(&mut self, dump_end: u64) -> bool {
        self.has_run = true;
        let known_from = (!self.are_none()).then_some(self.known_from);
        let mut enough = known_from.into_iter().chain(self.whole_from);
        enough.any(|enough| enough <= dump_end)
    }

    /// Whether the thread has run since the last call. The stack of one that waits stays as it is, and tells nothing of how often it
    /// changes.
    pub(crate) fn take_has_run(&mut self) -> bool {
        std::mem::take(&mut self.has_run)
    }

    /// Ends a round. False if there are no callers: none was needed in it.
    pub(crate) fn end_round(&mut self) -> bool {
        if !std::mem::take(&mut self.are_used) {
            self.forget();
        }
        !self.are_none()
    }

    /// Whether all words are what they were.
    pub(crate) fn are_the_same(&self, live: &mut LiveBlocks, memory: &mut dyn TargetMemory, pid: Pid) -> bool {
        let mut words = self.words.iter().rev();
        words.all(|(address, value)| live.word(memory, pid, *address, &self.words) == Some(*value))
    }
}
