//! Where functions begin in aarch64 code, and code that does not return.
//!
//! Instructions are those of Arm's manual DDI 0487, chapter C6.

use std::collections::BTreeSet;

use crate::arch::aarch64::branches::flow_of;
use crate::arch::starts::StartFinder;
use recording::little_endian::u32_at;

const NOP: u32 = 0xd503_201f;
/// Instructions of code that ends a thread.
const MAX_LAST: usize = 8;

/// Adds the addresses at which functions begin.
pub(crate) fn find(code: &[u8], base: u64, starts: &mut BTreeSet<u64>) {
    let mut finder = StartFinder::new(base..base.saturating_add(code.len() as u64), starts);
    for (at, word) in (base..).step_by(4).zip(code.chunks_exact(4)) {
        let word = u32_at(word, 0).unwrap_or_default();
        finder.at(at..at.saturating_add(4), matches!(word, NOP | 0));
        finder.go_on(at, flow_of(word, at));
    }
    finder.finish();
}

/// True if this code ends the thread, by a system call or a call, and a trap follows.
pub(crate) fn never_returns(code: &[u8]) -> bool {
    for word in code.chunks_exact(4).take(MAX_LAST) {
        let word = u32_at(word, 0).unwrap_or_default();
        let is_call = matches!(word >> 24, 0x94..=0x97) || word & 0xffff_fc1f == 0xd63f_0000;
        // mov of a number, and of a register
        let is_move = word >> 23 & 0x1ff == 0b1_1010_0101 || word & 0x7fe0_ffe0 == 0x2a00_03e0;
        match word {
            // udf, brk, hlt
            0 => return true,
            word if matches!(word & 0xffe0_001f, 0xd420_0000 | 0xd440_0000) => return true,
            // svc #0
            0xd400_0001 | NOP => {}
            _ if is_call || is_move => {}
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn functions_begin_at_calls_and_behind_the_ends_of_others() {
        // 0 bl 24; 4 cbz x0, 12; 8 ret; 12 ret; 16 nop; 20 b 24; 24 ret; 28 udf; 32 nop
        let words = [
            0x9400_0006,
            0xb400_0040,
            0xd65f_03c0,
            0xd65f_03c0,
            NOP,
            0x1400_0001,
            0xd65f_03c0,
            0,
            NOP,
        ];
        let mut starts = BTreeSet::from([0x1000]);
        find(&code(&words), 0x1000, &mut starts);
        assert_eq!(starts, BTreeSet::from([0x1000, 0x1014, 0x1018]));
    }

    #[test]
    fn code_that_ends_a_thread_does_not_return() {
        // mov x8, #93; svc #0; brk #1
        assert!(never_returns(&code(&[0xd280_0ba8, 0xd400_0001, 0xd420_0020])));
        // mov x0, x1; ret
        assert!(!never_returns(&code(&[0xaa01_03e0, 0xd65f_03c0])) && !never_returns(&[]));
    }
}
