//! One instruction, as the disassemblers of all processors give it.

/// A decoded instruction.
pub(super) struct DecodedInstruction {
    /// Length in bytes, at least 1.
    pub(super) len: usize,
    pub(super) text: String,
    pub(super) reference: Option<AddressUse>,
}

/// What an instruction does with a relative address that it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressUse {
    Jump(u64),
    Call(u64),
    Data(u64),
}
