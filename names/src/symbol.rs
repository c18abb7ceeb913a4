//! The symbol table as plain data: what a symbol engine answers and a profile is enriched with.

use std::ops::Range;

use crate::v8;

/// The name of `_start` in a program without symbols. samply has the same.
pub const ENTRY_POINT: &str = "EntryPoint";

/// What is known of one code address.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AddressInfo {
    /// The function that the address belongs to by symbol table or debug info, demangled.
    pub function: Option<FunctionSymbol>,
    /// The frames at this address by debug info, innermost inlined function first, the outer (real) function last.
    /// Empty without debug info.
    pub frames: Vec<SourceFrame>,
}

impl AddressInfo {
    /// True if a function at the address has a name, and not one that is made of its address.
    pub fn is_named(&self) -> bool {
        let by_symbol = self.function.as_ref().is_some_and(|function| function.is_named);
        by_symbol || self.frames.iter().any(|frame| frame.function.is_some())
    }
}

/// True if the function's name is unknown: an address, a name made of an address, or another profiler's placeholder.
pub fn is_nameless(name: &str) -> bool {
    let is_address = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.starts_with("0x")
        || name.starts_with("[kernel] 0x")
        || name == "[unknown]"
        || name.strip_prefix("fun_").is_some_and(is_address)
}

/// A function with an address range of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Demangled name.
    pub name: String,
    /// False if the function's name is not known: then `name` is made of its address.
    pub is_named: bool,
    /// Relative address of its first byte.
    pub start: u64,
    /// Size in bytes, if known.
    pub size: Option<u64>,
    /// The crate that defines it, or the package that it was compiled from: see [`rust_crate`](crate::rust_crate).
    pub krate: Option<String>,
    /// For code that V8 compiled.
    pub v8: Option<v8::Code>,
}

impl FunctionSymbol {
    /// A function with a name.
    pub fn named(name: String, start: u64, size: Option<u64>) -> FunctionSymbol {
        FunctionSymbol {
            name,
            is_named: true,
            start,
            size,
            krate: None,
            v8: None,
        }
    }

    /// A function whose relative addresses are known, and nothing else.
    pub fn unnamed(addresses: &Range<u64>) -> FunctionSymbol {
        FunctionSymbol {
            name: format!("fun_{:x}", addresses.start),
            is_named: false,
            start: addresses.start,
            size: addresses.end.checked_sub(addresses.start),
            krate: None,
            v8: None,
        }
    }
}

/// One function at an address, with the place in its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFrame {
    /// Demangled name.
    pub function: Option<String>,
    /// Path of the source file of the line, as the debug info has it, made absolute with the compilation directory.
    pub file: Option<String>,
    /// Path of the source file that declares the function, where `file` is another one: lines of a function come from
    /// several files by `#include` inside of it, `#line` and macros.
    pub declared_in: Option<String>,
    /// 1-based line: of the call for outer frames, of the instruction for the innermost.
    pub line: Option<u32>,
    /// 1-based column.
    pub column: Option<u32>,
    /// The crate that defines the function, or the package that it was compiled from: see
    /// [`rust_crate`](crate::rust_crate).
    pub krate: Option<String>,
}

impl SourceFrame {
    /// Path of the source file of the function, equal for all of its lines. `None` if it is not known.
    pub fn function_file(&self) -> Option<&str> {
        self.declared_in.as_deref().or(self.file.as_deref())
    }
}

/// What a module's names were looked up in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SymbolSource {
    /// Nothing was looked up: the profile came with names, or names were not asked for.
    #[default]
    NotAsked,
    /// The module's files, and what these have.
    Files {
        /// A full symbol table, not only the functions that other modules may call.
        symbol_table: bool,
        /// DWARF.
        debug_info: bool,
    },
    /// Names that came with the recording: of a JIT compiler, the kernel, another profiler.
    Recorded,
    /// No file was found.
    NoFile,
    /// The file that is there now is another build.
    OtherBuild,
    /// A file is there and can't be used.
    Unreadable,
    /// The kernel shows this user no addresses.
    Hidden,
    /// The module's symbols have a format of another system, and this sprof is built without the reader of such
    /// formats.
    NotBuilt,
}

impl SymbolSource {
    /// True if these are files that may name more than the earlier source: also code, lines or inlined functions that
    /// have no names now.
    pub fn adds_to(self, earlier: SymbolSource) -> bool {
        let SymbolSource::Files {
            symbol_table,
            debug_info,
        } = self
        else {
            return false;
        };
        match earlier {
            SymbolSource::Files { debug_info: true, .. } => false,
            SymbolSource::Files {
                symbol_table: had_table,
                ..
            } => debug_info || symbol_table && !had_table,
            SymbolSource::Recorded => debug_info,
            _ => true,
        }
    }

    /// True if the source has DWARF.
    pub fn has_debug_info(self) -> bool {
        matches!(self, SymbolSource::Files { debug_info: true, .. })
    }
}
