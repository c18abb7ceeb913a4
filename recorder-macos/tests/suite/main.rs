//! The recorder on a simulated kernel, and the reader of signatures on real ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod access;
mod accuracy;
mod codesign;
mod events;
mod faults;
mod files;
mod jit;
mod life;
mod off_cpu;
mod preload;
#[cfg(target_os = "macos")]
mod real;
mod session;
mod setup;
mod xnu;
