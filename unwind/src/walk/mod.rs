//! One walk, from the leaf of a stack to its root.

pub(crate) mod calls;
pub(crate) mod code_cache;
pub(crate) mod fast_steps;
pub(crate) mod leaf_first;
pub(crate) mod outcome;
pub(crate) mod reading;
pub(crate) mod reuse;
pub(crate) mod run;
pub(crate) mod stack_memory;
pub(crate) mod stack_walk;
pub(crate) mod steps;
