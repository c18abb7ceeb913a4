//! aarch64: framehop's types, the rows it follows, going by frame pointer, and the signal frame.

use std::cell::Cell;

use framehop::FrameAddress;
use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use gimli::{AArch64 as Dwarf, CfaRule, Register, RegisterRule, Vendor};

use super::arch::{Arch, ReadStack, Step};
use super::cfi::{Columns, Place, Row};
use super::tables::{Rules, Tables};
use super::walk::PLAUSIBLE_FRAME;
use crate::stack::Registers;

/// Offsets from sp in the signal return function (`struct rt_sigframe` in arch/arm64/kernel/signal.c; asm/ucontext.h;
/// asm/sigcontext.h): siginfo 128; flags 8, link 8, stack 24, signal mask padded to 128, up to a multiple of 16;
/// fault address 8, x0..x30, sp, pc.
const SIGCONTEXT: u64 = 128 + 176;
const SIGCONTEXT_X0: u64 = SIGCONTEXT + 8;
const SIGCONTEXT_FP: u64 = SIGCONTEXT_X0 + 29 * 8;
const SIGCONTEXT_LR: u64 = SIGCONTEXT_X0 + 30 * 8;
const SIGCONTEXT_SP: u64 = SIGCONTEXT_X0 + 31 * 8;
const SIGCONTEXT_PC: u64 = SIGCONTEXT_X0 + 32 * 8;

/// The machine.
pub(super) enum Aarch64 {}

/// framehop keeps the return address signed, and strips it where it is used.
fn caller(regs: &UnwindRegsAarch64, lr: u64, sp: u64, fp: u64) -> UnwindRegsAarch64 {
    UnwindRegsAarch64::new_with_ptr_auth_mask(regs.lr_mask(), lr, sp, fp)
}

impl Arch for Aarch64 {
    type Regs = UnwindRegsAarch64;
    type Unwinder = UnwinderAarch64<std::sync::Arc<[u8]>>;
    type Cache = CacheAarch64;

    const COLUMNS: Columns = Columns {
        vendor: Vendor::AArch64,
        fp: Dwarf::X29,
        ra: Dwarf::X30,
    };
    const SIGNAL_RETURNS: &'static [&'static [u8]] = &[
        // mov x8, #139; svc #0 (the kernel's vdso, musl, bionic)
        &[0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4],
    ];

    fn start(registers: &Registers, highest_code: u64) -> Option<(u64, Self::Regs)> {
        match *registers {
            Registers::Aarch64 { pc, sp, fp, lr } => {
                let mask = PtrAuthMask::from_max_known_address(highest_code.max(1 << 38));
                Some((pc, UnwindRegsAarch64::new_with_ptr_auth_mask(mask, lr, sp, fp)))
            }
            Registers::X86_64 { .. } => None,
        }
    }

    fn sp(regs: &Self::Regs) -> u64 {
        regs.sp()
    }

    fn rules(tables: &mut Tables) -> Option<&mut Rules<Self>> {
        match tables {
            Tables::Aarch64(rules) => Some(rules),
            Tables::X86_64(_) => None,
        }
    }

    fn place(row: &Row) -> Place {
        let offset_of = |rule: &Option<RegisterRule<usize>>| match rule {
            None | Some(RegisterRule::SameValue) => Ok(None),
            Some(RegisterRule::Offset(offset)) if offset % 8 == 0 && offset.unsigned_abs() < 1 << 18 => {
                Ok(Some(*offset))
            }
            _ => Err(()),
        };
        let usual = match (&row.cfa, offset_of(&row.fp), offset_of(&row.ra)) {
            _ if row.ra == Some(RegisterRule::Undefined) => return Place::Root,
            // framehop counts offsets of the stack pointer in units of 16 bytes, in 16 bits.
            (
                CfaRule::RegisterAndOffset {
                    register: Dwarf::SP,
                    offset,
                },
                Ok(fp),
                Ok(ra),
            ) => {
                let near = |rule: Option<i64>| rule.is_none_or(|rule| (offset + rule).unsigned_abs() < 1 << 18);
                (0..1 << 18).contains(offset)
                    && offset % 16 == 0
                    && near(fp)
                    && near(ra)
                    && (ra.is_some() || fp.is_none())
            }
            (
                CfaRule::RegisterAndOffset {
                    register: Dwarf::X29,
                    offset,
                },
                Ok(Some(fp)),
                Ok(Some(ra)),
            ) => {
                let near = |rule: i64| (offset + rule).unsigned_abs() < 1 << 18;
                (0..1 << 18).contains(offset) && offset % 8 == 0 && near(fp) && near(ra)
            }
            _ => false,
        };
        if usual { Place::Rule } else { Place::Unusual }
    }

    fn step_by_row(
        rules: &Rules<Self>,
        row: &Row,
        address: FrameAddress,
        saved: Option<(Register, u64)>,
        regs: &mut Self::Regs,
        read: &mut ReadStack<'_>,
    ) -> Step {
        let lost = Cell::new(None);
        let register = |register| match register {
            Dwarf::SP => Some(regs.sp()),
            Dwarf::X29 => Some(regs.fp()),
            Dwarf::X30 => Some(regs.lr()),
            Dwarf::PC => Some(address.address()),
            other => {
                let value = saved.filter(|(saved, _)| *saved == other).map(|(_, value)| value);
                if value.is_none() {
                    lost.set(Some(other));
                }
                value
            }
        };
        // Only a leaf may still have its return address in lr, and only a leaf may have no stack of its own.
        let is_leaf = !address.is_return_address();
        if !is_leaf && matches!(row.ra, None | Some(RegisterRule::SameValue)) {
            return Step::NoRule;
        }
        match rules.cfi.step(row, register, read) {
            Ok(Some((cfa, fp, ra))) if cfa > regs.sp() || (is_leaf && cfa == regs.sp()) => {
                *regs = caller(regs, ra, cfa, fp);
                if regs.lr() == 0 {
                    Step::Root
                } else {
                    Step::Caller(regs.lr())
                }
            }
            Ok(_) => lost.get().map_or(Step::NoRule, Step::NeedsRegister),
            Err(_) => Step::NoMemory,
        }
    }

    fn step_by_guess(
        address: FrameAddress,
        in_tables: bool,
        regs: &mut Self::Regs,
        read: &mut ReadStack<'_>,
        is_code: &dyn Fn(u64) -> bool,
    ) -> Step {
        let (sp, fp) = (regs.sp(), regs.fp());
        // A leaf in assembly seldom makes a frame: (pc, sp, fp) = (lr, sp, fp).
        let is_leaf = !address.is_return_address();
        if is_leaf && in_tables && is_code(regs.lr()) {
            return Step::Guess(regs.lr());
        }
        if fp == 0 {
            return Step::FramePointerIsZero;
        }
        // (lr, sp, fp) = (*(fp + 8), fp + 16, *fp)
        if (sp..sp.saturating_add(PLAUSIBLE_FRAME)).contains(&fp) && fp % 8 == 0 && fp < u64::MAX - 16 {
            match (read(fp), read(fp + 8)) {
                (Ok(new_fp), Ok(lr)) => {
                    let caller = caller(regs, lr, fp + 16, new_fp);
                    if caller.lr() == 0 {
                        return Step::Root;
                    }
                    if is_code(caller.lr()) {
                        *regs = caller;
                        return Step::Guess(caller.lr());
                    }
                }
                _ => return Step::NoMemory,
            }
        }
        if is_leaf && is_code(regs.lr()) {
            return Step::Guess(regs.lr());
        }
        Step::NoRule
    }

    fn step_out_of_signal(regs: &mut Self::Regs, read: &mut ReadStack<'_>) -> Step {
        let frame = regs.sp();
        let mut field = |offset| read(frame.wrapping_add(offset));
        match (
            field(SIGCONTEXT_PC),
            field(SIGCONTEXT_SP),
            field(SIGCONTEXT_FP),
            field(SIGCONTEXT_LR),
        ) {
            (Ok(pc), Ok(sp), Ok(fp), Ok(lr)) => {
                *regs = caller(regs, lr, sp, fp);
                Step::Caller(pc)
            }
            _ => Step::NoMemory,
        }
    }
}
