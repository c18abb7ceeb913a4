//! Records programs on Linux with perf_event.
//!
//! The caller gives a command, running processes or the whole machine, a rate and an
//! [`EventSink`](recording::sink::EventSink); the sink gets every process, thread, mapping and sample of them and of all
//! that they start, in time order. Out of scope: unwinding, symbols, output.
//!
//! The journey, in reading order:
//!
//! 1. `launch`: find the program, fork it stopped. Or `attach`: find the threads that run; `existing` tells of them
//!    (both with `procfs`).
//!    `events`: what the events are that the user named.
//! 2. `ladder`, `open` (with `cpus`): the best way to sample that is allowed; one inherited event per CPU, with a ring each; of each
//!    further thread, too, into the same rings. `offcpu`: two more that tell of waits; `already`: of those that last when recording
//!    begins.
//! 3. `drain`: the loop that empties the rings, and (in `watched`) what ends it. Bytes become events in the crate [`perf_data`].
//! 4. `stop`: the end of the program, when recording ends first.
//!
//! Where perf_event_open is refused, `ptrace` stands in the place of 3.
//!
//! [`probes`] are tracepoints of our own in programs, defined before 1 and there as long as the recording lasts.
//!
//! `files` (with `mapped_copy`) and `perf_map` are what the unwinder and others may ask of the target meanwhile. System
//! calls are in `sys`.

#![cfg(target_os = "linux")]

mod already;
mod aside;
mod attach;
mod cpus;
mod doctor;
mod drain;
mod events;
mod existing;
mod files;
mod host;
mod ladder;
mod launch;
mod mapped_copy;
mod offcpu;
mod open;
mod perf_map;
pub mod probes;
mod procfs;
mod ptrace;
mod session;
mod stop;
#[allow(unsafe_code)]
mod sys;
mod unrecorded;
mod usage;
mod watched;

pub use doctor::examine;
pub use events::list_events;
pub use files::{Files, Memory};
pub use perf_map::open_perf_map;
pub use session::{Recording, clock_reference};
pub use stop::Target;
pub use sys::signals::say_if_quit;
