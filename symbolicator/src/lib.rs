#![doc = include_str!("../README.md")]
//! Out of scope: profiles, HTTP, output formats. [`api`] knows the bodies of the Firefox Profiler's symbol-server
//! requests, but no server.
//!
//! The rooms, in reading order:
//!
//! 1. [`Symbolicator`] (`symbolicator/`): the modules of a recording. It opens one at its first look-up, by kind.
//! 2. `files`: which files a module has, and one of them in memory.
//! 3. `objects`: the symbols and the debug info of ELF and Mach-O files. `demangle` makes names readable.
//! 4. `kernel`: the functions of the kernel, and the debug info of the kernel and of its modules.
//! 5. [`jit`]: JIT code. `recorded`: names that came with the recording. `foreign`: symbol files of other systems.
//! 6. `sources` and `asm`: the code of an address as text. [`probe`]: from a name to its address. [`api`]: the requests
//!    of the Firefox Profiler.
//! 7. `cache`: what the next start need not find out again. `module_cache`: which modules stay in memory.
//!    `helper_threads`: threads for long look-ups. `debuginfod`: files that this machine lacks. `downloads`: what these
//!    and the servers of `foreign` share.
//! 8. `sys`: mapped files.

pub mod api;
mod asm;
mod cache;
mod debuginfod;
mod demangle;
mod downloads;
mod error;
mod files;
mod foreign;
mod helper_threads;
pub mod jit;
mod kernel;
mod module_cache;
mod objects;
pub mod probe;
mod recorded;
mod sources;
mod symbolicator;
mod sys;

pub use crate::asm::{AsmError, Assembly, Instruction, InstructionTarget};
pub use crate::debuginfod::{Debuginfod, DebuginfodError, Fetch, FetchError, FetchProgress, FileRequest};
pub use crate::demangle::demangle;
pub use crate::downloads::{Download, Watcher};
pub use crate::error::SymbolError;
pub use crate::files::options::SymbolOptions;
pub use crate::foreign::{SymbolServers, SymbolServersError};
pub use crate::kernel::kallsyms::{
    KernelFunctions, find_kernel_function, kernel_build_id, kernel_functions, kernel_text_base,
};
pub use crate::recorded::RecordedSymbols;
pub use crate::sources::{LocalSources, PathMap, SourceError};
pub use crate::symbolicator::ahead::Ahead;
pub use crate::symbolicator::{ModuleKey, Symbolicator};

pub use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
pub use recording::module::Module;
