//! A simulated kernel, as unkind as XNU: CPU times of running threads are stale, a queued thread looks as a running one, a read fails as
//! a whole, port names and process ids are used again, exec keeps the process id, and anything may end at any call.
//!
//! - `machine`: CPUs, the scheduler, threads and what they do. It knows the truth.
//! - `calls`: what the recorder asks of it, with a price in time for each call.
//! - `fault`: what goes wrong.

mod calls;
pub(crate) mod fault;
pub(crate) mod machine;

pub(crate) use calls::Xnu;
