//! Probes of our own in the files of programs (uprobes) and in the kernel (kprobes), defined in tracefs for as long as a recording lasts.
//!
//! Give: a file, an offset in it, and the arguments of the mark there; or a function of the kernel. Get: a tracepoint, named by group and
//! event, that is opened like any other and disappears with [`Probes`]. Out of scope: which offset a function has (the symbolicator
//! knows), opening, decoding.
//!
//! A definition is global: it stands in the kernel until someone takes it away, whoever made it and however that process
//! ended. So its group names the process that made it, and those of processes that are gone are `leftovers`.
//! The perf PMU `uprobe` would clean up by itself, but its events don't follow into threads that the program starts later.
//! Of 12,000 calls, a third each in the main thread, a second thread and a child process, inherited events of that PMU counted 4,000, and a
//! tracepoint defined in tracefs counted 12,000.
//!
//! `tracefs` (where, and what may go wrong) -> `owner` (whose definitions) -> `leftovers` -> `defined` -> `named` (all of a recording). `trial`
//! tells what the kernel would not; `arguments` are those of USDT probes.

mod arguments;
mod defined;
mod error;
mod finding;
mod leftovers;
mod named;
mod owner;
mod tracefs;
mod trial;

pub use defined::Probes;
pub use error::ProbeError;
pub(crate) use finding::examine;
pub(crate) use leftovers::leftovers;
pub(crate) use named::{DefinedProbe, define_all};
pub(crate) use tracefs::ProbeList;
