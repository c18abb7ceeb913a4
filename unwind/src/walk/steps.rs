//! Single steps of a walk, from a frame to its caller: by the rules of files, by code, by guess.

use crate::address::FrameAddress;
use gimli::Register;

use crate::arch::signal;
use crate::arch::{Arch, NearbyCode, Step, Unreadable};
use crate::tables::file_tables::SavedPlace;
use crate::tables::mappings::{ANONYMOUS, Region};
use crate::walk::calls::ProcessCode;
use crate::walk::code_cache::CodeAddress;
use crate::walk::stack_walk::{StackWalk, relative};
use recording::address::Avma;
use recording::stack::Frame;

/// How many callees may have left a register alone.
const MAX_CALLEES: usize = 32;
/// How many registers beside the usual ones a rule may need.
const MAX_FURTHER: usize = 4;

/// How far the beginning of a function is looked for. 4 of V8's 2,182 builtins are larger.
const MAX_FUNCTION_BYTES: u64 = 16 << 10;

/// Addresses in each map of a [`CodeCache`](crate::walk::code_cache::CodeCache).
const MAX_CODE_BYTES: usize = 1 << 14;

/// How a step was made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepMethod {
    /// By the unwind rules of a file, and nothing else.
    ByRules,
    /// Out of a signal handler.
    OutOfSignal,
    /// By the code of a function without rules.
    ByCode,
    /// Nothing has called the address: who started the stack put it there.
    ToStart,
    Otherwise,
}

impl<'f> StackWalk<'_, 'f> {
    /// One step.
    pub(crate) fn full_step<A: Arch>(&mut self, address: FrameAddress, regs: &mut A::Regs) -> (Step, StepMethod) {
        let region = self.find(address.address_for_lookup());
        // After a call to an address without code, the return address is where a leaf has it.
        let mut like_assembly = region.is_none();
        if let Some(region) = region {
            if self.is_signal_return::<A>(&region, address) {
                // The signal frame is at the stack pointer.
                let step = if self.sp_is_bound {
                    Step::NoRule
                } else {
                    A::step_out_of_signal(regs, &mut |address| self.stack.read(address))
                };
                return (step, StepMethod::OutOfSignal);
            }
            if self.is_made_up::<A>(&region, address) {
                return (Step::Root, StepMethod::ToStart);
            }
            if self.sp_is_bound
                && let Err(step) = self.find_stack::<A>(address, &region, regs)
            {
                return (step, StepMethod::Otherwise);
            }
            let (stack, reuse) = (&mut self.stack, &mut self.reuse);
            let rules = self.modules.tables_for::<A>(region.module, self.quality);
            if let Some(rules) = rules {
                // A step does without some words that can't be read.
                let mut has_all = true;
                let before = *regs;
                if let Some(relative) = relative(address, region.base)
                    && let Some(step) = rules.step::<A>(relative, regs, &mut |address| {
                        let word = stack.read(address);
                        match word {
                            Ok(word) => reuse.record_word(address, word),
                            Err(_) => has_all = false,
                        }
                        word
                    })
                {
                    return match step {
                        Step::NeedsRegister(register) => (
                            self.step_with::<A>(register, &region, relative, regs),
                            StepMethod::Otherwise,
                        ),
                        Step::IfItCalled(caller) => match self.has_led_to::<A>(caller, address.address_for_lookup()) {
                            Some(true) => (Step::Caller(caller), StepMethod::Otherwise),
                            _ => (Step::OnOtherStack, StepMethod::Otherwise),
                        },
                        step if self.leads_nowhere(step)
                            && let Some(caller) = self.step_out_of_subroutine::<A>(address, &before, regs) =>
                        {
                            (caller, StepMethod::Otherwise)
                        }
                        step if has_all => (step, StepMethod::ByRules),
                        step => (step, StepMethod::Otherwise),
                    };
                }
                like_assembly = rules.has_functions();
                if let Some(step) = self.step_by_function::<A>(&region, address, regs) {
                    return (step, StepMethod::ByCode);
                }
                // Assembly makes a frame with the same instructions as compiled code.
                if A::LEAVES_BY_CODE
                    && !address.is_return_address()
                    && let Some(step) = self.step_by_code::<A>(&region, address, regs)
                {
                    return (step, StepMethod::Otherwise);
                }
            } else if region.module == ANONYMOUS
                && !self.sp_is_bound
                && let Some(step) =
                    (self.code_cache.jit).step::<A>(self.stack.pid, self.time, address, regs, &mut |address| {
                        self.stack.read(address)
                    })
            {
                return (step, StepMethod::Otherwise);
            } else if let Some(step) = self.step_by_code::<A>(&region, address, regs) {
                return (step, StepMethod::Otherwise);
            }
        }
        let step = match self.step_by_guess::<A>(address, like_assembly, regs) {
            Step::NoRule | Step::NoReturnAddress(_) | Step::FramePointerIsZero
                if address.is_return_address()
                    && region.is_some_and(|region| self.never_returns::<A>(&region, address)) =>
            {
                Step::Root
            }
            step => step,
        };
        (step, StepMethod::Otherwise)
    }

    /// One step by the code of the whole function, which has no rules. `None`: it leads to nothing that has called.
    fn step_by_function<A: Arch>(
        &mut self,
        region: &Region,
        address: FrameAddress,
        regs: &mut A::Regs,
    ) -> Option<Step> {
        if self.sp_is_bound {
            return None;
        }
        let relative = address.address_for_lookup().wrapping_sub(region.base);
        let rules = self.modules.tables_for::<A>(region.module, self.quality)?;
        if !address.is_return_address()
            && let Some(register) = rules.return_register::<A>(relative)
            && let Some(caller) = self.further.get(register.0)
            && self.has_called::<A>(caller)
        {
            return Some(Step::Caller(caller));
        }
        let rules = self.modules.tables_for::<A>(region.module, self.quality)?;
        let rule = rules.rule_by_code::<A>(relative)?;
        let mut caller_regs = *regs;
        let stack = &mut self.stack;
        let step = A::step_by_rule(&rule, address, &mut caller_regs, &mut |address| stack.read(address));
        let is_right = match step {
            Step::Caller(caller) => self.has_called::<A>(caller) || self.is_made_up_at::<A>(caller),
            Step::NoReturnAddress(above) => self.stack.used_live || self.is_last::<A>(above),
            step => step == Step::NoMemory,
        };
        is_right.then(|| {
            *regs = caller_regs;
            step
        })
    }

    /// True if a step by the rules of a function found no caller.
    fn leads_nowhere(&mut self, step: Step) -> bool {
        match step {
            Step::NoReturnAddress(_) | Step::NoRule => true,
            Step::Caller(caller) => !self.is_code(caller),
            _ => false,
        }
    }

    /// The caller of a subroutine that a function has within itself. The function's rules know nothing of the return
    /// address that is pushed there.
    ///
    /// LuaJIT's interpreter is one function with one rule; in its subroutine for `%` the rule leads to a 0 (58 % of a
    /// loop's samples).
    fn step_out_of_subroutine<A: Arch>(
        &mut self,
        address: FrameAddress,
        before: &A::Regs,
        regs: &mut A::Regs,
    ) -> Option<Step> {
        let pushes = A::CFA_AT_ENTRY.1 != 0;
        if self.sp_is_bound || (address.is_return_address() && !pushes) {
            return None;
        }
        let stack = &mut self.stack;
        let (caller, caller_regs) = A::caller_of_leaf(before, &mut |address| stack.read(address))?;
        self.code()
            .calls_subroutine::<A>(caller, address.address_for_lookup())
            .then(|| {
                *regs = caller_regs;
                Step::Guess(caller)
            })
    }

    /// True if an address that was found without rules can be a return address. In a function with rules, a call must
    /// stand before it. Code without rules may push other addresses: HotSpot's interpreter pushes the address of its
    /// code that takes a result.
    fn may_go_on_at<A: Arch>(&mut self, caller: u64) -> bool {
        let Some(region) = self.find(caller.wrapping_sub(1)) else {
            return false;
        };
        if self.modules.tables(region.module, self.quality).is_none() || self.has_called::<A>(caller) {
            return true;
        }
        let relative = caller.wrapping_sub(1).wrapping_sub(region.base);
        let tables = self.modules.tables(region.module, self.quality);
        tables.is_none_or(|tables| tables.function(relative).is_none())
    }

    /// Finds the caller by frame pointer, or as leaves without rules usually have it.
    fn step_by_guess<A: Arch>(&mut self, address: FrameAddress, like_assembly: bool, regs: &mut A::Regs) -> Step {
        let is_leaf = !address.is_return_address();
        let in_frame = is_leaf && like_assembly && self.is_in_frame::<A>(address.address());
        if is_leaf
            && like_assembly
            && !in_frame
            && let Some(step) = self.step_out_of_leaf::<A>(regs)
        {
            return step;
        }
        let stack = &mut self.stack;
        let failure = match A::caller_by_frame(regs, &mut |address| stack.read(address)) {
            Ok((caller, caller_regs)) if self.may_go_on_at::<A>(caller) => {
                *regs = caller_regs;
                return Step::Guess(caller);
            }
            Ok(_) => Step::NoRule,
            Err(step) => step,
        };
        if is_leaf
            && !like_assembly
            && failure == Step::NoRule
            && let Some(step) = self.step_out_of_leaf::<A>(regs)
        {
            return step;
        }
        failure
    }

    /// True if a leaf is known to have made a frame. The lowest word of a frame may be old: the return address of
    /// another call.
    fn is_in_frame<A: Arch>(&mut self, address: u64) -> bool {
        let Some(region) = self.find(address) else {
            return false;
        };
        let place = self.code_address(&region, address);
        if let Some(known) = self.code_cache.frames.get(&place) {
            return *known;
        }
        let size = address.wrapping_sub(region.start).min(MAX_FUNCTION_BYTES);
        let start = address.wrapping_sub(size).wrapping_sub(region.base);
        let code = self.modules.bytes_on_disk(region.module, start, size as usize);
        let in_frame = code.and_then(|code| A::makes_frame(&code, address)) == Some(true);
        if self.code_cache.frames.len() >= MAX_CODE_BYTES {
            self.code_cache.frames.clear();
        }
        self.code_cache.frames.insert(place, in_frame);
        in_frame
    }

    /// The caller of a leaf that has made no frame. If the leaf has made one, a number in it may look like a return
    /// address: seen in V8's builtins, which have no rules, in a program at a fixed low address. So where the caller
    /// has rules, the rules must lead to a return address as well.
    ///
    /// Without this check 10 of 162 samples of V8's `Builtins_MapPrototypeSet` had a caller in SQLite.
    fn step_out_of_leaf<A: Arch>(&mut self, regs: &mut A::Regs) -> Option<Step> {
        let stack = &mut self.stack;
        let (caller, caller_regs) = A::caller_of_leaf(regs, &mut |address| stack.read(address))?;
        if !self.has_called::<A>(caller) {
            return None;
        }
        let region = self.find(caller.wrapping_sub(1))?;
        let address = FrameAddress::from_return_address(caller)?;
        let stack = &self.stack;
        let rules = self.modules.tables_for::<A>(region.module, self.quality);
        if let (Some(rules), Some(relative)) = (rules, relative(address, region.base)) {
            let mut next_regs = caller_regs;
            let next = rules.step::<A>(relative, &mut next_regs, &mut |address| {
                stack.copy.word(address).ok_or(Unreadable(address))
            });
            let has_caller = match next {
                Some(Step::Caller(next)) => self.has_called::<A>(next),
                Some(Step::NoRule) => false,
                _ => true,
            };
            if !has_caller {
                return None;
            }
        }
        *regs = caller_regs;
        Some(Step::Guess(caller))
    }

    /// After a step by frame pointer that gave no stack pointer: finds the one stack pointer with which the rules lead
    /// to a possible caller. If there is none, or more than one, the error is how the walk ends.
    fn find_stack<A: Arch>(&mut self, address: FrameAddress, region: &Region, regs: &mut A::Regs) -> Result<(), Step> {
        let callee = address.address_for_lookup();
        let relative = callee.wrapping_sub(region.base);
        let rules = self.modules.tables_for::<A>(region.module, self.quality);
        let Some(row) = rules.and_then(|rules| rules.row(relative)) else {
            return Ok(());
        };
        let used_live = self.stack.used_live;
        let stack = &mut self.stack;
        let Some(stacks) = A::possible_stacks(&row, regs, &mut |address| stack.read(address)) else {
            return Ok(());
        };
        // The walk reads the words of the stack that was chosen again, and then counts them as live.
        self.stack.used_live = used_live;
        let mut found = None;
        let mut failure = Step::NoRule;
        for stack in stacks {
            match stack {
                Ok((_, ra)) if !self.has_called::<A>(ra) => {}
                Ok((_, ra)) if self.has_led_to::<A>(ra, callee) == Some(false) => {}
                Ok((stack, _)) if found.is_none() => found = Some(stack),
                Ok(_) => return Err(Step::NoRule),
                Err(_) => failure = Step::NoMemory,
            }
        }
        *regs = found.ok_or(failure)?;
        Ok(())
    }

    /// False if there is no call before a return address. What can't be read may be one.
    pub(crate) fn has_called<A: Arch>(&mut self, return_address: u64) -> bool {
        let Some(region) = self.find(return_address.wrapping_sub(1)) else {
            return false;
        };
        if let Some(handler) = self.find(return_address)
            && self.is_signal_return::<A>(&handler, FrameAddress::InstructionPointer(return_address))
        {
            return true;
        }
        let Some(mut code) = self.code_at(&region, return_address) else {
            return true;
        };
        // A JIT compiler may have put another function there since.
        if region.module == ANONYMOUS
            && !A::ends_with_call(&code.before)
            && let Some(now) = self.read_code(&region, return_address)
        {
            code = now;
        }
        A::ends_with_call(&code.before)
    }

    /// Whether the call before a return address can have led to the function that holds `callee`.
    fn has_led_to<A: Arch>(&mut self, return_address: u64, callee: u64) -> Option<bool> {
        let mut code = ProcessCode {
            pid: self.stack.pid,
            space: self.space,
            modules: self.modules,
            memory: self.stack.memory,
            quality: self.quality,
        };
        self.code_cache.calls.has_led_to::<A>(return_address, callee, &mut code)
    }

    fn code(&mut self) -> ProcessCode<'_, 'f> {
        ProcessCode {
            pid: self.stack.pid,
            space: self.space,
            modules: self.modules,
            memory: self.stack.memory,
            quality: self.quality,
        }
    }

    /// A step that needs further registers: glibc's `_dl_runtime_resolve` aligns its stack and keeps the old stack
    /// pointer in rbx, its `vfork` has the return address in rdi, and gcc's functions that align their stack begin with
    /// a frame that counts from r10.
    fn step_with<A: Arch>(
        &mut self,
        register: Register,
        region: &Region,
        relative: FrameAddress,
        regs: &mut A::Regs,
    ) -> Step {
        let mut known = Vec::new();
        let mut needed = register;
        while known.len() < MAX_FURTHER {
            let Some(value) = self.register_value::<A>(needed) else {
                return Step::NoRule;
            };
            known.push((needed, value));
            let stack = &mut self.stack;
            let rules = self.modules.tables_for::<A>(region.module, self.quality);
            let step = rules
                .and_then(|rules| rules.step_with::<A>(relative, &known, regs, &mut |address| stack.read(address)));
            match step {
                Some(Step::NeedsRegister(register)) => needed = register,
                step => return step.unwrap_or(Step::NoRule),
            }
        }
        Step::NoRule
    }

    /// The value that a register has in the frame that was found last: as the sample has it, or from a callee that
    /// saved it.
    fn register_value<A: Arch>(&mut self, register: Register) -> Option<u64> {
        let last = self.points.len().checked_sub(1)?;
        // A call may have changed the others.
        if self
            .points
            .last()
            .is_some_and(|point| matches!(point.frame, Frame::ReturnAddress(_)))
            && !A::is_callee_saved(register)
        {
            return None;
        }
        // The caller's stack pointer is the callee's CFA, except around signal frames.
        for at in (1..=last).rev().take(MAX_CALLEES) {
            let (callee, cfa) = (self.points[at - 1], self.points[at].sp);
            let lookup = callee.frame.lookup_address()?.0;
            if !matches!(self.points[at].frame, Frame::ReturnAddress(_)) {
                let region = self.space.find(Avma(lookup)).copied()?;
                let address = FrameAddress::InstructionPointer(lookup);
                let place =
                    A::place_in_signal_frame(register).filter(|_| self.is_signal_return::<A>(&region, address))?;
                return self.stack.read(callee.sp.wrapping_add(place)).ok();
            }
            let region = self.space.find(Avma(lookup))?;
            let rules = self.modules.tables_for::<A>(region.module, self.quality)?;
            match rules.saved_at(lookup.wrapping_sub(region.base), register)? {
                SavedPlace::Untouched => {}
                SavedPlace::FromCfa(offset) => return self.stack.read(cfa.wrapping_add_signed(offset)).ok(),
            }
        }
        self.further.get(register.0).filter(|_| last <= MAX_CALLEES)
    }

    /// The code around an address. Code of a file is read from the file: in memory a probe may have put a breakpoint
    /// there.
    pub(crate) fn code_at(&mut self, region: &Region, address: u64) -> Option<NearbyCode> {
        let key = self.code_address(region, address);
        match self.code_cache.code.get(&key) {
            Some(known) => Some(*known),
            None => self.read_code(region, address),
        }
    }

    fn read_code(&mut self, region: &Region, address: u64) -> Option<NearbyCode> {
        let mut code = NearbyCode::default();
        let (module, base) = (region.module, region.base);
        let mut read = |address: u64, out: &mut [u8]| {
            let on_disk = (module != ANONYMOUS)
                .then(|| {
                    self.modules
                        .bytes_on_disk(module, address.wrapping_sub(base), out.len())
                })
                .flatten();
            match on_disk {
                Some(bytes) => out.copy_from_slice(&bytes),
                None => self.stack.copy_live(address, out)?,
            }
            Some(())
        };
        // Fewer bytes at the end of a mapping, and before its start.
        let sizes = [32, 24, 16, 8];
        (sizes.iter()).find_map(|size| read(address, code.next.get_mut(..*size)?))?;
        let _ = (sizes.iter()).find_map(|size| {
            let last = code.before.get_mut(32 - size..)?;
            read(address.wrapping_sub(*size as u64), last)
        });
        if self.code_cache.code.len() >= MAX_CODE_BYTES {
            self.code_cache.code.clear();
        }
        self.code_cache.code.insert(self.code_address(region, address), code);
        Some(code)
    }

    /// One step by the code around the address. `None` where that leads to no possible caller: the code was replaced,
    /// or does not return this way.
    fn step_by_code<A: Arch>(&mut self, region: &Region, address: FrameAddress, regs: &mut A::Regs) -> Option<Step> {
        let is_leaf = !address.is_return_address();
        if !is_leaf && !A::LEAVES_BY_CODE {
            return None;
        }
        // A JIT compiler may have replaced the leaf's function. If the process is gone, the code that was read before
        // serves.
        let read_again = if is_leaf && region.module == ANONYMOUS {
            self.read_code(region, address.address())
        } else {
            None
        };
        let code = read_again.or_else(|| self.code_at(region, address.address()));
        let mut caller_regs = *regs;
        let stack = &mut self.stack;
        let step = A::step_by_code(address, code.as_ref(), &mut caller_regs, &mut |address| {
            stack.read(address)
        })?;
        if let Step::Caller(caller) | Step::Guess(caller) = step
            && !self.may_go_on_at::<A>(caller)
        {
            return None;
        }
        *regs = caller_regs;
        Some(step)
    }

    fn code_address(&self, region: &Region, address: u64) -> CodeAddress {
        let process = if region.module == ANONYMOUS {
            self.stack.pid.0
        } else {
            0
        };
        (region.module, process, address.wrapping_sub(region.base))
    }

    fn is_signal_return<A: Arch>(&mut self, region: &Region, address: FrameAddress) -> bool {
        let relative = address.address().wrapping_sub(region.base);
        let rules = self.modules.tables_for::<A>(region.module, self.quality);
        let declared = rules.and_then(|rules| rules.declares_signal_return::<A>(relative));
        declared.unwrap_or_else(|| self.is_signal_return_by_code::<A>(region, address))
    }

    /// Recognises a signal return function by its code, once per address: no unwind rules declare it.
    fn is_signal_return_by_code<A: Arch>(&mut self, region: &Region, address: FrameAddress) -> bool {
        let key = self.code_address(region, address.address());
        if let Some(known) = self.code_cache.signal_returns.get(&key) {
            return *known;
        }
        let code = self.code_at(region, address.address());
        // In its system call, the thread is at the end of the function.
        let is_return = code.is_some_and(|code| {
            signal::is_return_code(&code.next, A::SIGNAL_RETURNS)
                || (!address.is_return_address() && signal::has_return_code(&code.before, A::SIGNAL_RETURNS))
        });
        if self.code_cache.signal_returns.len() >= 1 << 14 {
            self.code_cache.signal_returns.clear();
        }
        self.code_cache.signal_returns.insert(key, is_return);
        is_return
    }
}
