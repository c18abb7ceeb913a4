//! Function names and ranges from `.symtab`, `.dynsym` and the procedure linkage table.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use recording::symbol::FunctionSymbol;

use super::file::{ElfFile, is_code};
use super::plt;
use crate::demangle::demangle;

/// How far a look-up walks back to a symbol that encloses the nearest one. Assembly has a few labels inside a
/// function; only hostile files have more than this.
const MAX_NESTED: usize = 64;

/// One function. The name stays in the file until asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    /// Stated virtual address relative to the lowest PT_LOAD.
    pub(super) start: u64,
    /// Bytes; 0 if the symbol table does not say.
    pub(super) size: u64,
    /// Which of the table's files has the name.
    file: u8,
    /// What to append: linkage stubs are called after the function they jump to.
    plt: bool,
    /// Where the name starts in that file.
    name_offset: u64,
}

/// All functions of a module, by address.
pub(crate) struct SymbolTable {
    symbols: Vec<Symbol>,
    /// Sections with code: (start, end), by address. A symbol without a size ends with its section at the latest.
    code: Vec<(u64, u64)>,
}

/// What decides between names of one address, best first: a typed function, a size, global before weak before
/// local (`malloc` before `__libc_malloc`), few leading underscores, the shorter name.
type Rank = (bool, bool, u8, usize, usize);

impl SymbolTable {
    /// Reads the tables of all files of a module; an earlier file's names win.
    pub(crate) fn read(files: &[&ElfFile]) -> SymbolTable {
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
            symbols: found.into_iter().map(|(symbol, _)| symbol).collect(),
            code,
        }
    }

    /// The function at a relative address, innermost if they nest. `files` as given to [`SymbolTable::read`].
    pub(crate) fn find(&self, address: u64) -> Option<SymbolRef<'_>> {
        let after = self.symbols.partition_point(|symbol| symbol.start <= address);
        for (steps, symbol) in self.symbols[..after].iter().rev().take(MAX_NESTED).enumerate() {
            let holds = if symbol.size > 0 {
                address - symbol.start < symbol.size
            } else {
                // No size: all up to the next symbol, but not into another section.
                steps == 0 && self.same_section(symbol.start, address)
            };
            if holds {
                return Some(SymbolRef { symbol });
            }
        }
        None
    }

    fn same_section(&self, a: u64, b: u64) -> bool {
        let after = self.code.partition_point(|section| section.0 <= a);
        after
            .checked_sub(1)
            .and_then(|at| self.code.get(at))
            .is_some_and(|section| a < section.1 && b < section.1 && b >= section.0)
    }
}

/// A symbol that was found.
pub(crate) struct SymbolRef<'a> {
    symbol: &'a Symbol,
}

impl SymbolRef<'_> {
    /// Its name, not demangled.
    pub(crate) fn raw_name<'f>(&self, files: &[&'f ElfFile]) -> &'f str {
        name_at(
            files.get(usize::from(self.symbol.file)).copied(),
            self.symbol.name_offset,
        )
    }

    /// The function as plain data.
    pub(crate) fn to_function(&self, files: &[&ElfFile]) -> FunctionSymbol {
        let mut name = demangle(self.raw_name(files));
        if self.symbol.plt {
            name.push_str("@plt");
        }
        FunctionSymbol {
            name,
            start: self.symbol.start,
            size: (self.symbol.size > 0).then_some(self.symbol.size),
        }
    }
}

/// Longest name that is read; beyond it the table is damaged.
const MAX_NAME_BYTES: usize = 1 << 20;

fn name_at(file: Option<&ElfFile>, offset: u64) -> &str {
    let Some(bytes) = file.and_then(|file| file.get(usize::try_from(offset).ok()?..)) else {
        return "";
    };
    let bytes = &bytes[..bytes.len().min(MAX_NAME_BYTES)];
    let name = memchr::memchr(0, bytes).map_or(bytes, |end| &bytes[..end]);
    // A file that changes under us may stop being UTF-8: then it has no name.
    let name = std::str::from_utf8(name).unwrap_or("");
    // `memcpy@@GLIBC_2.14`: the version is not part of the name.
    name.split_once('@').map_or(name, |(name, _)| name)
}

/// Where a slice of the file starts in it.
pub(super) fn offset_in(file: &ElfFile, part: &[u8]) -> Option<u64> {
    let offset = (part.as_ptr() as usize).checked_sub(file.as_ptr() as usize)?;
    (offset.checked_add(part.len())? <= file.len()).then_some(offset as u64)
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
