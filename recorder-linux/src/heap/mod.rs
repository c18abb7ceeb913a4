//! Samples of allocations, by a library in the recorded programs.
//!
//! 1. `library` writes the file of the library, `program` says where it can't be loaded, and `HeapRecorder` puts it
//!    into the environment of the program, with the path of the `socket`.
//! 2. `shared_memory` reads what a program has written; it waits in `queue`.
//! 3. `patch` computes how an allocator in the executable itself is made to count, and `patch_answers` tells programs.
//!    `static_program` loads the library where no loader does.
//! 4. `HeapSink` sends it to the next stage, in time order with the events of the recorder, and notes which programs
//!    were executed without the library. `pid_namespace` knows the threads of containers.

mod library;
mod patch;
pub mod patch_answers;
mod pid_namespace;
mod program;
mod queue;
mod recorder;
mod shared_memory;
mod sink;
mod socket;
pub mod static_program;
pub mod wire;

pub(crate) use pid_namespace::NamespaceThreads;
pub(crate) use recorder::HeapRecorder;
pub(crate) use sink::HeapSink;
pub(crate) use socket::receive;
pub(crate) use static_program::StaticStart;

/// The library (`preload/`), as build.rs has built it for the system that this program runs on.
pub static PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sprof-heap.so"));
