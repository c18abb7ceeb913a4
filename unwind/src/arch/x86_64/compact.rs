//! Compact entries of x86_64.

use crate::arch::CompactRule;
use crate::arch::rule::{CfaBase, Rule};

/// `<mach-o/compact_unwind_encoding.h>`
const UNWIND_X86_64_MODE_MASK: u32 = 0x0f00_0000;
const UNWIND_X86_64_MODE_RBP_FRAME: u32 = 0x0100_0000;
const UNWIND_X86_64_MODE_STACK_IMMD: u32 = 0x0200_0000;
const UNWIND_X86_64_MODE_STACK_IND: u32 = 0x0300_0000;
const UNWIND_X86_64_MODE_DWARF: u32 = 0x0400_0000;
const UNWIND_X86_64_REG_RBP: u32 = 6;

/// What an entry says. `word` reads 4 bytes of the function's code.
pub(crate) fn rule(encoding: u32, word: &mut dyn FnMut(u64) -> Option<u32>) -> CompactRule {
    let size = i64::from(encoding >> 16 & 0xff);
    let rule = match encoding & UNWIND_X86_64_MODE_MASK {
        UNWIND_X86_64_MODE_RBP_FRAME => Rule::from_frame_record(),
        UNWIND_X86_64_MODE_STACK_IMMD => frameless(encoding, size * 8),
        // The size is in the instruction that moves the stack pointer; pushed registers come on top.
        UNWIND_X86_64_MODE_STACK_IND => word(size as u64).and_then(|by| {
            let pushed = i64::from(encoding >> 13 & 7) * 8;
            frameless(encoding, i64::from(by) + pushed)
        }),
        UNWIND_X86_64_MODE_DWARF => return CompactRule::Dwarf,
        _ => None,
    };
    rule.map_or(CompactRule::None, CompactRule::Rule)
}

/// The rule of a function without a frame pointer. `cfa`: how far its caller's stack pointer is above its own.
///
/// It has pushed registers that are numbered 1 to 6: rbx, r12 to r15 and rbp. Their order is one number, made of
/// choices: which of the registers that are left comes next. The last one is beside the return address.
fn frameless(encoding: u32, cfa: i64) -> Option<Rule> {
    let count = (encoding >> 10 & 7).min(6);
    let mut order = encoding & 0x3ff;
    let mut choose = |at| match at {
        0 => order,
        at => {
            let left = 6 - at;
            let choice = order % left;
            order /= left;
            choice
        }
    };
    let mut choices: Vec<u32> = (0..count).rev().map(&mut choose).collect();
    choices.reverse();
    let mut left: Vec<u32> = (1..=UNWIND_X86_64_REG_RBP).collect();
    let mut next = |choice: u32| {
        let choice = usize::try_from(choice).ok().filter(|choice| *choice < left.len())?;
        Some(left.remove(choice))
    };
    let pushed: Vec<u32> = { choices.into_iter() }.map(&mut next).collect::<Option<_>>()?;
    let rbp = pushed
        .iter()
        .rev()
        .position(|register| *register == UNWIND_X86_64_REG_RBP);
    Rule::new(CfaBase::StackPointer, cfa, rbp.map(|at| -16 - 8 * at as i64), Some(-8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_entries_say_where_the_frame_pointer_is() {
        // As clang numbers the order of six registers, by how many smaller ones are left before each: 120, 24, 6, 2, 1.
        let rule = |mode: u32, size: u32, count: u32, order: u32| {
            super::rule(mode | size << 16 | count << 10 | order, &mut |_| Some(4000))
        };
        let frameless = |cfa, fp| CompactRule::Rule(Rule::new(CfaBase::StackPointer, cfa, fp, Some(-8)).unwrap());
        // rbx r12 r14 r15 rbp: choices 0 0 1 1 1.
        assert_eq!(
            rule(UNWIND_X86_64_MODE_STACK_IMMD, 7, 5, 6 + 2 + 1),
            frameless(56, Some(-16))
        );
        // rbx rbp r12: choices 0 4 0, in units of 20, 4 and 1.
        assert_eq!(rule(UNWIND_X86_64_MODE_STACK_IMMD, 5, 3, 16), frameless(40, Some(-24)));
        // All six, rbp first: choices 5 0 0 0 0.
        assert_eq!(rule(UNWIND_X86_64_MODE_STACK_IMMD, 8, 6, 600), frameless(64, Some(-56)));
        assert_eq!(rule(UNWIND_X86_64_MODE_STACK_IMMD, 1, 0, 0), frameless(8, None));
        // The instruction has moved the stack pointer by 4000, after 3 registers and the return address.
        let adjusted = UNWIND_X86_64_MODE_STACK_IND | 4 << 13;
        assert_eq!(rule(adjusted, 9, 0, 0), frameless(4032, None));
        // More than there are orders.
        assert_eq!(rule(UNWIND_X86_64_MODE_STACK_IMMD, 8, 6, 0x3ff), CompactRule::None);
        assert_eq!(rule(UNWIND_X86_64_MODE_DWARF, 0, 0, 7), CompactRule::Dwarf);
        assert_eq!(rule(0, 0, 0, 0), CompactRule::None);
    }
}
