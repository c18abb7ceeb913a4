//! Relocatable files (ET_REL), as kernel modules are: their sections have no addresses, and their debug info has zeros
//! where addresses belong.
//!
//! Such a file is turned into a separate debug file, as `objcopy --only-keep-debug` makes of a linked one: sections get
//! addresses of their own, and relocations are applied once. The result is then read like every other file, with the
//! same limits. gimli's `RelocateReader` would instead look up each value that is read, of every file, in a table of
//! all relocations.

use object::elf::{self, FileHeader64, SectionHeader64, Sym64};
use object::endian::{Endianness, U16, U32, U64};
use object::pod::bytes_of;
use object::read::elf::{ElfFile64, ElfSection64, FileHeader, SectionHeader, Sym};
use object::{
    CompressionFormat, Object, ObjectKind, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget, SectionIndex,
};

use super::dwarf;
use crate::error::SymbolError;
use crate::files::object_file::ObjectFile;

/// The address of the first section. Linkers give address 0 to functions that they dropped.
const FIRST_ADDRESS: u64 = 0x1_0000;

/// Minimum gap between sections, in bytes: the end of a range is then never the start of another section.
const GAP_BYTES: u64 = 16;

/// Bytes of the smallest relocation with an addend: Elf64_Rela in elf(5).
const RELA_BYTES: u64 = 24;

/// The debug file of a relocatable one: headers of all sections that are loaded, symbols, and the debug info that
/// look-ups read, for the addresses that the result's sections have. Takes at most as much memory as the file and its
/// unpacked sections, which may have `max_unpacked_bytes` in all.
///
/// # Errors
///
/// The file is not a relocatable one of 64 bits, is damaged, claims to unpack to more, or has a relocation in its debug
/// info that is not known.
pub(crate) fn lay_out(file: &ObjectFile, max_unpacked_bytes: u64) -> Result<ObjectFile, SymbolError> {
    let bytes = match file.object()? {
        object::File::Elf64(elf) if elf.kind() == ObjectKind::Relocatable && elf.is_little_endian() => {
            Layout::new(&elf)
                .and_then(|layout| layout.write(file, max_unpacked_bytes))
                .map_err(|why| SymbolError::unreadable(file.path(), why))
        }
        _ => Err(SymbolError::unreadable(
            file.path(),
            "not a relocatable file of a 64-bit little-endian machine",
        )),
    };
    ObjectFile::from_bytes(file.path(), bytes?)
}

/// Why a file can't be laid out, a sentence.
type LayoutError = String;

/// A relocatable file with addresses for its sections.
struct Layout<'a> {
    elf: &'a ElfFile64<'a, Endianness>,
    /// The headers of all sections, with their new addresses.
    headers: Vec<SectionHeader64<Endianness>>,
}

/// What was kept so far, and how much more may be kept. In an undamaged file no two sections share bytes.
struct LayoutBudget {
    /// The string tables of section names and of symbols.
    strings: Vec<SectionIndex>,
    /// Names of the debug info's sections.
    debug: Vec<String>,
    /// Bytes of the file that no section had.
    unread_bytes: u64,
    /// Bytes that further sections may unpack to.
    unpacked_bytes: u64,
    /// Relocations that the file can still hold.
    relocations: u64,
}

impl<'a> Layout<'a> {
    fn new(elf: &'a ElfFile64<'a, Endianness>) -> Result<Layout<'a>, LayoutError> {
        let endian = elf.endian();
        let mut headers: Vec<SectionHeader64<Endianness>> = elf.elf_section_table().iter().copied().collect();
        let mut next = FIRST_ADDRESS;
        for header in &mut headers {
            if !header.sh_flags(endian).contains(elf::SHF_ALLOC) {
                header.sh_addr = U64::new(endian, 0);
                continue;
            }
            let alignment = header.sh_addralign(endian).max(GAP_BYTES);
            let address = next.checked_next_multiple_of(alignment);
            let end = address.and_then(|address| address.checked_add(header.sh_size(endian))?.checked_add(GAP_BYTES));
            let (Some(address), Some(end)) = (address, end) else {
                return Err("the sizes of its sections are not plausible".to_owned());
            };
            header.sh_addr = U64::new(endian, address);
            next = end;
        }
        Ok(Layout { elf, headers })
    }

    /// Writes the debug file.
    fn write(mut self, file: &ObjectFile, max_unpacked_bytes: u64) -> Result<Vec<u8>, LayoutError> {
        let endian = self.elf.endian();
        let mut out = bytes_of(self.elf.elf_header()).to_vec();
        let mut kept = LayoutBudget {
            strings: self.string_sections(),
            debug: Vec::new(),
            unread_bytes: file.len() as u64,
            unpacked_bytes: max_unpacked_bytes,
            relocations: file.len() as u64 / RELA_BYTES,
        };
        for index in 1..self.headers.len() {
            let content = self.content(file, SectionIndex(index), &mut kept)?;
            let header = &mut self.headers[index];
            let is_loaded = header.sh_flags(endian).contains(elf::SHF_ALLOC);
            let Some(content) = content else {
                header.sh_type = U32::new(endian, if is_loaded { elf::SHT_NOBITS } else { elf::SHT_NULL });
                if !is_loaded {
                    header.sh_size = U64::new(endian, 0);
                }
                continue;
            };
            out.resize(out.len().next_multiple_of(16), 0);
            header.sh_flags = U64::new(endian, header.sh_flags(endian).without(elf::SHF_COMPRESSED));
            header.sh_offset = U64::new(endian, out.len() as u64);
            header.sh_size = U64::new(endian, content.len() as u64);
            out.extend(content);
        }
        out.resize(out.len().next_multiple_of(16), 0);
        let header = FileHeader64 {
            e_type: U16::new(endian, elf::ET_DYN),
            e_phoff: U64::new(endian, 0),
            e_phnum: U16::new(endian, 0),
            e_shoff: U64::new(endian, out.len() as u64),
            ..*self.elf.elf_header()
        };
        for section in &self.headers {
            out.extend(bytes_of(section));
        }
        out[..size_of_val(&header)].copy_from_slice(bytes_of(&header));
        Ok(out)
    }

    fn string_sections(&self) -> Vec<SectionIndex> {
        let endian = self.elf.endian();
        let names = self
            .elf
            .elf_header()
            .section_strings_index(endian, self.elf.data())
            .ok();
        let of_symbols = self.elf.elf_symbol_table().string_section();
        names.into_iter().chain([of_symbols]).collect()
    }

    /// What the debug file has of a section; `None` for the content of those that look-ups do not read.
    fn content(
        &self,
        file: &ObjectFile,
        index: SectionIndex,
        kept: &mut LayoutBudget,
    ) -> Result<Option<Vec<u8>>, LayoutError> {
        let endian = self.elf.endian();
        let section = self.elf.section_by_index(index).map_err(|error| error.to_string())?;
        let header = section.elf_section_header();
        let name = section.name().unwrap_or_default();
        let is_debug = dwarf::reads_section(name) && !header.sh_flags(endian).contains(elf::SHF_ALLOC);
        // Look-ups read the first of a name.
        let is_first = !kept.debug.iter().any(|known| known == name);
        let kind = header.sh_type(endian);
        let is_kept = match kind {
            elf::SHT_NOBITS => false,
            elf::SHT_NOTE | elf::SHT_SYMTAB => true,
            _ => kept.strings.contains(&index) || is_debug && is_first,
        };
        if !is_kept {
            return Ok(None);
        }
        let damaged = |why: &dyn std::fmt::Display| format!("section {name}: {why}");
        let stored = section.file_range().map_or(0, |(_, size)| size);
        kept.unread_bytes =
            (kept.unread_bytes.checked_sub(stored)).ok_or_else(|| damaged(&"shares its bytes with another section"))?;
        if kind == elf::SHT_SYMTAB {
            return self.symbols(section.index()).map(Some);
        }
        if !is_debug {
            return section
                .data()
                .map(|data| Some(data.to_vec()))
                .map_err(|error| damaged(&error));
        }
        kept.debug.push(name.to_owned());
        // The section that `ObjectFile::section` reads.
        let of_name = self.elf.section_by_name(name);
        let unpacked = of_name
            .and_then(|section| section.compressed_data().ok())
            .map_or(0, |data| match data.format {
                CompressionFormat::None => 0,
                _ => data.uncompressed_size,
            });
        kept.unpacked_bytes = (kept.unpacked_bytes.checked_sub(unpacked))
            .ok_or_else(|| damaged(&"unpacks to more, with those before it, than is plausible"))?;
        let content = file.section(name).map_err(|error| error.to_string())?;
        let mut content = content.into_owned();
        self.relocate(&mut content, &section, &mut kept.relocations)
            .map_err(|why| damaged(&why))?;
        Ok(Some(content))
    }

    /// The symbol table with addresses in place of offsets in sections.
    fn symbols(&self, index: SectionIndex) -> Result<Vec<u8>, LayoutError> {
        let (endian, table) = (self.elf.endian(), self.elf.elf_symbol_table());
        if table.section() != index {
            return Err("it has several symbol tables".to_owned());
        }
        let mut out = Vec::with_capacity(size_of_val(table.symbols()));
        for symbol in table.symbols() {
            let section = symbol.st_shndx(endian);
            let address = if section.is_special() || section == elf::SHN_UNDEF {
                symbol.st_value(endian)
            } else {
                self.address(SectionIndex(usize::from(section.0)))
                    .wrapping_add(symbol.st_value(endian))
            };
            out.extend(bytes_of(&Sym64 {
                st_value: U64::new(endian, address),
                ..*symbol
            }));
        }
        Ok(out)
    }

    /// Where a section lies; 0 for those that are not loaded, and for those that do not exist.
    fn address(&self, section: SectionIndex) -> u64 {
        let endian = self.elf.endian();
        self.headers.get(section.0).map_or(0, |header| header.sh_addr(endian))
    }

    /// Applies a section's relocations. Each machine's relocations are in its psABI ("Relocation Types"); debug info
    /// has values of 32 and 64 bits.
    fn relocate(
        &self,
        content: &mut [u8],
        section: &ElfSection64<'_, '_, Endianness>,
        left: &mut u64,
    ) -> Result<(), LayoutError> {
        for (offset, relocation) in section.relocations() {
            let at = |why: &str| format!("the relocation at {offset:#x} {why}");
            *left = left
                .checked_sub(1)
                .ok_or_else(|| at("is one of more than the file can hold"))?;
            let symbol = match relocation.target() {
                RelocationTarget::Symbol(symbol) => {
                    let symbol = self.elf.symbol_by_index(symbol);
                    let symbol = symbol.map_err(|_| at("is to a symbol that does not exist"))?;
                    let section = symbol.section_index().map_or(0, |section| self.address(section));
                    section.wrapping_add(symbol.address())
                }
                RelocationTarget::Absolute => 0,
                _ => return Err(at("is of an unknown kind")),
            };
            let value = symbol.wrapping_add_signed(relocation.addend());
            let value = match relocation.kind() {
                _ if relocation.has_implicit_addend() => return Err(at("is of an unknown kind")),
                RelocationKind::None => continue,
                RelocationKind::Absolute => value,
                RelocationKind::Relative => value.wrapping_sub(offset),
                _ => return Err(at("is of an unknown kind")),
            };
            let mut write = |bytes: &[u8]| {
                let start = usize::try_from(offset).ok();
                let place = start.and_then(|start| content.get_mut(start..start.checked_add(bytes.len())?));
                place.map(|place| place.copy_from_slice(bytes))
            };
            let written = match relocation.size() {
                64 => write(&value.to_le_bytes()),
                // R_X86_64_32S and differences are signed.
                32 => {
                    match u32::try_from(value).or_else(|_| i32::try_from(value.cast_signed()).map(i32::cast_unsigned)) {
                        Ok(value) => write(&value.to_le_bytes()),
                        Err(_) => return Err(at("has a value of more than 32 bits")),
                    }
                }
                _ => return Err(at("is of an unknown kind")),
            };
            written.ok_or_else(|| at("is outside of its section"))?;
        }
        Ok(())
    }
}
