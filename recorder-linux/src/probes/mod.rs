//! Probes in the files of programs (uprobes) and in the kernel (kprobes), defined in tracefs for as long as a recording
//! lasts.
//!
//! Gets: a file, an offset in it, and the arguments of the mark there; or a function of the kernel. Gives: a
//! tracepoint, named by group and event, that is opened like any other and disappears with [`Probes`]. Out of scope:
//! the offset of a function (symbolicator), opening, decoding.
//!
//! A definition is global and stays in the kernel until a process removes it, also when the process that made it has
//! ended. So the group names the process that made the definition. Definitions of processes that are gone are
//! `leftovers`. The perf PMU `uprobe` would clean up by itself, but new threads do not inherit its events. With 12,000
//! calls, a third each in the main thread, a second thread and a child process, inherited events of that PMU counted
//! 4,000; a tracepoint defined in tracefs counted 12,000.
//!
//! `tracefs` (the files) -> `owner` (whose definitions) -> `leftovers` -> `defined` -> `named` (all of a recording).
//! `trial` finds places that the kernel refuses in silence; `arguments`: the arguments of USDT probes.

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
pub(crate) use named::{DefinedCalls, DefinedProbe, define_all};
pub(crate) use tracefs::ProbeList;
