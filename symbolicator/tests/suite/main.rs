//! Names, lines and machine code, against other readers of the same files. A module is a topic, and one binary compiles
//! and links what they share once: `cargo test -p sprof-symbolicator --test suite matrix::`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail and talk")]

mod against_addr2line;
mod api;
mod asm;
mod cache;
mod common;
mod compilers_code;
#[path = "../../../perf-data/tests/suite/common/damage.rs"]
#[allow(dead_code, reason = "the other crates use the rest")]
mod damage;
mod elf;
mod hostile;
mod jit;
mod mach_o;
mod matrix;
mod probe;
mod reference;
mod shared_cache;
