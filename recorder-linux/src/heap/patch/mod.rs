//! Patches of allocators that are linked into an executable: from the file to the bytes to write. Nothing here runs,
//! reads or writes a process.
//!
//! A jump of 5 bytes at each entry of the allocator leads to a slot of [`SLOT_BYTES`] of code, which counts as the
//! library's own functions do (`preload/sys/machine/x86_64.rs`), then does what the jump displaced, and goes back. The
//! entry's own calls of other entries go round their slots: an allocation counts once.

use object::read::ReadRef;

/// Length of the code for one entry. An entry of the allocator leads to the start of its slot.
///
/// - 0: counts, and goes to the stub or on; then the displaced instructions, and the jump back. `EB 7E` written over
///   the first two bytes turns the slot off, at any time.
/// - 128: the entry without the counting: the displaced instructions, and the jump back. The library calls it.
/// - 192: the stub. It goes to [`PatchAddresses::slow`] with the address of the descriptor in r11. The stack and the
///   registers are those of the call, but for rax and r11, which are free at a function's entry.
/// - 224: the descriptor.
pub(super) const SLOT_BYTES: usize = 256;

/// Whether a call allocates. In the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum CallClass {
    /// Returns the address.
    Allocate = 0,
    Free = 1,
    Reallocate = 2,
    /// Returns 0, and writes the address to where the pointer argument points.
    PosixMemalign = 3,
}

/// Why an entry is not patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeftOut {
    /// The first 5 bytes have a call: its return address would lie in the slot.
    Call,
    /// An instruction in the first 5 bytes can't be moved.
    Immovable,
    /// The function has less than 5 bytes.
    Short,
    /// A jump leads into the first 5 bytes, or to the entry from within.
    Jump,
    /// It calls another entry by an instruction that can't reach a slot.
    ShortCall,
    /// The bytes are no code of this file.
    NoCode,
}

/// Where the code will be in a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatchAddresses {
    /// What the loader added to the addresses in the executable.
    pub(super) bias: u64,
    /// Where the slots will be, a multiple of [`SLOT_BYTES`].
    pub(super) code: u64,
    /// Offset of the countdown from the thread pointer.
    pub(super) countdown: i32,
    /// The library's slow path.
    pub(super) slow: u64,
    /// The library's filter of live samples.
    pub(super) filter: u64,
}

/// What to write into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlacedPatches {
    /// The slots, for [`PatchAddresses::code`].
    pub(super) code: Vec<u8>,
    /// Address and at most 8 bytes, each within one executable segment of the executable. To be written once the slots
    /// are there.
    pub(super) writes: Vec<(u64, Vec<u8>)>,
}

/// What can be patched in a file, wherever it is loaded.
#[derive(Debug, Default)]
pub(super) struct PatchPlan {
    left_out: Vec<(String, LeftOut)>,
}

impl PatchPlan {
    /// The plan for an executable. It is empty for an executable of another machine, or without an allocator.
    ///
    /// # Errors
    ///
    /// When this is no ELF file, or its tables are broken.
    pub(super) fn new<'data>(elf: impl ReadRef<'data>) -> Result<PatchPlan, object::Error> {
        let _ = elf;
        Ok(PatchPlan::default())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.code_bytes() == 0
    }

    /// Names of the allocators that have a patched entry, each once.
    pub(super) fn allocators(&self) -> impl Iterator<Item = &'static str> {
        std::iter::empty()
    }

    /// Entries of allocators that stay as they are.
    pub(super) fn left_out(&self) -> &[(String, LeftOut)] {
        &self.left_out
    }

    /// Number of patched entries.
    pub(super) fn entries(&self) -> usize {
        0
    }

    /// Length of the slots.
    pub(super) fn code_bytes(&self) -> usize {
        self.entries() * SLOT_BYTES
    }

    /// The bytes for a process. `None`: the slots are more than 2 GiB away from what they refer to.
    pub(super) fn place(&self, at: &PatchAddresses) -> Option<PlacedPatches> {
        let _ = at;
        None
    }

    /// The address in the file of the instruction that has the same stack and registers of the caller as the code at
    /// this offset in the slots: a sample there is one of the patched function.
    pub(super) fn original(&self, offset: u64) -> Option<u64> {
        let _ = offset;
        None
    }
}
