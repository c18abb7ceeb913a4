//! Function names and ranges from `.symtab`, `.dynsym` and the procedure linkage table.

use std::sync::Arc;

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use recording::symbol::FunctionSymbol;

use super::file::{ElfFile, is_code, offset_in};
use super::plt;
use crate::demangle::demangle;

/// How far a look-up walks back to a symbol that encloses the nearest one. Assembly has a few labels inside a
/// function; only hostile files have more than this.
const MAX_NESTED: usize = 64;

/// One function. Its name stays in the file until a look-up needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    /// Stated virtual address relative to the lowest PT_LOAD.
    pub(super) start: u64,
    /// Size in bytes; 0 if the symbol table does not have it.
    pub(super) size: u64,
    /// Index of the file that has the name.
    file: u8,
    /// A linkage stub: its name is the function that it jumps to, with `@plt`.
    plt: bool,
    /// Offset of the name in that file.
    name_offset: u64,
}

/// All functions of a module, by address.
pub(crate) struct SymbolTable {
    files: Vec<Arc<ElfFile>>,
    symbols: Vec<Symbol>,
    /// Sections with code: (start, end), by address. A symbol without a size ends at the end of its section at the latest.
    code: Vec<(u64, u64)>,
}

/// Order of several names of one address, best first: a typed function, a size, global before weak before
/// local (`malloc` before `__libc_malloc`), few leading underscores, the shorter name.
type Rank = (bool, bool, u8, usize, usize);

impl SymbolTable {
    /// Reads the tables of all files of a module; names of an earlier file are preferred.
    pub(crate) fn read(files: &[Arc<ElfFile>]) -> SymbolTable {
        let mut found: Vec<(Symbol, Rank)> = Vec::new();
        let mut code = Vec::new();
        for (index, file) in files.iter().enumerate().take(usize::from(u8::MAX)) {
            let Ok(object) = file.object() else { continue };
            let mut sections: Vec<(u64, u64)> = object
                .sections()
                .filter(is_code)
                .map(|section| {
                    let start = section.address().wrapping_sub(file.base_svma());
                    (start, start.saturating_add(section.size()))
                })
                .collect();
            sections.sort_unstable();
            if code.is_empty() {
                code.clone_from(&sections);
            }
            for symbol in object.symbols().chain(object.dynamic_symbols()) {
                found.extend(function(file, index as u8, &symbol, &sections));
            }
            for stub in plt::stubs(file, &object) {
                let symbol = Symbol {
                    start: stub.address.wrapping_sub(file.base_svma()),
                    size: stub.size,
                    file: index as u8,
                    plt: true,
                    name_offset: stub.name_offset,
                };
                found.push((symbol, (true, true, 3, 0, 0)));
            }
        }
        found.sort_unstable_by_key(|(symbol, rank)| (symbol.start, *rank, symbol.file));
        found.dedup_by_key(|(symbol, _)| symbol.start);
        SymbolTable {
            files: files.to_vec(),
            symbols: found.into_iter().map(|(symbol, _)| symbol).collect(),
            code,
        }
    }

    /// The function at a relative address, the innermost if symbols nest.
    pub(crate) fn find(&self, address: u64) -> Option<FunctionSymbol> {
        let symbol = &self.symbols[self.index(address)?];
        let file = self.files.get(usize::from(symbol.file))?;
        let mut name = demangle(name_at(file, symbol.name_offset));
        if symbol.plt {
            name.push_str("@plt");
        }
        let size = (symbol.size > 0).then_some(symbol.size);
        Some(FunctionSymbol::named(name, symbol.start, size))
    }

    /// The end of a function without a size: the start of the next function, or the end of its section.
    pub(crate) fn end_without_size(&self, address: u64) -> Option<u64> {
        let next = self.symbols.get(self.index(address)? + 1);
        let section_end = self.section(address)?.1;
        Some(next.map_or(section_end, |next| next.start.min(section_end)))
    }

    /// The other parts of the function that holds a relative address, by the names that compilers give to them: `f` and `f.cold`
    /// (gcc), or `f.cold.1` (LLVM). Nothing if several functions, static in their files, have the name.
    pub(crate) fn other_parts(&self, address: u64) -> Vec<FunctionSymbol> {
        let this = self.index(address).map(|at| &self.symbols[at]);
        let file_of = |symbol: &Symbol| self.files.get(usize::from(symbol.file));
        let Some((this, file)) = this.and_then(|this| Some((this, file_of(this)?))) else {
            return Vec::new();
        };
        let name = name_at(file, this.name_offset);
        let whole = whole_of(name).unwrap_or(name);
        // Names of hostile files are long, and each symbol's is compared.
        if whole.len() > MAX_PART_NAME_BYTES {
            return Vec::new();
        }
        let mut parts: Vec<&Symbol> = Vec::new();
        let (mut of_name, mut cold) = (0, 0);
        for symbol in self.symbols.iter().filter(|symbol| !symbol.plt) {
            let Some(file) = file_of(symbol) else { continue };
            let text = usize::try_from(symbol.name_offset).ok().and_then(|at| file.get(at..));
            if !text.is_some_and(|text| text.starts_with(whole.as_bytes())) {
                continue;
            }
            let name = name_at(file, symbol.name_offset);
            let is_cold = whole_of(name) == Some(whole);
            of_name += usize::from(name == whole);
            cold += usize::from(is_cold);
            if (is_cold || name == whole) && symbol.start != this.start {
                parts.push(symbol);
            }
        }
        if of_name != 1 || cold == 0 {
            return Vec::new();
        }
        parts.into_iter().filter_map(|symbol| self.find(symbol.start)).collect()
    }

    fn index(&self, address: u64) -> Option<usize> {
        let after = self.symbols.partition_point(|symbol| symbol.start <= address);
        let before = self.symbols[..after].iter().enumerate().rev().take(MAX_NESTED);
        for (at, symbol) in before {
            if address - symbol.start < symbol.size {
                return Some(at);
            }
        }
        // A symbol without a size reaches to the next symbol, but not into another section. A label without a size
        // inside a function with a size was ruled out above.
        let nearest = after.checked_sub(1)?;
        let symbol = &self.symbols[nearest];
        let reaches = symbol.size == 0 && self.section(symbol.start)? == self.section(address)?;
        reaches.then_some(nearest)
    }

    /// The section with code that holds a relative address, as (start, end).
    fn section(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.code.partition_point(|section| section.0 <= address);
        let section = *self.code.get(after.checked_sub(1)?)?;
        (address < section.1).then_some(section)
    }
}

/// The symbol of the whole function that a symbol is the seldom run part of.
fn whole_of(name: &str) -> Option<&str> {
    let (whole, rest) = name.rsplit_once(".cold")?;
    let number = rest.strip_prefix('.').unwrap_or(rest);
    (number.bytes().all(|byte| byte.is_ascii_digit())).then_some(whole)
}

/// Longest name of a function whose other parts are looked for.
const MAX_PART_NAME_BYTES: usize = 64 << 10;

/// Longest name that is read; a longer one is in a damaged table.
const MAX_NAME_BYTES: usize = 1 << 20;

pub(super) fn name_at(file: &ElfFile, offset: u64) -> &str {
    let Some(bytes) = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)) else {
        return "";
    };
    let bytes = &bytes[..bytes.len().min(MAX_NAME_BYTES)];
    let name = memchr::memchr(0, bytes).map_or(bytes, |end| &bytes[..end]);
    // A file that is written to meanwhile may stop being UTF-8: then the symbol has no name.
    let name = std::str::from_utf8(name).unwrap_or("");
    // `memcpy@@GLIBC_2.14`: the version is not part of the name.
    name.split_once('@').map_or(name, |(name, _)| name)
}

fn function<'a>(
    file: &ElfFile,
    index: u8,
    symbol: &impl ObjectSymbol<'a>,
    code: &[(u64, u64)],
) -> Option<(Symbol, Rank)> {
    // Hand-written assembly often leaves its labels untyped.
    let typed = match symbol.kind() {
        SymbolKind::Text => true,
        SymbolKind::Unknown => false,
        _ => return None,
    };
    if !symbol.is_definition() && (typed || symbol.is_undefined()) {
        return None;
    }
    let start = symbol.address().wrapping_sub(file.base_svma());
    if !typed {
        let after = code.partition_point(|section| section.0 <= start);
        let inside = after.checked_sub(1).is_some_and(|at| start < code[at].1);
        if !inside {
            return None;
        }
    }
    let name = symbol.name_bytes().ok()?;
    // `$x`, `$d`: mapping symbols of the ARM ABI. `.L`: labels local to an assembler file.
    if name.is_empty() || name.starts_with(b"$") || name.starts_with(b".L") {
        return None;
    }
    std::str::from_utf8(name).ok()?;
    let binding = match (symbol.is_global(), symbol.is_weak()) {
        (true, false) => 0,
        (_, true) => 1,
        _ => 2,
    };
    let underscores = name.iter().take_while(|byte| **byte == b'_').count();
    let rank = (!typed, symbol.size() == 0, binding, underscores, name.len());
    let symbol = Symbol {
        start,
        size: symbol.size(),
        file: index,
        plt: false,
        name_offset: offset_in(file, name)?,
    };
    Some((symbol, rank))
}
