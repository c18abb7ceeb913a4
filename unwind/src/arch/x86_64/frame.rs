//! The frame of an x86_64 function at each of its instructions, from its code.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::arch::frame_scan::{self, FrameScan, RulesByOffset, SavedRegister};
use crate::arch::rule::{CfaBase, Rule};

/// The return address, from the CFA.
const RETURN_ADDRESS: i64 = -8;

/// The frame before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct X86_64Frame {
    /// CFA - rsp. `None`: the function has moved it by a value that it computed.
    sp: Option<i64>,
    /// CFA - rbp, from where rbp points to the frame.
    fp: Option<i64>,
    callers_fp: SavedRegister,
}

/// The rules of a function.
pub(crate) fn rules(code: &[u8]) -> RulesByOffset {
    let entry = X86_64Frame {
        sp: Some(8),
        fp: None,
        callers_fp: SavedRegister::InRegister,
    };
    frame_scan::rules(entry, |pass| scan(code, pass))
}

fn scan(code: &[u8], pass: &mut FrameScan<X86_64Frame>) {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut instruction);
        let Some(frame) = pass.at(at) else {
            continue;
        };
        let target = (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch_target());
        let target = target.and_then(|target| usize::try_from(target).ok());
        match instruction.mnemonic() {
            Mnemonic::Jmp if target.is_none() => pass.jump_anywhere(frame),
            Mnemonic::Jmp => {
                pass.jump(target, frame);
                pass.end();
            }
            Mnemonic::Ret | Mnemonic::Ud2 | Mnemonic::Int3 | Mnemonic::Hlt | Mnemonic::INVALID => pass.end(),
            Mnemonic::Call => pass.go_on(frame),
            _ if target.is_some() => {
                let frame = pass.jump(target, frame);
                pass.go_on(frame);
            }
            _ => pass.go_on(frame.after(&instruction)),
        }
    }
}

impl frame_scan::ScannedFrame for X86_64Frame {
    fn rule(self) -> Option<Rule> {
        let (base, cfa) = match (self.fp, self.sp) {
            (Some(cfa), _) => (CfaBase::FramePointer, cfa),
            (None, cfa) => (CfaBase::StackPointer, cfa?),
        };
        Rule::new(base, cfa, self.callers_fp.place(self.sp)?, Some(RETURN_ADDRESS))
    }

    fn sp(self) -> Option<i64> {
        self.sp
    }

    fn without_sp(self) -> X86_64Frame {
        X86_64Frame { sp: None, ..self }
    }
}

impl X86_64Frame {
    /// The frame behind an instruction that does not jump.
    fn after(self, instruction: &Instruction) -> X86_64Frame {
        let first = Operand::of(instruction, 0);
        let second = Operand::of(instruction, 1);
        match (instruction.mnemonic(), first, second) {
            (Mnemonic::Push, pushed, _) => {
                let sp = self.sp.and_then(|cfa| cfa.checked_add(8));
                let callers_fp = match pushed {
                    Operand::Register(Register::RBP) => self.callers_fp.stored(sp.map(|cfa| -cfa)),
                    _ => self.callers_fp,
                };
                X86_64Frame { sp, callers_fp, ..self }
            }
            (Mnemonic::Pop, Operand::Register(Register::RBP), _) => self.pop_fp(),
            (Mnemonic::Pop, Operand::Register(Register::RSP), _) => X86_64Frame { sp: None, ..self },
            (Mnemonic::Pop, ..) => self.moved_up(8),
            (Mnemonic::Pushfq, ..) => self.moved_up(-8),
            (Mnemonic::Popfq, ..) => self.moved_up(8),
            // rsp = rbp, and then pop rbp
            (Mnemonic::Leave, ..) => X86_64Frame { sp: self.fp, ..self }.pop_fp(),
            (Mnemonic::Add, Operand::Register(Register::RSP), Operand::Number(by)) => self.moved_up(by),
            (Mnemonic::Sub, Operand::Register(Register::RSP), Operand::Number(by)) => self.moved_up(by.wrapping_neg()),
            (Mnemonic::Mov, Operand::Register(to), Operand::Register(from)) => self.after_add(to, from, 0),
            (Mnemonic::Lea, Operand::Register(to), Operand::Memory(from, by)) => self.after_add(to, from, by),
            (Mnemonic::Mov, Operand::Memory(base, by), Operand::Register(Register::RBP)) => X86_64Frame {
                callers_fp: self.callers_fp.stored(self.place(base, by)),
                ..self
            },
            (Mnemonic::Mov, Operand::Register(Register::RBP), Operand::Memory(base, by)) => X86_64Frame {
                fp: None,
                callers_fp: self.callers_fp.loaded(self.place(base, by)),
                ..self
            },
            (Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop | Mnemonic::Bt, ..) => self,
            // Swift flags the frame pointer before it stores it.
            (Mnemonic::Bts | Mnemonic::Btr, Operand::Register(Register::RBP), _) => self,
            // All instructions have their result in the first operand, and some in the second one as well.
            (Mnemonic::Xchg | Mnemonic::Xadd, Operand::Register(one), Operand::Register(other)) => {
                self.after_write(one).after_write(other)
            }
            (Mnemonic::Xchg | Mnemonic::Xadd, _, Operand::Register(other)) => self.after_write(other),
            (_, Operand::Register(to), _) => self.after_write(to),
            _ => self,
        }
    }

    /// An address, from the CFA.
    fn place(self, base: Register, by: i64) -> Option<i64> {
        let cfa = match base {
            Register::RSP => self.sp,
            Register::RBP => self.fp,
            _ => None,
        };
        by.checked_sub(cfa?)
    }

    fn moved_up(self, by: i64) -> X86_64Frame {
        let sp = self.sp.and_then(|cfa| cfa.checked_sub(by));
        X86_64Frame { sp, ..self }
    }

    fn pop_fp(self) -> X86_64Frame {
        let from = self.place(Register::RSP, 0);
        X86_64Frame {
            fp: None,
            callers_fp: self.callers_fp.loaded(from),
            ..self.moved_up(8)
        }
    }

    /// `to = from + by`
    fn after_add(self, to: Register, from: Register, by: i64) -> X86_64Frame {
        // CFA - to
        let cfa = self.place(from, by).map(|at| -at);
        let next = self.after_write(to);
        match to {
            Register::RSP => X86_64Frame { sp: cfa, ..next },
            Register::RBP => X86_64Frame { fp: cfa, ..next },
            _ => next,
        }
    }

    /// The register has another value.
    fn after_write(self, register: Register) -> X86_64Frame {
        match register {
            Register::RSP | Register::ESP | Register::SP | Register::SPL => X86_64Frame { sp: None, ..self },
            Register::RBP | Register::EBP | Register::BP | Register::BPL => X86_64Frame {
                fp: None,
                callers_fp: self.callers_fp.lost(),
                ..self
            },
            _ => self,
        }
    }
}

/// What matters of an operand.
#[derive(Clone, Copy)]
enum Operand {
    Register(Register),
    Number(i64),
    /// A base register and an offset, without an index.
    Memory(Register, i64),
    Other,
}

impl Operand {
    fn of(instruction: &Instruction, at: u32) -> Operand {
        if at >= instruction.op_count() {
            return Operand::Other;
        }
        match instruction.op_kind(at) {
            OpKind::Register => Operand::Register(instruction.op_register(at)),
            OpKind::Memory if instruction.memory_index() == Register::None => {
                Operand::Memory(instruction.memory_base(), instruction.memory_displacement64() as i64)
            }
            OpKind::Immediate8to64 | OpKind::Immediate32to64 => Operand::Number(instruction.immediate(at) as i64),
            _ => Operand::Other,
        }
    }
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
    fn a_frame_on_one_path_and_a_jump_table() {
        // 0 test %rdi, %rdi; 3 je 16; 5 push %rbp; 6 mov %rsp, %rbp; 9 pop %rbp; 10 ret; 11 int3 ...; 16 ret
        let code = [
            0x48, 0x85, 0xff, 0x74, 0x0b, 0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xc3,
        ];
        let (sp, fp) = (
            |cfa| Some((CfaBase::StackPointer, cfa)),
            Some((CfaBase::FramePointer, 16)),
        );
        assert_eq!(
            cfas(&code),
            [(0, sp(8)), (6, sp(16)), (9, fp), (10, sp(8)), (11, None), (16, sp(8))]
        );
        // 0 push %rbx; 1 jmp *%rcx; 3 pop %rbx; 4 ret; 5 nop; 6 pop %rbx; 7 ret
        let code = [0x53, 0xff, 0xe1, 0x5b, 0xc3, 0x90, 0x5b, 0xc3];
        assert_eq!(
            cfas(&code),
            [(0, sp(8)), (1, sp(16)), (4, sp(8)), (5, sp(16)), (7, sp(8))]
        );
        // 0 push %rbx; 1 jmp 5; 3 nop; 4 nop; 5 jne 3; 7 pop %rbx; 8 ret
        let code = [0x53, 0xeb, 0x02, 0x90, 0x90, 0x75, 0xfc, 0x5b, 0xc3];
        assert_eq!(cfas(&code), [(0, sp(8)), (1, sp(16)), (8, sp(8))]);
        // 0 push %rbp; 1 mov %rsp, %rbp; 4 pop %rbp; 5 jmp *%rax; 7 a landing pad, which no code leads to
        let code = [0x55, 0x48, 0x89, 0xe5, 0x5d, 0xff, 0xe0, 0x90];
        assert_eq!(cfas(&code), [(0, sp(8)), (1, sp(16)), (4, fp), (5, sp(8)), (7, None)]);
        // 0 push %rbp; 1 mov %rsp, %rbp; 4 nop; 5 sub $4096, %rsp; 12 cmp %r11, %rsp; 15 jne 5; 17 nop; 18 pop %rbp; 19
        // ret
        let code = [
            0x55, 0x48, 0x89, 0xe5, 0x90, 0x48, 0x81, 0xec, 0x00, 0x10, 0x00, 0x00, 0x4c, 0x39, 0xdc, 0x75, 0xf4, 0x90,
            0x5d, 0xc3,
        ];
        assert_eq!(cfas(&code), [(0, sp(8)), (1, sp(16)), (4, fp), (19, None)]);
    }
}
