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
//!    [`events`]: what the events are that the user named.
//! 2. `ladder`, `open` (with `cpus`): the best way to sample that is allowed; one inherited event per CPU, with a ring each; of each
//!    further thread, too, into the same rings. `offcpu`: two more that tell of waits; `already`: of those that last when recording
//!    begins.
//! 3. `drain`: the loop that empties the rings, and (in `watched`) what ends it.
//! 4. [`merge`]: time order across CPUs.
//! 5. [`origins`]: who is told twice counts once.
//! 6. [`decode`]: bytes to records.
//! 7. [`translate`]: records to events; [`wait`]: which kernel function waits for what.
//! 8. `stop`: the end of the program, when recording ends first.
//!
//! Where perf_event_open is refused, `ptrace` stands in the place of 3 to 7. [`import`] is yet another way in: a perf.data
//! file instead of rings, through the same 6 and 7. [`spool`] writes such a file while recording.
//!
//! [`probes`] are tracepoints of our own in programs, defined before 1 and there as long as the recording lasts.
//!
//! `files` (with `mapped_copy`) and `perf_map` are what the unwinder and others may ask of the target meanwhile. System
//! calls are in `sys`. `decode`, `merge`, `translate` and `wait` make none; they compile and are tested on every system.

mod abi;
pub mod decode;
pub mod events;
pub mod import;
mod marks;
pub mod merge;
pub mod origins;
pub mod spool;
pub mod translate;
pub mod wait;

#[cfg(target_os = "linux")]
mod already;
#[cfg(target_os = "linux")]
mod aside;
#[cfg(target_os = "linux")]
mod attach;
#[cfg(target_os = "linux")]
mod cpus;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(target_os = "linux")]
mod drain;
#[cfg(target_os = "linux")]
mod existing;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod ladder;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod mapped_copy;
#[cfg(target_os = "linux")]
mod offcpu;
#[cfg(target_os = "linux")]
mod open;
#[cfg(target_os = "linux")]
mod perf_map;
#[cfg(target_os = "linux")]
pub mod probes;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg(target_os = "linux")]
mod ptrace;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod stop;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod sys;
#[cfg(target_os = "linux")]
mod unrecorded;
#[cfg(target_os = "linux")]
mod usage;
#[cfg(target_os = "linux")]
mod watched;

#[cfg(target_os = "linux")]
pub use doctor::examine;
#[cfg(target_os = "linux")]
pub use events::list_events;
#[cfg(target_os = "linux")]
pub use files::{Files, Memory};
#[cfg(target_os = "linux")]
pub use perf_map::open_perf_map;
#[cfg(target_os = "linux")]
pub use session::{
    Finished, Held, ProgramExit, RecordError, RecordOptions, Recording, StopReason, Whom, clock_reference,
};
#[cfg(target_os = "linux")]
pub use stop::Target;
#[cfg(target_os = "linux")]
pub use sys::signals::say_if_quit;
