//! Turns stack snapshots into frames.
//!
//! Gets: all events of a recorder. Gives: the same events, an [`Image`](recording::event::ProcessEvent::Image) after
//! each mapping of a module, and every sample's stack as [`Stack::Frames`](recording::stack::Stack::Frames), leaf
//! first: kernel frames, user frames, and a [`Frame::Mark`](recording::stack::Frame::Mark) where something is missing
//! or not verified. Out of scope: names, system calls (memory and files are parameters), and how a recorder takes its
//! snapshots.
//!
//! The journey, in reading order:
//!
//! 1. [`Unwinder`]: the stage, a sink that owns the next one; `unwinding`: the stacks of all threads; `walker`: one of
//!    them.
//! 2. `space`: which modules are mapped where, per process.
//! 3. `object`, `elf`, `macho`, `piece`, `modules`: the file of a module, shared by all processes; [`compression`]: its
//!    compressed sections.
//! 4. `tables`, `cfi`, `go`: the unwind rules of one file; of a Mach-O file `compact`, `unwind_info`, `macho_functions`
//!    and, where its tables do not say it, `pass`, `frame_x86_64` and `frame_aarch64`: the frame by the code of the
//!    whole function.
//! 5. `stack_memory`: the bytes of the sample, then those of the live target.
//! 6. `walk`: from leaf to root, and what counts as a root; `usual_steps`: most of its steps; `steps`: all others;
//!    `last_walk`: the thread's last walk, whose steps are not made again; `outcome`: what a walk found.
//! 7. `arch`, `x86_64`, `aarch64`, `signal`, `prologue_x86_64`, `prologue_aarch64`, `jit`: one step of the walk;
//!    [`jitdump`]: the files that `jit` reads.
//! 8. `live_boundary`: verifies stacks that were completed from live memory; `calls`: whether a caller can have called
//!    its callee.

mod aarch64;
mod arch;
mod bytes;
mod callers;
mod calls;
mod cfi;
mod cfi_entries;
mod changes;
mod code_rules;
mod compact;
mod compact_aarch64;
mod compact_x86_64;
mod compressed;
pub mod compression;
mod elf;
mod elf_code;
mod frame_aarch64;
mod frame_x86_64;
mod function_rules;
mod functions;
mod go;
mod jit;
pub mod jitdump;
mod known_stack;
mod large;
mod last_walk;
mod leaf_first;
mod live_boundary;
mod looked_at;
mod macho;
mod macho_functions;
mod modules;
mod object;
mod outcome;
mod pass;
mod piece;
mod prologue_aarch64;
mod prologue_x86_64;
mod rule;
mod signal;
mod space;
mod stack_memory;
mod starts;
mod starts_aarch64;
mod starts_x86_64;
mod steps;
mod tables;
mod unwind_info;
mod unwinder;
mod unwinding;
mod usual_steps;
mod walk;
mod walker;
mod x86_64;

use recording::module::BuildId;
use recording::sink::ReadAt;

pub use functions::Functions;
pub use unwinder::Unwinder;
pub use walker::UnwindOptions;

/// The build id of an ELF file by its headers, or the UUID of a Mach-O file with code for one processor. `None`: it has
/// none, or is no file that can be read.
pub fn build_id_of(file: &dyn ReadAt) -> Option<BuildId> {
    let object = object::Object::read(file, None).ok()?;
    object.build_id().cloned()
}
