//! The dynamic symbols of an ELF file without section headers, by what its loader reads (`PT_DYNAMIC`).

use object::elf;
use object::read::elf::{Dyn, ElfFile, FileHeader, GnuHashTable, HashTable, ProgramHeader};

/// Symbols and their names, where a loader would find them.
pub(super) struct DynamicSymbols<'f, Elf: FileHeader> {
    pub(super) symbols: &'f [Elf::Sym],
    /// All of the file from the string table on, up to the table's end.
    pub(super) strings: &'f [u8],
}

/// Largest dynamic table in entries. Linkers write some 30.
const MAX_ENTRIES: usize = 10_000;

impl<'f, Elf: FileHeader> DynamicSymbols<'f, Elf> {
    /// `None`: the file is not linked dynamically, or damaged.
    pub(super) fn read(object: &ElfFile<'f, Elf>) -> Option<DynamicSymbols<'f, Elf>> {
        let (endian, data) = (object.endian(), object.data());
        let mut segments = object.elf_program_headers().iter();
        let table = segments.find_map(|segment| segment.dynamic(endian, data).ok()?)?;
        let entries = table
            .iter()
            .take(MAX_ENTRIES)
            .take_while(|entry| entry.d_tag(endian) != elf::DT_NULL);
        let (mut symbols, mut strings, mut strings_len) = (None, None, None);
        let (mut hash, mut gnu_hash) = (None, None);
        for entry in entries {
            let slot = match entry.d_tag(endian) {
                elf::DT_SYMTAB => &mut symbols,
                elf::DT_STRTAB => &mut strings,
                elf::DT_STRSZ => &mut strings_len,
                elf::DT_HASH => &mut hash,
                elf::DT_GNU_HASH => &mut gnu_hash,
                _ => continue,
            };
            *slot = Some(entry.d_val(endian).into());
        }
        let from = |svma: u64| rest_from(object, svma);
        let (symbols_at, strings_at) = (symbols?, strings?);
        let strings = from(strings_at)?;
        let strings_len = usize::try_from(strings_len?).ok()?.min(strings.len());
        // No table says how many symbols there are, but each symbol is in the table for look-ups by name. GNU's leaves
        // out symbols of other modules, which have no address.
        let by_hash = hash
            .and_then(from)
            .and_then(|hash| HashTable::<Elf>::parse(endian, hash).ok());
        let by_gnu_hash = gnu_hash
            .and_then(from)
            .and_then(|hash| GnuHashTable::<Elf>::parse(endian, hash).ok());
        let count = match (by_hash, by_gnu_hash) {
            (Some(hash), _) => hash.symbol_table_length(),
            (None, Some(hash)) => hash.symbol_table_length(endian)?,
            (None, None) => return None,
        };
        let (symbols, _) = object::pod::slice_from_bytes(from(symbols_at)?, usize::try_from(count).ok()?).ok()?;
        Some(DynamicSymbols {
            symbols,
            strings: &strings[..strings_len],
        })
    }
}

/// The bytes from an address to the end of its segment.
fn rest_from<'f, Elf: FileHeader>(object: &ElfFile<'f, Elf>, svma: u64) -> Option<&'f [u8]> {
    let (endian, data) = (object.endian(), object.data());
    object.elf_program_headers().iter().find_map(|segment| {
        let is_loaded = segment.p_type(endian) == elf::PT_LOAD;
        let bytes = segment.data(endian, data).ok().filter(|_| is_loaded)?;
        let offset = svma.checked_sub(segment.p_vaddr(endian).into())?;
        bytes
            .get(usize::try_from(offset).ok()?..)
            .filter(|bytes| !bytes.is_empty())
    })
}
