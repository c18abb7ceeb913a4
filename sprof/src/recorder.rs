//! The recorder of this system; each fulfils the contract in [`recording::session`].

#[cfg(target_os = "linux")]
use recorder_linux as system;
#[cfg(target_os = "macos")]
use recorder_macos as system;

#[cfg(target_os = "linux")]
pub(crate) use recorder_linux::return_freed_memory;
pub(crate) use system::counting::RunCounter;
pub(crate) use system::{
    Files, Memory, Recording, Target, clock_reference, event_names, examine, list_events, lost_variable, open_perf_map,
    open_span_file, resume, say_if_quit, set_up, thread_cpu_ns,
};

/// The allocator of macOS is left as it is.
#[cfg(target_os = "macos")]
pub(crate) fn return_freed_memory() {}
