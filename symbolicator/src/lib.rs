//! From code addresses to names, inline frames, source lines and assembly.
//!
//! Give: [`Module`]s as a recording has them, and addresses relative to a module (0 is where the lowest PT_LOAD of its
//! ELF file is loaded), inside the instruction that is meant (for a return address, one byte before it).
//! Get: an [`AddressInfo`] for each, or an error that says which file was looked at, what was wrong and what to do.
//!
//! A file is used only if it has the build id that was recorded. Nothing is read before it is asked for, and of debug
//! info only the units that the addresses fall into. Files are input like any other: damaged or hostile ones give
//! errors or less information, told by [`Symbolicator::notes`].
//!
//! Out of scope: profiles, HTTP, output formats. [`api`] knows the bodies of the Firefox Profiler's symbol-server
//! requests, but no server.
//!
//! The journey: [`Symbolicator`] -> `locate` (which files) -> `elf` (`file`, `symtab`, `plt`, `dwarf`) -> `demangle`;
//! for code that a JIT made, [`jit`]; for files that are not here, `recorded`; from a name back to its place, [`probe`]; then `source` and `asm` for those who want to see the code.

pub mod api;
mod asm;
mod demangle;
mod elf;
mod error;
pub mod jit;
mod kernel;
mod locate;
pub mod probe;
mod recorded;
mod source;
mod symbolicator;
mod sys;
mod vdso;

pub use crate::asm::{AsmError, Assembly, Instruction};
pub use crate::demangle::demangle;
pub use crate::error::SymbolError;
pub use crate::kernel::{KernelFunctions, find_kernel_function, kernel_build_id, kernel_functions, kernel_text_base};
pub use crate::recorded::RecordedSymbols;
pub use crate::source::SourceError;
pub use crate::symbolicator::{ModuleKey, SymbolOptions, Symbolicator};

pub use recording::module::Module;
pub use recording::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
