//! The last walk of a thread. Most of a stack stays as it is from sample to sample: a frame with the same registers, whose step reads
//! the same words, has the same caller.
//!
//! A step by a file's unwind rules depends on four things: what is mapped in the process, the code address, the registers, and the
//! words that it reads. Where all four are what they were in the last walk, so is its result, and the step is not made again. Steps
//! that depend on more are always made: out of signal frames, by frame pointer, by code in memory, by rules of JIT code.
//!
//! Builds with debug assertions make every walk a second time from nothing, and compare.

use framehop::FrameAddress;

use recording::stack::Registers;

/// What the next walk may take over of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It led to the caller, which is the frame after it.
    Caller,
    /// There is no caller.
    Root,
    /// It depended on more than the four.
    Nothing,
}

/// A frame of a walk, and the step from there.
#[derive(Clone, Copy)]
pub(crate) struct WalkedFrame {
    pub(crate) address: FrameAddress,
    pub(crate) registers: Registers,
    pub(crate) kept: Kept,
    /// The end of its words in the list of words. They begin where those of the frame before it in the list end.
    words_end: usize,
}

/// A word that a step read: address and value.
type Word = (u64, u64);

/// The steps of one walk. The root is first: what stays the same stays in its place.
#[derive(Default)]
pub(crate) struct LastWalk {
    steps: Vec<WalkedFrame>,
    words: Vec<Word>,
    /// The version of the process's mappings.
    version: u64,
}

/// The steps that a walk makes itself, leaf first. Keeps its memory from walk to walk.
#[derive(Default)]
pub(crate) struct NewSteps {
    steps: Vec<WalkedFrame>,
    words: Vec<Word>,
}

/// A walk beside the last one of its thread.
pub(crate) struct Reuse<'a> {
    last: &'a mut LastWalk,
    new: &'a mut NewSteps,
    /// How many steps of the last walk, counted from its root, this one may still come to.
    left: usize,
    /// How many of them, counted from the root, are steps of this walk, too, and stay where they are.
    stay: usize,
}

/// A part of the last walk that holds again: the steps `from` to `to` of the list, where `to` is the smaller one.
#[derive(Clone, Copy)]
pub(crate) struct Same {
    from: usize,
    to: usize,
    /// How many of these steps did without live memory, before the first that did not.
    pub(crate) from_sample: Option<usize>,
}

/// A word of the stack as it is now.
pub(crate) enum Now {
    InSample(u64),
    Live(u64),
    Unreadable,
}

impl<'a> Reuse<'a> {
    /// `version`: what is mapped in the process has another one after each change.
    pub(crate) fn new(last: &'a mut LastWalk, new: &'a mut NewSteps, version: u64) -> Reuse<'a> {
        if last.version != version {
            last.steps.clear();
            last.words.clear();
            last.version = version;
        }
        new.steps.clear();
        new.words.clear();
        let left = last.steps.len();
        Reuse {
            last,
            new,
            left,
            stay: 0,
        }
    }

    /// The steps of the last walk that hold again from this frame on; none if they may be more than `limit`. `read` gets the
    /// stack pointer of a frame, and the address of a word that the step from there reads.
    pub(crate) fn follow(
        &mut self,
        address: FrameAddress,
        registers: &Registers,
        limit: usize,
        mut read: impl FnMut(u64, u64) -> Now,
    ) -> Option<Same> {
        let sp = registers.sp();
        // Stack pointers grow rootwards, but for signal stacks.
        while let Some(next) = self.left.checked_sub(1)
            && self.last.steps.get(next)?.registers.sp() < sp
        {
            self.left = next;
        }
        let steps = self.last.steps.get(..self.left)?;
        let here = steps.iter().rev().take_while(|step| step.registers.sp() == sp);
        let skipped = { here }.position(|step| step.address == address && step.registers == *registers)?;
        let from = self.left - 1 - skipped;
        if from >= limit || steps.get(from)?.kept == Kept::Nothing {
            return None;
        }
        let mut same = Same {
            from,
            to: from,
            from_sample: None,
        };
        let mut words_end = steps.get(from)?.words_end;
        for at in (0..=from).rev() {
            let words_start = at
                .checked_sub(1)
                .map_or(Some(0), |next| Some(steps.get(next)?.words_end))?;
            let step = steps.get(at)?;
            let mut is_live = false;
            // The order of a step's own reading.
            let holds = self
                .last
                .words
                .get(words_start..words_end)?
                .iter()
                .rev()
                .all(|(at, value)| match read(step.registers.sp(), *at) {
                    Now::InSample(now) => now == *value,
                    Now::Live(now) => {
                        is_live = true;
                        now == *value
                    }
                    Now::Unreadable => false,
                });
            let is_kept = match step.kept {
                // The walk may have ended at the next frame.
                Kept::Caller => at > 0,
                Kept::Root => true,
                Kept::Nothing => false,
            };
            if !holds || !is_kept {
                // This step is to be made.
                self.left = at;
                return (at < from).then_some(Same { to: at + 1, ..same });
            }
            if is_live && same.from_sample.is_none() {
                same.from_sample = Some(from - at);
            }
            (same.to, words_end) = (at, words_start);
        }
        self.left = 0;
        Some(same)
    }

    /// The frames of these steps, leaf first.
    pub(crate) fn frames(&self, same: Same) -> impl Iterator<Item = &WalkedFrame> {
        self.last
            .steps
            .get(same.to..=same.from)
            .unwrap_or_default()
            .iter()
            .rev()
    }

    /// The frame that the steps lead to; none if they lead to the root.
    pub(crate) fn leads_to(&self, same: Same) -> Option<WalkedFrame> {
        let last = self.last.steps.get(same.to)?;
        let next = self.last.steps.get(same.to.checked_sub(1)?)?;
        (last.kept == Kept::Caller).then_some(*next)
    }

    /// Takes the steps over: in their place if they lead to the root.
    pub(crate) fn keep(&mut self, same: Same) {
        if same.to == 0 {
            self.stay = same.from + 1;
            return;
        }
        for at in (same.to..=same.from).rev() {
            let words_start = self.last.steps.get(at - 1).map_or(0, |next| next.words_end);
            let Some(step) = self.last.steps.get(at) else { return };
            let words = self.last.words.get(words_start..step.words_end).unwrap_or_default();
            self.new.words.extend(words.iter().rev());
            self.new.push(*step);
        }
    }

    /// Keeps a word that the present step has read.
    pub(crate) fn has_read(&mut self, at: u64, value: u64) {
        self.new.words.push((at, value));
    }

    /// Keeps a step that was made, with the words that it read.
    pub(crate) fn has_made(&mut self, address: FrameAddress, registers: Registers, kept: Kept) {
        if kept == Kept::Nothing {
            let end = self.new.steps.last().map_or(0, |step| step.words_end);
            self.new.words.truncate(end);
        }
        self.new.push(WalkedFrame {
            address,
            registers,
            kept,
            words_end: 0,
        });
    }

    /// Makes this walk the last one.
    pub(crate) fn finish(self) {
        let LastWalk { steps, words, .. } = self.last;
        steps.truncate(self.stay);
        words.truncate(steps.last().map_or(0, |step| step.words_end));
        for (at, step) in self.new.steps.iter().enumerate().rev() {
            let start = at
                .checked_sub(1)
                .and_then(|before| self.new.steps.get(before))
                .map_or(0, |before| before.words_end);
            let own = self.new.words.get(start..step.words_end).unwrap_or_default();
            words.extend(own.iter().rev());
            steps.push(WalkedFrame {
                words_end: words.len(),
                ..*step
            });
        }
    }
}

impl NewSteps {
    fn push(&mut self, step: WalkedFrame) {
        self.steps.push(WalkedFrame {
            words_end: self.words.len(),
            ..step
        });
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

    fn walked(last: &mut LastWalk, kept: [Kept; 5]) {
        let mut new = NewSteps::default();
        let mut reuse = Reuse::new(last, &mut new, 1);
        for (at, kept) in (1..).zip(kept) {
            let (address, registers) = frame(at);
            reuse.has_read(at * 16, at);
            reuse.has_made(address, registers, kept);
        }
        reuse.finish();
    }

    const WHOLE: [Kept; 5] = [Kept::Caller, Kept::Caller, Kept::Caller, Kept::Caller, Kept::Root];

    /// The stack pointers of the frames that are taken over from frame `at` on, and whether they lead to the root.
    fn followed(last: &mut LastWalk, at: u64, read: impl FnMut(u64, u64) -> Now) -> Option<(Vec<u64>, bool)> {
        let mut new = NewSteps::default();
        let mut reuse = Reuse::new(last, &mut new, 1);
        let (address, registers) = frame(at);
        let same = reuse.follow(address, &registers, 100, read)?;
        let frames = reuse.frames(same).map(|frame| frame.registers.sp()).collect();
        Some((frames, reuse.leads_to(same).is_none()))
    }

    fn as_before(_: u64, at: u64) -> Now {
        Now::InSample(at / 16)
    }

    #[test]
    fn what_is_the_same_is_taken_over_to_the_root() {
        let mut last = LastWalk::default();
        walked(&mut last, WHOLE);
        assert_eq!(followed(&mut last, 2, as_before), Some((vec![32, 48, 64, 80], true)));
        // From the middle of another walk, whose own steps go before them.
        let mut new = NewSteps::default();
        let mut reuse = Reuse::new(&mut last, &mut new, 1);
        let (address, registers) = frame(3);
        reuse.has_made(FrameAddress::InstructionPointer(7), frame(1).1, Kept::Caller);
        let same = reuse.follow(address, &registers, 100, as_before).unwrap();
        reuse.keep(same);
        reuse.finish();
        assert_eq!(last.steps.len(), 4);
        assert_eq!(followed(&mut last, 3, as_before), Some((vec![48, 64, 80], true)));
    }

    #[test]
    fn a_step_whose_word_changed_is_to_be_made() {
        let mut last = LastWalk::default();
        walked(&mut last, WHOLE);
        let changed = |_: u64, at: u64| match at {
            64 => Now::InSample(99),
            at => Now::InSample(at / 16),
        };
        assert_eq!(followed(&mut last, 2, changed), Some((vec![32, 48], false)));
        assert_eq!(followed(&mut last, 4, changed), None);
        let unreadable = |_: u64, at: u64| if at == 80 { Now::Unreadable } else { Now::Live(at / 16) };
        assert_eq!(followed(&mut last, 1, unreadable), Some((vec![16, 32, 48, 64], false)));
    }

    #[test]
    fn steps_that_depend_on_more_and_other_mappings_end_it() {
        let mut last = LastWalk::default();
        let mut kept = WHOLE;
        kept[2] = Kept::Nothing;
        walked(&mut last, kept);
        assert_eq!(followed(&mut last, 1, as_before), Some((vec![16, 32], false)));
        assert_eq!(followed(&mut last, 3, as_before), None);
        // The walk ended at the frame after the last step.
        kept = [Kept::Caller; 5];
        walked(&mut last, kept);
        assert_eq!(followed(&mut last, 3, as_before), Some((vec![48, 64], false)));
        let mut new = NewSteps::default();
        let (address, registers) = frame(1);
        let mut other = Reuse::new(&mut last, &mut new, 2);
        assert!(other.follow(address, &registers, 100, as_before).is_none());
    }
}
