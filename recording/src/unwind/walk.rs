//! From the leaf to the root of one stack.

use framehop::FrameAddress;
use gimli::Register;
use rustc_hash::FxHashMap;

use super::arch::{Arch, NearbyCode, Step};
use super::jit::JitRules;
use super::modules::Modules;
use super::signal;
use super::space::{ANONYMOUS, AddressSpace, Region};
use super::stack_memory::StackMemory;
use super::tables::Saved;
use crate::address::Avma;
use crate::clock::Timestamp;
use crate::quality::Quality;
use crate::sink::{ModuleFiles, TargetMemory};
use crate::stack::{Frame, Registers};

/// A frame larger than this is taken for a frame pointer that holds something else.
pub(super) const PLAUSIBLE_FRAME: u64 = 16 << 20;
/// Signal handlers that interrupt each other. More than this is a loop in damaged memory.
const MAX_SIGNALS: usize = 64;
/// How many callees may have left a register alone.
const MAX_CALLEES: usize = 32;
/// How far above a frame without caller to look for signs that there is one.
const ROOT_SCAN: u64 = 2048;

/// What identifies a frame between two samples of a thread: same code, same place on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) frame: Frame,
    pub(super) sp: u64,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Root,
    NoMemory,
    NoRule,
    Depth,
}

/// A finished walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) end: End,
    /// The first frame whose caller was looked for with bytes read after the sample: index into the points.
    pub(super) seam: Option<usize>,
    /// True if at least one caller was found without rules.
    pub(super) guessed: bool,
}

/// Where signal return functions without unwind rules are, by (module, process if anonymous, relative address).
pub(super) type SignalReturns = FxHashMap<(u32, i32, u64), bool>;

/// Code without rules, by (process, address). Forgotten when anything is mapped.
pub(super) type CodeBytes = FxHashMap<(i32, u64), NearbyCode>;

/// Addresses in [`CodeBytes`].
const MAX_CODE_BYTES: usize = 1 << 14;

/// One walk, with what it needs.
pub(super) struct Walk<'a, M, F> {
    pub(super) space: &'a AddressSpace,
    /// The last one looked up: most callers are in the same.
    pub(super) region: Option<Region>,
    pub(super) modules: &'a mut Modules<F>,
    pub(super) signal_returns: &'a mut SignalReturns,
    pub(super) code: &'a mut CodeBytes,
    pub(super) jit: &'a mut JitRules,
    /// When the sample was taken.
    pub(super) time: Timestamp,
    pub(super) quality: &'a mut Quality,
    pub(super) stack: StackMemory<'a, M>,
    /// The stack pointer of the frame that was found last is a lower bound.
    pub(super) sp_is_bound: bool,
    /// The result, leaf first.
    pub(super) points: &'a mut Vec<Point>,
    pub(super) max_frames: usize,
}

impl<M: TargetMemory, F: ModuleFiles> Walk<'_, M, F> {
    /// `None` if the registers are not this machine's.
    pub(super) fn run<A: Arch>(&mut self, registers: &Registers) -> Option<Outcome> {
        let (ip, mut regs) = A::start(registers, self.space.end())?;
        let mut address = FrameAddress::InstructionPointer(ip);
        let mut outcome = Outcome {
            end: End::Root,
            seam: None,
            guessed: false,
        };
        let mut signals = 0;
        loop {
            self.points.push(Point {
                frame: frame(address),
                sp: A::sp(&regs),
            });
            if self.points.len() >= self.max_frames {
                outcome.end = End::Depth;
                return Some(outcome);
            }
            self.stack.floor = A::sp(&regs);
            let (step, from_signal) = self.step::<A>(address, &mut regs);
            if self.stack.used_live && outcome.seam.is_none() {
                outcome.seam = Some(self.points.len() - 1);
            }
            if from_signal && let Some(point) = self.points.last_mut() {
                // Nobody called it: the kernel lets the handler return to its first instruction.
                point.frame = Frame::InstructionPointer(Avma(address.address()));
            }
            self.sp_is_bound = matches!(step, Step::Guess(_)) && !A::RECORD_TOPS_FRAME;
            let caller = match step {
                Step::Caller(caller) => caller,
                Step::Guess(caller) => {
                    outcome.guessed = true;
                    caller
                }
                Step::Root => return Some(outcome),
                Step::FramePointerIsZero if address.is_return_address() && self.is_last::<A>(&regs) => {
                    return Some(outcome);
                }
                Step::NoMemory => {
                    outcome.end = End::NoMemory;
                    return Some(outcome);
                }
                Step::NoRule | Step::NeedsRegister(_) | Step::FramePointerIsZero => {
                    outcome.end = End::NoRule;
                    return Some(outcome);
                }
            };
            if from_signal {
                // The kernel may interrupt anything, also a jump to nowhere: this address is true.
                address = FrameAddress::InstructionPointer(caller);
                signals += 1;
                if signals > MAX_SIGNALS {
                    outcome.end = End::NoRule;
                    return Some(outcome);
                }
                continue;
            }
            // A caller outside of all code is not one: the rule was wrong or the bytes were not this stack's.
            match FrameAddress::from_return_address(caller).filter(|_| self.is_code(caller)) {
                Some(caller) => address = caller,
                None => {
                    outcome.end = End::NoRule;
                    return Some(outcome);
                }
            }
        }
    }

    fn find(&mut self, address: u64) -> Option<Region> {
        if !self
            .region
            .is_some_and(|region| (region.start..region.end).contains(&address))
        {
            self.region = self.space.find(address).copied();
        }
        self.region
    }

    fn is_code(&mut self, address: u64) -> bool {
        self.find(address.wrapping_sub(1)).is_some()
    }

    /// One step, and whether it was out of a signal handler.
    fn step<A: Arch>(&mut self, address: FrameAddress, regs: &mut A::Regs) -> (Step, bool) {
        let region = self.find(address.address_for_lookup());
        if self.sp_is_bound
            && let Some(region) = region
            && self.find_stack::<A>(address, &region, regs).is_none()
        {
            return (Step::NoRule, false);
        }
        let stack = &mut self.stack;
        // A call to an address that is not code: its caller is where a leaf's is.
        let mut like_assembly = region.is_none();
        if let Some(region) = region {
            let rules = self.modules.tables(region.module, self.quality).and_then(A::rules);
            if let Some(rules) = rules {
                if rules.is_signal_return(address.address().wrapping_sub(region.base)) {
                    return (A::step_out_of_signal(regs, &mut |address| stack.read(address)), true);
                }
                if let Some(relative) = relative(address, region.base)
                    && let Some(step) = rules.step(relative, regs, &mut |address| stack.read(address))
                {
                    let step = match step {
                        Step::NeedsRegister(register) => self.step_with::<A>(register, &region, relative, regs),
                        step => step,
                    };
                    return (step, false);
                }
                like_assembly = true;
            } else if self.is_signal_return_by_code::<A>(&region, address) {
                return (
                    A::step_out_of_signal(regs, &mut |address| self.stack.read(address)),
                    true,
                );
            } else if region.module == ANONYMOUS
                && let Some(step) = (self.jit).step::<A>(self.stack.pid, self.time, address, regs, &mut |address| {
                    self.stack.read(address)
                })
            {
                return (step, false);
            } else if let Some(code) = self.code_at(address.address())
                && let Some(step) = self.step_by_code::<A>(address, &code, regs)
            {
                return (step, false);
            }
        }
        let (stack, space) = (&mut self.stack, self.space);
        let is_code = |address: u64| space.find(address.wrapping_sub(1)).is_some();
        (
            A::step_by_guess(
                address,
                like_assembly,
                regs,
                &mut |address| stack.read(address),
                &is_code,
            ),
            false,
        )
    }

    /// After a step by frame pointer that gave no stack pointer: the one with which the rules find a return address. `None`: it
    /// is none of those that are likely, so whatever the rules found would be something else.
    fn find_stack<A: Arch>(&mut self, address: FrameAddress, region: &Region, regs: &mut A::Regs) -> Option<()> {
        let relative = address.address_for_lookup().wrapping_sub(region.base);
        let rules = self.modules.tables(region.module, self.quality).and_then(A::rules);
        let Some(row) = rules.and_then(|rules| rules.row(relative)) else {
            return Some(());
        };
        let stack = &mut self.stack;
        let Some(stacks) = A::possible_stacks(&row, regs, &mut |address| stack.read(address)) else {
            return Some(());
        };
        let (found, _) = stacks.into_iter().find(|(_, ra)| self.follows_call::<A>(*ra))?;
        *regs = found;
        Some(())
    }

    /// False if a return address can't be one. What can't be read can.
    fn follows_call<A: Arch>(&mut self, return_address: u64) -> bool {
        self.is_code(return_address)
            && (self.code_at(return_address)).is_none_or(|code| A::ends_with_call(&code.before))
    }

    /// A step for which framehop's registers do not suffice: glibc's `_dl_runtime_resolve` aligns its stack and keeps the
    /// old stack pointer in rbx. Any function that it called and that uses the register has saved it.
    fn step_with<A: Arch>(
        &mut self,
        register: Register,
        region: &Region,
        relative: FrameAddress,
        regs: &mut A::Regs,
    ) -> Step {
        let Some(value) = self.saved_register::<A>(register) else {
            return Step::NoRule;
        };
        let stack = &mut self.stack;
        let rules = self.modules.tables(region.module, self.quality).and_then(A::rules);
        let saved = (register, value);
        rules
            .and_then(|rules| rules.step_with(relative, saved, regs, &mut |address| stack.read(address)))
            .unwrap_or(Step::NoRule)
    }

    /// The value that a register has in the frame that was found last: from its callee that saved it.
    fn saved_register<A: Arch>(&mut self, register: Register) -> Option<u64> {
        // The caller's stack pointer is the callee's CFA, except around signal frames.
        for at in (1..self.points.len()).rev().take(MAX_CALLEES) {
            let (callee, cfa) = (self.points[at - 1], self.points[at].sp);
            if !matches!(self.points[at].frame, Frame::ReturnAddress(_)) {
                return None;
            }
            let lookup = callee.frame.lookup_address()?.0;
            let region = self.space.find(lookup)?;
            let rules = self.modules.tables(region.module, self.quality).and_then(A::rules)?;
            match rules.saved_at(lookup.wrapping_sub(region.base), register)? {
                Saved::Untouched => {}
                Saved::FromCfa(offset) => return self.stack.read(cfa.wrapping_add_signed(offset)).ok(),
            }
        }
        None
    }

    fn code_at(&mut self, address: u64) -> Option<NearbyCode> {
        let key = (self.stack.pid.0, address);
        if let Some(known) = self.code.get(&key) {
            return Some(*known);
        }
        let mut code = NearbyCode::default();
        self.stack.copy_live(address, &mut code.next)?;
        // At the start of a mapping there is nothing before.
        let before = address.wrapping_sub(code.before.len() as u64);
        let _ = self.stack.copy_live(before, &mut code.before);
        if self.code.len() >= MAX_CODE_BYTES {
            self.code.clear();
        }
        self.code.insert(key, code);
        Some(code)
    }

    /// A caller that is not code was not one: the code is another now, or never returned this way.
    fn step_by_code<A: Arch>(&mut self, address: FrameAddress, code: &NearbyCode, regs: &mut A::Regs) -> Option<Step> {
        let mut caller_regs = *regs;
        let stack = &mut self.stack;
        let step = A::step_by_code(address, code, &mut caller_regs, &mut |address| stack.read(address))?;
        if let Step::Caller(caller) = step
            && !self.is_code(caller)
        {
            return None;
        }
        *regs = caller_regs;
        Some(step)
    }

    /// Where no unwind rules declare signal return functions: compares the code, once per address.
    fn is_signal_return_by_code<A: Arch>(&mut self, region: &Region, address: FrameAddress) -> bool {
        let process = if region.module == ANONYMOUS {
            self.stack.pid.0
        } else {
            0
        };
        let key = (region.module, process, address.address().wrapping_sub(region.base));
        if let Some(known) = self.signal_returns.get(&key) {
            return *known;
        }
        let mut code = [0; signal::MAX_CODE];
        let is_return = self.stack.copy_live(address.address(), &mut code).is_some()
            && signal::is_return_code(&code, A::SIGNAL_RETURNS);
        if self.signal_returns.len() >= 1 << 14 {
            self.signal_returns.clear();
        }
        self.signal_returns.insert(key, is_return);
        is_return
    }

    /// Decides whether a frame in code without rules, with a frame pointer of 0, is the last one. Start code sets the
    /// frame pointer to 0 to say so, but code that uses it for something else may have a 0 there, too: then a return
    /// address into code with rules lies above.
    fn is_last<A: Arch>(&mut self, regs: &A::Regs) -> bool {
        let sp = A::sp(regs);
        let from = sp.saturating_sub(self.stack.dump_start);
        let words = usize::try_from(from)
            .ok()
            .and_then(|from| self.stack.dump.get(from..))
            .unwrap_or_default();
        let space = self.space;
        for word in words.chunks_exact(8).take((ROOT_SCAN / 8) as usize) {
            let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            let Some(region) = space.find(word.wrapping_sub(1)) else {
                continue;
            };
            if let Some(tables) = self.modules.tables(region.module, self.quality)
                && let Some(rules) = A::rules(tables)
                && rules.is_inside_function(word.wrapping_sub(region.base))
            {
                return false;
            }
        }
        true
    }
}

fn frame(address: FrameAddress) -> Frame {
    match address {
        FrameAddress::InstructionPointer(address) => Frame::InstructionPointer(Avma(address)),
        FrameAddress::ReturnAddress(address) => Frame::ReturnAddress(Avma(address.get())),
    }
}

fn relative(address: FrameAddress, base: u64) -> Option<FrameAddress> {
    let relative = address.address().checked_sub(base)?;
    if address.is_return_address() {
        FrameAddress::from_return_address(relative)
    } else {
        Some(FrameAddress::InstructionPointer(relative))
    }
}
