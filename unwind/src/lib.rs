#![doc = include_str!("../README.md")]
//! The journey, in reading order; each room imports only those below it in this list:
//!
//! 1. `stage`: [`Unwinder`], a sink that owns the next one; the stacks of all threads; one of them.
//! 2. `completion`: verifies stacks that were completed from live memory.
//! 3. `walk`: one stack from leaf to root, three ways to take a step, and whether a caller can have called its callee.
//! 4. `tables`: the modules of all processes and the unwind rules of their files.
//! 5. `arch`: what is special to x86-64 and aarch64: registers, prologues, the frame by the code of a whole function,
//!    signal frames.
//! 6. `files`: ELF, Mach-O and jitdump files, [`compression`] of their sections, call frame information.

mod address;
mod arch;
mod completion;
mod files;
mod stage;
mod tables;
mod walk;

use recording::module::BuildId;
use recording::sink::ReadAt;

pub use files::{compression, jitdump};
pub use stage::{UnwindEngine, UnwindOptions, Unwinder};
pub use tables::functions::Functions;

/// The build id of an ELF file by its headers, or the UUID of a Mach-O file with code for one processor. `None`: the
/// file has no build id, or is neither kind of file.
pub fn build_id_of(file: &dyn ReadAt) -> Option<BuildId> {
    let object = files::object::ObjectFile::read(file, None).ok()?;
    object.build_id().cloned()
}
