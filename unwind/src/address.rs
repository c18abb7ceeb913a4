//! Where a frame is in its code.

use std::num::NonZeroU64;

/// The code address of a frame: the next instruction of the leaf, or the return address in a caller.
///
/// The two differ in which instruction the frame is at: a return address may be the first byte behind its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameAddress {
    /// The next instruction of an interrupted function.
    InstructionPointer(u64),
    /// The instruction behind a call.
    ReturnAddress(NonZeroU64),
}

impl FrameAddress {
    /// `None`: the address is 0, which no call returns to.
    pub(crate) fn from_return_address(address: u64) -> Option<FrameAddress> {
        NonZeroU64::new(address).map(FrameAddress::ReturnAddress)
    }

    /// The address itself.
    pub(crate) fn address(self) -> u64 {
        match self {
            FrameAddress::InstructionPointer(address) => address,
            FrameAddress::ReturnAddress(address) => address.get(),
        }
    }

    /// An address within the instruction that the frame is at: for a return address, the last byte of the call.
    pub(crate) fn address_for_lookup(self) -> u64 {
        match self {
            FrameAddress::InstructionPointer(address) => address,
            FrameAddress::ReturnAddress(address) => address.get() - 1,
        }
    }

    /// False for the frame of an interrupted function.
    pub(crate) fn is_return_address(self) -> bool {
        matches!(self, FrameAddress::ReturnAddress(_))
    }
}
