//! A simulated kernel, as unkind as XNU: CPU times of running threads are stale, a queued thread looks as a running
//! one, a read fails as a whole, port names and process ids are used again, exec keeps the process id, and anything may
//! end at any call.
//!
//! - `machine`: CPUs, the scheduler, `tasks`: its processes and threads. It knows the truth. `behaviour`: what threads
//!   do.
//! - `images`: what dyld says of the images of a process. `program`: a real one.
//! - `calls`, `host`: what the recorder asks of it, with a price in time for each call.
//! - `letters`: programs that announce themselves.
//! - `fault`: what goes wrong.

mod behaviour;
mod calls;
pub(crate) mod fault;
mod host;
mod images;
pub(crate) mod machine;
pub(crate) mod port_messages;
pub(crate) mod program;
mod tasks;

pub(crate) use calls::Xnu;
