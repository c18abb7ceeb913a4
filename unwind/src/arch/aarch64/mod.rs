//! aarch64: following rows, going by frame pointer, and the signal frame.

mod branches;
mod compact;
mod frame;
mod prologue;
mod starts;

use std::collections::BTreeSet;

use crate::address::FrameAddress;
use gimli::{AArch64 as Dwarf, CfaRule, Register, RegisterRule, Vendor};

use crate::arch::aarch64::branches::words;
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

/// Offsets from sp in the signal return function (`struct rt_sigframe` in arch/arm64/kernel/signal.c; asm/ucontext.h;
/// asm/sigcontext.h): siginfo 128; flags 8, link 8, stack 24, signal mask padded to 128, up to a multiple of 16;
/// fault address 8, x0..x30, sp, pc.
const SIGCONTEXT: u64 = 128 + 176;
const SIGCONTEXT_X0: u64 = SIGCONTEXT + 8;
const SIGCONTEXT_FP: u64 = SIGCONTEXT_X0 + 29 * 8;
const SIGCONTEXT_LR: u64 = SIGCONTEXT_X0 + 30 * 8;
const SIGCONTEXT_SP: u64 = SIGCONTEXT_X0 + 31 * 8;
const SIGCONTEXT_PC: u64 = SIGCONTEXT_X0 + 32 * 8;

/// Offsets from the stack pointer at a signal handler's trampoline of macOS (`struct user_sigframe64` in XNU's
/// bsd/dev/arm/unix_signal.c; sys/_types/_ucontext.h; mach/arm/_structs.h): siginfo 104; onstack and mask 8, stack 24,
/// link 8, size and address of the machine context; the machine context: exception state 16, x0..x28, fp, lr, sp, pc.
const UC_MCSIZE: u64 = 104 + 40;
const UC_MCONTEXT: u64 = 104 + 48;
const MCONTEXT: u64 = 104 + 56;
const MCONTEXT_PC: u64 = MCONTEXT + 16 + 32 * 8;
/// Exception state, thread state 272, NEON state 528.
const MCONTEXT_SIZE: u64 = 16 + 272 + 528;

/// The machine.
pub(crate) enum Aarch64 {}

/// The registers that a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aarch64Regs {
    /// The bits of a return address that are its address. Pointer authentication signs it in the others.
    code_mask: u64,
    lr: u64,
    sp: u64,
    fp: u64,
}

impl Aarch64Regs {
    /// Registers in a process whose code ends at `highest_code`. The return address loses its signature.
    pub(crate) fn new(highest_code: u64, lr: u64, sp: u64, fp: u64) -> Aarch64Regs {
        let code_mask = u64::MAX >> highest_code.leading_zeros();
        let lr = lr & code_mask;
        Aarch64Regs { code_mask, lr, sp, fp }
    }

    /// The registers of another frame in the same process. The return address loses its signature.
    fn of_frame(&self, lr: u64, sp: u64, fp: u64) -> Aarch64Regs {
        let lr = lr & self.code_mask;
        Aarch64Regs { lr, sp, fp, ..*self }
    }

    /// Makes these the registers of the caller.
    fn go_to_caller(&mut self, lr: u64, sp: u64, fp: u64) -> Step {
        *self = self.of_frame(lr, sp, fp);
        match self.lr {
            0 => Step::NoReturnAddress(sp),
            ra => Step::Caller(ra),
        }
    }
}

impl Arch for Aarch64 {
    type Regs = Aarch64Regs;

    const MACHINE: Machine = Machine::Aarch64;
    const COLUMNS: DwarfColumns = DwarfColumns {
        vendor: Vendor::AArch64,
        fp: Dwarf::X29,
        ra: Dwarf::X30,
    };
    const CFA_AT_ENTRY: (Register, i64) = (Dwarf::SP, 0);
    const SIGNAL_RETURNS: &'static [&'static [u8]] = &[
        // mov x8, #139; svc #0 (the kernel's vdso, musl, bionic)
        &[0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4],
    ];

    // AAPCS64, "The Frame Pointer": "The location of the frame record within a stack frame is not specified."
    const RECORD_TOPS_FRAME: bool = false;
    // Every function that calls another one stores x29 and x30. CPython's trampolines do so as well.
    const LEAVES_BY_CODE: bool = false;

    // brk #5: BRK64_OPCODE_UPROBES. Debuggers have another number.
    const BREAKPOINT: &'static [u8] = &[0xa0, 0x00, 0x20, 0xd4];

    fn start(registers: &Registers, highest_code: u64) -> Option<(u64, Self::Regs)> {
        match *registers {
            Registers::Aarch64 { pc, sp, fp, lr } => {
                Some((pc, Aarch64Regs::new(highest_code.max(1 << 38), lr, sp, fp)))
            }
            Registers::X86_64 { .. } => None,
        }
    }

    fn sp(regs: &Self::Regs) -> u64 {
        regs.sp
    }

    fn fp(regs: &Self::Regs) -> u64 {
        regs.fp
    }

    fn unflag_fp(regs: &mut Self::Regs) {
        *regs = regs.of_frame(regs.lr, regs.sp, regs.fp & !SWIFT_ASYNC_FRAME);
    }

    fn registers(address: FrameAddress, regs: &Self::Regs) -> Registers {
        Registers::Aarch64 {
            pc: address.address(),
            sp: regs.sp,
            fp: regs.fp,
            lr: regs.lr,
        }
    }

    fn with_registers(regs: &Self::Regs, registers: &Registers) -> Self::Regs {
        match *registers {
            Registers::Aarch64 { sp, fp, lr, .. } => regs.of_frame(lr, sp, fp),
            Registers::X86_64 { .. } => *regs,
        }
    }

    fn is_root(row: &CfiRow) -> bool {
        row.ra == Some(RegisterRule::Undefined)
    }

    #[inline]
    fn step_by_rule(
        rule: &Rule,
        address: FrameAddress,
        regs: &mut Self::Regs,
        read: &mut impl FnMut(u64) -> Result<u64, Unreadable>,
    ) -> Step {
        let (sp, fp) = (regs.sp, regs.fp);
        let is_leaf = !address.is_return_address();
        let cfa = rule.cfa(sp, fp);
        let saved_ra = rule.saved_ra(cfa);
        // Only a leaf may still have its return address in lr, and only a leaf may have no stack of its own.
        if !is_leaf && saved_ra.is_none() {
            return Step::NoRule;
        }
        let Ok(caller_fp) = rule.saved_fp(cfa).map_or(Ok(fp), &mut *read) else {
            return Step::NoMemory;
        };
        let Ok(ra) = saved_ra.map_or(Ok(regs.lr), read) else {
            return Step::NoMemory;
        };
        if cfa > sp || (is_leaf && cfa == sp) {
            regs.go_to_caller(ra, cfa, caller_fp)
        } else {
            Step::NoRule
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
            Dwarf::SP => Some(regs.sp),
            Dwarf::X29 => Some(regs.fp),
            Dwarf::X30 => Some(regs.lr),
            Dwarf::PC => Some(address.address()),
            other => others.value(other),
        };
        // Only a leaf may still have its return address in lr, and only a leaf may have no stack of its own.
        let is_leaf = !address.is_return_address();
        if !is_leaf && matches!(row.ra, None | Some(RegisterRule::SameValue)) {
            return Step::NoRule;
        }
        match cfi.step(row, register, read) {
            Ok(Some((cfa, fp, ra))) if cfa > regs.sp || (is_leaf && cfa == regs.sp) => regs.go_to_caller(ra, cfa, fp),
            Ok(_) => others.failure(),
            Err(_) => Step::NoMemory,
        }
    }

    fn possible_stacks(
        row: &CfiRow,
        regs: &Self::Regs,
        read: &mut ReadStack<'_>,
    ) -> Option<PossibleStacks<Self::Regs>> {
        let CfaRule::RegisterAndOffset {
            register: Dwarf::SP,
            offset: size,
        } = row.cfa
        else {
            return None;
        };
        let ra = match row.ra {
            Some(RegisterRule::Offset(ra)) => ra,
            Some(RegisterRule::Undefined) => return None,
            _ => return Some(Vec::new()),
        };
        // Saved beside the return address, the frame pointer points there, unless the compiler has no use for one.
        let by_record = match row.fp {
            Some(RegisterRule::Offset(fp)) if fp.checked_add(8) == Some(ra) => {
                let sp = regs.fp.wrapping_sub(fp as u64).wrapping_sub(size as u64);
                let possible = (regs.sp..regs.sp.saturating_add(PLAUSIBLE_FRAME)).contains(&sp);
                (possible && sp % 16 == 0).then_some(sp)
            }
            _ => None,
        };
        let bound = Some(regs.sp).filter(|sp| by_record != Some(*sp));
        let stacks = [by_record, bound].into_iter().flatten().map(|sp| {
            let at = sp.wrapping_add_signed(size).wrapping_add_signed(ra);
            let stripped = regs.of_frame(read(at)?, sp, regs.fp).lr;
            Ok((regs.of_frame(regs.lr, sp, regs.fp), stripped))
        });
        Some(stacks.collect())
    }

    fn is_callee_saved(register: Register) -> bool {
        (19..=28).contains(&register.0)
    }

    fn place_in_signal_frame(register: Register) -> Option<u64> {
        (register.0 <= 30).then(|| SIGCONTEXT_X0 + u64::from(register.0) * 8)
    }

    fn ends_with_call(code: &[u8]) -> bool {
        // bl; blr and its kinds with pointer authentication
        let word = code.last_chunk().map(|word| u32::from_le_bytes(*word));
        word.is_some_and(|word| word >> 26 == 0b10_0101 || word & 0xfeff_f000 == 0xd63f_0000)
    }

    fn caller_by_frame(regs: &Self::Regs, read: &mut ReadStack<'_>) -> Result<(u64, Self::Regs), Step> {
        let (sp, fp) = (regs.sp, regs.fp);
        if fp == 0 {
            return Err(Step::FramePointerIsZero);
        }
        if !(sp..sp.saturating_add(PLAUSIBLE_FRAME)).contains(&fp) || fp % 8 != 0 || fp >= u64::MAX - 16 {
            return Err(Step::NoRule);
        }
        // (lr, sp, fp) = (*(fp + 8), fp + 16, *fp)
        let (Ok(new_fp), Ok(lr)) = (read(fp), read(fp + 8)) else {
            return Err(Step::NoMemory);
        };
        let caller = regs.of_frame(lr, fp + 16, new_fp);
        match caller.lr {
            0 => Err(Step::NoReturnAddress(fp + 16)),
            lr => Ok((lr, caller)),
        }
    }

    fn caller_of_leaf(regs: &Self::Regs, _read: &mut ReadStack<'_>) -> Option<(u64, Self::Regs)> {
        // (pc, sp, fp) = (lr, sp, fp)
        Some((regs.lr, *regs))
    }

    fn makes_frame(_code: &[u8], _end: u64) -> Option<bool> {
        None
    }

    fn step_by_code(
        address: FrameAddress,
        code: Option<&NearbyCode>,
        regs: &mut Self::Regs,
        _read: &mut ReadStack<'_>,
    ) -> Option<Step> {
        let code = code.filter(|_| !address.is_return_address())?;
        let in_use = prologue::stack_in_use(&code.before, &code.next)?;
        *regs = regs.of_frame(regs.lr, regs.sp.wrapping_add(in_use), regs.fp);
        Some(Step::Caller(regs.lr))
    }

    fn step_out_of_signal(regs: &mut Self::Regs, read: &mut ReadStack<'_>) -> Step {
        let frame = regs.sp;
        let mut field = |offset| read(frame.wrapping_add(offset));
        match (
            field(SIGCONTEXT_PC),
            field(SIGCONTEXT_SP),
            field(SIGCONTEXT_FP),
            field(SIGCONTEXT_LR),
        ) {
            (Ok(pc), Ok(sp), Ok(fp), Ok(lr)) => {
                *regs = regs.of_frame(lr, sp, fp);
                Step::Caller(pc)
            }
            _ => Step::NoMemory,
        }
    }

    fn step_out_of_trampoline(cfa: u64, regs: &mut Self::Regs, read: &mut ReadStack<'_>) -> Option<Step> {
        let mut field = |offset: u64| read(cfa.wrapping_add(offset));
        let is_frame = field(UC_MCSIZE) == Ok(MCONTEXT_SIZE) && field(UC_MCONTEXT) == Ok(cfa.wrapping_add(MCONTEXT));
        is_frame.then_some(())?;
        Some(
            match (
                field(MCONTEXT_PC),
                field(MCONTEXT_PC - 8),
                field(MCONTEXT_PC - 24),
                field(MCONTEXT_PC - 16),
            ) {
                (Ok(pc), Ok(sp), Ok(fp), Ok(lr)) => {
                    // arm64e signs all of them.
                    let strip = |value| regs.of_frame(value, 0, 0).lr;
                    let (pc, sp, fp) = (strip(pc), strip(sp), strip(fp));
                    *regs = regs.of_frame(lr, sp, fp);
                    Step::Interrupted(pc)
                }
                _ => Step::NoMemory,
            },
        )
    }

    fn compact_rule(encoding: u32, _word: &mut dyn FnMut(u64) -> Option<u32>) -> CompactRule {
        compact::rule(encoding)
    }

    fn rules_by_code(code: &[u8]) -> RulesByOffset {
        frame::rules(code)
    }

    fn function_starts(code: &[u8], base: u64, starts: &mut BTreeSet<u64>) {
        starts::find(code, base, starts);
    }

    fn return_register(_code: &[u8]) -> Option<Register> {
        None
    }

    fn never_returns(code: &[u8]) -> bool {
        starts::never_returns(code)
    }

    fn call_before(bytes: &[u8; CALL_BYTES], return_address: u64) -> Option<CallTarget> {
        let word = u32_at(bytes, CALL_BYTES - 4)?;
        // bl
        (word >> 26 == 0b10_0101)
            .then(|| CallTarget::Address(return_address.wrapping_sub(4).wrapping_add_signed(words(word, 0, 26))))
    }

    fn stub_slot(code: &[u8], address: u64) -> Option<u64> {
        // bti c; adrp x16, page; ldr x17, [x16, #offset]: the first is optional. In Mach-O files x16 is loaded.
        let start = if u32_at(code, 0)? == 0xd503_245f { 4 } else { 0 };
        let (adrp, ldr) = (u32_at(code, start)?, u32_at(code, start + 4)?);
        if adrp & 0x9f00_001f != 0x9000_0010 || ldr & 0xffc0_03fe != 0xf940_0210 {
            return None;
        }
        // 21 bits in units of 4 KiB: the upper 19 at bit 5, the lower 2 at bit 29.
        let pages = words(adrp, 5, 19) + i64::from(adrp >> 29 & 3);
        let page = address.wrapping_add(start as u64) & !0xfff;
        Some(
            page.wrapping_add_signed(pages << 12)
                .wrapping_add(u64::from(ldr >> 10 & 0xfff) * 8),
        )
    }

    fn jumps(code: &[u8], address: u64, found: &mut dyn FnMut(u64, CallTarget)) {
        for (at, word) in (address..).step_by(4).zip(code.chunks_exact(4)) {
            let word = u32_at(word, 0).unwrap_or_default();
            let offset = match word >> 24 {
                // b
                0x14..=0x17 => words(word, 0, 26),
                // b.cond, cbz, cbnz
                0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 => words(word, 5, 19),
                // tbz, tbnz
                0x36 | 0x37 | 0xb6 | 0xb7 => words(word, 5, 14),
                // br, braa and their kind; not blr, not ret
                0xd6 | 0xd7 if word >> 21 & 7 == 0 => {
                    found(at, CallTarget::Anywhere);
                    continue;
                }
                _ => continue,
            };
            found(at, CallTarget::Address(at.wrapping_add_signed(offset)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn calls_name_their_target() {
        // bl .-8, bl .+16, blr x8
        let before = |word: u32| {
            let [a, b, c, d] = word.to_le_bytes();
            Aarch64::call_before(&[0, 0, a, b, c, d], 0x1004)
        };
        assert_eq!(before(0x97ff_fffe), Some(CallTarget::Address(0xff8)));
        assert_eq!(before(0x9400_0004), Some(CallTarget::Address(0x1010)));
        assert_eq!(before(0xd63f_0100), None);
    }

    #[test]
    fn stubs_name_their_slot() {
        // adrp x16, +0x1f000; ldr x17, [x16, #0xfb8]; add x16, x16, #0xfb8; br x17
        let stub = [0xf000_00f0, 0xf947_de11, 0x913e_e210, 0xd61f_0220];
        assert_eq!(Aarch64::stub_slot(&code(&stub), 0x4010), Some(0x4000 + 0x1f000 + 0xfb8));
        let marked = [0xd503_245f, stub[0], stub[1]];
        assert_eq!(
            Aarch64::stub_slot(&code(&marked), 0x4010),
            Some(0x4000 + 0x1f000 + 0xfb8)
        );
        assert_eq!(Aarch64::stub_slot(&code(&stub[1..]), 0x4010), None);
    }

    #[test]
    fn jumps_of_all_kinds_are_found() {
        // b .+8, b.eq .-4, cbz x0, .+16, tbz w0, #3, .+32, ret, br x16, blr x8
        let instructions = [
            0x1400_0002,
            0x54ff_ffe0,
            0xb400_0080,
            0x3618_0100,
            0xd65f_03c0,
            0xd61f_0200,
            0xd63f_0100,
        ];
        let mut found = Vec::new();
        Aarch64::jumps(&code(&instructions), 0x1000, &mut |at, target| found.push((at, target)));
        let jumps = [(0x1000, 0x1008), (0x1004, 0x1000), (0x1008, 0x1018), (0x100c, 0x102c)];
        let (last, direct) = found.split_last().unwrap();
        assert_eq!(direct, jumps.map(|(at, to)| (at, CallTarget::Address(to))));
        assert_eq!(*last, (0x1014, CallTarget::Anywhere));
    }
}
