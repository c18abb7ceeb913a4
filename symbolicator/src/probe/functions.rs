//! From the name of a function to the places in the file where it begins.

use std::collections::BTreeMap;
use std::path::Path;

use object::{Object, ObjectSymbol, SymbolFlags, SymbolKind, elf};

use super::names::{Match, Wanted};
use super::{Code, Place};
use crate::SymbolOptions;
use crate::asm;
use crate::demangle::demangle;
use crate::elf::ElfModule;
use crate::error::SymbolError;

/// Functions of one name at most: instances of a generic, overloads, functions of the same name in several files.
const MAX_FUNCTIONS: usize = 100;
/// Similar names that are told.
const MAX_SIMILAR: usize = 5;

/// One place where a function begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its whole name, demangled.
    pub name: String,
    /// Where it begins in the file.
    pub file_offset: u64,
}

/// The functions of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// By offset; at most 100.
    pub found: Vec<Function>,
    /// How many more there are.
    pub left_out: usize,
    /// Places where the compiler put the body of the function in place of a call: there, no probe sees it. Counted in debug info,
    /// where static functions of C++ have no scope: those are not counted.
    pub inlined_copies: u64,
    /// The function is split, and a part of it was inlined into callers, which may never get to its beginning.
    pub is_split: bool,
    /// A symbol of this name is no function: when the program starts, it chooses one of several (IFUNC).
    pub is_chosen_at_start: bool,
    /// Of nothing found: names that end in the same.
    pub similar: Vec<String>,
    /// The file has names of functions at all.
    pub has_symbols: bool,
}

/// Finds the functions of a file that someone calls `name`.
pub fn find_functions(path: &Path, name: &str, options: &SymbolOptions) -> Result<Functions, SymbolError> {
    let (mut elf, code) = super::open(path, options)?;
    let wanted = Wanted::new(name);
    let mut functions = Functions::default();
    let mut found: BTreeMap<u64, String> = BTreeMap::new();
    for file in elf.symbol_files() {
        let object = file.object()?;
        for symbol in object.symbols().chain(object.dynamic_symbols()) {
            let Some(raw) = function_name(&symbol) else { continue };
            functions.has_symbols = true;
            let kind = wanted.matches(raw);
            if kind == Match::No {
                continue;
            }
            let offset = code.offset(symbol.address().wrapping_sub(file.base_svma()));
            match (kind, offset) {
                (Match::Whole, Some(_)) if is_chosen_at_start(&symbol) => functions.is_chosen_at_start = true,
                (Match::Whole, Some(offset)) => {
                    found.entry(offset).or_insert_with(|| demangle(raw));
                }
                // `.cold` holds what is hardly ever run; `.part` is what is left when the beginning was inlined.
                (Match::Part, _) => functions.is_split |= raw.contains(".part"),
                (Match::Similar, Some(_)) if functions.similar.len() < MAX_SIMILAR => {
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
        .map(|(file_offset, name)| Function { name, file_offset })
        .collect();
    if !functions.found.is_empty() {
        functions.similar.clear();
    }
    functions.inlined_copies = elf.inlined_copies(|name| wanted.is_meant(name));
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

/// What is at a relative address.
pub(super) fn place(elf: &mut ElfModule, code: &Code, address: u64) -> Place {
    let Some(function) = elf.function(address).filter(|function| function.start <= address) else {
        return Place::Unknown;
    };
    let named = |offset: u64| match offset {
        0 => function.name.clone(),
        offset => format!("{}+{offset:#x}", function.name),
    };
    match asm::instruction_at(elf, function.start, address) {
        Some(begin) if begin == address => Place::Instruction(Some(named(address - function.start))),
        Some(begin) => match code.offset(begin) {
            Some(begins_at) => Place::InsideInstruction {
                begins_at,
                name: named(begin.saturating_sub(function.start)),
            },
            None => Place::Unknown,
        },
        None => Place::Unknown,
    }
}
