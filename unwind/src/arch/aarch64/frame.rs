//! The frame of an aarch64 function at each of its instructions, from its code.
//!
//! Instructions are those of Arm's manual DDI 0487, chapter C6.

use crate::arch::frame_scan::{self, FrameScan, RulesByOffset, SavedRegister};
use crate::arch::rule::{CfaBase, Rule};
use recording::little_endian::u32_at;

const FP: u32 = 29;
const LR: u32 = 30;
/// As a base, and where an instruction for addresses has its result.
const SP: u32 = 31;

/// `orr x29, x29, #1 << 60` and `and x29, x29, #!(1 << 60)`: Swift flags the frame pointer before it stores it.
const FLAGS_FP: [u32; 2] = [0xb244_03bd, 0x9243_fbbd];

/// The frame before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Aarch64Frame {
    /// CFA - sp. `None`: the function has moved it by a value that it computed.
    sp: Option<i64>,
    /// CFA - x29, from where x29 points to the frame record.
    fp: Option<i64>,
    callers_fp: SavedRegister,
    callers_lr: SavedRegister,
}

/// The rules of a function.
pub(crate) fn rules(code: &[u8]) -> RulesByOffset {
    let entry = Aarch64Frame {
        sp: Some(0),
        fp: None,
        callers_fp: SavedRegister::InRegister,
        callers_lr: SavedRegister::InRegister,
    };
    frame_scan::rules(entry, |pass| scan(code, pass))
}

fn scan(code: &[u8], pass: &mut FrameScan<Aarch64Frame>) {
    for at in (0..code.len()).step_by(4) {
        let Some(word) = u32_at(code, at) else { break };
        let Some(frame) = pass.at(at) else {
            continue;
        };
        let to = |offset: i64| usize::try_from((at as i64).checked_add(offset)?).ok();
        match word >> 24 {
            // b; bl
            0x14..=0x17 => {
                pass.jump(to(field(word, 0, 26) * 4), frame);
                pass.end();
            }
            0x94..=0x97 => pass.go_on(Aarch64Frame {
                callers_lr: frame.callers_lr.lost(),
                ..frame
            }),
            // b.cond, cbz, cbnz; tbz, tbnz
            0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 => {
                let frame = pass.jump(to(field(word, 5, 19) * 4), frame);
                pass.go_on(frame);
            }
            0x36 | 0x37 | 0xb6 | 0xb7 => {
                let frame = pass.jump(to(field(word, 5, 14) * 4), frame);
                pass.go_on(frame);
            }
            // blr and its kinds; br, ret and theirs
            0xd6 | 0xd7 if word >> 21 & 7 == 1 => pass.go_on(Aarch64Frame {
                callers_lr: frame.callers_lr.lost(),
                ..frame
            }),
            0xd6 | 0xd7 if word >> 21 & 7 == 0 => pass.jump_anywhere(frame),
            0xd6 | 0xd7 => pass.end(),
            // brk, and what is no instruction
            0xd4 if word >> 21 & 7 == 1 => pass.end(),
            0 => pass.end(),
            _ if FLAGS_FP.contains(&word) => pass.go_on(frame),
            _ => pass.go_on(frame.after(word)),
        }
    }
}

impl frame_scan::ScannedFrame for Aarch64Frame {
    fn rule(self) -> Option<Rule> {
        let (base, cfa) = match (self.fp, self.sp) {
            (Some(cfa), _) => (CfaBase::FramePointer, cfa),
            (None, cfa) => (CfaBase::StackPointer, cfa?),
        };
        Rule::new(
            base,
            cfa,
            self.callers_fp.place(self.sp)?,
            self.callers_lr.place(self.sp)?,
        )
    }

    fn sp(self) -> Option<i64> {
        self.sp
    }

    fn without_sp(self) -> Aarch64Frame {
        Aarch64Frame { sp: None, ..self }
    }
}

impl Aarch64Frame {
    /// The frame behind an instruction that does not jump.
    fn after(self, word: u32) -> Aarch64Frame {
        let (rd, rn) = (word & 31, word >> 5 & 31);
        // add and sub, immediate, of 64 bits
        if word & 0xbf80_0000 == 0x9100_0000 {
            let value = i64::from(word >> 10 & 0xfff) << (12 * (word >> 22 & 1));
            let value = if word >> 30 & 1 == 1 { -value } else { value };
            return self.after_add(rd, rn, value);
        }
        match word >> 25 & 0xf {
            // Loads and stores.
            0b0100 | 0b0110 | 0b1100 | 0b1110 => self.after_access(word),
            // Data processing: what else has the stack pointer as a result is add and sub with an extended register,
            // and logical ones.
            0b1000 | 0b1001 | 0b0101 | 0b1101 => match rd {
                SP if writes_sp(word) => Aarch64Frame { sp: None, ..self },
                _ => self.after_write(rd),
            },
            _ => self,
        }
    }

    /// `rd = rn + value`
    fn after_add(self, rd: u32, rn: u32, value: i64) -> Aarch64Frame {
        let cfa = match rn {
            SP => self.sp,
            FP => self.fp,
            _ => None,
        };
        // CFA - rd
        let cfa = cfa.and_then(|cfa| cfa.checked_sub(value));
        match rd {
            SP => Aarch64Frame { sp: cfa, ..self },
            FP => Aarch64Frame {
                fp: cfa,
                ..self.after_write(FP)
            },
            _ => self.after_write(rd),
        }
    }

    /// The general register has another value.
    fn after_write(self, register: u32) -> Aarch64Frame {
        match register {
            FP => Aarch64Frame {
                fp: None,
                callers_fp: self.callers_fp.lost(),
                ..self
            },
            LR => Aarch64Frame {
                callers_lr: self.callers_lr.lost(),
                ..self
            },
            _ => self,
        }
    }

    fn after_access(self, word: u32) -> Aarch64Frame {
        let (rt, rn, rt2) = (word & 31, word >> 5 & 31, word >> 10 & 31);
        let is_vector = word >> 26 & 1 == 1;
        // Pairs of 64 bits: opc 10, for vectors 01 (d) and 10 (q); bits 23 and 24: with write-back behind, offset, with
        // write-back before.
        let is_pair = word >> 27 & 7 == 0b101;
        let is_load = word >> 22 & if is_pair { 1 } else { 3 } != 0;
        let (size, offset, mode) = if is_pair {
            let size = match (is_vector, word >> 30) {
                (false, 0b10) | (true, 0b01) => 8,
                (true, 0b10) => 16,
                _ => 4,
            };
            (size, field(word, 15, 7) * size, word >> 23 & 3)
        } else if word >> 27 & 7 == 0b111 && word >> 24 & 1 == 1 {
            // One register, with an offset that has no sign, in units of the size.
            let size = 1 << (word >> 30);
            (size, i64::from(word >> 10 & 0xfff) * size, 0b10)
        } else if word >> 27 & 7 == 0b111 && word >> 21 & 1 == 0 {
            // With an offset in bytes: 00 without write-back, 01 behind, 11 before.
            let mode = [0b10, 0b01, 0b10, 0b11][(word >> 10 & 3) as usize];
            (1 << (word >> 30), field(word, 12, 9), mode)
        } else {
            // By a register, exclusive, from a literal, or a structure of vectors: none of a frame.
            let is_literal = word >> 27 & 7 == 0b011;
            return match !is_vector && (is_load || is_literal) {
                true => self.after_write(rt),
                false => self,
            };
        };
        let writes_back = mode != 0b10 && mode != 0;
        let base = match rn {
            SP => self.sp,
            FP => self.fp,
            _ => None,
        };
        // The address, from the CFA.
        let at = base.and_then(|cfa| (if mode == 0b01 { 0 } else { offset }).checked_sub(cfa));
        let mut next = self;
        if writes_back {
            next = next.after_add(rn, rn, offset);
        }
        if is_vector {
            return next;
        }
        let second = is_pair.then_some((rt2, at.map(|at| at + size)));
        for (register, at) in [(rt, at)].into_iter().chain(second) {
            match (register, is_load) {
                (FP, false) => next.callers_fp = next.callers_fp.stored(at.filter(|_| size == 8)),
                (LR, false) => next.callers_lr = next.callers_lr.stored(at.filter(|_| size == 8)),
                (FP, true) => {
                    next.fp = None;
                    next.callers_fp = next.callers_fp.loaded(at);
                }
                (LR, true) => next.callers_lr = next.callers_lr.loaded(at),
                _ => {}
            }
        }
        next
    }
}

/// True for instructions whose result is the stack pointer, where that is register 31: all that set no flags and have
/// an immediate or an extended register.
fn writes_sp(word: u32) -> bool {
    let is_logical = word >> 23 & 0x3f == 0b10_0100 && word >> 29 & 3 != 3;
    let is_extended = word >> 24 & 0x1f == 0b0_1011 && word >> 21 & 1 == 1 && word >> 29 & 1 == 0;
    let is_immediate = word >> 23 & 0x3f == 0b10_0010 && word >> 29 & 1 == 0;
    is_logical || is_extended || is_immediate
}

/// A field with a sign.
fn field(word: u32, first_bit: u32, bits: u32) -> i64 {
    i64::from((word << (32 - bits - first_bit)) as i32 >> (32 - bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_read() {
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) as u8
        };
        for _ in 0..200 {
            let code: Vec<u8> = std::iter::repeat_with(&mut next).take(1 << 10).collect();
            let rules = rules(&code);
            assert!(rules.is_sorted_by_key(|(at, _)| *at) && rules.len() <= code.len());
        }
    }

    /// The base, and how far the CFA is above it, from each offset on.
    fn cfas(code: &[u8]) -> Vec<(u32, Option<(CfaBase, i64)>)> {
        let base = |rule: Rule| match rule.is_from_sp() {
            true => (CfaBase::StackPointer, rule.cfa(0, 0) as i64),
            false => (CfaBase::FramePointer, rule.cfa(0, 0) as i64),
        };
        rules(code).into_iter().map(|(at, rule)| (at, rule.map(base))).collect()
    }

    #[test]
    fn a_frame_on_one_path() {
        // 0 cbz x0, 24; 4 stp x29, x30, [sp, #-32]!; 8 mov x29, sp; 12 bl; 16 ldp x29, x30, [sp], #32; 20 ret; 24 ret
        let words: [u32; 7] = [
            0xb400_00c0,
            0xa9be_7bfd,
            0x9100_03fd,
            0x9400_0100,
            0xa8c2_7bfd,
            0xd65f_03c0,
            0xd65f_03c0,
        ];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (sp, fp) = (
            |cfa| Some((CfaBase::StackPointer, cfa)),
            Some((CfaBase::FramePointer, 32)),
        );
        // It is the same frame at 20 and at 24, without a record.
        assert_eq!(cfas(&code), [(0, sp(0)), (8, sp(32)), (12, fp), (20, sp(0))]);
        // 0 sub sp, sp, #48; 4 sub sp, sp, x8; 8 add sp, sp, x8: what is computed is not known.
        let words: [u32; 4] = [0xd100_c3ff, 0xcb28_63ff, 0x8b28_63ff, 0xd65f_03c0];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(cfas(&code), [(0, sp(0)), (4, sp(48)), (8, None)]);
    }
}
