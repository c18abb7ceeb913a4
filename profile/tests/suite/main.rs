//! The model from events to every export, and back from files. A module is a topic, and one binary compiles and links
//! what they share once: `cargo test -p sprof-profile --test suite diff::`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod any_events;
mod build;
mod client;
mod common;
#[path = "../../../perf-data/tests/suite/common/damage.rs"]
#[allow(dead_code, reason = "the other crates use the rest")]
mod damage;
mod diff;
mod diff_chance;
mod differential;
mod enrich;
mod exports;
mod foreign;
mod heap;
mod heap_chance;
mod merge;
mod names;
mod offcpu;
mod page;
mod parallelism;
mod read;
mod reference;
mod report;
mod resources;
mod sanitize;
mod span_views;
mod spans;
mod top;
mod tracks;
mod trim;
mod v8;
mod whole;
mod window;
