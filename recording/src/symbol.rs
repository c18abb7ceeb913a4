//! The symbol table as plain data: what a symbol engine answers and a profile is enriched with.

/// What is known of one code address.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AddressInfo {
    /// The function that the address belongs to by symbol table or debug info, demangled.
    pub function: Option<FunctionSymbol>,
    /// The frames at this address by debug info, innermost inlined function first, the outer (real) function last.
    /// Empty without debug info.
    pub frames: Vec<SourceFrame>,
}

/// A function with an address range of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Demangled name.
    pub name: String,
    /// Relative address of its first byte.
    pub start: u64,
    /// Size in bytes, if known.
    pub size: Option<u64>,
}

/// One function at an address, with the place in its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Demangled name.
    pub function: Option<String>,
    /// Path of the source file as the debug info has it, made absolute with the compilation directory.
    pub file: Option<String>,
    /// 1-based line: of the call for outer frames, of the instruction for the innermost.
    pub line: Option<u32>,
    /// 1-based column.
    pub column: Option<u32>,
}
