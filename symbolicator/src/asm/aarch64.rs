//! aarch64, by yaxpeax-arm.

use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Opcode, Operand};

use super::decoded::{AddressUse, CodeFlow, DecodedInstruction};

pub(super) fn decode(bytes: &[u8], address: u64) -> DecodedInstruction {
    let Some(word) = bytes.first_chunk::<4>() else {
        return DecodedInstruction {
            len: bytes.len(),
            text: ".byte ; less than an instruction".to_owned(),
            reference: None,
            flow: CodeFlow::Unknown,
        };
    };
    match InstDecoder::default().decode(&mut U8Reader::new(word)) {
        Ok(instruction) => {
            let offset = instruction.operands.iter().find_map(|operand| match operand {
                Operand::PCOffset(offset) => Some(*offset),
                _ => None,
            });
            // adrp counts from its own page: Arm ARM, C6.2.
            let from = match instruction.opcode {
                Opcode::ADRP => address & !0xfff,
                _ => address,
            };
            let target = offset.map(|offset| from.wrapping_add_signed(offset));
            let mut text = instruction.to_string();
            // The library writes the distance, `$+0x10`; it is always the last operand but for its sign.
            if let Some(target) = target
                && let Some(at) = text.find('$')
            {
                let end = text[at..].find([',', ' ']).map_or(text.len(), |end| at + end);
                text.replace_range(at..end, &format!("{target:#x}"));
            }
            // The address of a page does not name what is at its start.
            let target = target.filter(|_| !matches!(instruction.opcode, Opcode::ADRP));
            let reference = target.map(|target| match instruction.opcode {
                Opcode::BL => AddressUse::Call(target),
                Opcode::B | Opcode::Bcc(_) | Opcode::BCcc(_) => AddressUse::Jump(target),
                Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ => AddressUse::Jump(target),
                _ => AddressUse::Data(target),
            });
            let flow = match (instruction.opcode, reference) {
                (Opcode::RET | Opcode::RETAA | Opcode::RETAB, _) => CodeFlow::Return,
                (Opcode::B, Some(AddressUse::Jump(target))) => CodeFlow::Jump(target),
                (_, Some(AddressUse::Jump(target))) => CodeFlow::Branch(target),
                (Opcode::BR | Opcode::BRAA | Opcode::BRAAZ | Opcode::BRAB | Opcode::BRABZ, _) => CodeFlow::IndirectJump,
                _ => CodeFlow::Next,
            };
            DecodedInstruction {
                len: 4,
                text,
                reference,
                flow,
            }
        }
        Err(error) => DecodedInstruction {
            len: 4,
            text: format!(".word {:#010x} ; {error}", u32::from_le_bytes(*word)),
            reference: None,
            flow: CodeFlow::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::AddressUse::{self, Call, Data, Jump};
    use super::{CodeFlow, decode};

    fn text(word: u32, address: u64) -> (String, Option<AddressUse>) {
        let decoded = decode(&word.to_le_bytes(), address);
        assert_eq!(decoded.len, 4);
        (decoded.text, decoded.reference)
    }

    #[test]
    fn branches_and_accesses_name_their_target() {
        // bl #0x10; b.ne #-8; cbz w0, #8; tbz w0, #3, #8; adrp x0, #0x2000; adr x1, #4
        assert_eq!(text(0x9400_0004, 0x1000), ("bl 0x1010".to_owned(), Some(Call(0x1010))));
        assert_eq!(
            text(0x54ff_ffc1, 0x1008),
            ("b.ne 0x1000".to_owned(), Some(Jump(0x1000)))
        );
        assert_eq!(
            text(0x3400_0040, 0x1000),
            ("cbz w0, 0x1008".to_owned(), Some(Jump(0x1008)))
        );
        assert_eq!(
            text(0x3618_0040, 0x1000),
            ("tbz w0, #0x3, 0x1008".to_owned(), Some(Jump(0x1008)))
        );
        assert_eq!(text(0xd000_0000, 0x1234), ("adrp x0, 0x3000".to_owned(), None));
        assert_eq!(
            text(0x1000_0021, 0x1234),
            ("adr x1, 0x1238".to_owned(), Some(Data(0x1238)))
        );
        assert_eq!(text(0xd65f_03c0, 0), ("ret".to_owned(), None));
        // bl #0x10; b.ne #-8; ret; b #0x10; br x0
        let flow = |word: u32| decode(&word.to_le_bytes(), 0x1000).flow;
        assert_eq!(flow(0x9400_0004), CodeFlow::Next);
        assert_eq!(flow(0x54ff_ffc1), CodeFlow::Branch(0xff8));
        assert_eq!(flow(0xd65f_03c0), CodeFlow::Return);
        assert_eq!(flow(0x1400_0004), CodeFlow::Jump(0x1010));
        assert_eq!(flow(0xd61f_0000), CodeFlow::IndirectJump);
    }

    #[test]
    fn words_that_are_no_instruction_are_shown_as_words() {
        let (text, reference) = text(0xffff_ffff, 0);
        assert!(text.starts_with(".word 0xffffffff") && reference.is_none(), "{text}");
        assert_eq!(decode(&[1, 2], 0).len, 2);
    }

    #[test]
    fn no_word_makes_the_disassembler_panic() {
        // Every combination of the 14 bits that choose the instruction, with the operands spread by a multiplication.
        for high in 0..1u32 << 14 {
            for low in 0..16u32 {
                let word = high << 18 | low.wrapping_mul(0x9e37_79b9) >> 14;
                decode(&word.to_le_bytes(), 0x1000);
            }
        }
    }
}
