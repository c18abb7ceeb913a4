//! perf's files, read and written. A module is a topic, and one binary compiles and links what they share once:
//! `cargo test -p sprof-perf-data --test suite spool::`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod common;
mod import;
mod import_deferred;
mod import_off_cpu;
mod import_simpleperf;
mod spool;
