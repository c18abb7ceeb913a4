//! Stacks whose answer is known: of this process, and made by hand. A module is a topic, and one binary compiles and
//! links what they share once: `cargo test -p sprof-unwind --test suite hostile::`.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod aarch64;
mod common;
#[path = "../../../perf-data/tests/suite/common/damage.rs"]
#[allow(dead_code, reason = "the other crates use the rest")]
mod damage;
mod hostile;
mod mach_o;
mod own_stack;
mod processes;
mod signals;
mod speed;
