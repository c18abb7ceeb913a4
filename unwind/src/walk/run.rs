//! From the leaf to the root of one stack: where a walk ends.

use crate::address::FrameAddress;

use crate::arch::{Arch, Step};
use crate::walk::outcome::{FramePoint, WalkEnd, WalkOutcome};
use crate::walk::reuse::{Reusable, WalkedFrame};
use crate::walk::stack_walk::{StackWalk, frame};
#[cfg(test)]
use crate::walk::step_counts;
use crate::walk::steps::StepMethod;
use recording::address::Avma;
use recording::stack::{Frame, Registers};

/// Signal handlers that interrupt each other. More than this is a loop in damaged memory.
const MAX_SIGNALS: usize = 64;
impl StackWalk<'_, '_> {
    /// Walks from the leaf to the end of the stack. `None` if the registers are those of another machine.
    pub(crate) fn run<A: Arch>(&mut self, registers: &Registers) -> Option<WalkOutcome> {
        let (ip, mut regs) = A::start(registers, self.space.end().0)?;
        let mut address = FrameAddress::InstructionPointer(ip);
        let mut outcome = WalkOutcome {
            end: WalkEnd::Root,
            live_boundary: None,
            guessed: false,
            by_code: false,
        };
        let mut signals = 0;
        loop {
            if let Some(same) = self.reuse_steps::<A>(address, &regs, &mut outcome) {
                match same {
                    Some(next) => (address, regs) = (next.address, A::with_registers(&regs, &next.registers)),
                    None => return Some(outcome),
                }
            }
            self.points.push(FramePoint {
                frame: frame(address),
                sp: A::sp(&regs),
            });
            if self.points.len() >= self.max_frames {
                outcome.end = WalkEnd::Depth;
                return Some(outcome);
            }
            if self.fast_steps::<A>(&mut address, &mut regs) {
                continue;
            }
            #[cfg(test)]
            step_counts::count(step_counts::StepCount::FullSteps, 1);
            self.stack.floor = A::sp(&regs);
            let before = A::registers(address, &regs);
            let was_bound = self.sp_is_bound;
            let (step, how) = self.full_step::<A>(address, &mut regs);
            outcome.by_code |= how == StepMethod::ByCode;
            let from_signal = how == StepMethod::OutOfSignal;
            let was_interrupted = from_signal || matches!(step, Step::Interrupted(_));
            let kept = match step {
                _ if how != StepMethod::ByRules || was_bound => Reusable::Nothing,
                Step::Caller(caller) if self.is_code(caller) => Reusable::Caller,
                Step::Root => Reusable::Root,
                _ => Reusable::Nothing,
            };
            self.reuse.record_step(address, before, kept);
            if self.stack.used_live && outcome.live_boundary.is_none() {
                outcome.live_boundary = Some(self.points.len() - 1);
            }
            if (from_signal || how == StepMethod::ToStart)
                && let Some(point) = self.points.last_mut()
            {
                // A signal trampoline has no caller. The kernel makes the handler return to its first instruction. So
                // do those who start a stack of their own: the first function returns to the start of the one that ends
                // the coroutine.
                point.frame = Frame::InstructionPointer(Avma(address.address()));
            }
            // A leaf without a frame has not moved the stack pointer.
            let by_frame_pointer = matches!(step, Step::Guess(_)) && A::sp(&regs) != self.stack.floor;
            self.sp_is_bound = by_frame_pointer && !A::RECORD_TOPS_FRAME && !self.record_tops_frame(address);
            let caller = match step {
                Step::Caller(caller) | Step::Interrupted(caller) => caller,
                Step::Guess(caller) => {
                    outcome.guessed = true;
                    caller
                }
                Step::Root => return Some(outcome),
                Step::NoReturnAddress(above) => {
                    outcome.end = if self.stack.used_live {
                        WalkEnd::NoReturnAddress
                    } else if self.is_last::<A>(above) {
                        WalkEnd::Root
                    } else {
                        WalkEnd::NoRule
                    };
                    return Some(outcome);
                }
                Step::FramePointerIsZero if address.is_return_address() && self.is_last::<A>(A::sp(&regs)) => {
                    return Some(outcome);
                }
                Step::OnOtherStack => {
                    outcome.end = WalkEnd::OtherStack;
                    return Some(outcome);
                }
                Step::NoMemory => {
                    outcome.end = WalkEnd::NoMemory;
                    return Some(outcome);
                }
                Step::NoRule | Step::NeedsRegister(_) | Step::IfItCalled(_) | Step::FramePointerIsZero => {
                    outcome.end = WalkEnd::NoRule;
                    return Some(outcome);
                }
            };
            if was_interrupted {
                // A signal can interrupt a thread anywhere, even after a jump to no code: the address is not checked.
                address = FrameAddress::InstructionPointer(caller);
                signals += 1;
                if signals > MAX_SIGNALS {
                    outcome.end = WalkEnd::NoRule;
                    return Some(outcome);
                }
                continue;
            }
            // A caller outside of all code: the rule was wrong, or the bytes were another stack's.
            match FrameAddress::from_return_address(caller).filter(|_| self.is_code(caller)) {
                Some(caller) => address = caller,
                None => {
                    outcome.end = WalkEnd::NoRule;
                    return Some(outcome);
                }
            }
        }
    }

    /// Reuses the steps of the thread's last walk from this frame on. `Some`: the frame that they lead to, or `None` if
    /// they lead to the root.
    fn reuse_steps<A: Arch>(
        &mut self,
        address: FrameAddress,
        regs: &A::Regs,
        outcome: &mut WalkOutcome,
    ) -> Option<Option<WalkedFrame>> {
        if self.sp_is_bound || !self.reuse.has_frame_at(A::sp(regs)) {
            return None;
        }
        let limit = self.max_frames.saturating_sub(self.points.len() + 1);
        let registers = A::registers(address, regs);
        let stack = &mut self.stack;
        let same = self
            .reuse
            .find_reusable(address, &registers, limit, stack.copy, |sp, (address, word)| {
                stack.floor = sp;
                stack.still_holds(address, word)
            })?;
        if outcome.live_boundary.is_none() {
            outcome.live_boundary = same.from_sample.map(|steps| self.points.len() + steps);
        }
        match self.reuse.to_root(same) {
            Some(frames) => self.shared_rootmost = frames,
            None => self.points.extend(self.reuse.frames(same).map(|step| FramePoint {
                frame: frame(step.address),
                sp: step.registers.sp(),
            })),
        }
        #[cfg(test)]
        step_counts::count(step_counts::StepCount::ReusedSteps, self.reuse.frames(same).count());
        let next = self.reuse.leads_to(same);
        self.reuse.keep(same);
        Some(next)
    }
}
