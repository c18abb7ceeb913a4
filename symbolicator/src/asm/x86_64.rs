//! x86_64, by iced-x86.

use iced_x86::{Decoder, DecoderError, DecoderOptions, Formatter, FormatterOptions, Instruction, IntelFormatter};
use iced_x86::{MemorySizeOptions, Mnemonic, OpKind};

use super::decoded::{AddressUse, CodeFlow, DecodedInstruction};

pub(super) fn decode(bytes: &[u8], address: u64) -> DecodedInstruction {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        // Data between functions, or an instruction newer than the decoder: show the byte and continue behind it.
        let why = match decoder.last_error() {
            DecoderError::NoMoreBytes => "less than an instruction",
            _ => "no instruction",
        };
        return DecodedInstruction {
            len: 1,
            text: format!(".byte {:#04x} ; {why}", bytes.first().copied().unwrap_or(0)),
            reference: None,
            flow: CodeFlow::Unknown,
        };
    }
    let mut formatter = IntelFormatter::new();
    set(formatter.options_mut());
    let mut text = String::new();
    formatter.format(&instruction, &mut text);
    let reference = reference(&instruction);
    let flow = match (instruction.mnemonic(), reference) {
        (Mnemonic::Ret | Mnemonic::Retf | Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq, _) => CodeFlow::Return,
        (Mnemonic::Jmp, Some(AddressUse::Jump(target))) => CodeFlow::Jump(target),
        (Mnemonic::Jmp, _) => CodeFlow::IndirectJump,
        (_, Some(AddressUse::Jump(target))) => CodeFlow::Branch(target),
        _ => CodeFlow::Next,
    };
    DecodedInstruction {
        len: instruction.len(),
        text,
        reference,
        flow,
    }
}

/// The syntax of `objdump -M intel`: `mov eax, dword ptr [0x1026]`, `call 0x1015`.
fn set(options: &mut FormatterOptions) {
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    options.set_space_after_operand_separator(true);
    options.set_space_between_memory_add_operators(true);
    options.set_memory_size_options(MemorySizeOptions::Always);
}

/// A branch, or an access relative to the instruction. `gs:[0x10]` is an offset and no address in the module.
fn reference(instruction: &Instruction) -> Option<AddressUse> {
    if instruction.is_ip_rel_memory_operand() {
        return Some(AddressUse::Data(instruction.ip_rel_memory_address()));
    }
    let is_branch = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    let target = is_branch.then(|| instruction.near_branch_target())?;
    Some(match instruction.mnemonic() {
        Mnemonic::Call => AddressUse::Call(target),
        _ => AddressUse::Jump(target),
    })
}

#[cfg(test)]
mod tests {
    use super::{AddressUse, CodeFlow, decode};

    #[test]
    fn branches_and_accesses_name_their_target() {
        // e8 rel32: 0x1000 + 5 + 0x10 = 0x1015
        let call = decode(&[0xe8, 0x10, 0, 0, 0], 0x1000);
        assert_eq!(
            (call.len, call.text.as_str(), call.reference),
            (5, "call 0x1015", Some(AddressUse::Call(0x1015)))
        );
        // eb rel8: 0x1000 + 2 - 4 = 0xffe
        let jump = decode(&[0xeb, 0xfc], 0x1000);
        assert_eq!(
            (jump.text.as_str(), jump.reference),
            ("jmp 0xffe", Some(AddressUse::Jump(0xffe)))
        );
        // 75 rel8: jne; e3 rel8: jrcxz; e2 rel8: loop
        for (opcode, text) in [(0x75, "jne 0x1012"), (0xe3, "jrcxz 0x1012"), (0xe2, "loop 0x1012")] {
            let jump = decode(&[opcode, 0x10], 0x1000);
            assert_eq!(
                (jump.text.as_str(), jump.reference),
                (text, Some(AddressUse::Jump(0x1012)))
            );
        }
        // mov eax, [rip + 0x20]: 0x1000 + 6 + 0x20 = 0x1026
        let load = decode(&[0x8b, 0x05, 0x20, 0, 0, 0], 0x1000);
        assert_eq!(
            (load.text.as_str(), load.reference),
            ("mov eax, dword ptr [0x1026]", Some(AddressUse::Data(0x1026)))
        );
        assert_eq!(decode(&[0x55], 0x1000).text, "push rbp");
        // call; jne; jmp; jmp rax; repz ret; ret 8
        let flow = |bytes: &[u8]| decode(bytes, 0x1000).flow;
        assert_eq!(flow(&[0xe8, 0x10, 0, 0, 0]), CodeFlow::Next);
        assert_eq!(flow(&[0x75, 0x10]), CodeFlow::Branch(0x1012));
        assert_eq!(flow(&[0xeb, 0xfc]), CodeFlow::Jump(0xffe));
        assert_eq!(flow(&[0xff, 0xe0]), CodeFlow::IndirectJump);
        assert_eq!(flow(&[0xf3, 0xc3]), CodeFlow::Return);
        assert_eq!(flow(&[0xc2, 8, 0]), CodeFlow::Return);
    }

    #[test]
    fn bytes_that_are_no_instruction_are_shown_as_bytes() {
        let bad = decode(&[0x06, 0x90], 0);
        assert_eq!(bad.len, 1);
        assert!(bad.text.starts_with(".byte 0x06"), "{}", bad.text);
        assert_eq!(decode(&[], 0).len, 1);
    }

    #[test]
    fn no_bytes_make_the_disassembler_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let bytes = [state.to_le_bytes(), state.rotate_left(31).to_le_bytes()].concat();
            decode(&bytes[..(state >> 60) as usize], u64::MAX - 3);
        }
    }
}
