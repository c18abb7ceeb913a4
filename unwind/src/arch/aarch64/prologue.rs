//! The start and the end of an aarch64 function, read as the processor will run it. For code without rules.
//!
//! There the frame pointer is the caller's: going by frame pointer gives the caller's caller. The return address is in
//! lr. Instructions are those of Arm's manual DDI 0487, chapter C6.
//!
//! On the emulated machine, whose interrupts come at calls and returns, 83 % of the samples of a function that only
//! makes and leaves its frame had the wrong caller by frame pointer; by code none has.

/// `bti c`, `paciasp`, `pacibsp`, and at the end `autiasp`, `autibsp`.
const HINTS: [u32; 5] = [0xd503_245f, 0xd503_233f, 0xd503_237f, 0xd503_23bf, 0xd503_23ff];
/// `ret`, `retaa`, `retab`.
const RETURNS: [u32; 3] = [0xd65f_03c0, 0xd65f_0bff, 0xd65f_0fff];
const LR: u32 = 30;

/// How far the stack pointer is below the caller's, if a function starts or ends here: `before` are the instructions
/// that were run last, `next` those that come. `None`: it does not, or not in a way that is known.
pub(crate) fn stack_in_use(before: &[u8], next: &[u8]) -> Option<u64> {
    entered(before, next).or_else(|| left(next))
}

/// Registers are stored, and the stack pointer is moved down for them, until the frame pointer is set.
fn entered(before: &[u8], next: &[u8]) -> Option<u64> {
    let mut moves_yet = false;
    for word in words(next) {
        if makes_frame(word) {
            break;
        }
        moves_yet |= moved_down(word)? > 0;
    }
    words(next).find(|word| makes_frame(*word))?;
    let in_use = words(before).rev().map_while(moved_down).sum();
    (moves_yet || in_use > 0).then_some(in_use)
}

/// By how much an instruction of a function's start moves the stack pointer down; `None` for others.
fn moved_down(word: u32) -> Option<u64> {
    // sub sp, sp, #bytes
    immediate(word, 0xd100_03ff).or_else(|| match word & 0xffc0_03e0 {
        // stp x, x, [sp, #-bytes]!; stp d, d
        0xa980_03e0 | 0x6d80_03e0 => Some(128u64.checked_sub(pair_offset(word)).filter(|n| *n <= 64)? * 8),
        // stp x, x, [sp, #bytes]; stp d, d; str x
        0xa900_03e0 | 0x6d00_03e0 | 0xf900_03e0 => Some(0),
        _ => HINTS.contains(&word).then_some(0),
    })
}

/// Registers are loaded, but no more the return address, until it returns.
fn left(next: &[u8]) -> Option<u64> {
    let mut in_use = 0;
    for word in words(next) {
        if RETURNS.contains(&word) {
            return Some(in_use);
        }
        in_use += moved_up(word)?;
    }
    None
}

/// By how much an instruction of a function's end moves the stack pointer up; `None` for others.
fn moved_up(word: u32) -> Option<u64> {
    let (one, other) = (word & 31, word >> 10 & 31);
    // add sp, sp, #bytes
    immediate(word, 0x9100_03ff).or_else(|| match word & 0xffc0_03e0 {
        // ldp x, x, [sp], #bytes; ldp x, x, [sp, #bytes]
        0xa8c0_03e0 | 0xa940_03e0 if one == LR || other == LR => None,
        0xa8c0_03e0 => Some(pair_offset(word)).filter(|n| *n < 64).map(|n| n * 8),
        // ldr x, [sp, #bytes]
        0xf940_03e0 if one == LR => None,
        0xa940_03e0 | 0xf940_03e0 | 0x6d40_03e0 => Some(0),
        // ldp d, d, [sp], #bytes
        0x6cc0_03e0 => Some(pair_offset(word)).filter(|n| *n < 64).map(|n| n * 8),
        _ => HINTS.contains(&word).then_some(0),
    })
}

/// `add x29, sp, #bytes`, which is `mov x29, sp` for 0.
fn makes_frame(word: u32) -> bool {
    immediate(word, 0x9100_03fd).is_some()
}

/// 7 bits with sign, in units of 8 bytes.
fn pair_offset(word: u32) -> u64 {
    u64::from(word >> 15 & 0x7f)
}

/// 12 bits at bit 10, in units of 4 KiB if bit 22 is set.
fn immediate(word: u32, instruction: u32) -> Option<u64> {
    let shift = if word & 1 << 22 == 0 { 0 } else { 12 };
    (word & 0xff80_03ff == instruction).then_some(u64::from(word >> 10 & 0xfff) << shift)
}

fn words(code: &[u8]) -> impl DoubleEndedIterator<Item = u32> {
    code.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACIASP: u32 = HINTS[1];
    const AUTIASP: u32 = HINTS[3];
    const RET: u32 = RETURNS[0];

    /// What is in use at each instruction of a function, which comes after another one.
    fn at_each(function: &[u32]) -> Vec<Option<u64>> {
        let words = [&[0xa8c2_7bfd, RET], function].concat();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        (2..words.len())
            .map(|at| stack_in_use(&bytes[..at * 4], &bytes[at * 4..]))
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
            HINTS[0],
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
    fn as_clang_makes_frames() {
        let function = [
            0xa9bd_57f6, // stp x22, x21, [sp, #-48]!
            0xa901_4ff4, // stp x20, x19, [sp, #16]
            0xa902_7bfd, // stp x29, x30, [sp, #32]
            0x9100_83fd, // add x29, sp, #32
            0xd63f_0280, // blr x20
            0xa942_7bfd, // ldp x29, x30, [sp, #32]
            0xa941_4ff4, // ldp x20, x19, [sp, #16]
            0xa8c3_57f6, // ldp x22, x21, [sp], #48
            RET,
        ];
        let start = [Some(0), Some(48), Some(48), Some(48)];
        let end = [None, None, Some(48), Some(48), Some(0)];
        assert_eq!(at_each(&function), [&start[..], &end].concat());
        // Moved down twice.
        let start = [0x6dbf_23e9, 0xd100_83ff, 0xa901_7bfd, 0x9100_43fd];
        assert_eq!(at_each(&start), [Some(0), Some(16), Some(48), Some(48)]);
    }

    #[test]
    fn anything_else_is_neither() {
        // Space without a frame pointer; the frame pointer from elsewhere; ret x1; sp without space; mov x29, sp alone.
        for function in [
            &[0xd100_83ff, 0xa901_53f3, 0xd63f_0280][..],
            &[0xa9bf_7bfd, 0xaa00_03fd],
            &[0x9100_83ff, 0xd65f_0020],
            &[0xa901_53f3, 0x9100_03fd],
            &[],
        ] {
            assert_eq!(at_each(function), vec![None; function.len()], "{function:x?}");
        }
    }
}
