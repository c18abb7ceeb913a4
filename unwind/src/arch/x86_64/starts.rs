//! Where functions begin in x86_64 code, and code that does not return.

use std::collections::BTreeSet;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::arch::starts::{NextInstruction, StartFinder};

/// Instructions of code that ends a thread: musl's `__clone` has five.
const MAX_LAST: usize = 8;

/// Adds the addresses at which functions begin.
pub(crate) fn find(code: &[u8], base: u64, starts: &mut BTreeSet<u64>) {
    let end = base.saturating_add(code.len() as u64);
    // Padding is before it, or a `ret`.
    let may_begin = |address: u64| {
        let before = address
            .checked_sub(base)
            .and_then(|at| code.get((at as usize).checked_sub(1)?));
        address.is_multiple_of(16) || matches!(before, Some(0xc3 | 0xcc | 0x90 | 0))
    };
    let mut finder = StartFinder::new(base..end, starts);
    let mut decoder = Decoder::with_ip(64, code, base, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = decoder.ip();
        decoder.decode_out(&mut instruction);
        if let Some(next) = finder.at(at..decoder.ip(), is_padding(&instruction)) {
            let _ = decoder.set_position((next - base) as usize);
            decoder.set_ip(next);
            continue;
        }
        let target = (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch_target());
        let flow = match (instruction.mnemonic(), target) {
            (Mnemonic::Call, target) => NextInstruction::Call(target),
            (Mnemonic::Jmp, Some(target)) => NextInstruction::Jump(target),
            (Mnemonic::Jmp, None) => NextInstruction::JumpAnywhere,
            (_, Some(target)) => NextInstruction::Maybe(target),
            (Mnemonic::Ret | Mnemonic::Ud2 | Mnemonic::Int3 | Mnemonic::Hlt | Mnemonic::INVALID, _) => {
                NextInstruction::End
            }
            (mnemonic, _) => {
                let taken = match mnemonic {
                    Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => instruction.ip_rel_memory_address(),
                    Mnemonic::Mov if instruction.op1_kind() == OpKind::Immediate32 => instruction.immediate32().into(),
                    _ => 0,
                };
                if may_begin(taken) {
                    finder.takes(taken);
                }
                NextInstruction::Next
            }
        };
        finder.go_on(at, flow);
    }
    finder.finish();
}

fn is_padding(instruction: &Instruction) -> bool {
    match instruction.code() {
        Code::Int3 | Code::INVALID => true,
        // xchg %ax, %ax
        Code::Xchg_r16_AX => instruction.op_register(0) == Register::AX,
        _ => instruction.mnemonic() == Mnemonic::Nop,
    }
}

/// The DWARF number of the register that has the return address at the end of this code, which a function begins with:
/// it pops the address, as musl's `vfork` does, because its child overwrites the stack.
pub(crate) fn return_register(code: &[u8]) -> Option<u16> {
    const LOW: [u16; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut popped = None;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        match (instruction.mnemonic(), popped) {
            (Mnemonic::Endbr64, None) => {}
            (Mnemonic::Pop, None) if instruction.op0_kind() == OpKind::Register => {
                popped = Some(instruction.op0_register())
            }
            (Mnemonic::Mov | Mnemonic::Xor, Some(register))
                if number_of(instruction.op0_register()).is_some_and(|number| Some(number) != number_of(register)) => {}
            (Mnemonic::Syscall | Mnemonic::Nop, Some(register))
                if !matches!(register, Register::RCX | Register::R11) => {}
            _ => return None,
        }
    }
    let number = number_of(popped?)?;
    Some(LOW.get(usize::from(number)).copied().unwrap_or(number))
}

/// The number that instructions have for a register of 64 or 32 bits.
fn number_of(register: Register) -> Option<u16> {
    let from = |first: Register| {
        (register as u16)
            .checked_sub(first as u16)
            .filter(|number| *number < 16)
    };
    from(Register::RAX).or_else(|| from(Register::EAX))
}

/// True if this code ends the thread, by a system call or a call, and a trap follows.
pub(crate) fn never_returns(code: &[u8]) -> bool {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    for _ in 0..MAX_LAST {
        let instruction = decoder.decode();
        match instruction.mnemonic() {
            Mnemonic::Hlt | Mnemonic::Ud2 => return true,
            Mnemonic::Mov | Mnemonic::Xor | Mnemonic::Lea | Mnemonic::Nop | Mnemonic::Syscall | Mnemonic::Call => {}
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_begin_at_calls_and_behind_the_ends_of_others() {
        // 0 call 32; 5 je 8; 7 ret; 8 lea 48(%rip), %rdi (64); 15 ret; 16 nopw 0(%rax); 22 push %rbx; 23 jmp 25; 25
        // ret; 26 int3 ...; 32 jmp *%rax; 34 int3 ...; 48 ret; 49 int3 ...; 64 ret
        let mut code = vec![0xcc; 65];
        code[..26].copy_from_slice(&[
            0xe8, 27, 0, 0, 0, 0x74, 1, 0xc3, 0x48, 0x8d, 0x3d, 49, 0, 0, 0, 0xc3, 0x66, 0x0f, 0x1f, 0x44, 0, 0, 0x53,
            0xeb, 0, 0xc3,
        ]);
        code[32..34].copy_from_slice(&[0xff, 0xe0]);
        (code[48], code[64]) = (0xc3, 0xc3);
        let mut starts = BTreeSet::from([0x1000]);
        find(&code, 0x1000, &mut starts);
        let found: Vec<u64> = starts.into_iter().map(|start| start - 0x1000).collect();
        assert_eq!(found, [0, 22, 32, 48, 64]);
    }

    #[test]
    fn a_return_address_that_was_popped_is_in_its_register() {
        // pop %rdx; mov $58, %eax; syscall; push %rdx
        let code = [0x5a, 0xb8, 0x3a, 0, 0, 0, 0x0f, 0x05, 0x52];
        assert_eq!([1, 6, 8].map(|end| return_register(&code[..end])), [Some(1); 3]);
        assert_eq!([0, 9].map(|end| return_register(&code[..end])), [None; 2]);
        // pop %r12; pop %rdi; mov %eax, %edi; syscall behind pop %rcx
        assert_eq!(return_register(&[0x41, 0x5c]), Some(12));
        assert_eq!(return_register(&[0x5f, 0x89, 0xc7]), None);
        assert_eq!(return_register(&[0x59, 0x0f, 0x05]), None);
    }

    #[test]
    fn code_that_ends_a_thread_does_not_return() {
        // mov %eax, %edi; xor %eax, %eax; mov $60, %al; syscall; hlt
        assert!(never_returns(&[0x89, 0xc7, 0x31, 0xc0, 0xb0, 0x3c, 0x0f, 0x05, 0xf4]));
        assert!(never_returns(&[0x0f, 0x0b]));
        // pop %rbx; ret. jne .; ud2
        assert!(!never_returns(&[0x5b, 0xc3]) && !never_returns(&[0x75, 0xfe, 0x0f, 0x0b]) && !never_returns(&[]));
    }
}
