//! Names from the symbol table (`nlist_64`), from the exports trie where that table was stripped, and of linkage stubs.

use object::read::macho::{Nlist, Section};
use object::{Endianness, Object, ObjectSection, macho};
use rustc_hash::FxHashMap;
use unwind::Functions;

use super::exports;
use crate::files::mach_o::{MachO, exports_trie};
use crate::files::object_file::ObjectFile;
use crate::objects::symbol::{Symbol, SymbolBinding, SymbolClass, SymbolNames, section_at};

/// Appends the functions of a file, which has this index in `names`.
pub(in crate::objects) fn read(
    (file, index): (&ObjectFile, u8),
    object: &MachO<'_>,
    listed: Option<&Functions>,
    code: &[(u64, u64)],
    names: &mut SymbolNames,
    found: &mut Vec<Symbol>,
) {
    let before = found.len();
    let size = |start: u64| match listed.and_then(|functions| functions.at(start)) {
        Some(function) if function.start == start => function.end - start,
        _ => 0,
    };
    if let Some(strings) = StringTable::find(object) {
        let endian = object.endian();
        for symbol in object.macho_symbol_table().symbols() {
            let kind = symbol.n_type();
            if kind.is_stab() || kind.typ() != macho::N_SECT {
                continue;
            }
            let start = symbol.n_value(endian).wrapping_sub(file.base_svma());
            let Some(name_offset) = strings.offset(file, symbol.n_strx(endian)) else {
                continue;
            };
            if section_at(code, start).is_none() {
                continue;
            }
            let binding = match kind.is_ext() {
                true if symbol.n_desc(endian).contains(macho::N_WEAK_DEF) => SymbolBinding::Weak,
                true => SymbolBinding::Global,
                false => SymbolBinding::Local,
            };
            found.push(Symbol {
                start,
                size: size(start),
                name_offset,
                file: index,
                kind: SymbolClass::Function,
                binding,
            });
        }
    }
    let is_stripped = !found[before..]
        .iter()
        .any(|symbol| symbol.binding != SymbolBinding::Local);
    if let Some(trie) = exports_trie(object, object.data()).filter(|_| is_stripped) {
        exports::for_each(trie, |start, name| {
            if section_at(code, start).is_some() {
                found.push(Symbol {
                    start,
                    size: size(start),
                    name_offset: names.add(name.strip_prefix(b"_").unwrap_or(name)),
                    file: SymbolNames::MADE,
                    kind: SymbolClass::Function,
                    binding: SymbolBinding::Global,
                });
            }
        });
    }
    found.extend(
        indirect(file, object, |kind| kind == macho::S_SYMBOL_STUBS).map(|(start, size, name_offset)| Symbol {
            start,
            size,
            name_offset,
            file: index,
            kind: SymbolClass::Stub,
            binding: SymbolBinding::Global,
        }),
    );
}

/// File offsets of function names, by the stated virtual address of the pointer that has the function's address.
pub(in crate::objects) fn slot_names(file: &ObjectFile, object: &MachO<'_>) -> FxHashMap<u64, u64> {
    let is_pointers = |kind| kind == macho::S_NON_LAZY_SYMBOL_POINTERS || kind == macho::S_LAZY_SYMBOL_POINTERS;
    let slots = indirect(file, object, is_pointers);
    slots
        .map(|(start, _, name)| (start.wrapping_add(file.base_svma()), name))
        .collect()
}

/// The entries of sections that stand for symbols, often of other images: relative address, size, file offset of the
/// name.
fn indirect<'f>(
    file: &'f ObjectFile,
    object: &'f MachO<'_>,
    is_wanted: impl Fn(macho::SectionType) -> bool + 'f,
) -> impl Iterator<Item = (u64, u64, u64)> + 'f {
    /// Size of a pointer.
    const POINTER_BYTES: u64 = 8;
    let endian = object.endian();
    let table = indirect_symbols(object).unwrap_or(&[]);
    let strings = StringTable::find(object);
    let sections = object
        .sections()
        .filter(move |section| is_wanted(section.macho_section().section_type(endian)));
    let entries = sections.flat_map(move |section| {
        let header = section.macho_section();
        let entry_bytes = match header.section_type(endian) {
            macho::S_SYMBOL_STUBS => u64::from(header.reserved2(endian)),
            _ => POINTER_BYTES,
        };
        let first = header.reserved1(endian) as usize;
        let count = section.size().checked_div(entry_bytes).unwrap_or(0);
        let start = section.address().wrapping_sub(file.base_svma());
        let listed = table.get(first..).unwrap_or(&[]).iter().zip(0..count);
        listed.map(move |(symbol, index)| (symbol, start.wrapping_add(index.wrapping_mul(entry_bytes)), entry_bytes))
    });
    // Each entry of the table is of one section.
    entries
        .take(table.len())
        .filter_map(move |(symbol, start, entry_bytes)| {
            // INDIRECT_SYMBOL_LOCAL and INDIRECT_SYMBOL_ABS are not an index.
            let symbol = object
                .macho_symbol_table()
                .symbols()
                .get(symbol.get(endian).0 as usize)?;
            Some((start, entry_bytes, strings?.offset(file, symbol.n_strx(endian))?))
        })
}

fn indirect_symbols<'a>(object: &MachO<'a>) -> Option<&'a [object::U32<Endianness, macho::IndirectSymbol>]> {
    let mut commands = object.macho_load_commands().ok()?;
    while let Some(command) = commands.next().ok()? {
        if let Some(table) = command.dysymtab().ok()? {
            return table.indirect_symbols(object.endian(), object.data()).ok();
        }
    }
    None
}

/// The string table.
#[derive(Clone, Copy)]
pub(super) struct StringTable {
    start: u64,
    bytes: u64,
}

impl StringTable {
    pub(super) fn find(object: &MachO<'_>) -> Option<StringTable> {
        let endian = object.endian();
        let mut commands = object.macho_load_commands().ok()?;
        while let Some(command) = commands.next().ok()? {
            if let Some(table) = command.symtab().ok()? {
                return Some(StringTable {
                    start: table.stroff.get(endian).into(),
                    bytes: table.strsize.get(endian).into(),
                });
            }
        }
        None
    }

    /// The file offset of a name, behind the underscore that C's compilers put before all names. `None` if there is no
    /// name.
    fn offset(&self, file: &ObjectFile, name: u32) -> Option<u64> {
        let offset = self.raw_offset(name)?;
        let first = *file.get(usize::try_from(offset).ok()?)?;
        Some(offset + u64::from(first == b'_'))
    }

    /// The file offset of a whole name, with its underscore. `None` if there is no name.
    pub(super) fn raw_offset(&self, name: u32) -> Option<u64> {
        let name = u64::from(name);
        (0 < name && name < self.bytes).then_some(self.start + name)
    }
}
