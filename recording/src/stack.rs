//! The forms in which a source delivers a stack, and the form that leaves the unwinder.

use crate::address::Avma;
use crate::wait::{WaitGuess, WaitReason};

/// What a sample says of its thread's stack.
#[derive(Clone, Copy, Debug)]
pub enum Stack<'a> {
    /// Unwound frames, leaf first.
    Frames(&'a [Frame]),
    /// To be unwound: kernel frames, the user registers and the bytes above the stack pointer.
    Snapshot(Snapshot<'a>),
    /// No user stack, and why. `kernel` frames may still be known (leaf first).
    Missing {
        /// Kernel call chain, leaf first; often empty.
        kernel: &'a [Frame],
        /// Why the user stack is missing.
        reason: MissingStack,
    },
}

/// Registers and stack bytes of a thread, as they were when the sample was taken. Borrows from the ring.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// Kernel call chain above the user stack, leaf first; empty if the sample hit user code.
    pub kernel: &'a [Frame],
    /// User registers.
    pub registers: Registers,
    /// Registers that few unwind rules need, as far as the source has them.
    pub further: FurtherRegisters<'a>,
    /// Stack bytes; the first is at the stack pointer. May end before the stack does.
    pub stack_bytes: &'a [u8],
    /// The stack copy of the next sample of this source, mostly of the same thread: a stage that reads words of this
    /// copy can have the CPU fetch the same words of the next one. `None`: no such sample has come yet.
    pub next_copy: Option<StackCopy<'a>>,
}

/// A copy of stack memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackCopy<'a> {
    /// The address of the first byte.
    pub start: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The registers that unwinding starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// x86_64.
    X86_64 {
        /// Instruction pointer.
        ip: u64,
        /// Stack pointer.
        sp: u64,
        /// Frame pointer (rbp), which may hold anything.
        bp: u64,
    },
    /// aarch64.
    Aarch64 {
        /// Program counter.
        pc: u64,
        /// Stack pointer.
        sp: u64,
        /// Frame pointer (x29).
        fp: u64,
        /// Link register (x30).
        lr: u64,
    },
}

impl Registers {
    /// The instruction pointer.
    pub fn ip(&self) -> u64 {
        match *self {
            Registers::X86_64 { ip, .. } | Registers::Aarch64 { pc: ip, .. } => ip,
        }
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        match *self {
            Registers::X86_64 { sp, .. } | Registers::Aarch64 { sp, .. } => sp,
        }
    }
}

/// Values of registers as a source has them, 8 bytes each.
#[derive(Clone, Copy, Debug, Default)]
pub struct FurtherRegisters<'a> {
    /// By the DWARF number of a register: its bit in `mask`.
    pub bits: &'static [u8],
    /// Which registers `words` has, in the order of their bits.
    pub mask: u64,
    /// The values.
    pub words: &'a [u8],
}

impl FurtherRegisters<'_> {
    /// The value of the register with a DWARF number; `None` if the source did not have it.
    pub fn get(&self, number: u16) -> Option<u64> {
        let bit = 1u64.checked_shl((*self.bits.get(usize::from(number))?).into())?;
        let at = (self.mask & (bit - 1)).count_ones() as usize * 8;
        let word = self.words.get(at..)?.first_chunk().filter(|_| self.mask & bit != 0)?;
        Some(u64::from_ne_bytes(*word))
    }
}

/// Why a sample has no user stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MissingStack {
    /// A kernel thread, or a task that had given up its memory (exit).
    NoUserSpace,
    /// A 32-bit task: its registers and tables are not supported.
    Abi32,
    /// The source did not deliver registers.
    NoRegisters,
    /// A task in a PID namespace that is not below the recorder's: it has no pid here, so its mappings can't be known.
    OtherPidNamespace,
}

/// One frame of an unwound stack.
#[expect(
    clippy::derived_hash_with_manual_eq,
    reason = "it is the derived `==`, in another order"
)]
#[derive(Clone, Copy, Debug, Eq, Hash)]
pub enum Frame {
    /// The instruction that was about to run.
    InstructionPointer(Avma),
    /// The address that a call returns to. Look it up one byte lower: the call itself.
    ReturnAddress(Avma),
    /// Like `InstructionPointer`, in the kernel.
    KernelInstructionPointer(Avma),
    /// Like `ReturnAddress`, in the kernel.
    KernelReturnAddress(Avma),
    /// Not a place in code: the visible sign that the frames after it (towards the root) are missing or not verified.
    Mark(StackMark),
}

impl Frame {
    /// The address to look up in tables: inside the instruction that this frame executes. `None` for marks.
    pub fn lookup_address(self) -> Option<Avma> {
        match self {
            Frame::InstructionPointer(a) | Frame::KernelInstructionPointer(a) => Some(a),
            Frame::ReturnAddress(a) | Frame::KernelReturnAddress(a) => Some(Avma(a.0.saturating_sub(1))),
            Frame::Mark(_) => None,
        }
    }

    /// The address itself; `None` for marks.
    #[inline]
    pub fn address(self) -> Option<Avma> {
        match self {
            Frame::InstructionPointer(a)
            | Frame::ReturnAddress(a)
            | Frame::KernelInstructionPointer(a)
            | Frame::KernelReturnAddress(a) => Some(a),
            Frame::Mark(_) => None,
        }
    }

    /// True for kernel code.
    pub fn is_kernel(self) -> bool {
        matches!(self, Frame::KernelInstructionPointer(_) | Frame::KernelReturnAddress(_))
    }
}

/// Each stack is compared with the one before it. The four kinds of addresses differ in one byte: together they take a
/// fifth of the time of a derived `==`, which looks at one kind after the other.
impl PartialEq for Frame {
    #[inline]
    fn eq(&self, other: &Frame) -> bool {
        match (self, other) {
            (Frame::Mark(mark), Frame::Mark(other)) => mark == other,
            (own, other) => {
                own.address() == other.address() && std::mem::discriminant(own) == std::mem::discriminant(other)
            }
        }
    }
}

/// What the frames of a stack have in common with an earlier stack of the same thread. Most of a stack stays as it is
/// from sample to sample, and whoever keeps the earlier one has only the others to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SameFrames<'a> {
    /// The number of this stack. No two stacks of a recording have the same, and none has [`NO_STACK`].
    pub stack: u64,
    /// The number of the earlier stack.
    pub earlier: u64,
    /// So many rootmost frames are those of the earlier stack, at least.
    pub frames: usize,
    /// The others, as [`put_frames`](crate::frame_bytes::put_frames) makes bytes of them: the copy on disk and the
    /// queue of the builder have the same. `None`: there may be marks among them.
    pub others: Option<&'a [u8]>,
}

/// The number of no stack.
pub const NO_STACK: u64 = 0;

impl SameFrames<'_> {
    /// How many rootmost frames of a stack are surely those of the stack with this number.
    pub fn with(same: Option<SameFrames<'_>>, number: u64) -> usize {
        let is_earlier = |same: &SameFrames<'_>| same.earlier == number && number != NO_STACK;
        same.filter(is_earlier).map_or(0, |same| same.frames)
    }

    /// The number of the stack that this is of.
    pub fn number(same: Option<SameFrames<'_>>) -> u64 {
        same.map_or(NO_STACK, |same| same.stack)
    }
}

/// What a [`Frame::Mark`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StackMark {
    /// The frames rootwards were read from the target's memory after the sample, and nothing confirms them.
    Unverified,
    /// The stack goes on, but the bytes needed could not be had.
    TruncatedNoMemory,
    /// Unwinding failed: no rule for this code, and no usable frame pointer.
    TruncatedNoRule,
    /// The stack has more frames than the unwinder follows.
    TruncatedDepth,
    /// The kernel deferred the user part of the call chain, and it is not in the file.
    TruncatedDeferred,
    /// The thread was on a stack of its language's runtime: Go's g0, for its scheduler and its collector. The frames of
    /// the goroutine that asked for it are on another stack.
    OtherStack,
    /// There is no user stack, for this reason.
    Missing(MissingStack),
    /// The thread was not on a CPU. Not the leaf: what it waited for follows.
    OffCpu,
    /// What it waited for: the leaf.
    Waiting(WaitReason),
    /// The frames rootwards are not from this wait, or there are none.
    WaitGuess(WaitGuess),
}

impl StackMark {
    /// The mark with which a stack of a saved profile ends, by the name of its frame. `None` for all other names.
    pub fn of_label(label: &str) -> Option<StackMark> {
        let marks = [
            StackMark::Unverified,
            StackMark::TruncatedNoMemory,
            StackMark::TruncatedNoRule,
            StackMark::TruncatedDepth,
            StackMark::TruncatedDeferred,
        ];
        marks.into_iter().find(|mark| mark.label() == label)
    }

    /// The name that the frame has in the profile.
    pub fn label(self) -> &'static str {
        match self {
            StackMark::Unverified => "[unverified: read after the sample]",
            StackMark::TruncatedNoMemory => "[truncated: stack memory not available]",
            StackMark::TruncatedNoRule => "[truncated: no unwind information]",
            StackMark::TruncatedDepth => "[truncated: too many frames]",
            StackMark::TruncatedDeferred => "[truncated: deferred call chain not recorded]",
            StackMark::OtherStack => "[system stack of a Go thread (g0)]",
            StackMark::Missing(MissingStack::NoUserSpace) => "[no user stack: kernel thread or exiting task]",
            StackMark::Missing(MissingStack::Abi32) => "[no user stack: 32-bit task]",
            StackMark::Missing(MissingStack::NoRegisters) => "[no user stack: no registers delivered]",
            StackMark::Missing(MissingStack::OtherPidNamespace) => "[no user stack: outside of this PID namespace]",
            StackMark::OffCpu => "[off-CPU]",
            StackMark::Waiting(reason) => reason.label(),
            StackMark::WaitGuess(guess) => guess.label(),
        }
    }
}
