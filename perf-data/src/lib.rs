#![doc = include_str!("../README.md")]
//! The journey, in reading order:
//!
//! 1. `abi`: numbers of the kernel's interface.
//! 2. [`decode`]: bytes to records.
//! 3. [`merge`]: time order across CPUs.
//! 4. [`origins`]: a record that was written twice counts once.
//! 5. [`translate`]: records to events; [`wait`]: which kernel function waits for what.
//! 6. [`events`]: names of events, and the bytes of their values.
//! 7. [`import`]: a file instead of ring buffers, through 2 and 5.
//! 8. [`spool`]: writes such a file while recording; `marks`: how its call chains hold frames without code.

mod abi;
pub mod decode;
pub mod events;
pub mod import;
mod marks;
pub mod merge;
pub mod origins;
pub mod spool;
pub mod translate;
pub mod wait;
