//! Patches of allocators that are linked into an executable: from the file to the bytes to write. Nothing here runs,
//! reads or writes a process.
//!
//! A jump of 5 bytes at each entry of the allocator leads to a slot of [`SLOT_BYTES`] of code, which counts as the
//! library's own functions do (`preload/sys/machine/x86_64.rs`), then does what the jump displaced, and goes back. The
//! entry's own calls of other entries go round their slots: an allocation counts once.

mod displaced;
mod executable;
mod functions;
mod inner;
mod plan;
mod slot;
#[cfg(test)]
mod tests;

pub(in crate::heap) use executable::linked_allocators;
pub(in crate::heap) use plan::PatchPlan;

/// Length of the code for one entry. An entry of the allocator leads to the start of its slot.
///
/// - 0: counts, and goes to the stub or on; then the displaced instructions, and the jump back. `EB 7E` written over
///   the first two bytes turns the slot off, at any time.
/// - 128: the entry without the counting: the displaced instructions, and the jump back. The library calls it.
/// - 192: the stub. It goes to [`PatchAddresses::slow`] with the address of the descriptor in r11. The stack and the
///   registers are those of the call, but for rax and r11, which are in the two words below the stack.
/// - 224: the descriptor.
pub(in crate::heap) const SLOT_BYTES: usize = 256;

/// Why a function of an allocator is not patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::heap) enum LeftOut {
    /// A call is among its first 5 bytes: it would return to a slot.
    Call,
    /// One of its first instructions can't be moved.
    Immovable,
    /// It has less than 5 bytes.
    Short,
    /// Something jumps behind its entry.
    Jump,
    /// It jumps to an entry by a jump that can't reach a slot.
    ShortJump,
    /// Its bytes are no code of this file.
    NoCode,
    /// It has two names, whose arguments differ.
    Ambiguous,
    /// Its arguments do not say how much it allocates.
    UnknownSize,
    /// It makes a block longer where the block is.
    InPlace,
    /// It frees blocks that it does not name.
    FreesMany,
    /// It returns null where there is no memory for the new block, and has freed the old one.
    FreesOnFailure,
    /// Functions of the program have parts of the allocator's, as link-time optimization makes them.
    Inlined,
    /// It is of an allocator that nobody knows, and its code was not to be changed.
    OwnMalloc,
}

impl LeftOut {
    /// The reason in a few words.
    pub(in crate::heap) fn label(self) -> &'static str {
        match self {
            LeftOut::Call => "a call is among its first 5 bytes",
            LeftOut::Immovable => "its first instructions can't be moved",
            LeftOut::Short => "it has less than 5 bytes",
            LeftOut::Jump => "something jumps behind its entry",
            LeftOut::ShortJump => "it jumps to another one by a short jump",
            LeftOut::NoCode => "its bytes are no code of this file",
            LeftOut::Ambiguous => "it has two names, whose arguments differ",
            LeftOut::UnknownSize => "its arguments do not say how much it takes",
            LeftOut::InPlace => "it makes a block longer where the block is",
            LeftOut::FreesMany => "it frees blocks that it does not name",
            LeftOut::FreesOnFailure => "it frees its block also where it fails",
            LeftOut::OwnMalloc => "its code is changed only with --heap=patch",
            LeftOut::Inlined => "the compiler has put parts of its functions into those of the program",
        }
    }
}

/// Where the code will be in a process.
#[derive(Clone, Copy, Debug)]
pub(in crate::heap) struct PatchAddresses {
    /// What the loader added to the addresses in the executable.
    pub(in crate::heap) bias: u64,
    /// Where the slots will be, a multiple of [`SLOT_BYTES`].
    pub(in crate::heap) code: u64,
    /// Offset of the countdown from the thread pointer.
    pub(in crate::heap) countdown: i32,
    /// The library's slow path.
    pub(in crate::heap) slow: u64,
    /// The library's filter of live samples.
    pub(in crate::heap) filter: u64,
}

/// What to write into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::heap) struct PlacedPatches {
    /// The slots, for [`PatchAddresses::code`].
    pub(in crate::heap) code: Vec<u8>,
    /// To be done once the slots are there.
    pub(in crate::heap) writes: Vec<PlacedWrite>,
}

/// At most 8 bytes, within one executable segment of the executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::heap) struct PlacedWrite {
    pub(in crate::heap) address: u64,
    pub(in crate::heap) content: Vec<u8>,
    /// What the file has there.
    pub(in crate::heap) before: Vec<u8>,
}
