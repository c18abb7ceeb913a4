#![doc = include_str!("../README.md")]
//! The contract is [`recording::session`], as for Linux.
//!
//! 1. [`session`]: what is asked for, and whether macOS gives access to it.
//! 2. [`processes`]: starts a program suspended, and ends it. Without rights of sprof's own, a library in the program
//!    (`mac-preload/`) gives access to it ([`processes::preload`], [`processes::hello`]).
//! 3. [`sampling`]: the ticks and the samples. `images`: what is loaded where.
//! 4. [`files`]: what the unwinder and others may ask of the target meanwhile.
//! 5. [`codesign`]: the facts of a program's signature. [`access`]: what keeps sprof from a program, and what helps.
//!    [`setup`] signs sprof, [`doctor`] says what this Mac permits.
//! 6. [`kernel`]: the calls that all of the above make, as a trait. `sys`: the calls of macOS.
//!
//! The simulated kernel of the tests is `tests/suite/xnu/`.

#![cfg(unix)]

pub mod access;
pub mod codesign;
pub mod doctor;
pub mod files;
mod images;
pub mod kernel;
pub mod processes;
pub mod sampling;
pub mod session;
pub mod setup;
#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
mod sys;
#[cfg(target_os = "macos")]
mod system;

#[cfg(target_os = "macos")]
pub use system::{
    Files, Memory, Recording, Target, Xnu, clock_reference, counting, examine, open_perf_map, open_span_file, resume,
    say_if_quit, set_up, thread_cpu_ns,
};

/// The variable that makes dyld insert sprof's library, if dyld removed it from this process's environment: programs of
/// macOS, like shells, have none of dyld's variables, and what they start has none either. `None` if nothing was
/// removed.
pub fn lost_variable() -> Option<(&'static str, std::ffi::OsString)> {
    processes::preload::lost_variable(|name| std::env::var_os(name))
}

/// The names of the system's events. macOS has none.
pub fn event_names() -> Vec<String> {
    Vec::new()
}

/// Lists no events: macOS has none like those of Linux.
///
/// # Errors
///
/// Always.
pub fn list_events(_pattern: &str) -> Result<String, String> {
    Err("macOS has no events like those of Linux; a recording there is of CPU time".to_owned())
}
