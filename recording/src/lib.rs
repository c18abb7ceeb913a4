#![doc = include_str!("../README.md")]
//! The journey, in reading order:
//!
//! 1. [`address`], [`clock`]: the numbers.
//! 2. [`event`]: what happens; [`span`]: sections that the program named.
//! 3. [`stack`]: the forms of a stack; [`wait`]: why a thread was not on a CPU.
//! 4. [`module`]: files mapped as code; [`space`]: what is mapped where.
//! 5. [`sink`]: how events travel, and what a stage may ask of the target.
//! 6. [`quality`], [`cpu_account`], [`heap`], [`info`]: what was lost, guessed or not recorded, and the recording as a
//!    whole.
//! 7. [`counter`]: figures that are read beside the events.
//! 8. [`session`]: the contract of every recorder; [`counting`]: that of counting without samples; `program`: the file
//!    that a command names.
//! 9. [`doctor`]: what a machine permits, and [`probe`]: places that are to be recorded, as plain data.
//! 10. [`pace`], [`outbox`]: for recorders that stop threads. When to take samples, and how these get to the unwinder.
//! 11. [`varint`], [`frame_bytes`], [`sample_bytes`]: numbers, frames and samples in a few bytes; [`protobuf`]:
//!     messages of other profilers.
//! 12. [`proc`]: texts of /proc that several crates read; [`regular_file`]: opens files whose place others may control.
//! 13. [`command`]: how messages name the program that the user has to type.
//! 14. [`sys`]: hints to the CPU.

pub mod address;
pub mod clock;
pub mod command;
pub mod counter;
pub mod counting;
pub mod cpu_account;
pub mod doctor;
pub mod event;
pub mod frame_bytes;
pub mod heap;
pub mod info;
pub mod little_endian;
pub mod module;
pub mod outbox;
pub mod pace;
pub mod probe;
pub mod proc;
#[cfg(unix)]
pub mod program;
pub mod protobuf;
pub mod quality;
pub mod regular_file;
pub mod sample_bytes;
pub mod session;
pub mod sink;
pub mod space;
pub mod span;
pub mod stack;
#[allow(unsafe_code)]
pub mod sys;
pub mod varint;
pub mod wait;
