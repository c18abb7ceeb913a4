//! Stacks that are deeper than the bytes in their samples: which of the callers that were read later can be believed.

pub(crate) mod callers;
pub(crate) mod changes;
pub(crate) mod known_stack;
pub(crate) mod live_boundary;
