//! The start and the end of an aarch64 function, read as the processor will run it. For code without rules.
//!
//! There the frame pointer is the caller's: one who goes by it takes the caller's caller for the caller. The return address is
//! still, or again, in lr. Instructions are those of Arm's manual DDI 0487, chapter C6.

use super::elf::u32_at;

const BTI_C: u32 = 0xd503_245f;
const PACIASP: u32 = 0xd503_233f;
const PACIBSP: u32 = 0xd503_237f;
const AUTIASP: u32 = 0xd503_23bf;
const AUTIBSP: u32 = 0xd503_23ff;
const RET: u32 = 0xd65f_03c0;
const RETAA: u32 = 0xd65f_0bff;
const RETAB: u32 = 0xd65f_0fff;

/// How far the stack pointer is below the caller's, if a function starts or ends here: `before` are the two instructions that
/// were run last, `next` those that come. `None`: it does not.
pub(super) fn stack_in_use(before: &[u8; 8], next: &[u8]) -> Option<u64> {
    entered(before, next).or_else(|| left(next))
}

fn entered(before: &[u8; 8], next: &[u8]) -> Option<u64> {
    let mut words = (0..).map_while(|at| u32_at(next, at * 4));
    let first = words.find(|word| !matches!(*word, BTI_C | PACIASP | PACIBSP))?;
    let (last_but_one, last) = (u32_at(before, 0)?, u32_at(before, 4)?);
    if stores_record_and_moves(first).is_some()
        || (moves_down(first).is_some() && words.next().is_some_and(stores_record))
    {
        return Some(0);
    }
    if stores_record(first) {
        return moves_down(last);
    }
    if !makes_frame(first) {
        return None;
    }
    stores_record_and_moves(last).or_else(|| moves_down(last_but_one).filter(|_| stores_record(last)))
}

fn left(next: &[u8]) -> Option<u64> {
    let mut in_use = 0;
    for at in 0.. {
        let word = u32_at(next, at * 4)?;
        match word {
            AUTIASP | AUTIBSP => {}
            RET | RETAA | RETAB => return Some(in_use),
            _ => in_use += moves_up(word)?,
        }
    }
    None
}

/// `stp x29, x30, [sp, #-bytes]!`
fn stores_record_and_moves(word: u32) -> Option<u64> {
    let bytes = (64 - u64::from(word >> 15 & 0x3f)) * 8;
    (word & 0xffe0_7fff == 0xa9a0_7bfd).then_some(bytes)
}

/// `stp x29, x30, [sp, #bytes]`
fn stores_record(word: u32) -> bool {
    word & 0xffe0_7fff == 0xa900_7bfd
}

/// `sub sp, sp, #bytes`
fn moves_down(word: u32) -> Option<u64> {
    immediate(word, 0xd100_03ff)
}

/// `add sp, sp, #bytes`
fn moves_up(word: u32) -> Option<u64> {
    immediate(word, 0x9100_03ff)
}

/// `add x29, sp, #bytes`, which is `mov x29, sp` for 0.
fn makes_frame(word: u32) -> bool {
    immediate(word, 0x9100_03fd).is_some()
}

/// 12 bits at bit 10, in units of 4 KiB if bit 22 is set.
fn immediate(word: u32, instruction: u32) -> Option<u64> {
    let shift = if word & 1 << 22 == 0 { 0 } else { 12 };
    (word & 0xff80_03ff == instruction).then_some(u64::from(word >> 10 & 0xfff) << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in use at each instruction of a function.
    fn at_each(words: &[u32]) -> Vec<Option<u64>> {
        let bytes = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
        (0..words.len())
            .map(|at| {
                let code = bytes(&[&[0, 0], words].concat());
                let before = code[at * 4..].first_chunk().unwrap();
                stack_in_use(before, &code[at * 4 + 8..])
            })
            .collect()
    }

    // Words as `objdump -d` shows them.
    #[test]
    fn a_record_at_the_bottom_of_the_frame() {
        let function = [
            PACIASP,
            0xa9be_7bfd, // stp x29, x30, [sp, #-32]!
            0x9100_03fd, // mov x29, sp
            0xa901_53f3, // stp x19, x20, [sp, #16]
            0xd63f_0280, // blr x20
            0xa941_53f3, // ldp x19, x20, [sp, #16]
            0xa8c2_7bfd, // ldp x29, x30, [sp], #32
            AUTIASP,
            RET,
        ];
        let rest = [None, None, None, None, Some(0), Some(0)];
        assert_eq!(at_each(&function), [&[Some(0), Some(0), Some(32)][..], &rest].concat());
    }

    #[test]
    fn a_record_at_the_top_of_the_frame() {
        let function = [
            BTI_C,
            0xd100_83ff, // sub sp, sp, #32
            0xa901_7bfd, // stp x29, x30, [sp, #16]
            0x9100_43fd, // add x29, sp, #16
            0xd63f_0280, // blr x20
            0xa941_7bfd, // ldp x29, x30, [sp, #16]
            0x9100_83ff, // add sp, sp, #32
            RET,
        ];
        let rest = [None, None, Some(32), Some(0)];
        assert_eq!(
            at_each(&function),
            [&[Some(0), Some(0), Some(32), Some(32)][..], &rest].concat()
        );
    }

    #[test]
    fn the_body_of_a_function_is_neither() {
        // Space for locals alone; another pair of registers; the frame pointer from elsewhere; ret x1.
        let words = [0xd100_83ff, 0xa9bf_4ff4, 0x9100_03fd, 0xaa00_03fd, 0xd65f_0020];
        assert_eq!(at_each(&words), [None; 5]);
    }
}
