//! The frames of a stack as bytes: numbers of variable length.
//!
//! The number of frames, with a bit that says whether each has its kind before it; then the frames, rootmost first,
//! each as the distance of its address from the one before it. Without kinds, the leaf is an instruction pointer, and
//! all others are return addresses.

use crate::address::Avma;
use crate::stack::{Frame, SameFrames, StackMark};
use crate::varint::{put, take, unzigzag, zigzag};

const INSTRUCTION_POINTER: u64 = 0;
const RETURN_ADDRESS: u64 = 1;
const KERNEL_INSTRUCTION_POINTER: u64 = 2;
const KERNEL_RETURN_ADDRESS: u64 = 3;
const MARK: u64 = 4;

/// Appends frames, leaf first. `mark`: the number of a mark.
pub fn put_frames(out: &mut Vec<u8>, frames: &[Frame], mut mark: impl FnMut(StackMark) -> u64) {
    let mut before = 0;
    let is_usual = |(index, frame): (usize, &Frame)| match frame {
        Frame::InstructionPointer(_) => index == 0,
        Frame::ReturnAddress(_) => index > 0,
        _ => false,
    };
    let has_kinds = !frames.iter().enumerate().all(is_usual);
    put(out, (frames.len() as u64) << 1 | u64::from(has_kinds));
    for frame in frames.iter().rev() {
        let (kind, address) = match *frame {
            Frame::InstructionPointer(at) => (INSTRUCTION_POINTER, at.0),
            Frame::ReturnAddress(at) => (RETURN_ADDRESS, at.0),
            Frame::KernelInstructionPointer(at) => (KERNEL_INSTRUCTION_POINTER, at.0),
            Frame::KernelReturnAddress(at) => (KERNEL_RETURN_ADDRESS, at.0),
            Frame::Mark(known) => {
                put(out, MARK);
                put(out, mark(known));
                continue;
            }
        };
        if has_kinds {
            put(out, kind);
        }
        put(out, zigzag(address.wrapping_sub(before).cast_signed()));
        before = address;
    }
}

/// Appends the frames of a stack, leaf first, without its shared rootmost ones: the bytes that came with it where these
/// are of the same frames.
pub fn put_others(
    out: &mut Vec<u8>,
    frames: &[Frame],
    kept: usize,
    same: Option<SameFrames<'_>>,
    mark: impl FnMut(StackMark) -> u64,
) {
    let others = same.filter(|same| same.frames == kept).and_then(|same| same.others);
    let frames = &frames[..frames.len().saturating_sub(kept)];
    let Some(others) = others else {
        return put_frames(out, frames, mark);
    };
    if cfg!(debug_assertions) {
        let mut own = Vec::new();
        put_frames(&mut own, frames, mark);
        assert_eq!(own, others, "the bytes that came with a stack");
    }
    out.extend_from_slice(others);
}

/// Takes the frames of [`put_frames`] from the front, and hands them over rootmost first: `None` for a mark whose
/// number `mark` does not know. `None` where the bytes are not such frames.
pub fn take_frames(
    bytes: &mut &[u8],
    mark: impl Fn(u64) -> Option<StackMark>,
    mut each: impl FnMut(Option<Frame>),
) -> Option<()> {
    let mut before = 0u64;
    let count = take(bytes)?;
    let (count, has_kinds) = (count >> 1, count & 1 == 1);
    for left in (0..count).rev() {
        let kind = match has_kinds {
            true => take(bytes)?,
            false if left == 0 => INSTRUCTION_POINTER,
            false => RETURN_ADDRESS,
        };
        if kind == MARK {
            each(mark(take(bytes)?).map(Frame::Mark));
            continue;
        }
        before = before.wrapping_add_signed(unzigzag(take(bytes)?));
        let at = Avma(before);
        each(Some(match kind {
            INSTRUCTION_POINTER => Frame::InstructionPointer(at),
            RETURN_ADDRESS => Frame::ReturnAddress(at),
            KERNEL_INSTRUCTION_POINTER => Frame::KernelInstructionPointer(at),
            KERNEL_RETURN_ADDRESS => Frame::KernelReturnAddress(at),
            _ => return None,
        }));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(mut bytes: &[u8]) -> Option<(Vec<Option<Frame>>, usize)> {
        let mut frames = Vec::new();
        let marks = |number| (number == 7).then_some(StackMark::Unverified);
        take_frames(&mut bytes, marks, |frame| frames.push(frame))?;
        frames.reverse();
        Some((frames, bytes.len()))
    }

    #[test]
    fn frames_come_back_and_cut_ones_do_not() {
        let at = |address: u64| Avma(address);
        let stacks = [
            vec![Frame::InstructionPointer(at(9)), Frame::ReturnAddress(at(u64::MAX))],
            vec![Frame::ReturnAddress(at(0)), Frame::InstructionPointer(at(7))],
            vec![
                Frame::KernelInstructionPointer(at(u64::MAX - 5)),
                Frame::KernelReturnAddress(at(1 << 63)),
                Frame::InstructionPointer(at(0x7f00_0000_0000)),
                Frame::Mark(StackMark::Unverified),
                Frame::ReturnAddress(at(1)),
            ],
            vec![Frame::Mark(StackMark::Unverified)],
            Vec::new(),
        ];
        for stack in &stacks {
            let mut bytes = Vec::new();
            put_frames(&mut bytes, stack, |_| 7);
            let expected: Vec<Option<Frame>> = stack.iter().copied().map(Some).collect();
            assert_eq!(taken(&bytes), Some((expected, 0)));
            for end in 0..bytes.len() {
                assert_eq!(taken(&bytes[..end]), None);
            }
        }
        let mut bytes = Vec::new();
        put_frames(&mut bytes, &[Frame::Mark(StackMark::Unverified)], |_| 8);
        assert_eq!(taken(&bytes), Some((vec![None], 0)));
        // No frame is of kind 5.
        assert_eq!(taken(&[3, 5, 0]), None);
    }
}
