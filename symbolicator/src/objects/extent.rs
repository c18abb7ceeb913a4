//! Extents of functions that neither a symbol nor an unwind rule gives a size: by their machine code, by a list of all
//! functions, or a few KiB.
//!
//! Hand-written assembly (nasm, `.s` files without `.size`) exports names without sizes. In a stripped file the next
//! name may be far: 195 KiB of Debian's libx264 follow `x264_8_trellis_coefn`, nearly all of them other functions.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

/// The extent of a function without code that shows its end, up to the next function.
///
/// An unconditional jump further ahead than this is a tail call of another function. Code behind an indirect jump (of a
/// jump table) belongs to the function up to this size.
const FEW_BYTES: u64 = 4 << 10;

/// Largest function whose extent is found.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;

/// Code without symbols and unwind rules that is divided into functions at most: it is decoded from its start on.
pub(super) const MAX_GAP_BYTES: u64 = 8 << 20;

/// Largest usual alignment of functions.
const ALIGNMENT: u64 = 64;

/// What follows an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowAfter {
    /// The next instruction.
    Next,
    /// The next instruction or the one at this address.
    Branch(u64),
    /// The instruction at this address.
    Jump(u64),
    /// An address that is computed.
    Computed,
    /// Nothing of this function.
    Return,
    /// The next instruction. It may also stand between functions.
    Nop,
    /// Nothing: bytes between functions.
    Padding,
}

/// Decodes one instruction at an address: its length in bytes and what follows it. `None`: no instruction.
type Decode = fn(&[u8], u64) -> Option<(u64, FlowAfter)>;

fn decoder(arch: &str) -> Option<Decode> {
    match arch {
        "x86_64" => Some(x86_64),
        "aarch64" => Some(aarch64),
        _ => None,
    }
}

/// What shows where a function without a size ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndEvidence<'a> {
    /// Its machine code and the processor.
    Code(Option<&'a str>, &'a [u8]),
    /// The symbol table has all functions, also static ones.
    AllFunctionsListed,
    /// Nothing.
    Nothing,
}

/// The address one past the function at `start`, if the next function begins at `next`.
pub(crate) fn end(start: u64, next: u64, evidence: EndEvidence<'_>) -> u64 {
    let limit = start.saturating_add(MAX_FUNCTION_BYTES).min(next);
    match evidence {
        EndEvidence::Code(Some(arch), code) => match decoder(arch) {
            Some(decode) => end_of_code(decode, code, start).min(limit),
            None => end(start, next, EndEvidence::Nothing),
        },
        EndEvidence::Code(None, _) | EndEvidence::Nothing => start.saturating_add(FEW_BYTES).min(limit),
        EndEvidence::AllFunctionsListed => limit,
    }
}

/// The code that decides, of a function that ends before `next`.
pub(super) fn code_to_read(start: u64, next: u64) -> Range<u64> {
    start..start.saturating_add(MAX_FUNCTION_BYTES).min(next)
}

/// The address one past the function that starts with `code`, which stands at `start` and ends where another function
/// may begin.
fn end_of_code(decode: Decode, code: &[u8], start: u64) -> u64 {
    let limit = start.saturating_add(code.len() as u64);
    let few = start.saturating_add(FEW_BYTES).min(limit);
    let (mut at, mut furthest, mut at_least) = (start, start, start);
    while at < limit {
        let bytes = usize::try_from(at - start).ok().and_then(|offset| code.get(offset..));
        let Some((len, flow)) = bytes.and_then(|bytes| decode(bytes, at)) else {
            // Data, or an instruction newer than the decoder.
            at_least = few;
            break;
        };
        let next = at.saturating_add(len);
        let mut goes_on = false;
        match flow {
            FlowAfter::Next | FlowAfter::Nop => goes_on = true,
            FlowAfter::Branch(target) => {
                furthest = furthest.max(target);
                goes_on = true;
            }
            FlowAfter::Jump(target) if target.saturating_sub(next) < FEW_BYTES => furthest = furthest.max(target),
            FlowAfter::Computed => at_least = few,
            FlowAfter::Jump(_) | FlowAfter::Return | FlowAfter::Padding => {}
        }
        at = next;
        // A target in another function was a tail call.
        if !goes_on && (furthest < at || furthest >= limit) {
            at = behind_padding(decode, code, start, at, limit);
            break;
        }
    }
    at.max(at_least).min(limit)
}

/// The address behind the padding up to the next function.
fn behind_padding(decode: Decode, code: &[u8], start: u64, mut at: u64, limit: u64) -> u64 {
    while at < limit && !at.is_multiple_of(ALIGNMENT) {
        let bytes = usize::try_from(at - start).ok().and_then(|offset| code.get(offset..));
        match bytes.and_then(|bytes| decode(bytes, at)) {
            Some((len, FlowAfter::Nop | FlowAfter::Padding)) => at = at.saturating_add(len),
            _ => break,
        }
    }
    at
}

/// The first function in `code`, which stands at `start`: padding is skipped. `None`: there is nothing else.
pub(super) fn first_in(arch: &str, code: &[u8], start: u64) -> Option<Range<u64>> {
    let decode = decoder(arch)?;
    let mut offset = 0;
    while let Some((len, flow)) = code
        .get(offset..)
        .and_then(|bytes| decode(bytes, start + offset as u64))
    {
        if !matches!(flow, FlowAfter::Nop | FlowAfter::Padding) {
            break;
        }
        offset += usize::try_from(len).ok()?;
    }
    let rest = code.get(offset..).filter(|rest| !rest.is_empty())?;
    let first = start + offset as u64;
    Some(first..end_of_code(decode, rest, first))
}

fn x86_64(bytes: &[u8], address: u64) -> Option<(u64, FlowAfter)> {
    // As linkers fill: `add [rax], al`.
    if bytes.starts_with(&[0, 0]) {
        return Some((2, FlowAfter::Padding));
    }
    let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return None;
    }
    let is_direct = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    let flow = match instruction.mnemonic() {
        Mnemonic::Call => FlowAfter::Next,
        Mnemonic::Jmp if is_direct => FlowAfter::Jump(instruction.near_branch_target()),
        Mnemonic::Jmp => FlowAfter::Computed,
        Mnemonic::Ret | Mnemonic::Retf | Mnemonic::Iretq | Mnemonic::Ud2 | Mnemonic::Hlt => FlowAfter::Return,
        Mnemonic::Int3 => FlowAfter::Padding,
        Mnemonic::Nop => FlowAfter::Nop,
        _ if is_direct => FlowAfter::Branch(instruction.near_branch_target()),
        _ => FlowAfter::Next,
    };
    Some((instruction.len() as u64, flow))
}

/// Encodings: Arm Architecture Reference Manual, C4.1.65 "Branches, Exception Generating and System instructions".
fn aarch64(bytes: &[u8], address: u64) -> Option<(u64, FlowAfter)> {
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    // A field of `bits` bits from `low` on, signed, in instructions.
    let target = |low: u32, bits: u32| {
        let offset = ((word >> low) << (32 - bits)).cast_signed() >> (32 - bits);
        address.wrapping_add_signed(i64::from(offset) * 4)
    };
    let flow = match word {
        // UDF.
        0..=0xffff => FlowAfter::Padding,
        0xd503_201f => FlowAfter::Nop,
        // B.
        _ if word & 0xfc00_0000 == 0x1400_0000 => FlowAfter::Jump(target(0, 26)),
        // B.cond, BC.cond.
        _ if word & 0xff00_0000 == 0x5400_0000 => FlowAfter::Branch(target(5, 19)),
        // CBZ, CBNZ.
        _ if word & 0x7e00_0000 == 0x3400_0000 => FlowAfter::Branch(target(5, 19)),
        // TBZ, TBNZ.
        _ if word & 0x7e00_0000 == 0x3600_0000 => FlowAfter::Branch(target(5, 14)),
        // RET, RETAA, RETAB.
        _ if word & 0xffff_f000 == 0xd65f_0000 => FlowAfter::Return,
        // BR, BRAA, BRAB.
        _ if word & 0xfeff_f000 == 0xd61f_0000 => FlowAfter::Computed,
        // BRK.
        _ if word & 0xffe0_001f == 0xd420_0000 => FlowAfter::Return,
        _ => FlowAfter::Next,
    };
    Some((4, flow))
}

#[cfg(test)]
mod tests {
    use super::{EndEvidence, FEW_BYTES, MAX_FUNCTION_BYTES, first_in};

    const RET: u8 = 0xc3;

    fn end_of(arch: Option<&str>, code: &[u8], start: u64) -> u64 {
        super::end(
            start,
            start.saturating_add(code.len() as u64),
            EndEvidence::Code(arch, code),
        )
    }

    fn end(code: &[&[u8]]) -> u64 {
        end_of(Some("x86_64"), &code.concat(), 0x1000) - 0x1000
    }

    #[test]
    fn a_function_ends_where_nothing_goes_on() {
        // mov eax, 1; ret
        assert_eq!(end(&[&[0xb8, 1, 0, 0, 0, RET], &[RET; 60_000]]), 6);
        // With the padding behind it.
        assert_eq!(end(&[&[0xb8, 1, 0, 0, 0, RET], &[0x90; 60_000]]), 64);
        // je over the first ret.
        assert_eq!(end(&[&[0x74, 1, RET, 0x50, RET, RET]]), 5);
        // A loop: dec; jne back; ret.
        assert_eq!(end(&[&[0xff, 0xc8, 0x75, 0xfc, RET, RET]]), 5);
        // Into the middle of a loop: jmp +1; nop; ret.
        assert_eq!(end(&[&[0xeb, 1, 0x50, RET, RET]]), 4);
        // A jump to far code is a tail call.
        assert_eq!(end(&[&[0xe9, 0, 0x40, 0, 0], &[RET; 0x8000]]), 5);
        // Without an end: up to the next function.
        assert_eq!(end(&[&[0x90; 77]]), 77);
        // jmp rax may go to a table's entries.
        assert_eq!(end(&[&[0xff, 0xe0], &[0x90; 0x8000]]), FEW_BYTES);
        assert_eq!(end(&[]), 0);
    }

    #[test]
    fn functions_of_arm_end_so_too() {
        let end = |code: &[u32]| {
            let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
            end_of(Some("aarch64"), &bytes, 0x1000) - 0x1000
        };
        const RET: u32 = 0xd65f_03c0;
        const NOP: u32 = 0xd503_201f;
        assert_eq!(end(&[NOP, RET, RET]), 8);
        assert_eq!(end(&[NOP, RET, NOP, RET]), 12);
        // b.eq, cbz, tbz over the first ret, to the second.
        for branch in [0x5400_0040, 0x3400_0040, 0x3600_0040] {
            assert_eq!(end(&[branch, RET, RET, RET]), 12, "{branch:#x}");
        }
        // b to the first ret but one; cbnz back.
        assert_eq!(end(&[0x1400_0002, NOP, RET, RET]), 12);
        assert_eq!(end(&[NOP, 0x35ff_ffe0, RET, RET]), 12);
        // br x0.
        assert_eq!(end(&[&[0xd61f_0000][..], &[NOP; 3000]].concat()), FEW_BYTES);
    }

    #[test]
    fn code_of_other_processors_is_believed_for_a_few_bytes() {
        assert_eq!(end_of(None, &[0; 100_000], 0), FEW_BYTES);
        assert_eq!(end_of(Some("riscv64"), &[0; 100], 0), 100);
    }

    #[test]
    fn a_function_of_a_list_of_all_reaches_to_the_next_one() {
        let end = |next| super::end(0x1000, next, EndEvidence::AllFunctionsListed);
        assert_eq!((end(0x9000), end(u64::MAX)), (0x9000, 0x1000 + MAX_FUNCTION_BYTES));
        let end = |next| super::end(0x1000, next, EndEvidence::Nothing);
        assert_eq!((end(0x1010), end(u64::MAX)), (0x1010, 0x1000 + FEW_BYTES));
    }

    #[test]
    fn padding_belongs_to_no_function() {
        let code = [&[0xcc, 0xcc, 0, 0][..], &[0xff, 0xc0, RET], &[RET]].concat();
        assert_eq!(first_in("x86_64", &code, 0x20), Some(0x24..0x27));
        assert_eq!(first_in("x86_64", &[0xcc; 16], 0x20), None);
        // No instruction in 64-bit code.
        assert_eq!(first_in("x86_64", &[0x06, RET], 0), Some(0..2));
    }

    #[test]
    fn any_bytes_have_an_end() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..20_000 {
            let mut code = [0; 64];
            for byte in &mut code {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state as u8;
            }
            for arch in ["x86_64", "aarch64"] {
                let end = end_of(Some(arch), &code, u64::MAX - 100);
                assert!((u64::MAX - 100..=u64::MAX - 36).contains(&end));
                first_in(arch, &code, u64::MAX - 100);
            }
        }
    }
}
