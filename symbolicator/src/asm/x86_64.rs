//! x86_64, by iced-x86.

use iced_x86::{Decoder, DecoderError, DecoderOptions, Formatter, FormatterOptions, Instruction, IntelFormatter};
use iced_x86::{MemorySizeOptions, OpKind};

use super::Decoded;

pub(super) fn decode(bytes: &[u8], address: u64) -> Decoded {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        // Data between functions, or an instruction newer than the decoder: show the byte and continue behind it.
        let why = match decoder.last_error() {
            DecoderError::NoMoreBytes => "less than an instruction",
            _ => "no instruction",
        };
        return Decoded {
            len: 1,
            text: format!(".byte {:#04x} ; {why}", bytes.first().copied().unwrap_or(0)),
            target: None,
        };
    }
    let mut formatter = IntelFormatter::new();
    set(formatter.options_mut());
    let mut text = String::new();
    formatter.format(&instruction, &mut text);
    Decoded {
        len: instruction.len(),
        text,
        target: target(&instruction),
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

/// The address of a branch, or of an access relative to the instruction. `gs:[0x10]` is an offset and no address in the module.
fn target(instruction: &Instruction) -> Option<u64> {
    if instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address());
    }
    let is_branch = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    is_branch.then(|| instruction.near_branch_target())
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn branches_and_accesses_name_their_target() {
        // e8 rel32: 0x1000 + 5 + 0x10 = 0x1015
        let call = decode(&[0xe8, 0x10, 0, 0, 0], 0x1000);
        assert_eq!(
            (call.len, call.text.as_str(), call.target),
            (5, "call 0x1015", Some(0x1015))
        );
        // eb rel8: 0x1000 + 2 - 4 = 0xffe
        let jump = decode(&[0xeb, 0xfc], 0x1000);
        assert_eq!((jump.text.as_str(), jump.target), ("jmp 0xffe", Some(0xffe)));
        // mov eax, [rip + 0x20]: 0x1000 + 6 + 0x20 = 0x1026
        let load = decode(&[0x8b, 0x05, 0x20, 0, 0, 0], 0x1000);
        assert_eq!(
            (load.text.as_str(), load.target),
            ("mov eax, dword ptr [0x1026]", Some(0x1026))
        );
        assert_eq!(decode(&[0x55], 0x1000).text, "push rbp");
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
