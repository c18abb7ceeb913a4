//! Function names and ranges from symbol tables and linkage stubs. Of ELF these are `.symtab`, `.dynsym` and the
//! procedure linkage table.

use std::ops::Range;
use std::sync::Arc;

use names::rust_crate;
use names::symbol::FunctionSymbol;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Object, ObjectSection, ObjectSegment, elf};
use unwind::Functions;

use super::by_address::{ByAddress, SymbolPosition};
use super::dynamic::DynamicSymbols;
use super::mach_o;
use super::plt;
use super::symbol::{Symbol, SymbolBinding, SymbolClass, SymbolNames, name_at, section_at};
use crate::demangle::demangle;
use crate::files::object_file::{ObjectFile, is_code, offset_in};

/// How far a look-up walks back to a symbol that encloses the nearest one. Assembly has a few labels inside a
/// function; only hostile files have more than this.
const MAX_NESTED: usize = 64;

/// All functions of a module, by address.
pub(crate) struct SymbolTable {
    symbols: ByAddress,
    /// Sections with code: (start, end), by address. A symbol without a size ends at the end of its section at the
    /// latest.
    code: Vec<(u64, u64)>,
}

impl SymbolTable {
    /// Reads the tables of all files of a module; names of an earlier file are preferred.
    pub(crate) fn read(files: &[Arc<ObjectFile>]) -> SymbolTable {
        let mut found: Vec<Symbol> = Vec::new();
        let mut code = Vec::new();
        let mut names = SymbolNames::new(files);
        // A Mach-O file has no sizes of symbols, and a list of functions beside its code.
        let mach_o = files.iter().filter(|file| file.is_mach_o());
        let listed = mach_o.max_by_key(|file| file.has_code());
        let listed = listed.map(|file| Functions::read(&**file));
        for (index, file) in files.iter().enumerate().take(usize::from(SymbolNames::MADE)) {
            let Ok(object) = file.object() else { continue };
            let sections = code_sections(file, &object);
            if code.is_empty() {
                code.clone_from(&sections);
            }
            let index = index as u8;
            match &object {
                object::File::Elf32(object) => read_tables(file, index, object, &sections, &mut found),
                object::File::Elf64(object) => read_tables(file, index, object, &sections, &mut found),
                object::File::MachO64(object) => {
                    mach_o::symbols::read(
                        (file, index),
                        object,
                        listed.as_ref(),
                        &sections,
                        &mut names,
                        &mut found,
                    );
                }
                _ => {}
            }
            found.extend(plt::stubs(file, &object).into_iter().map(|stub| Symbol {
                start: stub.address.wrapping_sub(file.base_svma()),
                size: stub.size,
                name_offset: stub.name_offset,
                file: index,
                kind: SymbolClass::Stub,
                binding: SymbolBinding::Global,
            }));
        }
        let start = code.first().map_or(0, |first| first.0);
        let end = code.iter().map(|section| section.1).max().unwrap_or(0);
        SymbolTable {
            symbols: ByAddress::new(names, &found, start..end),
            code,
        }
    }

    /// Heap bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.symbols.held_bytes()
    }

    /// The function at a relative address, the innermost if symbols nest.
    pub(crate) fn find(&mut self, address: u64) -> Option<FunctionSymbol> {
        let symbol = self.place(address)?;
        let symbol = self.symbols.get(symbol);
        let mangled = name_at(self.symbols.names().text(&symbol), symbol.name_offset);
        let mut name = demangle(mangled);
        let krate = rust_crate::of_function(mangled, &name, None);
        if symbol.kind == SymbolClass::Stub {
            name.push_str("@plt");
        }
        let size = (symbol.size > 0).then_some(symbol.size);
        Some(FunctionSymbol {
            krate,
            ..FunctionSymbol::named(name, symbol.start, size)
        })
    }

    /// Where the function that starts at a relative address ends at the latest: at the next symbol, or at the end of
    /// its section.
    pub(crate) fn limit(&mut self, start: u64) -> u64 {
        let next = self
            .symbols
            .last_until(start)
            .and_then(|place| self.symbols.behind(place));
        let next = next.map_or(u64::MAX, |next| self.symbols.get(next).start);
        self.section(start).map_or(start, |section| section.1.min(next))
    }

    /// The code around an address that no symbol holds: from the end of the symbol in front, or the start of one
    /// without a size, to the next one.
    pub(crate) fn gap(&mut self, address: u64) -> Option<Range<u64>> {
        let section = self.section(address)?;
        let before = self.symbols.last_until(address).map(|place| self.symbols.get(place));
        let end = before.map_or(0, |symbol| symbol.start.saturating_add(symbol.size));
        Some(end.clamp(section.0, address)..self.limit(address))
    }

    /// The other parts of the function that holds a relative address, by the names that compilers give to them: `f` and
    /// `f.cold` (gcc), or `f.cold.1` (LLVM). Nothing if several functions, static in their files, have the name.
    pub(crate) fn other_parts(&mut self, address: u64) -> Vec<FunctionSymbol> {
        let Some(this) = self.place(address).map(|place| self.symbols.get(place)) else {
            return Vec::new();
        };
        let names = Arc::clone(self.symbols.names());
        let name = name_at(names.text(&this), this.name_offset);
        let whole = whole_of(name).unwrap_or(name);
        // Names of hostile files are long, and each symbol's is compared.
        if whole.len() > MAX_PART_NAME_BYTES {
            return Vec::new();
        }
        let mut parts: Vec<Symbol> = Vec::new();
        let (mut of_name, mut cold) = (0, 0);
        for symbol in self.symbols.all().filter(|symbol| symbol.kind != SymbolClass::Stub) {
            let text = names.text(&symbol);
            let text = usize::try_from(symbol.name_offset).ok().and_then(|at| text.get(at..));
            if !text.is_some_and(|text| text.starts_with(whole.as_bytes())) {
                continue;
            }
            let name = name_at(names.text(&symbol), symbol.name_offset);
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

    fn place(&mut self, address: u64) -> Option<SymbolPosition> {
        let nearest = self.symbols.last_until(address)?;
        let mut place = Some(nearest);
        for _ in 0..MAX_NESTED {
            let Some(at) = place else { break };
            let symbol = self.symbols.get(at);
            if address - symbol.start < symbol.size {
                return Some(at);
            }
            place = self.symbols.before(at);
        }
        // A symbol without a size reaches to the next symbol, but not into another section. A label without a size
        // inside a function with a size was ruled out above.
        let symbol = self.symbols.get(nearest);
        let reaches = symbol.size == 0 && self.section(symbol.start)? == self.section(address)?;
        reaches.then_some(nearest)
    }

    /// The section with code that holds a relative address, as (start, end).
    fn section(&self, address: u64) -> Option<(u64, u64)> {
        section_at(&self.code, address)
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

/// Appends the functions of a file's `.symtab` and `.dynsym`. Names are not read yet.
fn read_tables<Elf: FileHeader>(
    file: &ObjectFile,
    index: u8,
    object: &object::read::elf::ElfFile<'_, Elf>,
    code: &[(u64, u64)],
    found: &mut Vec<Symbol>,
) {
    let endian = object.endian();
    let mut add = |symbols: &[Elf::Sym], strings_at: u64, strings_len: u64| {
        found.reserve(symbols.len());
        for symbol in symbols {
            let kind = match symbol.st_type() {
                elf::STT_FUNC => SymbolClass::Function,
                elf::STT_OBJECT | elf::STT_COMMON | elf::STT_SECTION | elf::STT_FILE | elf::STT_TLS => continue,
                // It has the address of its resolver, which is another function: `memcpy` is `__new_memcpy_ifunc`
                // there.
                elf::STT_GNU_IFUNC => continue,
                _ => SymbolClass::Untyped,
            };
            let section = symbol.st_shndx(endian);
            let is_elsewhere = section.is_special() && section != elf::SHN_XINDEX;
            if section == elf::SHN_UNDEF || kind == SymbolClass::Function && is_elsewhere {
                continue;
            }
            let start = symbol.st_value(endian).into().wrapping_sub(file.base_svma());
            let name = u64::from(symbol.st_name(endian));
            if kind == SymbolClass::Untyped && section_at(code, start).is_none() || name >= strings_len {
                continue;
            }
            found.push(Symbol {
                start,
                size: symbol.st_size(endian).into(),
                name_offset: strings_at.saturating_add(name),
                file: index,
                kind,
                binding: SymbolBinding::from_elf(symbol.st_bind()),
            });
        }
    };
    for table in [object.elf_symbol_table(), object.elf_dynamic_symbol_table()] {
        let strings = object.elf_section_table().section(table.string_section());
        if let Some((offset, len)) = strings.ok().and_then(|strings| strings.file_range(endian)) {
            add(table.symbols(), offset, len);
        }
    }
    // `sstrip` and `strip --strip-section-headers` leave what a loader needs.
    if object.elf_section_table().is_empty()
        && let Some(dynamic) = DynamicSymbols::read(object)
        && let Some(offset) = offset_in(file, dynamic.strings)
    {
        add(dynamic.symbols, offset, dynamic.strings.len() as u64);
    }
}

/// The sections with code, as relative addresses, by address. A file without section headers still has its segments.
pub(super) fn code_sections(file: &ObjectFile, object: &object::File<'_>) -> Vec<(u64, u64)> {
    let relative = |section: object::Section<'_, '_>| {
        let start = section.address().wrapping_sub(file.base_svma());
        (start, start.saturating_add(section.size()))
    };
    let mut sections: Vec<(u64, u64)> = object.sections().filter(is_code).map(relative).collect();
    if object.sections().next().is_none() {
        let segments = object.segments().filter(|segment| segment.permissions().executable());
        sections.extend(segments.map(|segment| {
            let start = segment.address().wrapping_sub(file.base_svma());
            (start, start.saturating_add(segment.file_range().1))
        }));
    }
    sections.sort_unstable();
    sections
}
