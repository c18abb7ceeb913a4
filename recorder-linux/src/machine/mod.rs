//! The machine: its CPUs, its description, its tracefs, and what its kernel refuses.

pub(crate) mod cpus;
pub(crate) mod host;
pub(crate) mod refusal;
pub(crate) mod tracefs;
