//! The store of shared profiles, and what was shared.
//!
//! `store` speaks the protocol of the Firefox Profiler's server, `kept` keeps what was shared, and its keys, in the
//! user's data folder, `machine` knows what is private here.

mod kept;
mod machine;
mod store;

pub(crate) use kept::{Everything, Kept, Object, Shared, named_in, unsigned};
pub(crate) use machine::private;
pub(crate) use store::{PUBLIC_MAX_BYTES, Store, Uploaded, deleted};
