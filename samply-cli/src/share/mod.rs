//! The store of shared profiles, and the keys to delete them.
//!
//! `store` speaks the protocol of the Firefox Profiler's server, `kept` keeps keys in the user's data folder, `machine` knows what is private here.

mod kept;
mod machine;
mod store;

pub(crate) use kept::{Everything, Kept, Shared, named_in};
pub(crate) use machine::private;
pub(crate) use store::{PUBLIC_MAX_BYTES, Store, Uploaded, deleted};
