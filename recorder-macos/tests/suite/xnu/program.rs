//! A real program: threads show moments of its run instead of made-up stacks.

use recording::stack::Registers;

use super::images::{LIST, PATHS};

/// A thread before an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) registers: Registers,
    /// From the stack pointer to the end of the stack.
    pub(crate) stack: Vec<u8>,
}

/// One thread of a process executes it: its stack is the only one.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// As dyld lists it.
    pub(crate) path: String,
    /// Where its `__TEXT` is, and its segments as they are loaded from there.
    pub(crate) base: u64,
    pub(crate) memory: Vec<u8>,
    /// Code that a JIT compiler has made, and where.
    pub(crate) jit: (u64, Vec<u8>),
    pub(crate) moments: Vec<Moment>,
}

impl Program {
    /// The memory around an address that is no part of dyld's list, at a moment: where it begins, and its bytes.
    pub(crate) fn around(&self, moment: usize, address: u64) -> Option<(u64, &[u8])> {
        let Moment { registers, stack } = self.moments.get(moment)?;
        let (jit_at, jit) = &self.jit;
        let pieces = [(self.base, &self.memory), (registers.sp(), stack), (*jit_at, jit)];
        let mut pieces = pieces.into_iter().map(|(start, bytes)| (start, &bytes[..]));
        pieces.find(|(start, bytes)| address.checked_sub(*start).is_some_and(|at| at < bytes.len() as u64))
    }

    /// The entry of dyld's list.
    pub(super) fn entry(&self) -> [u64; 3] {
        [self.base, PATHS, 0]
    }

    /// The path, where the entry has it.
    pub(super) fn path(&self) -> (u64, Vec<u8>) {
        let mut path = self.path.clone().into_bytes();
        path.resize(1024, 0);
        (PATHS, path)
    }

    /// True for addresses of dyld's list and what belongs to it.
    pub(super) fn is_list(address: u64) -> bool {
        address >= LIST
    }
}
