//! Verifies stacks that were completed from memory read after the sample.
//!
//! Bytes beyond the sample's stack copy are read when the round ends, usually 3 to 64 ms after the sample. If the
//! thread has returned from the frames in between, the bytes belong to another call. The live boundary is the last
//! frame that the sample's own bytes gave: its caller was found with live bytes.
//!
//! A stack is verified where the last reading before the sample agrees with the one after it: all frames rootwards of
//! the live boundary, to the root, have the same code address and stack pointer. What was the same at both times was
//! the same at the time of the sample. The frame at the live boundary may differ: a signal interrupts a loop at any of
//! its instructions. Every other stack is marked, even where it is likely right, such as the first stacks at a new
//! depth.
//!
//! Only the last reading counts. A program that takes two paths by turns is seen on both, and a stack completed from
//! the wrong one would agree with some earlier reading: half of its stacks were wrong and unmarked.
//!
//! Two samples of one round do not confirm each other: both were completed from the same bytes, after both were taken.
//! In ripgrep, `strategy::new` was sampled three times, then returned, and its caller's next call was found three
//! times.
//!
//! Both readings can have seen the same other call: a thread that waits for its CPU, waits at few places. `calls` looks
//! for the frame where such a stack changes over to the other call. A stack with an impossible call is marked. And
//! where readings often differ from the ones before them, two may agree by chance: `changes` counts how often.
//!
//! Undetected: a thread that seldom changes its path took another path and came back between two readings. The frames
//! of both paths have the same sizes, as two calls of the same function or two virtual calls have.

use recording::clock::Timestamp;

use crate::completion::changes::ReadingChanges;
use crate::completion::known_stack::{KnownStack, LatestThree, push};
use crate::walk::leaf_first::LeafFirst;
use crate::walk::outcome::{FramePoint, WalkEnd, WalkOutcome};
use crate::walk::reading::MemoryReading;

/// Stacks completed live that are kept for each thread: the samples of a round have different depths, and each needs
/// the one that the last reading found there. Where memory is gone, a sample can take its callers
/// from any of them.
const KEPT: usize = 8;

/// Which bytes a stack was found with, and whether another stack confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Found with the sample's own bytes.
    FromSample,
    /// Completed live; an earlier stack agrees.
    Agrees,
    /// Completed live; nothing confirms it.
    Unverified,
}

/// The times that the bytes of one stack are from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleTimes {
    /// The sample, and the stack snapshot with it.
    pub(crate) sampled: Timestamp,
    /// The reading of live memory.
    pub(crate) reading: MemoryReading,
}

/// Earlier stacks of one thread.
#[derive(Default)]
pub(crate) struct ThreadStacks {
    /// The last stack that its sample's own bytes gave.
    whole: KnownStack,
    /// No other stack was judged since.
    is_whole_last: bool,
    /// Stacks that were completed live.
    completed: Vec<KnownStack>,
    oldest: usize,
    /// The last stack that was completed live and did not reach the root.
    broken: KnownStack,
    readings: LatestThree<MemoryReading>,
    changes: ReadingChanges,
}

impl ThreadStacks {
    /// Verifies a stack and keeps it. Live frames that led to no root are cut off: their bytes were another call's.
    /// Where an earlier stack had the last frame that is left, its callers are taken from there, as unverified.
    ///
    /// `same`: number of rootmost frames shared with the stack that was judged last. `are_possible`: whether each of
    /// the frames, leaf first, can have been called by the next one.
    pub(crate) fn judge(
        &mut self,
        points: &mut LeafFirst<FramePoint>,
        same: usize,
        outcome: &mut WalkOutcome,
        times: SampleTimes,
        are_possible: &mut dyn FnMut(&[FramePoint]) -> bool,
    ) -> Verdict {
        if outcome.end == WalkEnd::NoReturnAddress {
            outcome.end = self.end_at(points.last());
        }
        let Some(live_boundary) = outcome.live_boundary else {
            let own = MemoryReading::of_sample(times.sampled);
            let same = if self.is_whole_last { same } else { 0 };
            self.whole.keep(points, same, outcome.end, own, points.len());
            self.is_whole_last = true;
            return self.complete(points, outcome);
        };
        self.is_whole_last = false;
        // Where live bytes gave no further frame, the last frame is the live boundary.
        let first_live = (live_boundary + 1).min(points.len().saturating_sub(1));
        let live = points.get(first_live..).unwrap_or_default();
        let end = outcome.end;
        let known = || self.completed.iter().chain([&self.broken, &self.whole]);
        let SampleTimes { sampled, reading } = times;
        let last = self.last_reading(sampled, live, end);
        let agrees = last.is_some_and(|last| known().any(|known| known.confirms(live, end, sampled, last.begun)));
        let differs = !agrees && last.is_some_and(|last| known().any(|known| known.reaches(live, sampled, last.begun)));
        // A longer one can confirm more.
        let same = known().find(|known| known.is(live, end) && known.points.len() >= points.len());
        let is_new = same.is_none();
        let calls = points.get(live_boundary..).unwrap_or_default();
        let (are_all_possible, possible_frames) = match same {
            // The calls of the known stack are verified; the call at the live boundary may be new.
            Some(same) => {
                let first_call = points.get(live_boundary..=first_live).unwrap_or_default();
                (live.len() <= same.possible && are_possible(first_call), same.possible)
            }
            None if are_possible(calls) => (true, points.len()),
            None => (
                false,
                1 + calls.windows(2).rev().take_while(|call| are_possible(call)).count(),
            ),
        };
        let reached_root = matches!(end, WalkEnd::Root | WalkEnd::OtherStack | WalkEnd::Depth);
        if is_new && reached_root {
            self.keep_completed(points, end, times, last, possible_frames);
        } else if is_new {
            // The stack may be right: code without rules can be at every root. Then a later stack agrees.
            self.broken.keep(points, 0, end, reading, possible_frames);
        } else {
            let stacks = self.completed.iter_mut().chain([&mut self.broken, &mut self.whole]);
            for known in stacks.filter(|known| known.is(live, end)) {
                known.see(reading, points);
            }
        }
        match &mut self.readings[0] {
            Some(present) if present.begun == reading.begun => *present = reading,
            _ => push(&mut self.readings, reading),
        }
        let is_chance = (agrees || differs) && self.changes.take(sampled, reading.begun, agrees);
        let is_confirmed = agrees && are_all_possible && !is_chance;
        match (is_confirmed, reached_root) {
            (true, _) => Verdict::Agrees,
            (false, true) => Verdict::Unverified,
            (false, false) => {
                points.truncate(live_boundary + 1);
                outcome.end = WalkEnd::NoMemory;
                self.complete(points, outcome)
            }
        }
    }

    /// The last time before a sample that the thread's stack was read. A sample that had the stack whole counts as
    /// well: to the root, or to where this stack ended. `None`: the stack was not read before. A sample in code without
    /// rules says nothing about the callers.
    fn last_reading(&self, sampled: Timestamp, live: &[FramePoint], end: WalkEnd) -> Option<MemoryReading> {
        let is_whole = self.whole.end == Some(WalkEnd::Root) || self.whole.is(live, end);
        let own = { self.whole.readings.iter().flatten() }
            .filter(|_| is_whole)
            .map(|seen| seen.reading);
        { self.readings.iter().flatten().copied().chain(own) }
            .filter(|reading| reading.ended <= sampled)
            .max_by_key(|reading| reading.begun)
    }

    /// Whether a return address of 0 that was read after the sample is the end of the stack. Memory that was cleared
    /// since the sample also reads as 0, and may do so twice (seen in rustc, whose frames of several KiB lie across the
    /// end of the dump). So the stack ends there only if another stack of the thread did, by the rules or by its
    /// sample's own bytes.
    fn end_at(&self, last: Option<&FramePoint>) -> WalkEnd {
        let known = self.completed.iter().chain([&self.whole]);
        let is_root = |known: &KnownStack| known.end == Some(WalkEnd::Root) && known.points.last() == last;
        match known.into_iter().any(is_root) {
            true => WalkEnd::Root,
            false => WalkEnd::NoMemory,
        }
    }

    /// Keeps a stack in the place of the oldest one that no later sample of the round needs: samples whose callers have
    /// returned since find one other stack after the other in what is left of them.
    fn keep_completed(
        &mut self,
        points: &[FramePoint],
        end: WalkEnd,
        times: SampleTimes,
        last: Option<MemoryReading>,
        possible: usize,
    ) {
        if self.completed.len() < KEPT {
            self.completed.push(KnownStack::default());
            self.oldest = self.completed.len() - 1;
        }
        let is_needed = |known: &KnownStack| {
            let seen = known.seen_before(times.sampled).map(|seen| seen.reading.begun);
            seen.is_some() && seen == last.map(|last| last.begun)
        };
        let places = (self.oldest..KEPT).chain(0..self.oldest);
        let mut free = places.filter(|at| self.completed.get(*at).is_some_and(|known| !is_needed(known)));
        let place = free.next().unwrap_or(self.oldest);
        if let Some(known) = self.completed.get_mut(place) {
            known.keep(points, 0, end, times.reading, possible);
        }
        self.oldest = (place + 1) % KEPT;
    }

    /// Where memory was missing, appends the callers that the last frame had in an earlier stack.
    fn complete(&self, points: &mut LeafFirst<FramePoint>, outcome: &mut WalkOutcome) -> Verdict {
        let (WalkEnd::NoMemory, Some(last)) = (outcome.end, points.last().copied()) else {
            return Verdict::FromSample;
        };
        let live_boundary = points.len() - 1;
        let known = self
            .completed
            .iter()
            .chain([&self.whole])
            .filter(|known| known.end == Some(WalkEnd::Root));
        for known in known {
            let Some(at) = known.points.iter().rposition(|point| *point == last) else {
                continue;
            };
            if known.points.len() - at > known.possible {
                continue;
            }
            points.extend(known.points.get(at + 1..).unwrap_or_default());
            *outcome = WalkOutcome {
                end: WalkEnd::Root,
                live_boundary: Some(live_boundary),
                ..*outcome
            };
            return Verdict::Unverified;
        }
        Verdict::FromSample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::address::Avma;
    use recording::stack::Frame;

    /// A stack of frames named by number, leaf first; the frame `n` from the root has its stack pointer at `-n`.
    fn stack(frames: &[u64]) -> LeafFirst<FramePoint> {
        let from_root = |at: usize| (frames.len() - at) as u64;
        let point = |(at, frame): (usize, &u64)| FramePoint {
            frame: Frame::ReturnAddress(Avma(*frame)),
            sp: 0x10_0000 - from_root(at) * 16,
        };
        let points: Vec<FramePoint> = frames.iter().enumerate().map(point).collect();
        let mut stack = LeafFirst::default();
        stack.replace(0, &points);
        stack
    }

    /// A thread that is sampled once a round: each sample is completed before the next is taken.
    #[derive(Default)]
    struct Thread {
        stacks: ThreadStacks,
        clock: u64,
    }

    impl Thread {
        fn judge(&mut self, points: &mut LeafFirst<FramePoint>, outcome: &mut WalkOutcome) -> Verdict {
            let sampled = Timestamp(self.clock + 1);
            self.clock += 2;
            let reading = MemoryReading::of_sample(Timestamp(self.clock));
            self.stacks
                .judge(points, 0, outcome, SampleTimes { sampled, reading }, &mut |_| true)
        }
    }

    fn rooted(live_boundary: Option<usize>) -> WalkOutcome {
        WalkOutcome {
            end: WalkEnd::Root,
            live_boundary,
            guessed: false,
            by_code: false,
        }
    }

    fn judge(thread: &mut Thread, frames: &[u64], live_boundary: Option<usize>) -> Verdict {
        thread.judge(&mut stack(frames), &mut rooted(live_boundary))
    }

    #[test]
    fn samples_of_one_round_do_not_confirm_each_other() {
        let mut stacks = ThreadStacks::default();
        let mut at = |sampled, read| judge_at(&mut stacks, sampled, read);
        // Sampled at 1, 2 and 3, all completed from the memory as it was at 5.
        assert_eq!([at(1, 5), at(2, 5), at(3, 5)], [Verdict::Unverified; 3]);
        // Sampled at 6 and 7, completed at 10: the reading of 5 was before, and agrees.
        assert_eq!([at(6, 10), at(7, 10)], [Verdict::Agrees; 2]);
    }

    #[test]
    fn at_a_fixed_depth_all_but_the_first_agree() {
        let mut thread = Thread::default();
        assert_eq!(judge(&mut thread, &[9, 5, 4, 3, 2, 1], Some(2)), Verdict::Unverified);
        for leaf in 10..20 {
            assert_eq!(judge(&mut thread, &[leaf, 5, 4, 3, 2, 1], Some(2)), Verdict::Agrees);
        }
    }

    #[test]
    fn a_loop_interrupted_at_another_instruction_agrees_rootwards_of_it() {
        let mut thread = Thread::default();
        judge(&mut thread, &[9, 50, 4, 3, 2, 1], Some(1));
        assert_eq!(judge(&mut thread, &[9, 51, 4, 3, 2, 1], Some(1)), Verdict::Agrees);
    }

    #[test]
    fn a_stack_with_an_impossible_call_is_never_verified() {
        let mut thread = ThreadStacks::default();
        // 1 can have called 2, and any other caller anything.
        let mut possible = |points: &[FramePoint]| {
            let is = |point: &FramePoint, number| point.frame == Frame::ReturnAddress(Avma(number));
            !points.windows(2).any(|pair| is(&pair[1], 1) && !is(&pair[0], 2))
        };
        let mut clock = 0;
        let mut at = |frames: &[u64], live_boundary| {
            clock += 2;
            let times = SampleTimes {
                sampled: Timestamp(clock - 1),
                reading: MemoryReading::of_sample(Timestamp(clock)),
            };
            thread.judge(
                &mut stack(frames),
                0,
                &mut rooted(Some(live_boundary)),
                times,
                &mut possible,
            )
        };
        (0..20).for_each(|_| assert_eq!(at(&[9, 8, 7, 3, 1], 1), Verdict::Unverified));
        assert_eq!(at(&[9, 8, 7, 2, 1], 1), Verdict::Unverified);
        assert_eq!(at(&[9, 8, 7, 2, 1], 1), Verdict::Agrees);
        // The call at the live boundary is asked for each time: the frames rootwards of it are known.
        assert_eq!(at(&[9, 8, 7, 3, 2, 1], 4), Verdict::Agrees);
        assert_eq!(at(&[9, 8, 7, 2, 3, 1], 4), Verdict::Unverified);
    }

    #[test]
    fn callers_of_an_impossible_call_are_verified_where_another_call_led_to_them() {
        let mut thread = ThreadStacks::default();
        // 2 can have called 3 and 4, and not 9.
        let mut possible = |points: &[FramePoint]| {
            let is = |point: &FramePoint, number| point.frame == Frame::ReturnAddress(Avma(number));
            !points.windows(2).any(|pair| is(&pair[1], 2) && is(&pair[0], 9))
        };
        let mut at = |frames: &[u64], live_boundary, sampled| {
            let times = SampleTimes {
                sampled: Timestamp(sampled),
                reading: MemoryReading::of_sample(Timestamp(sampled + 1)),
            };
            let mut points = stack(frames);
            let verdict = thread.judge(&mut points, 0, &mut rooted(Some(live_boundary)), times, &mut possible);
            assert_eq!(*points, *stack(frames));
            verdict
        };
        assert_eq!(at(&[8, 7, 9, 2, 1], 2, 1), Verdict::Unverified);
        assert_eq!(at(&[8, 7, 3, 2, 1], 2, 3), Verdict::Agrees);
        assert_eq!(at(&[8, 7, 4, 2, 1], 2, 5), Verdict::Agrees);
        assert_eq!(at(&[8, 7, 9, 2, 1], 2, 7), Verdict::Unverified);
        assert_eq!(at(&[8, 7, 9, 2, 1], 1, 9), Verdict::Unverified);
    }

    #[test]
    fn recursion_that_went_deeper_is_unverified_and_agrees_on_its_way_back() {
        let mut thread = Thread::default();
        judge(&mut thread, &[7, 7, 7, 7, 2, 1], Some(2));
        assert_eq!(
            judge(&mut thread, &[7, 7, 7, 7, 7, 7, 7, 7, 2, 1], Some(2)),
            Verdict::Unverified
        );
        assert_eq!(judge(&mut thread, &[7, 7, 7, 7, 7, 2, 1], Some(2)), Verdict::Agrees);
        assert_eq!(judge(&mut thread, &[7, 7, 7, 7, 7, 7, 2, 1], Some(2)), Verdict::Agrees);
    }

    #[test]
    fn another_call_path_at_the_same_place_is_unverified() {
        let mut thread = Thread::default();
        judge(&mut thread, &[9, 8, 7, 3, 2, 1], Some(1));
        // The frame at the live boundary and its place are the same; a caller further out is not.
        assert_eq!(judge(&mut thread, &[9, 8, 7, 30, 2, 1], Some(1)), Verdict::Unverified);
        // The first path has changed since it was read.
        assert_eq!(judge(&mut thread, &[9, 8, 7, 3, 2, 1], Some(1)), Verdict::Unverified);
        let again = (0..20).map(|_| judge(&mut thread, &[9, 8, 7, 3, 2, 1], Some(1)));
        assert_eq!(again.last(), Some(Verdict::Agrees));
    }

    #[test]
    fn paths_that_change_often_agree_by_chance_and_are_unverified() {
        let mut thread = Thread::default();
        // Four readings of each, one after the other.
        let verdicts = (0..100).map(|at| judge(&mut thread, &[9, 8, 7, at / 4 % 2, 1], Some(1)));
        assert_eq!(
            verdicts.skip(40).filter(|verdict| *verdict == Verdict::Agrees).count(),
            0
        );
    }

    /// Judges a sample, completed by a reading, with the same callers each time.
    fn judge_at(stacks: &mut ThreadStacks, sampled: u64, read: u64) -> Verdict {
        let times = SampleTimes {
            sampled: Timestamp(sampled),
            reading: MemoryReading::of_sample(Timestamp(read)),
        };
        stacks.judge(
            &mut stack(&[9, 8, 7, 3, 2, 1]),
            0,
            &mut rooted(Some(1)),
            times,
            &mut |_| true,
        )
    }

    #[test]
    fn frames_that_the_last_reading_did_not_come_to_are_unverified() {
        let mut thread = Thread::default();
        judge(&mut thread, &[9, 8, 7, 3, 2, 1], Some(1));
        // Read were 2 and 1 only.
        assert_eq!(judge(&mut thread, &[6, 5, 4, 3, 2, 1], Some(3)), Verdict::Agrees);
        assert_eq!(judge(&mut thread, &[9, 8, 7, 3, 2, 1], Some(1)), Verdict::Unverified);
    }

    #[test]
    fn a_stack_that_its_own_bytes_gave_confirms_a_later_one() {
        let mut thread = Thread::default();
        assert_eq!(judge(&mut thread, &[3, 2, 1], None), Verdict::FromSample);
        assert_eq!(judge(&mut thread, &[9, 8, 7, 3, 2, 1], Some(3)), Verdict::Agrees);
        assert_eq!(judge(&mut thread, &[9, 8, 7, 3, 2, 1], Some(2)), Verdict::Agrees);
    }

    #[test]
    fn where_memory_is_gone_an_earlier_stack_completes_as_unverified() {
        let mut thread = Thread::default();
        judge(&mut thread, &[9, 8, 7, 3, 2, 1], Some(1));
        let mut points = stack(&[6, 8, 7, 3, 2, 1]);
        points.truncate(3);
        let mut outcome = WalkOutcome {
            end: WalkEnd::NoMemory,
            live_boundary: None,
            guessed: false,
            by_code: false,
        };
        assert_eq!(thread.judge(&mut points, &mut outcome), Verdict::Unverified);
        assert_eq!((outcome.end, outcome.live_boundary), (WalkEnd::Root, Some(2)));
        assert_eq!(*points, *stack(&[6, 8, 7, 3, 2, 1]));
    }

    #[test]
    fn live_bytes_that_lead_nowhere_are_cut_off() {
        let mut thread = Thread::default();
        let torn = |thread: &mut Thread, frames: &[u64]| {
            let (mut points, mut outcome) = (
                stack(frames),
                WalkOutcome {
                    end: WalkEnd::NoRule,
                    live_boundary: Some(1),
                    guessed: false,
                    by_code: false,
                },
            );
            let verdict = thread.judge(&mut points, &mut outcome);
            (verdict, outcome.end, points.len())
        };
        assert_eq!(
            torn(&mut thread, &[9, 8, 77, 66]),
            (Verdict::FromSample, WalkEnd::NoMemory, 2)
        );
        assert_eq!(
            torn(&mut thread, &[9, 8, 78, 66]),
            (Verdict::FromSample, WalkEnd::NoMemory, 2)
        );
        // Always the same: the stack does end there.
        let again = (0..8).map(|_| torn(&mut thread, &[9, 8, 78, 66]));
        assert_eq!(again.last(), Some((Verdict::Agrees, WalkEnd::NoRule, 4)));
    }

    #[test]
    fn threads_with_many_depths_keep_the_memory_of_eight() {
        let mut thread = Thread::default();
        for root in 0..100 {
            assert_eq!(judge(&mut thread, &[9, 8, root], Some(0)), Verdict::Unverified);
        }
        assert_eq!(thread.stacks.completed.len(), KEPT);
    }
}
