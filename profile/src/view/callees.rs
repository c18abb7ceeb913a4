//! The callees of stacks. A stack itself refers only to its caller.

use crate::data::{NONE, Stack};

/// The callees of each stack, in order; [`NONE`] ends a list.
pub(crate) struct Callees {
    first_root: u32,
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Callees {
    pub(crate) fn new(stacks: &[Stack]) -> Callees {
        let mut callees = Callees {
            first_root: NONE,
            first: vec![NONE; stacks.len()],
            next: vec![NONE; stacks.len()],
        };
        // The backward pass keeps the lists in order.
        for (stack, frame) in stacks.iter().enumerate().rev() {
            let first = match frame.prefix {
                NONE => &mut callees.first_root,
                prefix => &mut callees.first[prefix as usize],
            };
            callees.next[stack] = *first;
            *first = stack as u32;
        }
        callees
    }

    /// The first stack without a caller.
    pub(crate) fn first_root(&self) -> u32 {
        self.first_root
    }

    /// The first callee of a stack.
    pub(crate) fn first(&self, stack: u32) -> u32 {
        self.first[stack as usize]
    }

    /// The next callee of the same caller.
    pub(crate) fn next(&self, stack: u32) -> u32 {
        self.next[stack as usize]
    }

    /// A stack and the following callees of its caller.
    pub(crate) fn and_next(&self, stack: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |stack: u32| (stack != NONE).then_some(stack);
        std::iter::successors(some(stack), move |stack| some(self.next(*stack)))
    }
}
