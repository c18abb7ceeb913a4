//! Samples of allocations, by a library in the recorded programs.

pub mod wire;

/// The library (`preload/`), as build.rs has built it for the system that this program runs on.
pub static PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sprof-heap.so"));
