//! Whether a caller can have called its callee, from the call instruction itself.
//!
//! Two readings of a stack can agree and both be of another call: seen with a thread that waits for its CPU within the
//! same system call whenever the memory is read. Then the stack changes hands somewhere: below a return address into
//! `wander`, which belongs to its call of `clock_gettime`, lie old frames of `down_and_up`. Most calls name their
//! callee in the code:
//!
//! ```text
//! call down_and_up                                       the address
//! call *slot(%rip)                                       what the slot holds
//! call stub;  stub: jmp *slot(%rip)                      what the slot holds
//! ```
//!
//! The callee found on the stack must be that function, or one that it jumps to (tail calls, cold parts). Virtual
//! calls, functions that end with one, and code without rules say nothing.
//!
//! With other work on all CPUs, up to 17 % of the samples of a recursion had a wrong caller that two readings
//! confirmed. On stacks that need no live memory, the check wrongly rejects at most 1 % (rustc; ripgrep and python 0,
//! g++ 0.1 %), mostly for lazy binding.
//!
//! The walk asks the same question where it has several stack pointers to choose from, or where a function has left its
//! caller's stack.
//!
//! Code is read once for each pair, from the file: in memory a uprobe or a debugger may have put a breakpoint over an
//! instruction. The linker's slots are read from memory, where they are filled in.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::arch::{Arch, CALL_BYTES, CallTarget};
use crate::tables::mappings::{ANONYMOUS, Mappings, ModuleIndex, Region};
use crate::tables::modules::Modules;
use crate::walk::outcome::FramePoint;
use recording::address::Avma;
use recording::event::Pid;
use recording::quality::Quality;
use recording::sink::TargetMemory;
use recording::stack::Frame;

/// The longest stub up to its jump: `endbr64`, `bnd jmp *slot(%rip)`.
const STUB_BYTES: usize = 16;
/// The code of a larger function is not searched for jumps.
const MAX_FUNCTION: u64 = 256 << 10;
/// Tail calls of tail calls are followed through this many functions.
const MAX_FUNCTIONS: usize = 16;
/// Pairs that are remembered.
const MAX_PAIRS: usize = 1 << 14;

/// A return address and an address in the callee: module and relative address of each.
type CallPair = [(ModuleIndex, u64); 2];

/// What was found out so far, for all processes.
#[derive(Default)]
pub(crate) struct CallChecks {
    possible: FxHashMap<CallPair, bool>,
}

/// The code of one process.
pub(crate) struct ProcessCode<'a, 'f> {
    pub(crate) pid: Pid,
    pub(crate) space: &'a Mappings,
    pub(crate) modules: &'a mut Modules<'f>,
    pub(crate) memory: &'a mut dyn TargetMemory,
    pub(crate) quality: &'a mut Quality,
}

impl CallChecks {
    /// True if no call among these frames, leaf first, is known to be impossible.
    pub(crate) fn are_possible<A: Arch>(&mut self, points: &[FramePoint], code: &mut ProcessCode<'_, '_>) -> bool {
        points.windows(2).all(|pair| {
            let [callee, caller] = pair else { return true };
            // An interrupted frame has called nobody.
            let (Frame::ReturnAddress(return_address), Some(callee)) = (caller.frame, callee.frame.lookup_address())
            else {
                return true;
            };
            self.has_led_to::<A>(return_address.0, callee.0, code) != Some(false)
        })
    }

    /// True if the call before `return_address` can have led to the function that holds `callee`; `None`: the code does
    /// not say.
    pub(crate) fn has_led_to<A: Arch>(
        &mut self,
        return_address: u64,
        callee: u64,
        code: &mut ProcessCode<'_, '_>,
    ) -> Option<bool> {
        let relative = |address: u64, region: Region| (region.module, address.wrapping_sub(region.base));
        let (from, to) = (code.region(return_address.wrapping_sub(1))?, code.region(callee)?);
        let pair = [relative(return_address, from), relative(callee, to)];
        if let Some(possible) = self.possible.get(&pair) {
            return Some(*possible);
        }
        let function = code.function(callee)?;
        let target = code.called_at::<A>(return_address)?;
        let possible = code.leads_to::<A>(target, &function)?;
        if from.module != ANONYMOUS {
            if self.possible.len() >= MAX_PAIRS {
                self.possible.clear();
            }
            self.possible.insert(pair, possible);
        }
        Some(possible)
    }
}

impl ProcessCode<'_, '_> {
    /// True if the call before `return_address` leads into the function that it is in, behind its start: to a
    /// subroutine that holds `callee`.
    pub(crate) fn calls_subroutine<A: Arch>(&mut self, return_address: u64, callee: u64) -> bool {
        let function = self
            .function(callee)
            .filter(|function| function.contains(&return_address));
        match (function, self.called_at::<A>(return_address)) {
            (Some(function), Some(CallTarget::Address(target))) => function.start < target && target <= callee,
            _ => false,
        }
    }

    fn region(&self, address: u64) -> Option<Region> {
        self.space.find(Avma(address)).copied()
    }

    /// The addresses of the function that holds this one.
    fn function(&mut self, address: u64) -> Option<Range<u64>> {
        let region = self.region(address)?;
        let tables = self.modules.tables(region.module, self.quality)?;
        let function = tables.function(address.wrapping_sub(region.base))?;
        Some(function.start.wrapping_add(region.base)..function.end.wrapping_add(region.base))
    }

    /// Reads code as the compiler made it: from the file, or else from memory. Returns how many bytes could be read.
    fn code_at<A: Arch>(&mut self, address: u64, code: &mut [u8]) -> usize {
        let on_disk = self.region(address).and_then(|region| {
            let relative = address.wrapping_sub(region.base);
            self.modules.bytes_on_disk(region.module, relative, code.len())
        });
        if let Some(on_disk) = on_disk {
            code.copy_from_slice(&on_disk);
            return code.len();
        }
        let len = self.memory.read(self.pid, address, code).min(code.len());
        let read = code.get(..len).unwrap_or_default();
        let has_breakpoint = read.windows(A::BREAKPOINT.len()).any(|bytes| bytes == A::BREAKPOINT);
        if has_breakpoint { 0 } else { len }
    }

    fn called_at<A: Arch>(&mut self, return_address: u64) -> Option<CallTarget> {
        let mut bytes = [0; CALL_BYTES];
        let start = return_address.checked_sub(CALL_BYTES as u64)?;
        (self.code_at::<A>(start, &mut bytes) == CALL_BYTES).then_some(())?;
        let target = A::call_before(&bytes, return_address)?;
        // Any other variable may have held another address at the time of the call.
        let fixed = match target {
            CallTarget::Slot(slot) => {
                let region = self.region(return_address.wrapping_sub(1))?;
                self.modules
                    .is_fixed_at_start(region.module, slot.wrapping_sub(region.base))
            }
            _ => true,
        };
        fixed.then_some(target)
    }

    /// The address that a target stands for, behind all stubs.
    fn resolve<A: Arch>(&mut self, target: CallTarget) -> Option<u64> {
        let mut target = target;
        // A stub leads to a function or, across two modules, to another stub.
        for _ in 0..3 {
            let address = match target {
                CallTarget::Address(address) => address,
                CallTarget::Slot(slot) => {
                    let mut bytes = [0; 8];
                    (self.memory.read(self.pid, slot, &mut bytes) == bytes.len()).then_some(())?;
                    u64::from_le_bytes(bytes)
                }
                CallTarget::Anywhere => return None,
            };
            self.region(address)?;
            let mut stub = [0; STUB_BYTES];
            let len = self.code_at::<A>(address, &mut stub);
            match A::stub_slot(stub.get(..len)?, address) {
                Some(slot) => target = CallTarget::Slot(slot),
                None => return Some(address),
            }
        }
        None
    }

    /// True if a call to `target` can end up in `callee`, by tail calls; `None` if the target is not a known function,
    /// or can end up anywhere.
    fn leads_to<A: Arch>(&mut self, target: CallTarget, callee: &Range<u64>) -> Option<bool> {
        // The stub itself may have been interrupted.
        let into = |target| matches!(target, CallTarget::Address(address) if callee.contains(&address));
        if into(target) {
            return Some(true);
        }
        let first = self.resolve::<A>(target)?;
        if callee.contains(&first) {
            return Some(true);
        }
        let mut functions = vec![self.function(first).filter(|function| function.start == first)?];
        let mut next = 0;
        while let Some(function) = functions.get(next).cloned() {
            next += 1;
            for jump in self.jumps_out_of::<A>(&function)? {
                if into(jump) {
                    return Some(true);
                }
                let Some(address) = self.resolve::<A>(jump) else {
                    continue;
                };
                if callee.contains(&address) {
                    return Some(true);
                }
                if let Some(other) = self.function(address).filter(|other| other.start == address)
                    && !functions.contains(&other)
                {
                    if functions.len() >= MAX_FUNCTIONS {
                        return None;
                    }
                    functions.push(other);
                }
            }
        }
        Some(false)
    }

    /// Targets of the jumps that leave a function; `None` if one of them can go anywhere.
    fn jumps_out_of<A: Arch>(&mut self, function: &Range<u64>) -> Option<Vec<CallTarget>> {
        let size = function
            .end
            .checked_sub(function.start)
            .filter(|size| *size <= MAX_FUNCTION)?;
        let mut code = vec![0; size as usize];
        (self.code_at::<A>(function.start, &mut code) == code.len()).then_some(())?;
        let (mut targets, mut anywhere) = (Vec::new(), Vec::new());
        A::jumps(&code, function.start, &mut |at, target| match target {
            CallTarget::Address(address) if function.contains(&address) => {}
            CallTarget::Anywhere => anywhere.push(at),
            target => targets.push(target),
        });
        // A jump table is used in the middle of a function, a tail call when its frame is gone.
        let region = self.region(function.start)?;
        let rules = self.modules.tables_for::<A>(region.module, self.quality)?;
        let leaves = anywhere
            .iter()
            .any(|at| rules.has_no_frame::<A>(at.wrapping_sub(region.base)));
        (!leaves).then_some(targets)
    }
}
