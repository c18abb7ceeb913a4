//! One walk, from the leaf of a stack to its root.
//!
//! [`run`] is the loop over frames, [`stack_walk`] the state of a walk, [`outcome`] its result. [`copied_stack`] and
//! [`stack_memory`] read the words of the stack, [`calls`] decides whether a caller can have called its callee.
//!
//! # Three ways to take a step
//!
//! A step goes from a frame to its caller. There are three ways to take a step. They find the same caller, and a test
//! with random rules, stacks and earlier walks compares them (`stage/stack_unwinder/three_ways.rs`). At each frame the
//! loop tries the cheapest way first:
//!
//! 1. **Reuse** ([`reuse`], `reuse_steps` in [`run`]): if the thread's last walk had the same frame, its step can be
//!    reused, and the words that the step read are unchanged. Costs a comparison for each word.
//! 2. **Fast step** ([`fast_steps`]): if the rule is one of offsets, its words are in the sample's copy of the stack,
//!    and the caller is in code. Costs a look-up of the rule and two words.
//! 3. **Full step** ([`steps`]): always. Signal frames, DWARF expressions, live memory and code without rules cost up
//!    to a microsecond.
//!
//! Reuse takes many steps at once: most of a stack stays as it is from one sample to the next. A step can be reused if
//! it depends on four things alone: the mappings of the process, the code address, the registers, and the words that it
//! read. Every fast step can be reused, and a full step that followed the rules of a file and nothing else.
//!
//! To change what a step does, change the full step first. The other two ways may only leave steps to it.
//!
//! With `sprof record --unwinder framehop`, [`framehop`] takes all steps.

pub(crate) mod calls;
pub(crate) mod code_cache;
pub(crate) mod copied_stack;
pub(crate) mod fast_steps;
pub(crate) mod framehop;
pub(crate) mod leaf_first;
pub(crate) mod outcome;
pub(crate) mod reading;
pub(crate) mod reuse;
pub(crate) mod run;
pub(crate) mod stack_memory;
pub(crate) mod stack_walk;
#[cfg(test)]
pub(crate) mod step_counts;
pub(crate) mod steps;
