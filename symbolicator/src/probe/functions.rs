//! Finds the file offsets where the functions of a name begin.

use std::collections::BTreeMap;
use std::path::Path;

use object::{Object, ObjectSymbol, SymbolFlags, SymbolKind, elf};

use super::names::{FunctionPattern, NameMatch};
use super::segments;
use crate::demangle::demangle;
use crate::error::SymbolError;
use crate::files::object_file::ObjectFile;
use crate::files::options::SymbolOptions;

/// Functions of one name at most: instances of a generic function, overloads, functions of several files.
const MAX_FUNCTIONS: usize = 100;
/// Similar names in an answer at most.
const MAX_SIMILAR: usize = 5;

/// One place where a function begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionStart {
    /// The whole demangled name.
    pub name: String,
    /// File offset of the first instruction.
    pub file_offset: u64,
}

/// The functions of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFunctions {
    /// In the order of offsets; at most 100.
    pub found: Vec<FunctionStart>,
    /// How many more functions have this name.
    pub left_out: usize,
    /// Inlined calls, which no probe sees. They are counted in debug info, without static functions of C++, which have
    /// no scope there.
    pub inlined_copies: u64,
    /// The function is split, and a part of it is inlined into callers. Such a caller may never run its first
    /// instruction.
    pub is_split: bool,
    /// True if a symbol of this name stands for several functions, and the program chooses one when it starts (IFUNC).
    pub is_chosen_at_start: bool,
    /// If nothing was found: names with the same last part.
    pub similar: Vec<String>,
    /// The file has names of functions.
    pub has_symbols: bool,
    /// The file itself has a dynamic symbol table alone, which `nm` lists with `-D`.
    pub only_dynamic: bool,
}

/// Finds the functions of a file that have this name. The result is empty if no function has it.
///
/// # Errors
///
/// The file can't be read.
pub fn find_functions(path: &Path, name: &str, options: &SymbolOptions) -> Result<FoundFunctions, SymbolError> {
    let (mut module, code) = segments::open(path, options)?;
    let wanted = FunctionPattern::new(name);
    let mut functions = FoundFunctions::default();
    let mut found: BTreeMap<u64, String> = BTreeMap::new();
    functions.only_dynamic = !ObjectFile::open(path)?.has_symbols();
    for file in module.symbol_files() {
        let object = file.object()?;
        for symbol in object.symbols().chain(object.dynamic_symbols()) {
            let Some(raw) = function_name(&symbol) else { continue };
            functions.has_symbols = true;
            let kind = wanted.matches(raw);
            if kind == NameMatch::No {
                continue;
            }
            let offset = code.offset(symbol.address().wrapping_sub(file.base_svma()));
            match (kind, offset) {
                (NameMatch::Whole, Some(_)) if is_chosen_at_start(&symbol) => functions.is_chosen_at_start = true,
                (NameMatch::Whole, Some(offset)) => {
                    found.entry(offset).or_insert_with(|| demangle(raw));
                }
                // `.cold` holds code that hardly ever runs; `.part` is the rest of a function whose beginning was
                // inlined.
                (NameMatch::Part, _) => functions.is_split |= raw.contains(".part"),
                (NameMatch::Similar, Some(_)) if functions.similar.len() < MAX_SIMILAR => {
                    let name = demangle(raw);
                    if !functions.similar.contains(&name) {
                        functions.similar.push(name);
                    }
                }
                _ => {}
            }
        }
    }
    functions.left_out = found.len().saturating_sub(MAX_FUNCTIONS);
    let found = found.into_iter().take(MAX_FUNCTIONS);
    functions.found = found
        .map(|(file_offset, name)| FunctionStart { name, file_offset })
        .collect();
    if !functions.found.is_empty() {
        functions.similar.clear();
    }
    functions.inlined_copies = module.inlined_copies(|name| wanted.is_meant(name));
    Ok(functions)
}

fn function_name<'a>(symbol: &impl ObjectSymbol<'a>) -> Option<&'a str> {
    if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
        return None;
    }
    let name = std::str::from_utf8(symbol.name_bytes().ok()?).ok()?;
    // `memcpy@@GLIBC_2.14`: the version is not part of the name.
    Some(name.split_once('@').map_or(name, |(name, _)| name)).filter(|name| !name.is_empty())
}

fn is_chosen_at_start<'a>(symbol: &impl ObjectSymbol<'a>) -> bool {
    match symbol.flags() {
        SymbolFlags::Elf { st_info, .. } => st_info.st_type() == elf::STT_GNU_IFUNC,
        _ => false,
    }
}
