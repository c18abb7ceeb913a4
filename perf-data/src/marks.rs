//! The addresses that stand for marks in the call chains of a file.
//!
//! A [`StackMark`] is written as an address that no program can have, with the letters of "SPROF" in it:
//! 0x53_5052_4f46_00NN is beyond all address spaces of x86_64 and aarch64.

use recording::stack::{MissingStack, StackMark};
use recording::wait::WaitReason;

const BASE: u64 = 0x0053_5052_4f46_0000;

/// By number. Numbers are never used again for something else.
const MARKS: [StackMark; 21] = [
    StackMark::Unverified,
    StackMark::TruncatedNoMemory,
    StackMark::TruncatedNoRule,
    StackMark::TruncatedDepth,
    StackMark::Missing(MissingStack::NoUserSpace),
    StackMark::Missing(MissingStack::Abi32),
    StackMark::Missing(MissingStack::NoRegisters),
    StackMark::Missing(MissingStack::OtherPidNamespace),
    StackMark::OtherStack,
    StackMark::Waiting(WaitReason::Cpu),
    StackMark::Waiting(WaitReason::Sleep),
    StackMark::Waiting(WaitReason::Lock),
    StackMark::Waiting(WaitReason::Io),
    StackMark::Waiting(WaitReason::Channel),
    StackMark::Waiting(WaitReason::Poll),
    StackMark::Waiting(WaitReason::PageFault),
    StackMark::Waiting(WaitReason::Child),
    StackMark::Waiting(WaitReason::Signal),
    StackMark::Waiting(WaitReason::Other),
    StackMark::Waiting(WaitReason::Unknown),
    StackMark::TruncatedDeferred,
];

/// The address that stands for a mark; `None` if the file format of sprof has none for it.
pub(crate) fn address(mark: StackMark) -> Option<u64> {
    let number = MARKS.iter().position(|known| *known == mark)?;
    Some(BASE + number as u64)
}

/// The mark that an address stands for.
pub(crate) fn mark(address: u64) -> Option<StackMark> {
    let number = usize::try_from(address.checked_sub(BASE)?).ok()?;
    MARKS.get(number).copied()
}
