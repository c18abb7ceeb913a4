//! From code addresses to names, inline frames, source lines and assembly.
//!
//! The caller gives [`Module`]s as a recording has them, and addresses relative to a module (0 is where the lowest
//! PT_LOAD of its ELF file, or `__TEXT` of its Mach-O file, is loaded). Each address is inside its instruction: for a
//! return address, one byte before it. The caller gets an [`AddressInfo`] for each address, or an error with the file,
//! the fault and the next step.
//!
//! A file is used only if it has the recorded build id. Files are read when they are first needed, and only the units
//! of debug info that hold the addresses. Damaged or hostile files give errors or less information, listed by
//! [`Symbolicator::notes`].
//!
//! Out of scope: profiles, HTTP, output formats. [`api`] knows the bodies of the Firefox Profiler's symbol-server
//! requests, but no server.
//!
//! The journey: [`Symbolicator`] -> `locate` (which files; `dsym`) -> `objects` (`file`, `symtab`, `plt`, `mach_o`,
//! `dwarf`) -> `demangle`. [`jit`] has JIT code, `foreign` the symbol files of other systems, `recorded` names that
//! came with the recording, `cache` what the next start need not find out again, `debuginfod` files that this machine
//! lacks, `kernel` the functions of the kernel, `vmlinux` and `kernel_modules` their debug info, `held` which modules
//! stay in memory, `ahead` look-ups of several modules at once, [`probe`] the way from a name to its address, `source`
//! and `asm` the code.

mod ahead;
pub mod api;
mod asm;
mod cache;
mod debuginfod;
mod demangle;
mod dsym;
mod error;
mod foreign;
mod held;
mod helpers;
pub mod jit;
mod kernel;
mod kernel_modules;
mod local_sources;
mod locate;
mod objects;
mod path_map;
pub mod probe;
mod recorded;
mod source;
mod symbolicator;
mod sys;
mod vdso;
mod vmlinux;

pub use crate::ahead::Ahead;
pub use crate::asm::{AsmError, Assembly, Instruction, Target};
pub use crate::debuginfod::{Debuginfod, DebuginfodError, Download, Watcher};
pub use crate::demangle::demangle;
pub use crate::error::SymbolError;
pub use crate::foreign::{SymbolServers, SymbolServersError};
pub use crate::kernel::{KernelFunctions, find_kernel_function, kernel_build_id, kernel_functions, kernel_text_base};
pub use crate::local_sources::LocalSources;
pub use crate::locate::SymbolOptions;
pub use crate::path_map::PathMap;
pub use crate::recorded::RecordedSymbols;
pub use crate::source::SourceError;
pub use crate::symbolicator::{ModuleKey, Symbolicator};

pub use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
pub use recording::module::Module;
