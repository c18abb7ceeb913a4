//! Stacks that are deeper than the bytes in their samples: which of the callers that were read later can be believed.
//!
//! [`verify`] decides. Its evidence: [`known_stack`], the earlier stacks of the thread; [`changes`], how often their
//! readings differ; [`walk::calls`](crate::walk::calls), whether a caller can have called its callee. [`callers`] has
//! the words of live memory that led to the callers of the thread's last deep stack.

pub(crate) mod callers;
pub(crate) mod changes;
pub(crate) mod known_stack;
pub(crate) mod verify;
