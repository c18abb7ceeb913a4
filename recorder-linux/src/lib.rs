#![doc = include_str!("../README.md")]
//! The journey, in reading order:
//!
//! 1. `session`: chooses the best backend that is allowed: `session/perf` or `session/traced`. `session/attach` finds
//!    what runs when recording starts.
//! 2. `rounds`: when the ring buffers are emptied, and what happens then.
//! 3. `open`: `open/event_set` owns all perf descriptors. Each CPU has one inherited event with a ring buffer. Events
//!    of further threads write into the same buffers. There is one more event for larger stacks, which gets buffers
//!    once it is in use; two for waits (`open/waits`); and the events that the user named (`open/events`).
//! 4. The crate [`perf_data`]: the bytes of the buffers to events. Where perf_event_open is refused, `ptrace` sends
//!    events instead.
//! 5. `processes`: starts a program stopped, ends it, and reads what /proc says about processes.
//! 6. `resources`: figures of processes and of the machine, read from time to time.
//! 7. [`probes`]: tracepoints that sprof defines, for as long as the recording lasts.
//! 8. `files`: memory and files of the target, for the unwinder and others.
//! 9. [`heap`]: samples of allocations, by a library that is loaded into the recorded programs.
//! 10. `spans`: what programs write with the crate `sprof-spans`.
//! 11. [`counting`]: runs a program and counts, without samples.
//! 12. `machine`: CPUs, description, refusals; `sys`: the system calls. `doctor` and `list` say what this machine
//!     permits.

#![cfg(target_os = "linux")]

mod calls;
pub mod counting;
mod doctor;
mod files;
pub mod heap;
mod list;
mod machine;
mod open;
pub mod probes;
mod processes;
mod ptrace;
mod resources;
mod rounds;
mod session;
mod spans;
#[allow(unsafe_code)]
mod sys;

pub use doctor::{examine, resume, set_up};
pub use files::{Files, Memory, open_perf_map, open_span_file};
pub use list::{event_names, list_events};

pub use processes::stop::Target;
pub use session::{Recording, clock_reference};
pub use sys::process::{return_freed_memory, thread_cpu_ns};
pub use sys::signals::say_if_quit;

/// The variable that the system removed from this process's environment, and that programs need to be recorded. Always
/// `None`: Linux removes none.
pub fn lost_variable() -> Option<(&'static str, std::ffi::OsString)> {
    None
}
