//! x86_64, by yaxpeax-x86.

use std::cell::Cell;
use std::fmt;

use yaxpeax_arch::display::DisplaySink;
use yaxpeax_arch::{AddressBase, AddressDiff, LengthedInstruction};
use yaxpeax_x86::long_mode::{DisplayRules, DisplayStyle, InstDecoder, InstructionRuleBundle};

use super::Decoded;

pub(super) fn decode(bytes: &[u8], address: u64) -> Decoded {
    match InstDecoder::default().decode_slice(bytes) {
        Ok(instruction) => {
            let rules = Absolute {
                address,
                target: Cell::new(None),
            };
            let text = InstructionRuleBundle::new(&instruction, &rules).to_string();
            Decoded {
                len: instruction.len().to_const() as usize,
                text,
                target: rules.target.get(),
            }
        }
        // Data between functions, or an instruction newer than the decoder: show the byte and go on behind it.
        Err(error) => Decoded {
            len: 1,
            text: format!(".byte {:#04x} ; {error}", bytes.first().copied().unwrap_or(0)),
            target: None,
        },
    }
}

/// Writes what is relative to the instruction pointer as an address, and keeps it.
struct Absolute {
    address: u64,
    target: Cell<Option<u64>>,
}

impl Absolute {
    /// target = end of the instruction + distance
    fn emit<S: DisplaySink>(&self, len: AddressDiff<u64>, distance: i32, out: &mut S) -> Result<bool, fmt::Error> {
        let target = self
            .address
            .wrapping_offset(len)
            .wrapping_add_signed(i64::from(distance));
        self.target.set(Some(target));
        write!(out, "{target:#x}")?;
        Ok(true)
    }
}

impl<S: DisplaySink> DisplayRules<S> for Absolute {
    fn display_style(&self) -> DisplayStyle {
        DisplayStyle::Intel
    }

    fn instr_addr(&self) -> Option<u64> {
        Some(self.address)
    }

    fn emit_branch_addr(&self, len: AddressDiff<u64>, distance: i32, out: &mut S) -> Result<bool, fmt::Error> {
        self.emit(len, distance, out)
    }

    fn emit_relative_address(&self, len: AddressDiff<u64>, distance: i32, out: &mut S) -> Result<bool, fmt::Error> {
        self.emit(len, distance, out)
    }

    // `gs:[0x10]`: an offset, not a place in the module.
    fn emit_absolute_address(&self, address: u64, out: &mut S) -> Result<bool, fmt::Error> {
        write!(out, "{address:#x}")?;
        Ok(true)
    }
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
            ("mov eax, dword [0x1026]", Some(0x1026))
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
