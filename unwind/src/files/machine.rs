//! The processors whose stacks are unwound.

/// A kind of processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    X86_64,
    Aarch64,
}
