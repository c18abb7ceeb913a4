//! The machine: its CPUs, its description, and what its kernel refuses.

pub(crate) mod cpus;
pub(crate) mod host;
pub(crate) mod refusal;
