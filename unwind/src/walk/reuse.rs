//! The thread's last walk, whose steps the next walk can reuse: a frame with the same registers, whose step reads the
//! same words, has the same caller. [`walk`](crate::walk) says which steps can be reused.

use crate::address::FrameAddress;

use crate::walk::copied_stack::{CopiedStack, StackWord};
use recording::stack::Registers;

/// What the next walk may reuse of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reusable {
    /// The step led to the caller, the next frame in the list.
    Caller,
    /// The step found that there is no caller.
    Root,
    /// Nothing: the step depended on more than mappings, address, registers and words.
    Nothing,
}

/// A frame of a walk, and the step from there.
#[derive(Clone, Copy)]
pub(crate) struct WalkedFrame {
    pub(crate) address: FrameAddress,
    pub(crate) registers: Registers,
    pub(crate) reusable: Reusable,
    /// End of the step's words in the list of words. They begin at the end of the words of the frame before this one in
    /// the list. In [`NewSteps`]: the beginning of the words, which is their end once both lists are reversed.
    words_end: usize,
}

/// The steps of one walk, the root first, so that steps near the root keep their place from walk to walk.
#[derive(Default)]
pub(crate) struct LastWalk {
    steps: Vec<WalkedFrame>,
    words: Vec<StackWord>,
    /// Indexes of the steps that must be recomputed, ascending: they read more than the words kept here, or the walk
    /// ended there.
    recomputed: Vec<usize>,
    /// The version of the process's mappings.
    version: u64,
}

/// The steps that a walk has taken and not reused, leaf first. The memory serves the next walk.
#[derive(Default)]
pub(crate) struct NewSteps {
    steps: Vec<WalkedFrame>,
    words: Vec<StackWord>,
    /// Where the words of the current step begin.
    own_words: usize,
}

/// A walk, beside the last one of its thread.
pub(crate) struct Reuse<'a> {
    last: &'a mut LastWalk,
    new: &'a mut NewSteps,
    /// How many steps of the last walk, counted from its root, this walk has not reached yet.
    left: usize,
    /// How many steps, counted from the root, both walks share. They stay in `last`.
    shared_rootmost: usize,
}

/// A part of the last walk that this walk reuses: the steps `from` down to `to` of the list.
#[derive(Clone, Copy)]
pub(crate) struct ReusedSteps {
    from: usize,
    to: usize,
    /// How many of the steps come before the first one that needs live memory; `None` if none needs it.
    pub(crate) from_sample: Option<usize>,
}

impl<'a> Reuse<'a> {
    /// Begins a walk in a process whose mappings have this version. Another version than the last walk's: nothing is
    /// reused.
    pub(crate) fn new(last: &'a mut LastWalk, new: &'a mut NewSteps, version: u64) -> Reuse<'a> {
        if last.version != version {
            last.steps.clear();
            last.words.clear();
            last.recomputed.clear();
            last.version = version;
        }
        new.steps.clear();
        new.words.clear();
        new.own_words = 0;
        let left = last.steps.len();
        Reuse {
            last,
            new,
            left,
            shared_rootmost: 0,
        }
    }

    /// True if the last walk has a frame with this stack pointer that this walk has not reached yet.
    #[inline]
    pub(crate) fn has_frame_at(&mut self, sp: u64) -> bool {
        // Stack pointers grow rootwards, but for signal stacks.
        while let Some(next) = self.left.checked_sub(1)
            && let Some(step) = self.last.steps.get(next)
        {
            let last_sp = step.registers.sp();
            if last_sp >= sp {
                return last_sp == sp;
            }
            self.left = next;
        }
        false
    }

    /// The steps of the last walk that can be reused from this frame on. `None`: there are none, or there may be more
    /// than `limit`.
    ///
    /// `live` decides whether a word that the sample has not copied is unchanged. It gets the stack pointer of the
    /// frame whose step read the word.
    pub(crate) fn find_reusable(
        &mut self,
        address: FrameAddress,
        registers: &Registers,
        limit: usize,
        copy: CopiedStack<'_>,
        mut live: impl FnMut(u64, StackWord) -> bool,
    ) -> Option<ReusedSteps> {
        let sp = registers.sp();
        if !self.has_frame_at(sp) {
            return None;
        }
        let steps = self.last.steps.get(..self.left)?;
        let here = steps.iter().rev().take_while(|step| step.registers.sp() == sp);
        let skipped = { here }.position(|step| step.address == address && step.registers == *registers)?;
        let from = self.left - 1 - skipped;
        let stops = self.last.recomputed.partition_point(|stop| *stop <= from);
        let stop = stops.checked_sub(1).and_then(|stop| self.last.recomputed.get(stop));
        let lowest = stop.map_or(0, |stop| stop + 1);
        if from >= limit || lowest > from {
            return None;
        }
        // Most words are in the sample. Comparing all of them first takes a tenth of the time of comparing step by
        // step.
        let (end, lowest_word) = (steps.get(from)?.words_end, self.last.words_start(lowest));
        let differs = end - copy.same(self.last.words.get(lowest_word..end)?);
        let mut same = ReusedSteps {
            from,
            to: match differs == lowest_word {
                true => lowest,
                false => steps.get(..=from)?.partition_point(|step| step.words_end < differs) + 1,
            },
            from_sample: None,
        };
        while let Some(next) = same.to.checked_sub(1).filter(|next| *next >= lowest) {
            let (start, end) = (self.last.words_start(next), steps.get(next)?.words_end);
            let sp = steps.get(next)?.registers.sp();
            let mut is_live = false;
            // In the order in which the step read them.
            let holds = self.last.words.get(start..end)?.iter().rev().all(|(at, value)| {
                let word = copy.word(*at);
                is_live |= word.is_none();
                word.map_or_else(|| live(sp, (*at, *value)), |word| word == *value)
            });
            if !holds {
                break;
            }
            if is_live && same.from_sample.is_none() {
                same.from_sample = Some(from - next);
            }
            same.to = next;
        }
        // The next step must be taken.
        self.left = same.to.saturating_sub(1);
        (same.to <= from).then_some(same)
    }

    /// The number of frames from here to the root; `None` if the steps do not lead to the root.
    pub(crate) fn to_root(&self, same: ReusedSteps) -> Option<usize> {
        (same.to == 0).then_some(same.from + 1)
    }

    /// The frames of these steps, leaf first.
    pub(crate) fn frames(&self, same: ReusedSteps) -> impl Iterator<Item = &WalkedFrame> {
        self.last
            .steps
            .get(same.to..=same.from)
            .unwrap_or_default()
            .iter()
            .rev()
    }

    /// The frame that the steps lead to; `None` if they lead to the root.
    pub(crate) fn leads_to(&self, same: ReusedSteps) -> Option<WalkedFrame> {
        let last = self.last.steps.get(same.to)?;
        let next = self.last.steps.get(same.to.checked_sub(1)?)?;
        (last.reusable == Reusable::Caller).then_some(*next)
    }

    /// Makes the steps a part of this walk. Steps that lead to the root stay in their place.
    pub(crate) fn keep(&mut self, same: ReusedSteps) {
        if same.to == 0 {
            self.shared_rootmost = same.from + 1;
            return;
        }
        for at in (same.to..=same.from).rev() {
            let words_start = self.last.words_start(at);
            let Some(step) = self.last.steps.get(at) else { return };
            let words = self.last.words.get(words_start..step.words_end).unwrap_or_default();
            self.new.words.extend(words.iter().rev());
            self.new.push(*step);
        }
    }

    /// Records a word that the current step has read. A word that is read twice is recorded once.
    pub(crate) fn record_word(&mut self, at: u64, value: u64) {
        let own = self.new.words.get(self.new.own_words..).unwrap_or_default();
        if !own.contains(&(at, value)) {
            self.new.words.push((at, value));
        }
    }

    /// Records a full step, with the words recorded since the last step.
    pub(crate) fn record_step(&mut self, address: FrameAddress, registers: Registers, kept: Reusable) {
        if kept == Reusable::Nothing {
            self.new.words.truncate(self.new.own_words);
        }
        self.new.push(WalkedFrame {
            address,
            registers,
            reusable: kept,
            words_end: 0,
        });
    }

    /// Records a fast step, with the words that it read.
    #[inline]
    pub(crate) fn record_rule_step(&mut self, address: FrameAddress, registers: Registers, words: &[StackWord]) {
        self.new.words.extend_from_slice(words);
        self.new.push(WalkedFrame {
            address,
            registers,
            reusable: Reusable::Caller,
            words_end: 0,
        });
    }

    /// Makes this walk the thread's last one.
    pub(crate) fn finish(self) {
        let LastWalk {
            steps,
            words,
            recomputed,
            ..
        } = self.last;
        steps.truncate(self.shared_rootmost);
        words.truncate(steps.last().map_or(0, |step| step.words_end));
        recomputed.truncate(recomputed.partition_point(|at| *at < self.shared_rootmost));
        let new = self.new;
        words.extend(new.words.iter().rev());
        let all_words = words.len();
        steps.extend(new.steps.iter().rev().map(|step| WalkedFrame {
            words_end: all_words - step.words_end,
            ..*step
        }));
        let own = steps.iter().enumerate().skip(self.shared_rootmost);
        recomputed.extend(own.filter_map(|(at, step)| {
            let is_kept = match step.reusable {
                // At index 0, the walk ended before it took the caller's step.
                Reusable::Caller => at > 0,
                Reusable::Root => true,
                Reusable::Nothing => false,
            };
            (!is_kept).then_some(at)
        }));
    }
}

impl LastWalk {
    /// The words of the last `steps` steps, the root's first. `None`: there are fewer steps, or one of them must be
    /// recomputed.
    pub(crate) fn words_of_last(&self, steps: usize) -> Option<&[StackWord]> {
        let lowest = self.steps.get(steps.checked_sub(1)?)?;
        let are_all_kept = self.recomputed.first().is_none_or(|at| *at >= steps);
        self.words.get(..lowest.words_end).filter(|_| are_all_kept)
    }

    /// Where the words of a step begin.
    fn words_start(&self, step: usize) -> usize {
        let next = step.checked_sub(1).and_then(|next| self.steps.get(next));
        next.map_or(0, |next| next.words_end)
    }
}

impl NewSteps {
    fn push(&mut self, step: WalkedFrame) {
        self.steps.push(WalkedFrame {
            words_end: self.own_words,
            ..step
        });
        self.own_words = self.words.len();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// A stack of five frames, leaf first: frame `n` has its stack pointer at `n * 16` and reads the word there.
    fn frame(at: u64) -> (FrameAddress, Registers) {
        let (ip, sp) = (0x1000 + at, at * 16);
        (
            FrameAddress::InstructionPointer(ip),
            Registers::X86_64 { ip, sp, bp: 0 },
        )
    }

    fn walked(last: &mut LastWalk, kept: [Reusable; 5]) {
        let mut new = NewSteps::default();
        let mut reuse = Reuse::new(last, &mut new, 1);
        for (at, kept) in (1..).zip(kept) {
            let (address, registers) = frame(at);
            reuse.record_word(at * 16, at);
            reuse.record_step(address, registers, kept);
        }
        reuse.finish();
    }

    const WHOLE: [Reusable; 5] = [
        Reusable::Caller,
        Reusable::Caller,
        Reusable::Caller,
        Reusable::Caller,
        Reusable::Root,
    ];

    /// The words of the frames below `sample_end`, which the sample has.
    fn dump(sample_end: u64, changed: u64) -> Vec<u8> {
        { (0..sample_end).step_by(8) }
            .flat_map(|address| word(address, changed).to_le_bytes())
            .collect()
    }

    fn word(address: u64, changed: u64) -> u64 {
        if address == changed { 99 } else { address / 16 }
    }

    /// The whole stack is in the sample, as it was.
    const AS_BEFORE: (u64, u64) = (96, 0);

    /// The stack pointers of the frames that are taken over from frame `at` on, whether they lead to the root, and how
    /// many did without live words.
    fn followed(last: &mut LastWalk, at: u64, (end, changed): (u64, u64)) -> Option<(Vec<u64>, bool, Option<usize>)> {
        let mut new = NewSteps::default();
        let mut reuse = Reuse::new(last, &mut new, 1);
        let (address, registers) = frame(at);
        let live = |sp: u64, (address, value)| {
            assert_eq!(sp, address, "the frame whose word it is");
            word(address, changed) == value
        };
        let bytes = dump(end, changed);
        let dump = CopiedStack::new(0, &bytes, None);
        let same = reuse.find_reusable(address, &registers, 100, dump, live)?;
        let frames = reuse.frames(same).map(|frame| frame.registers.sp()).collect();
        Some((frames, reuse.leads_to(same).is_none(), same.from_sample))
    }

    #[test]
    fn what_is_the_same_is_taken_over_to_the_root() {
        let mut last = LastWalk::default();
        walked(&mut last, WHOLE);
        assert_eq!(
            followed(&mut last, 2, AS_BEFORE),
            Some((vec![32, 48, 64, 80], true, None))
        );
        // From the middle of another walk, whose own steps go before them.
        let mut new = NewSteps::default();
        let mut reuse = Reuse::new(&mut last, &mut new, 1);
        let (address, registers) = frame(3);
        reuse.record_step(FrameAddress::InstructionPointer(7), frame(1).1, Reusable::Caller);
        let bytes = dump(96, 0);
        let dump = CopiedStack::new(0, &bytes, None);
        let same = reuse
            .find_reusable(address, &registers, 100, dump, |_, _| false)
            .unwrap();
        reuse.keep(same);
        reuse.finish();
        assert_eq!(last.steps.len(), 4);
        assert_eq!(followed(&mut last, 3, AS_BEFORE), Some((vec![48, 64, 80], true, None)));
    }

    #[test]
    fn a_step_whose_word_changed_is_to_be_made() {
        let mut last = LastWalk::default();
        walked(&mut last, WHOLE);
        let changed = |changed| (96, changed);
        assert_eq!(followed(&mut last, 2, changed(64)), Some((vec![32, 48], false, None)));
        assert_eq!(followed(&mut last, 4, changed(64)), None);
        assert_eq!(followed(&mut last, 5, changed(64)), Some((vec![80], true, None)));
    }

    #[test]
    fn words_beyond_the_sample_are_looked_at_as_they_are_now() {
        let mut last = LastWalk::default();
        walked(&mut last, WHOLE);
        let whole = vec![16, 32, 48, 64, 80];
        assert_eq!(followed(&mut last, 1, (48, 0)), Some((whole.clone(), true, Some(2))));
        assert_eq!(followed(&mut last, 1, (0, 0)), Some((whole, true, Some(0))));
        assert_eq!(
            followed(&mut last, 1, (48, 64)),
            Some((vec![16, 32, 48], false, Some(2)))
        );
        assert_eq!(followed(&mut last, 1, (48, 48)), Some((vec![16, 32], false, None)));
        assert_eq!(followed(&mut last, 3, (48, 48)), None);
    }

    #[test]
    fn a_word_that_cannot_be_read_is_not_the_same() {
        let mut last = LastWalk::default();
        walked(&mut last, WHOLE);
        let mut new = NewSteps::default();
        let mut reuse = Reuse::new(&mut last, &mut new, 1);
        let (address, registers) = frame(1);
        let bytes = dump(40, 0);
        let dump = CopiedStack::new(0, &bytes, None);
        let live = |_, (address, value)| address < 64 && address / 16 == value;
        let same = reuse.find_reusable(address, &registers, 100, dump, live).unwrap();
        let frames = reuse.frames(same).map(|frame| frame.registers.sp());
        assert_eq!(frames.collect::<Vec<_>>(), [16, 32, 48]);
        assert_eq!(same.from_sample, Some(2));
        // Below the sample's bytes there are none.
        assert_eq!(CopiedStack::new(16, &bytes, None).word(8), None);
    }

    #[test]
    fn a_word_that_a_step_reads_twice_is_kept_once() {
        let mut last = LastWalk::default();
        let mut new = NewSteps::default();
        let mut reuse = Reuse::new(&mut last, &mut new, 1);
        for at in [1, 2] {
            let (address, registers) = frame(at);
            reuse.record_word(16, 1);
            reuse.record_word(32, 2);
            reuse.record_word(16, 1);
            reuse.record_step(address, registers, Reusable::Caller);
        }
        reuse.finish();
        assert_eq!(last.words, [(32, 2), (16, 1), (32, 2), (16, 1)]);
    }

    #[test]
    fn steps_that_depend_on_more_and_other_mappings_end_it() {
        let mut last = LastWalk::default();
        let mut kept = WHOLE;
        kept[2] = Reusable::Nothing;
        walked(&mut last, kept);
        assert_eq!(followed(&mut last, 1, AS_BEFORE), Some((vec![16, 32], false, None)));
        assert_eq!(followed(&mut last, 3, AS_BEFORE), None);
        assert_eq!(followed(&mut last, 4, AS_BEFORE), Some((vec![64, 80], true, None)));
        // The walk ended at the frame after the last step.
        kept = [Reusable::Caller; 5];
        walked(&mut last, kept);
        assert_eq!(followed(&mut last, 3, AS_BEFORE), Some((vec![48, 64], false, None)));
        let mut new = NewSteps::default();
        let (address, registers) = frame(1);
        let mut other = Reuse::new(&mut last, &mut new, 2);
        let bytes = dump(96, 0);
        let dump = CopiedStack::new(0, &bytes, None);
        assert!(
            other
                .find_reusable(address, &registers, 100, dump, |_, _| false)
                .is_none()
        );
    }
}
