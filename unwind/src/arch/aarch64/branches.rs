//! Where aarch64 instructions go.
//!
//! Instructions are those of Arm's manual DDI 0487, chapter C6.

use crate::arch::starts::NextInstruction;

/// How code goes on behind the instruction at `at`.
pub(crate) fn flow_of(word: u32, at: u64) -> NextInstruction {
    let to = |first_bit, bits| at.wrapping_add_signed(words(word, first_bit, bits));
    match word >> 24 {
        // b; bl
        0x14..=0x17 => NextInstruction::Jump(to(0, 26)),
        0x94..=0x97 => NextInstruction::Call(Some(to(0, 26))),
        // b.cond, cbz, cbnz; tbz, tbnz
        0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 => NextInstruction::Maybe(to(5, 19)),
        0x36 | 0x37 | 0xb6 | 0xb7 => NextInstruction::Maybe(to(5, 14)),
        // blr; br; ret; and their kinds
        0xd6 | 0xd7 if word >> 21 & 7 == 1 => NextInstruction::Call(None),
        0xd6 | 0xd7 if word >> 21 & 7 == 0 => NextInstruction::JumpAnywhere,
        0xd6 | 0xd7 => NextInstruction::End,
        // brk, hlt; udf
        0xd4 if matches!(word >> 21 & 7, 1 | 2) => NextInstruction::End,
        0 => NextInstruction::End,
        _ => NextInstruction::Next,
    }
}

/// A signed field of an instruction, in units of 4.
pub(crate) fn words(instruction: u32, first_bit: u32, bits: u32) -> i64 {
    let field = (instruction << (32 - bits - first_bit)) as i32 >> (32 - bits);
    i64::from(field) * 4
}
