//! Fast steps: by a rule of offsets, with words that the sample has copied, to a caller in code. Nearly all steps are.
//! [`StackWalk::full_step`] finds the same callers, but decides for rare frames before each step: that was half of the
//! instructions of rustc's walks.

use crate::address::FrameAddress;

use crate::arch::{Arch, Step, Unreadable};
use crate::walk::outcome::FramePoint;
use crate::walk::stack_walk::{StackWalk, frame, relative};
#[cfg(test)]
use crate::walk::step_counts;
use recording::address::Avma;

impl StackWalk<'_, '_> {
    /// Makes steps to callers in code of files, as long as they are usual ones. False: the step from `address` is not,
    /// and nothing has changed. True: `address` and `regs` are those of the frame that was come to, which has no point
    /// yet.
    pub(crate) fn fast_steps<A: Arch>(&mut self, address: &mut FrameAddress, regs: &mut A::Regs) -> bool {
        if self.sp_is_bound || self.stack.used_live {
            return false;
        }
        #[cfg(test)]
        if step_counts::ONLY_FULL_STEPS.get() {
            return false;
        }
        let Some(region) = self.find(address.address_for_lookup()) else {
            return false;
        };
        let Some(tables) = self.modules.tables_for::<A>(region.module, self.quality) else {
            return false;
        };
        let dump = self.stack.copy;
        let mut is_first = true;
        loop {
            let Some(rule) = relative(*address, region.base).and_then(|relative| tables.usual_rule::<A>(relative))
            else {
                return !is_first;
            };
            let (mut words, mut count) = ([(0, 0); 2], 0);
            let mut has_all = true;
            let mut caller_regs = *regs;
            let step = A::step_by_rule(&rule, *address, &mut caller_regs, &mut |at| {
                let word = dump.word(at).zip(words.get_mut(count));
                has_all &= word.is_some();
                let (word, kept) = word.ok_or(Unreadable(at))?;
                *kept = (at, word);
                count += 1;
                Ok(word)
            });
            let Step::Caller(caller) = step else { return !is_first };
            let call = caller.wrapping_sub(1);
            let stays = (region.start..region.end).contains(&call);
            let is_code = stays || self.space.find(Avma(call)).is_some();
            let Some(caller) = FrameAddress::from_return_address(caller).filter(|_| has_all && is_code) else {
                return !is_first;
            };
            if !is_first {
                self.points.push(FramePoint {
                    frame: frame(*address),
                    sp: A::sp(regs),
                });
            }
            let words = words.get(..count).unwrap_or_default();
            self.reuse
                .record_rule_step(*address, A::registers(*address, regs), words);
            (*address, *regs) = (caller, caller_regs);
            is_first = false;
            #[cfg(test)]
            step_counts::count(step_counts::StepCount::FastSteps, 1);
            if !stays || self.points.len() + 1 >= self.max_frames || self.reuse.has_frame_at(A::sp(regs)) {
                return true;
            }
        }
    }
}
