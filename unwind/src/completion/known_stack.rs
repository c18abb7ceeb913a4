//! A stack as it was found, and the readings that found it.

use recording::clock::Timestamp;

use crate::walk::leaf_first::LeafFirst;
use crate::walk::outcome::{FramePoint, WalkEnd};
use crate::walk::reading::MemoryReading;

/// A reading that found a stack.
#[derive(Clone, Copy)]
pub(crate) struct StackReading {
    pub(crate) reading: MemoryReading,
    /// How many of the stack's frames the reading found, counted from the root.
    pub(crate) frames: usize,
}

/// The latest three readings, newest first. Samples of a round are compared with the reading before the round; a sample
/// that was still in the ring when that reading was made, with the one before.
pub(crate) type LatestThree<T> = [Option<T>; 3];

pub(crate) fn push<T>(latest: &mut LatestThree<T>, new: T) {
    latest.rotate_right(1);
    latest[0] = Some(new);
}

/// A stack as it was found.
#[derive(Clone, Default)]
pub(crate) struct KnownStack {
    pub(crate) points: LeafFirst<FramePoint>,
    pub(crate) end: Option<WalkEnd>,
    /// The readings that found it.
    pub(crate) readings: LatestThree<StackReading>,
    /// Number of rootmost frames that can each have called the next one. An impossible call does not make its callers
    /// doubtful: later stacks may have the same callers. rustc had the same callers for 2 s, and all its stacks were
    /// unverified because of one such call.
    pub(crate) possible: usize,
}

impl KnownStack {
    /// Replaces this stack by another one. `same`: lower bound of the number of rootmost frames that both share.
    pub(crate) fn keep(
        &mut self,
        points: &[FramePoint],
        same: usize,
        end: WalkEnd,
        reading: MemoryReading,
        possible: usize,
    ) {
        self.possible = possible;
        let leafward = points.len().saturating_sub(same);
        self.points.replace(same, points.get(..leafward).unwrap_or_default());
        self.end = Some(end);
        let frames = points.len();
        self.readings = [Some(StackReading { reading, frames }), None, None];
    }

    /// Records that a reading found the last frames of this stack again.
    pub(crate) fn see(&mut self, reading: MemoryReading, points: &[FramePoint]) {
        let frames = || {
            let pairs = self.points.iter().rev().zip(points.iter().rev());
            pairs.take_while(|(known, point)| known == point).count()
        };
        match &mut self.readings[0] {
            Some(last) if last.reading.begun == reading.begun => {
                last.reading.ended = last.reading.ended.max(reading.ended);
                if last.frames < self.points.len().min(points.len()) {
                    last.frames = last.frames.max(frames());
                }
            }
            _ => {
                let frames = frames();
                push(&mut self.readings, StackReading { reading, frames });
            }
        }
    }

    /// The last reading before a sample that found this stack; `None` if none did.
    pub(crate) fn seen_before(&self, sampled: Timestamp) -> Option<StackReading> {
        { self.readings.iter().flatten() }
            .find(|seen| seen.reading.ended <= sampled)
            .copied()
    }

    /// True if the reading that began at `begun` found the same frames.
    pub(crate) fn confirms(&self, live: &[FramePoint], end: WalkEnd, sampled: Timestamp, begun: Timestamp) -> bool {
        let seen = self.seen_before(sampled);
        let is_seen = |seen: StackReading| seen.reading.begun == begun && seen.frames >= live.len();
        seen.is_some_and(is_seen) && self.is(live, end)
    }

    /// True if the reading that began at `begun` covered the place of these frames, whether it found them or others.
    pub(crate) fn reaches(&self, live: &[FramePoint], sampled: Timestamp, begun: Timestamp) -> bool {
        let Some(seen) = { self.seen_before(sampled) }.filter(|seen| seen.reading.begun == begun) else {
            return false;
        };
        let lowest = self
            .points
            .len()
            .checked_sub(seen.frames)
            .and_then(|at| self.points.get(at));
        lowest.is_some_and(|lowest| live.first().is_some_and(|first| lowest.sp <= first.sp))
    }

    pub(crate) fn is(&self, live: &[FramePoint], end: WalkEnd) -> bool {
        self.end == Some(end) && self.points.ends_with(live)
    }
}
