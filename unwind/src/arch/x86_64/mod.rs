//! x86_64: following rows, going by frame pointer, and the signal frame.

mod compact;
mod frame;
mod prologue;
mod starts;

use std::collections::BTreeSet;

use crate::address::FrameAddress;
use gimli::{Register, RegisterRule, Vendor, X86_64 as Dwarf};

use crate::arch::frame_scan::RulesByOffset;
use crate::arch::rule::Rule;
use crate::arch::{
    Arch, CALL_BYTES, CallTarget, CompactRule, FurtherValues, NearbyCode, PLAUSIBLE_FRAME, PossibleStacks, ReadStack,
    SWIFT_ASYNC_FRAME, Step, Unreadable,
};
use crate::files::cfi::{Cfi, CfiRow, DwarfColumns};
use crate::files::machine::Machine;
use recording::little_endian::u32_at;
use recording::stack::Registers;

/// Offsets into `struct ucontext` (asm/ucontext.h, asm/sigcontext.h), which is at sp in the signal return function:
/// flags 8, link 8, stack 24, then r8..r15, di, si, bp, bx, dx, ax, cx, sp, ip, 8 bytes each.
const UCONTEXT_R8: u64 = 40;
const UCONTEXT_BP: u64 = 40 + 10 * 8;
const UCONTEXT_SP: u64 = 40 + 15 * 8;
const UCONTEXT_IP: u64 = 40 + 16 * 8;
/// In the order of their DWARF numbers: ax, dx, cx, bx, si, di.
const UCONTEXT_FIRST: [u64; 6] = [13, 12, 14, 11, 9, 8];

/// Sizes and offsets of what XNU pushes for a signal handler (bsd/dev/i386/unix_signal.c; sys/_types/_ucontext.h;
/// mach/i386/_structs.h). In the machine context: exception state 16, then ax, bx, cx, dx, di, si, bp, sp, r8..r15, ip.
/// In the user context: onstack and mask 8, stack 24, link 8, size and address of the machine context.
const SIGINFO: u64 = 104;
const UC_MCONTEXT: u64 = 48;
const MCONTEXT_BP: u64 = 16 + 6 * 8;
const MCONTEXT_SP: u64 = 16 + 7 * 8;
const MCONTEXT_IP: u64 = 16 + 16 * 8;
/// From the machine context to its address: the smallest is that without AVX, the largest has 512-bit registers.
const MIN_MCONTEXT: u64 = 700 + SIGINFO + UC_MCONTEXT;
const MAX_MCONTEXT: u64 = 4096;

/// The registers that a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct X86_64Regs {
    sp: u64,
    bp: u64,
}

impl X86_64Regs {
    pub(crate) fn new(sp: u64, bp: u64) -> X86_64Regs {
        X86_64Regs { sp, bp }
    }
}

/// The machine.
pub(crate) enum X86_64 {}

impl Arch for X86_64 {
    type Regs = X86_64Regs;

    const MACHINE: Machine = Machine::X86_64;
    const COLUMNS: DwarfColumns = DwarfColumns {
        vendor: Vendor::Default,
        fp: Dwarf::RBP,
        ra: Dwarf::RA,
    };
    const CFA_AT_ENTRY: (Register, i64) = (Dwarf::RSP, 8);
    const SIGNAL_RETURNS: &'static [&'static [u8]] = &[
        // mov $15, %rax; syscall (glibc, musl)
        &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05],
        // mov $15, %eax; syscall (bionic)
        &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05],
    ];

    const RECORD_TOPS_FRAME: bool = true;
    // CPython's trampolines.
    const LEAVES_BY_CODE: bool = true;

    // int3
    const BREAKPOINT: &'static [u8] = &[0xcc];

    fn start(registers: &Registers, _highest_code: u64) -> Option<(u64, Self::Regs)> {
        match *registers {
            Registers::X86_64 { ip, sp, bp } => Some((ip, X86_64Regs::new(sp, bp))),
            Registers::Aarch64 { .. } => None,
        }
    }

    fn sp(regs: &Self::Regs) -> u64 {
        regs.sp
    }

    fn fp(regs: &Self::Regs) -> u64 {
        regs.bp
    }

    fn unflag_fp(regs: &mut Self::Regs) {
        regs.bp &= !SWIFT_ASYNC_FRAME;
    }

    fn registers(address: FrameAddress, regs: &Self::Regs) -> Registers {
        Registers::X86_64 {
            ip: address.address(),
            sp: regs.sp,
            bp: regs.bp,
        }
    }

    fn with_registers(regs: &Self::Regs, registers: &Registers) -> Self::Regs {
        match *registers {
            Registers::X86_64 { sp, bp, .. } => X86_64Regs::new(sp, bp),
            Registers::Aarch64 { .. } => *regs,
        }
    }

    fn is_root(row: &CfiRow) -> bool {
        matches!(row.ra, None | Some(RegisterRule::Undefined))
    }

    #[inline]
    fn step_by_rule(
        rule: &Rule,
        address: FrameAddress,
        regs: &mut Self::Regs,
        read: &mut impl FnMut(u64) -> Result<u64, Unreadable>,
    ) -> Step {
        let (sp, bp) = (regs.sp, regs.bp);
        let cfa = rule.cfa(sp, bp);
        let caller_bp = match rule.saved_fp(cfa).map(|at| (at, read(at))) {
            None => bp,
            Some((_, Ok(saved))) => saved,
            // It was popped: compilers don't always say so in the epilogue. The sample has no bytes below the stack
            // pointer.
            Some((at, Err(_))) if at < sp && rule.is_from_sp() && !address.is_return_address() => bp,
            Some((_, Err(_))) => return Step::NoMemory,
        };
        match rule.saved_ra(cfa).map(read) {
            Some(Ok(0)) => Step::NoReturnAddress(cfa),
            Some(Ok(ra)) if cfa > sp => {
                *regs = X86_64Regs::new(cfa, caller_bp);
                Step::Caller(ra)
            }
            Some(Err(_)) => Step::NoMemory,
            Some(Ok(_)) | None => Step::NoRule,
        }
    }

    fn step_by_row(
        cfi: &Cfi,
        row: &CfiRow,
        address: FrameAddress,
        known: &[(Register, u64)],
        regs: &mut Self::Regs,
        read: &mut ReadStack<'_>,
    ) -> Step {
        let others = FurtherValues::new(known);
        let register = |register| match register {
            Dwarf::RA => Some(address.address()),
            Dwarf::RSP => Some(regs.sp),
            Dwarf::RBP => Some(regs.bp),
            other => others.value(other),
        };
        match cfi.step(row, register, read) {
            Ok(Some((cfa, _, 0))) => Step::NoReturnAddress(cfa),
            // Only a leaf may have its return address in a register, and no stack of its own: glibc's `vfork`.
            Ok(Some((cfa, fp, ra))) if cfa > regs.sp || (cfa == regs.sp && !address.is_return_address()) => {
                *regs = X86_64Regs::new(cfa, fp);
                Step::Caller(ra)
            }
            Ok(_) => others.failure(),
            Err(_) => Step::NoMemory,
        }
    }

    fn possible_stacks(_: &CfiRow, _: &Self::Regs, _: &mut ReadStack<'_>) -> Option<PossibleStacks<Self::Regs>> {
        None
    }

    fn is_callee_saved(register: Register) -> bool {
        matches!(
            register,
            Dwarf::RBX | Dwarf::RBP | Dwarf::R12 | Dwarf::R13 | Dwarf::R14 | Dwarf::R15
        )
    }

    fn place_in_signal_frame(register: Register) -> Option<u64> {
        match u64::from(register.0) {
            number @ 8..=15 => Some(UCONTEXT_R8 + (number - 8) * 8),
            number => Some(UCONTEXT_R8 + UCONTEXT_FIRST.get(number as usize)? * 8),
        }
    }

    fn ends_with_call(code: &[u8]) -> bool {
        // Instructions have any length, so some other code also ends like a call.
        let from_end = |len: usize| code.len().checked_sub(len).and_then(|at| code.get(at..));
        // call rel32
        let direct = from_end(5).is_some_and(|code| code[0] == 0xe8);
        // call *%reg, call *disp(%reg): 2 in the middle bits of the second byte, which says how long the operand is.
        let indirect = |len: usize| match from_end(len) {
            Some([0xff, operand, rest @ ..]) if operand >> 3 & 7 == 2 => {
                let (mode, register) = (operand >> 6, operand & 7);
                let has_sib = mode != 3 && register == 4;
                let displacement = match (mode, register, rest.first()) {
                    (0, 5, _) | (2, ..) => 4,
                    (0, 4, Some(sib)) if sib & 7 == 5 => 4,
                    (1, ..) => 1,
                    _ => 0,
                };
                len == 2 + usize::from(has_sib) + displacement
            }
            _ => false,
        };
        direct || (2..=7).any(indirect)
    }

    fn caller_by_frame(regs: &Self::Regs, read: &mut ReadStack<'_>) -> Result<(u64, Self::Regs), Step> {
        let (sp, bp) = (regs.sp, regs.bp);
        if bp == 0 {
            return Err(Step::FramePointerIsZero);
        }
        if !(sp..sp.saturating_add(PLAUSIBLE_FRAME)).contains(&bp) || bp % 8 != 0 || bp >= u64::MAX - 16 {
            return Err(Step::NoRule);
        }
        // (ip, sp, bp) = (*(bp + 8), bp + 16, *bp)
        match (read(bp), read(bp + 8)) {
            (Ok(_), Ok(0)) => Err(Step::NoReturnAddress(bp + 16)),
            (Ok(new_bp), Ok(ra)) => Ok((ra, X86_64Regs::new(bp + 16, new_bp))),
            _ => Err(Step::NoMemory),
        }
    }

    fn caller_of_leaf(regs: &Self::Regs, read: &mut ReadStack<'_>) -> Option<(u64, Self::Regs)> {
        // (ip, sp) = (*sp, sp + 8)
        let ra = read(regs.sp).ok()?;
        Some((ra, X86_64Regs::new(regs.sp.wrapping_add(8), regs.bp)))
    }

    fn makes_frame(code: &[u8], end: u64) -> Option<bool> {
        prologue::makes_frame(code, end)
    }

    fn step_by_code(
        address: FrameAddress,
        code: Option<&NearbyCode>,
        regs: &mut Self::Regs,
        read: &mut ReadStack<'_>,
    ) -> Option<Step> {
        let is_leaf = !address.is_return_address();
        let (sp, bp) = (regs.sp, regs.bp);
        let Some(code) = code else {
            // A frame pointer that was just pushed lies there. Small numbers may do so by chance.
            return (is_leaf && bp >= 1 << 16 && read(sp) == Ok(bp)).then(|| match read(sp.wrapping_add(8)) {
                Ok(ra) => {
                    *regs = X86_64Regs::new(sp.wrapping_add(16), bp);
                    Step::Guess(ra)
                }
                Err(_) => Step::NoMemory,
            });
        };
        let entered = if is_leaf {
            prologue::enter(&code.next, (sp, bp), read)
        } else {
            Ok(None)
        };
        let caller = match entered {
            Ok(None) => prologue::leave(&code.next, (sp, bp), read),
            found => found,
        };
        match caller {
            Ok(Some((ra, sp, bp))) => {
                *regs = X86_64Regs::new(sp, bp);
                Some(Step::Caller(ra))
            }
            Ok(None) => None,
            Err(_) => Some(Step::NoMemory),
        }
    }

    fn step_out_of_signal(regs: &mut Self::Regs, read: &mut ReadStack<'_>) -> Step {
        let ucontext = regs.sp;
        let mut field = |offset| read(ucontext.wrapping_add(offset));
        match (field(UCONTEXT_IP), field(UCONTEXT_SP), field(UCONTEXT_BP)) {
            (Ok(ip), Ok(sp), Ok(bp)) => {
                *regs = X86_64Regs::new(sp, bp);
                Step::Caller(ip)
            }
            _ => Step::NoMemory,
        }
    }

    fn step_out_of_trampoline(cfa: u64, regs: &mut Self::Regs, read: &mut ReadStack<'_>) -> Option<Step> {
        // The kernel has aligned the stack pointer below the machine context, whose size depends on the processor, and
        // pushed 8 bytes. Behind the machine context and the siginfo is the user context, with size and address of the
        // machine context.
        let mcontext = (MIN_MCONTEXT / 8..MAX_MCONTEXT / 8).find_map(|words| {
            let field = cfa.wrapping_add(words * 8);
            let mcontext = read(field).ok().filter(|at| at.wrapping_sub(cfa) < 16)?;
            let size = read(field.wrapping_sub(8)).ok()?;
            let ucontext = mcontext.wrapping_add(size).wrapping_add(SIGINFO);
            (ucontext == field.wrapping_sub(UC_MCONTEXT)).then_some(mcontext)
        })?;
        let mut field = |offset: u64| read(mcontext.wrapping_add(offset));
        Some(match (field(MCONTEXT_IP), field(MCONTEXT_SP), field(MCONTEXT_BP)) {
            (Ok(ip), Ok(sp), Ok(bp)) => {
                *regs = X86_64Regs::new(sp, bp);
                Step::Interrupted(ip)
            }
            _ => Step::NoMemory,
        })
    }

    fn compact_rule(encoding: u32, word: &mut dyn FnMut(u64) -> Option<u32>) -> CompactRule {
        compact::rule(encoding, word)
    }

    fn rules_by_code(code: &[u8]) -> RulesByOffset {
        frame::rules(code)
    }

    fn function_starts(code: &[u8], base: u64, starts: &mut BTreeSet<u64>) {
        starts::find(code, base, starts);
    }

    fn return_register(code: &[u8]) -> Option<Register> {
        starts::return_register(code).map(Register)
    }

    fn never_returns(code: &[u8]) -> bool {
        starts::never_returns(code)
    }

    fn call_before(bytes: &[u8; CALL_BYTES], return_address: u64) -> Option<CallTarget> {
        let target = relative_to(return_address, bytes, 2)?;
        match bytes {
            // call *disp32(%rip)
            [0xff, 0x15, ..] => Some(CallTarget::Slot(target)),
            // call rel32
            [_, 0xe8, ..] => Some(CallTarget::Address(target)),
            _ => None,
        }
    }

    fn stub_slot(code: &[u8], address: u64) -> Option<u64> {
        // endbr64; bnd jmp *disp32(%rip): the first two are optional.
        let prefixed = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
        let jump = prefixed.strip_prefix(&[0xf2]).unwrap_or(prefixed);
        let end = address.wrapping_add((code.len() - jump.len() + 6) as u64);
        relative_to(end, jump.strip_prefix(&[0xff, 0x25])?, 0)
    }

    fn jumps(code: &[u8], address: u64, found: &mut dyn FnMut(u64, CallTarget)) {
        for at in 0..code.len() {
            let end = |len: usize| address.wrapping_add((at + len) as u64);
            let target = |len: usize| relative_to(end(len), code, at + len - 4);
            let jump = match (code[at], code.get(at + 1)) {
                // jmp rel8
                (0xeb, Some(&near)) => Some(CallTarget::Address(end(2).wrapping_add_signed(i64::from(near as i8)))),
                // jmp rel32
                (0xe9, _) => target(5).map(CallTarget::Address),
                // jcc rel32
                (0x0f, Some(0x80..=0x8f)) => target(6).map(CallTarget::Address),
                // jmp *disp32(%rip)
                (0xff, Some(0x25)) => target(6).map(CallTarget::Slot),
                // jmp *%reg, jmp *disp(%reg): 4 in the middle bits of the second byte
                (0xff, Some(operand)) if operand >> 3 & 7 == 4 => Some(CallTarget::Anywhere),
                _ => None,
            };
            if let Some(target) = jump {
                found(address.wrapping_add(at as u64), target);
            }
        }
    }
}

/// `end` and the signed 32 bits at `at`: how instructions that end there name an address.
fn relative_to(end: u64, code: &[u8], at: usize) -> Option<u64> {
    Some(end.wrapping_add_signed(i64::from(u32_at(code, at)? as i32)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Unreadable;

    #[test]
    fn a_pushed_frame_pointer_is_seen_without_the_code() {
        let caller = |bp: u64, words: [u64; 2]| {
            let mut regs = X86_64Regs::new(0x1000, bp);
            let mut read = |address| match address {
                0x1000 => Ok(words[0]),
                0x1008 => Ok(words[1]),
                _ => Err(Unreadable(address)),
            };
            X86_64::step_by_code(FrameAddress::InstructionPointer(0x5000), None, &mut regs, &mut read)
                .map(|step| (step, regs.sp, regs.bp))
        };
        let value = 0x1_2345_6789;
        assert_eq!(
            caller(value, [value, 0x7000]),
            Some((Step::Guess(0x7000), 0x1010, value))
        );
        assert_eq!(caller(value, [8, 0x7000]), None);
        // Nothing is known of small numbers.
        assert_eq!(caller(0, [0, 0x7000]), None);
        assert_eq!(caller(8, [8, 0x7000]), None);
    }

    #[test]
    fn calls_name_their_target() {
        // Bytes as `objdump -d` shows them for a call at 0x1416 and at 0x1495.
        assert_eq!(
            X86_64::call_before(&[0x90, 0xe8, 0x15, 0xfc, 0xff, 0xff], 0x149b),
            Some(CallTarget::Address(0x10b0))
        );
        assert_eq!(
            X86_64::call_before(&[0xff, 0x15, 0x10, 0, 0, 0], 0x1010),
            Some(CallTarget::Slot(0x1020))
        );
        // call *0x18(%rax)
        assert_eq!(X86_64::call_before(&[0x48, 0x89, 0xc7, 0xff, 0x50, 0x18], 0x1010), None);
    }

    #[test]
    fn code_that_ends_with_a_call() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],         // call rel32
            &[0xff, 0xd1],                   // call *%rcx
            &[0x41, 0xff, 0xd4],             // call *%r12
            &[0xff, 0x10],                   // call *(%rax)
            &[0xff, 0x14, 0xc8],             // call *(%rax,%rcx,8)
            &[0xff, 0x50, 0x18],             // call *0x18(%rax)
            &[0xff, 0x54, 0x24, 8],          // call *8(%rsp)
            &[0xff, 0x15, 1, 2, 3, 4],       // call *0x4030201(%rip)
            &[0x41, 0xff, 0x95, 1, 2, 3, 4], // call *0x4030201(%r13)
            &[0xff, 0x14, 0x25, 1, 2, 3, 4], // call *0x4030201
        ] {
            let code = [&[0x90; 8], call].concat();
            assert!(X86_64::ends_with_call(&code), "{call:x?}");
            assert!(!X86_64::ends_with_call(&call[..call.len() - 1]), "{call:x?}");
        }
        // jmp *%rcx; push (%rax); mov %rax, %rdi; nothing.
        for code in [&[0x90, 0xff, 0xe1][..], &[0x90, 0xff, 0x30], &[0x48, 0x89, 0xc7], &[]] {
            assert!(!X86_64::ends_with_call(code), "{code:x?}");
        }
    }

    #[test]
    fn stubs_name_their_slot() {
        let plain = [0xff, 0x25, 0x02, 0x30, 0, 0, 0x68, 0, 0, 0, 0];
        assert_eq!(X86_64::stub_slot(&plain, 0x1000), Some(0x4008));
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x02, 0x30, 0, 0];
        assert_eq!(X86_64::stub_slot(&marked, 0x1000), Some(0x400d));
        assert_eq!(X86_64::stub_slot(&[0x55, 0x48, 0x89, 0xe5], 0x1000), None);
        assert_eq!(X86_64::stub_slot(&[0xff, 0x25], 0x1000), None);
    }

    #[test]
    fn jumps_of_all_lengths_are_found() {
        let code = [
            0xeb, 0xfe, // jmp .
            0xe9, 0x10, 0, 0, 0, // jmp +16
            0x0f, 0x84, 0x20, 0, 0, 0, // je +32
            0xff, 0x25, 0x30, 0, 0, 0, // jmp *48(%rip)
            0xff, 0xe0, // jmp *%rax
            0xff, 0x60, 0x10, // jmp *0x10(%rax)
            0xff, 0x50, 0x10, // call *0x10(%rax)
            0xe9, // cut off
        ];
        let mut found = Vec::new();
        X86_64::jumps(&code, 0x1000, &mut |at, target| found.push((at, target)));
        assert_eq!(
            found,
            [
                (0x1000, CallTarget::Address(0x1000)),
                (0x1002, CallTarget::Address(0x1017)),
                (0x1007, CallTarget::Address(0x102d)),
                (0x100d, CallTarget::Slot(0x1043)),
                (0x1013, CallTarget::Anywhere),
                (0x1015, CallTarget::Anywhere),
            ]
        );
    }
}
