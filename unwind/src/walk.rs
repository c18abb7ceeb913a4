//! From the leaf to the root of one stack: where a walk ends, and what counts as a root.

use framehop::FrameAddress;

use crate::arch::{Arch, Step};
use crate::last_walk::{Kept, Reuse, WalkedFrame};
use crate::modules::Modules;
use crate::outcome::{End, Outcome, Point};
use crate::space::{ANONYMOUS, Mappings, Region};
use crate::stack_memory::StackMemory;
use crate::steps::{How, Known};
use recording::address::Avma;
use recording::clock::Timestamp;
use recording::quality::Quality;
use recording::stack::{Frame, FurtherRegisters, Registers};

/// Signal handlers that interrupt each other. More than this is a loop in damaged memory.
const MAX_SIGNALS: usize = 64;
/// How far above a frame that seems to have no caller a return address is looked for.
const ROOT_SCAN: u64 = 2048;

/// One walk, with what it needs.
pub(crate) struct Walk<'a, 'f> {
    pub(crate) space: &'a Mappings,
    /// The region that was looked up last: most callers are in the same.
    pub(crate) region: Option<Region>,
    pub(crate) modules: &'a mut Modules<'f>,
    pub(crate) known: &'a mut Known,
    /// When the sample was taken.
    pub(crate) time: Timestamp,
    pub(crate) quality: &'a mut Quality,
    pub(crate) stack: StackMemory<'a>,
    /// Registers of the leaf that few rules need.
    pub(crate) further: FurtherRegisters<'a>,
    /// The thread's last walk.
    pub(crate) reuse: Reuse<'a>,
    /// The stack pointer of the frame that was found last is a lower bound.
    pub(crate) sp_is_bound: bool,
    /// The result, leaf first, without the frames that stay.
    pub(crate) points: &'a mut Vec<Point>,
    /// So many rootmost frames are those of the thread's last walk.
    pub(crate) stay: usize,
    pub(crate) max_frames: usize,
    /// Makes each step by [`Walk::step`].
    pub(crate) is_reference: bool,
}

impl<'f> Walk<'_, 'f> {
    /// `None` if the registers are not this machine's.
    pub(crate) fn run<A: Arch>(&mut self, registers: &Registers) -> Option<Outcome> {
        let (ip, mut regs) = A::start(registers, self.space.end().0)?;
        let mut address = FrameAddress::InstructionPointer(ip);
        let mut outcome = Outcome {
            end: End::Root,
            live_boundary: None,
            guessed: false,
            by_code: false,
        };
        let mut signals = 0;
        loop {
            if let Some(same) = self.follow::<A>(address, &regs, &mut outcome) {
                match same {
                    Some(next) => (address, regs) = (next.address, A::with_registers(&regs, &next.registers)),
                    None => return Some(outcome),
                }
            }
            self.points.push(Point {
                frame: frame(address),
                sp: A::sp(&regs),
            });
            if self.points.len() >= self.max_frames {
                outcome.end = End::Depth;
                return Some(outcome);
            }
            if self.usual_steps::<A>(&mut address, &mut regs) {
                continue;
            }
            self.stack.floor = A::sp(&regs);
            let before = A::registers(address, &regs);
            let was_bound = self.sp_is_bound;
            let (step, how) = self.step::<A>(address, &mut regs);
            outcome.by_code |= how == How::ByCode;
            let from_signal = how == How::OutOfSignal;
            let was_interrupted = from_signal || matches!(step, Step::Interrupted(_));
            let kept = match step {
                _ if how != How::ByRules || was_bound => Kept::Nothing,
                Step::Caller(caller) if self.is_code(caller) => Kept::Caller,
                Step::Root => Kept::Root,
                _ => Kept::Nothing,
            };
            self.reuse.has_made(address, before, kept);
            if self.stack.used_live && outcome.live_boundary.is_none() {
                outcome.live_boundary = Some(self.points.len() - 1);
            }
            if (from_signal || how == How::ToStart)
                && let Some(point) = self.points.last_mut()
            {
                // A signal trampoline has no caller. The kernel makes the handler return to its first instruction. So
                // do those who start a stack of their own: the first function returns to the start of the one that ends
                // the coroutine.
                point.frame = Frame::InstructionPointer(Avma(address.address()));
            }
            // A leaf without a frame has left the stack pointer alone.
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
                        End::NoReturnAddress
                    } else if self.is_last::<A>(above) {
                        End::Root
                    } else {
                        End::NoRule
                    };
                    return Some(outcome);
                }
                Step::FramePointerIsZero if address.is_return_address() && self.is_last::<A>(A::sp(&regs)) => {
                    return Some(outcome);
                }
                Step::OnOtherStack => {
                    outcome.end = End::OtherStack;
                    return Some(outcome);
                }
                Step::NoMemory => {
                    outcome.end = End::NoMemory;
                    return Some(outcome);
                }
                Step::NoRule | Step::NeedsRegister(_) | Step::IfItCalled(_) | Step::FramePointerIsZero => {
                    outcome.end = End::NoRule;
                    return Some(outcome);
                }
            };
            if was_interrupted {
                // A signal can interrupt a thread anywhere, even after a jump to no code: the address is not checked.
                address = FrameAddress::InstructionPointer(caller);
                signals += 1;
                if signals > MAX_SIGNALS {
                    outcome.end = End::NoRule;
                    return Some(outcome);
                }
                continue;
            }
            // A caller outside of all code: the rule was wrong, or the bytes were another stack's.
            match FrameAddress::from_return_address(caller).filter(|_| self.is_code(caller)) {
                Some(caller) => address = caller,
                None => {
                    outcome.end = End::NoRule;
                    return Some(outcome);
                }
            }
        }
    }

    pub(crate) fn find(&mut self, address: u64) -> Option<Region> {
        if !self
            .region
            .is_some_and(|region| (region.start..region.end).contains(&address))
        {
            self.region = self.space.find(Avma(address)).copied();
        }
        self.region
    }

    /// True if the caller's stack pointer follows from the frame pointer of the function at this address.
    fn record_tops_frame(&self, address: FrameAddress) -> bool {
        let region = self.space.find(Avma(address.address_for_lookup()));
        region.is_some_and(|region| self.modules.records_top_frames(region.module))
    }

    pub(crate) fn is_code(&mut self, address: u64) -> bool {
        self.find(address.wrapping_sub(1)).is_some()
    }

    /// Takes over what the thread's last walk found from this frame on, as far as it holds again. Some(None): to the
    /// root.
    fn follow<A: Arch>(
        &mut self,
        address: FrameAddress,
        regs: &A::Regs,
        outcome: &mut Outcome,
    ) -> Option<Option<WalkedFrame>> {
        if self.sp_is_bound || !self.reuse.comes_to(A::sp(regs)) {
            return None;
        }
        let limit = self.max_frames.saturating_sub(self.points.len() + 1);
        let registers = A::registers(address, regs);
        let stack = &mut self.stack;
        let same = self
            .reuse
            .follow(address, &registers, limit, stack.dump, |sp, (address, word)| {
                stack.floor = sp;
                stack.still_holds(address, word)
            })?;
        if outcome.live_boundary.is_none() {
            outcome.live_boundary = same.from_sample.map(|steps| self.points.len() + steps);
        }
        match self.reuse.to_root(same) {
            Some(frames) => self.stay = frames,
            None => self.points.extend(self.reuse.frames(same).map(|step| Point {
                frame: frame(step.address),
                sp: step.registers.sp(),
            })),
        }
        let next = self.reuse.leads_to(same);
        self.reuse.keep(same);
        Some(next)
    }

    pub(crate) fn is_made_up_at<A: Arch>(&mut self, return_address: u64) -> bool {
        let address = FrameAddress::from_return_address(return_address);
        let region = self.find(return_address.wrapping_sub(1));
        let (Some(region), Some(address)) = (region, address) else {
            return false;
        };
        self.is_made_up::<A>(&region, address)
    }

    /// True if code without rules ends its thread where its callee returns to: what started the thread needs no caller.
    pub(crate) fn never_returns<A: Arch>(&mut self, region: &Region, address: FrameAddress) -> bool {
        region.module != ANONYMOUS
            && self
                .code_at(region, address.address())
                .is_some_and(|code| A::never_returns(&code.next))
    }

    /// True for a return address that is the first byte of a function with no call before it: who started the stack put
    /// it there. glibc's `makecontext` has the coroutine return to `__start_context`.
    pub(crate) fn is_made_up<A: Arch>(&mut self, region: &Region, address: FrameAddress) -> bool {
        let relative = address.address().wrapping_sub(region.base);
        let rules = self.modules.tables_for::<A>(region.module, self.quality);
        address.is_return_address()
            && rules.is_some_and(|rules| rules.begins_function::<A>(relative))
            && !self.has_called::<A>(address.address())
    }

    /// Decides whether a frame in code without rules, with a frame pointer of 0, is the last one. Start code sets the
    /// frame pointer to 0 to say so, but code that uses it for something else may have a 0 there, too: then a return
    /// address into code with rules lies above. The same of a return address of 0, which a wrong rule may find, too.
    /// `above`: where the frame of a caller would begin.
    pub(crate) fn is_last<A: Arch>(&mut self, above: u64) -> bool {
        let (dump, space) = (self.stack.dump, self.space);
        let from = above.saturating_sub(dump.start);
        let words = usize::try_from(from)
            .ok()
            .and_then(|from| dump.bytes.get(from..))
            .unwrap_or_default();
        for word in words.chunks_exact(8).take((ROOT_SCAN / 8) as usize) {
            let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            let Some(region) = space.find(Avma(word.wrapping_sub(1))) else {
                continue;
            };
            if let Some(tables) = self.modules.tables(region.module, self.quality)
                && let Some(rules) = tables.of::<A>()
                && rules.is_inside_function::<A>(word.wrapping_sub(region.base))
                && self.has_called::<A>(word)
            {
                return false;
            }
        }
        true
    }
}

pub(crate) fn frame(address: FrameAddress) -> Frame {
    match address {
        FrameAddress::InstructionPointer(address) => Frame::InstructionPointer(Avma(address)),
        FrameAddress::ReturnAddress(address) => Frame::ReturnAddress(Avma(address.get())),
    }
}

pub(crate) fn relative(address: FrameAddress, base: u64) -> Option<FrameAddress> {
    let relative = address.address().checked_sub(base)?;
    if address.is_return_address() {
        FrameAddress::from_return_address(relative)
    } else {
        Some(FrameAddress::InstructionPointer(relative))
    }
}
