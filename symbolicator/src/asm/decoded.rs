//! One instruction, as the disassemblers of all processors give it.

/// A decoded instruction.
pub(super) struct DecodedInstruction {
    /// Length in bytes, at least 1.
    pub(super) len: usize,
    pub(super) text: String,
    pub(super) reference: Option<AddressUse>,
    pub(super) flow: CodeFlow,
}

/// Where the processor goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeFlow {
    /// At the next instruction: after a call, when that returns.
    Next,
    /// Where the caller is.
    Return,
    /// At a relative address.
    Jump(u64),
    /// There or at the next instruction.
    Branch(u64),
    /// At an address that is computed.
    IndirectJump,
    /// These bytes are no known instruction.
    Unknown,
}

/// What an instruction does with a relative address that it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressUse {
    Jump(u64),
    Call(u64),
    Data(u64),
}
