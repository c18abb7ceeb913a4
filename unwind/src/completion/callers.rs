//! What completes the stacks of a thread that are deeper than their dumps, and whether it is still there.
//!
//! A recorder that wakes up and reads the callers of one thread needs a tenth of the time that it needs to process
//! samples, too. So it leaves the samples in the rings while the words that led to the callers stay what they are, and
//! completes the stacks with these words later, also if the process has ended by then.

use recording::event::Pid;
use recording::sink::TargetMemory;

use crate::walk::looked_at::LookedAt;
use crate::walk::outcome::{End, Outcome, Point};
use crate::walk::reading::Reading;
use crate::walk::reuse::{LastWalk, Word};

/// The callers that the last stacks of a thread had in live memory.
#[derive(Default)]
pub(crate) struct Callers {
    /// The words that led to them, root first.
    words: Vec<Word>,
    /// The callers, leaf first, to the root.
    points: Vec<Point>,
    /// The lowest end of a dump that they complete; none while nothing is known, and once a look has found other words.
    known_from: Option<u64>,
    /// The end of a dump that needs none of them.
    whole_from: Option<u64>,
    /// They completed a stack since the last round ended.
    are_used: bool,
    /// The thread was sampled since they were read.
    has_run: bool,
    looked_at: LookedAt,
}

/// A look found other words, or could not read them.
#[derive(Debug)]
pub(crate) struct Changed;

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
        // The only word may lie across the end of the dump.
        if count == 0 {
            return self.forget();
        }
        let is_other = same < count.min(self.words.len()) || self.are_none();
        // A dump that ends anywhere in the frame at the live boundary needs the same words. One of rustc's frames has
        // 540 KiB.
        let from = { points.get(live_boundary) }.map_or(dump_end, |frame| frame.sp.min(dump_end));
        self.known_from = match self.known_from {
            Some(known_from) if !is_other => Some(known_from.min(from)),
            _ => Some(from),
        };
        if is_other || count > self.words.len() {
            self.looked_at.forget_callers();
            self.words.clear();
            self.words.extend(live);
            self.points.clear();
            self.points
                .extend_from_slice(points.get(live_boundary + 1..).unwrap_or_default());
        }
    }

    fn forget(&mut self) {
        self.known_from = None;
        self.looked_at.forget_callers();
        self.words.clear();
        self.points.clear();
    }

    /// Nothing in live memory is known.
    pub(crate) fn are_none(&self) -> bool {
        self.known_from.is_none()
    }

    /// The words that led to them, root first.
    pub(crate) fn words(&self) -> &[Word] {
        &self.words
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Whether a stack with a dump that ends here can be completed with these words, or is whole. Takes down that the
    /// thread has run.
    pub(crate) fn may_wait(&mut self, dump_end: u64) -> bool {
        self.has_run = true;
        let mut enough = self.known_from.into_iter().chain(self.whole_from);
        enough.any(|enough| enough <= dump_end)
    }

    /// Reads the words again, if the thread was sampled since the last look: the stack of one that waits stays as it
    /// is, and tells nothing of how often it changes. The reading that found them, if one was made.
    pub(crate) fn look(&mut self, memory: &mut dyn TargetMemory, pid: Pid) -> Result<Option<Reading>, Changed> {
        if self.are_none() || !std::mem::take(&mut self.has_run) {
            return Ok(None);
        }
        let reading = self.looked_at.read(&self.words, memory, pid);
        if reading.is_none() {
            // Samples before the last look are completed with what it found.
            self.known_from = None;
        }
        reading.map(Some).ok_or(Changed)
    }

    /// What looks read.
    pub(crate) fn looked_at(&self) -> &LookedAt {
        &self.looked_at
    }

    /// Ends a round. False if there are no callers: none was needed in it.
    pub(crate) fn end_round(&mut self) -> bool {
        if !std::mem::take(&mut self.are_used) {
            self.forget();
        }
        !self.are_none()
    }
}
