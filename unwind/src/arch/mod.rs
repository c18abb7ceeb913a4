//! What a walk needs to know about a machine: the trait [`Arch`], which `x86_64` and `aarch64` implement in parallel
//! files.

pub(crate) mod aarch64;
pub(crate) mod frame_scan;
pub(crate) mod rule;
pub(crate) mod signal;
pub(crate) mod starts;
pub(crate) mod x86_64;

use std::cell::Cell;
use std::collections::BTreeSet;

use crate::address::FrameAddress;
use gimli::Register;

use crate::arch::frame_scan::RulesByOffset;
use crate::arch::rule::Rule;
use crate::files::cfi::{Cfi, CfiRow, DwarfColumns};
use crate::files::machine::Machine;
use recording::stack::Registers;

/// A frame larger than this is taken for a frame pointer that holds something else.
pub(crate) const PLAUSIBLE_FRAME: u64 = 16 << 20;
/// Swift sets this bit in the frame pointer that the frame of an asynchronous function stores
/// (docs/ABI/CallingConvention.rst of Swift).
pub(crate) const SWIFT_ASYNC_FRAME: u64 = 1 << 60;
/// The longest call instruction that is read.
pub(crate) const CALL_BYTES: usize = 6;

/// Where a call or a jump goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallTarget {
    /// To this address.
    Address(u64),
    /// To the address that is stored here.
    Slot(u64),
    /// Anywhere: through a register or a table.
    Anywhere,
}

/// The stack bytes at this address can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) u64);

/// Reads 8 bytes of the stack.
pub(crate) type ReadStack<'a> = dyn FnMut(u64) -> Result<u64, Unreadable> + 'a;

/// Code around an address. 0 where it can't be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NearbyCode {
    /// The code before the address: run last, unless a jump led to the address.
    pub(crate) before: [u8; 32],
    /// The code from the address on.
    pub(crate) next: [u8; 32],
}

/// Registers, and the return address that is found with them.
pub(crate) type PossibleStacks<R> = Vec<Result<(R, u64), Unreadable>>;

/// How one step towards the root ended. Where it found the caller, the registers are the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The address that the caller goes on at.
    Caller(u64),
    /// Like `Caller`, but by frame pointer or by guess.
    Guess(u64),
    /// Like `Caller`, but the address was interrupted by a signal: it is the next instruction, and no call is before
    /// it.
    Interrupted(u64),
    /// There is no caller, as the rules declare.
    Root,
    /// The return address is 0: nothing called this code, if the rule is right and the bytes are the stack's. A
    /// caller's frame would begin at this address.
    NoReturnAddress(u64),
    /// Like `Caller`, if the code there has called this function. Otherwise this function has left its caller's stack.
    IfItCalled(u64),
    /// The caller is on another stack.
    OnOtherStack,
    /// Going by frame pointer, which is 0. The root if the place is plausible.
    FramePointerIsZero,
    /// A needed byte can't be read.
    NoMemory,
    /// No rule, and no usable frame pointer.
    NoRule,
    /// The rule needs the value that this register has in this frame: the sample has it, or a callee has saved it.
    NeedsRegister(Register),
}

/// Registers beside the machine's usual ones whose values are known, and the first that a rule needs and that is not.
pub(crate) struct FurtherValues<'a> {
    known: &'a [(Register, u64)],
    missing: Cell<Option<Register>>,
}

impl FurtherValues<'_> {
    pub(crate) fn new(known: &[(Register, u64)]) -> FurtherValues<'_> {
        let missing = Cell::new(None);
        FurtherValues { known, missing }
    }

    pub(crate) fn value(&self, register: Register) -> Option<u64> {
        let value = self.known.iter().find(|(known, _)| *known == register);
        if value.is_none() && self.missing.get().is_none() {
            self.missing.set(Some(register));
        }
        value.map(|(_, value)| *value)
    }

    /// How a step ended that found no caller.
    pub(crate) fn failure(&self) -> Step {
        self.missing.get().map_or(Step::NoRule, Step::NeedsRegister)
    }
}

/// What an entry of `__unwind_info` says of the body of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactRule {
    Rule(Rule),
    /// The rules are in `__eh_frame`.
    Dwarf,
    /// The function has no rules, or unknown ones.
    None,
}

/// One kind of processor.
pub(crate) trait Arch: Sized {
    /// The registers that a step needs: the stack pointer, the frame pointer and, on aarch64, the link register.
    type Regs: Copy;

    const MACHINE: Machine;
    /// DWARF numbers.
    const COLUMNS: DwarfColumns;
    /// The CFA at a function's first instruction: this register plus this.
    const CFA_AT_ENTRY: (Register, i64);
    /// The code of functions that end signal handlers, in all known C libraries.
    const SIGNAL_RETURNS: &'static [&'static [u8]];

    /// True if the caller's stack pointer follows from a frame pointer in every program: nothing is pushed between it
    /// and the return address.
    const RECORD_TOPS_FRAME: bool;

    /// True if code that is left after a call may have no frame pointer and no rules.
    const LEAVES_BY_CODE: bool;

    /// The instruction that the kernel writes where a uprobe is (UPROBE_SWBP_INSN). Debuggers write the same one on
    /// most machines.
    const BREAKPOINT: &'static [u8];

    /// The first address and the registers of a sample; `None` if it is of another machine. `highest_code` is the end
    /// of the highest mapping: all bits above it in a return address are not part of it.
    fn start(registers: &Registers, highest_code: u64) -> Option<(u64, Self::Regs)>;
    fn sp(regs: &Self::Regs) -> u64;
    fn fp(regs: &Self::Regs) -> u64;
    /// Takes [`SWIFT_ASYNC_FRAME`] out of the frame pointer.
    fn unflag_fp(regs: &mut Self::Regs);
    /// The registers of a frame in the form of [`recording`].
    fn registers(address: FrameAddress, regs: &Self::Regs) -> Registers;
    /// `registers` in the form of this machine, for the process of `regs`.
    fn with_registers(regs: &Self::Regs, registers: &Registers) -> Self::Regs;
    /// True if the row says that no code has called its function.
    fn is_root(row: &CfiRow) -> bool;
    /// Follows a rule of offsets, which reads two words at most.
    fn step_by_rule(
        rule: &Rule,
        address: FrameAddress,
        regs: &mut Self::Regs,
        read: &mut impl FnMut(u64) -> Result<u64, Unreadable>,
    ) -> Step;
    /// Follows any row. `known`: registers beside those of `regs`.
    fn step_by_row(
        cfi: &Cfi,
        row: &CfiRow,
        address: FrameAddress,
        known: &[(Register, u64)],
        regs: &mut Self::Regs,
        read: &mut ReadStack<'_>,
    ) -> Step;
    /// Where the stack pointer is known as a lower bound alone: the registers with each stack pointer that is likely in
    /// this row, and the return address that is found so. `None`: the row does not count from the stack pointer.
    fn possible_stacks(row: &CfiRow, regs: &Self::Regs, read: &mut ReadStack<'_>)
    -> Option<PossibleStacks<Self::Regs>>;
    /// True if a function that uses the register gives it back to its caller as it was.
    fn is_callee_saved(register: Register) -> bool;
    /// Where the kernel's frame of a signal handler has an interrupted register, from the stack pointer at the signal
    /// return function.
    fn place_in_signal_frame(register: Register) -> Option<u64>;
    /// True if this code ends with a call.
    fn ends_with_call(code: &[u8]) -> bool;
    /// The caller's return address and registers, by frame pointer. An error is a step that leads to no caller.
    fn caller_by_frame(regs: &Self::Regs, read: &mut ReadStack<'_>) -> Result<(u64, Self::Regs), Step>;
    /// The caller's return address and registers for a leaf that has made no frame, as assembly often does not.
    fn caller_of_leaf(regs: &Self::Regs, read: &mut ReadStack<'_>) -> Option<(u64, Self::Regs)>;
    /// Whether the function that `code` ends in has made a frame, by how it begins; `end` is the address behind the
    /// code. `None`: the start of the function is not found.
    fn makes_frame(code: &[u8], end: u64) -> Option<bool>;
    /// Where there are no rules: the caller by the code around, if that is the start or the end of a function, where
    /// the frame pointer is the caller's; or, where the code can't be read, if the stack looks like it. `None`: it is
    /// neither.
    fn step_by_code(
        address: FrameAddress,
        code: Option<&NearbyCode>,
        regs: &mut Self::Regs,
        read: &mut ReadStack<'_>,
    ) -> Option<Step>;
    /// At a signal return function: the registers that were interrupted, from the frame that the kernel pushed.
    fn step_out_of_signal(regs: &mut Self::Regs, read: &mut ReadStack<'_>) -> Step;
    /// Where the CFA of the function that macOS starts signal handlers with is `cfa`: the registers that were
    /// interrupted, from the frame that the kernel pushed. `None`: there is no such frame.
    fn step_out_of_trampoline(cfa: u64, regs: &mut Self::Regs, read: &mut ReadStack<'_>) -> Option<Step>;
    /// An entry of `__unwind_info`, as `<mach-o/compact_unwind_encoding.h>` has it. `word` reads 4 bytes of the
    /// function's code.
    fn compact_rule(encoding: u32, word: &mut dyn FnMut(u64) -> Option<u32>) -> CompactRule;
    /// The rules at the instructions of a function, from its code.
    fn rules_by_code(code: &[u8]) -> RulesByOffset;
    /// Adds the addresses at which functions begin in the code at `base`, as far as calls and the ends of other
    /// functions say it.
    fn function_starts(code: &[u8], base: u64, starts: &mut BTreeSet<u64>);
    /// The register that has the return address at the end of this code, which a function begins with. `None`: the
    /// address is where it is at the start.
    fn return_register(code: &[u8]) -> Option<Register>;
    /// True if the code ends the thread or traps, without a jump: what begins so needs no caller.
    fn never_returns(code: &[u8]) -> bool;
    /// Where the call that returns to `return_address` went, from the bytes before that address. `None`: through a
    /// register or a table.
    fn call_before(bytes: &[u8; CALL_BYTES], return_address: u64) -> Option<CallTarget>;
    /// The slot that a linker's stub at `address` jumps through; `None` if the code is not a stub.
    fn stub_slot(code: &[u8], address: u64) -> Option<u64>;
    /// Calls `found` for everything in the code at `address` that looks like a jump, with its address. Instructions of
    /// varying length are not separated, so some findings are no jumps.
    fn jumps(code: &[u8], address: u64, found: &mut dyn FnMut(u64, CallTarget));
}
