//! The instructions that a jump at a function's entry takes the place of, in a form for another place.

use iced_x86::{Code, ConstantOffsets, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::LeftOut;
use super::executable::Executable;

/// Length of `jmp rel32`.
pub(super) const JUMP_BYTES: u64 = 5;

/// An instruction, for any place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MovedInstruction {
    /// Where it is in the file.
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
    /// Where 4 of the bytes have a distance from the end of the instruction, and the address in the file that they
    /// mean.
    pub(super) refers_to: Option<(usize, u64)>,
    /// It jumps there, and does not only use the address.
    pub(super) is_jump: bool,
}

/// What a jump at the entry of a function displaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Displaced {
    pub(super) instructions: Vec<MovedInstruction>,
    /// Where the jump will be: at the entry, or behind its `endbr64`.
    pub(super) start: u64,
    /// Where the function goes on behind them.
    pub(super) end: u64,
}

impl Displaced {
    /// What a jump at this entry displaces. Who jumps there is not looked at.
    pub(super) fn new(executable: &Executable<'_>, entry: u64) -> Result<Displaced, LeftOut> {
        let code = executable.code_from(entry).ok_or(LeftOut::NoCode)?;
        let mut decoder = Decoder::with_ip(64, code, entry, DecoderOptions::NONE);
        let mut displaced = Displaced {
            instructions: Vec::new(),
            start: entry,
            end: entry,
        };
        while displaced.end < displaced.start + JUMP_BYTES {
            if displaced.end >= executable.function_end(entry) {
                return Err(LeftOut::Short);
            }
            let instruction = decoder.decode();
            displaced.end = instruction.next_ip();
            if instruction.code() == Code::Endbr64 && instruction.ip() == entry {
                displaced.start = displaced.end;
                continue;
            }
            let at = (instruction.ip() - entry) as usize;
            let bytes = code.get(at..at + instruction.len()).ok_or(LeftOut::NoCode)?;
            let moved = moved(&instruction, bytes, decoder.get_constant_offsets(&instruction))?;
            displaced.instructions.push(moved);
        }
        match displaced.end <= executable.function_end(entry) {
            true => Ok(displaced),
            false => Err(LeftOut::NoCode),
        }
    }
}

/// The instruction for another place: one with a distance that may be far.
fn moved(instruction: &Instruction, bytes: &[u8], constants: ConstantOffsets) -> Result<MovedInstruction, LeftOut> {
    let address = instruction.ip();
    let (bytes, refers_to) = if instruction.mnemonic() == Mnemonic::Call {
        return Err(LeftOut::Call);
    } else if instruction.op0_kind() == OpKind::NearBranch64 {
        let opcode = match bytes {
            [0xeb, _] | [0xe9, _, _, _, _] => vec![0xe9],
            [short @ 0x70..=0x7f, _] => vec![0x0f, short + 0x10],
            [0x0f, near @ 0x80..=0x8f, _, _, _, _] => vec![0x0f, *near],
            // loop, jrcxz, xbegin, and those with a prefix.
            _ => return Err(LeftOut::Immovable),
        };
        let distance_at = opcode.len();
        (
            [opcode, vec![0; 4]].concat(),
            Some((distance_at, instruction.near_branch_target())),
        )
    } else if instruction.memory_base() == Register::RIP {
        let at = constants.displacement_offset();
        (bytes.to_vec(), Some((at, instruction.ip_rel_memory_address())))
    } else if instruction.is_invalid() || instruction.memory_base() == Register::EIP {
        return Err(LeftOut::Immovable);
    } else {
        (bytes.to_vec(), None)
    };
    Ok(MovedInstruction {
        address,
        bytes,
        refers_to,
        is_jump: instruction.op0_kind() == OpKind::NearBranch64,
    })
}
