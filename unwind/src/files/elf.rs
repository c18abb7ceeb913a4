//! The few facts of an ELF file that unwinding needs, read by offset and never mapped.
//!
//! Field offsets are those of `Elf64_Ehdr`, `Elf64_Phdr`, `Elf64_Shdr` and `Elf64_Nhdr` in `<elf.h>`. Only 64-bit
//! little-endian files are read.

use std::ops::Range;

use crate::files::compressed_section;
use crate::files::file_slice::{FileSlice, read_range, read_slice};
use crate::files::machine::Machine;
use recording::little_endian::{u16_at, u32_at, u64_at};
use recording::module::{BuildId, FileRole};
use recording::sink::ReadAt;

/// Limit of program and section headers. No linker writes as many; `Elf64_Ehdr` could claim 65535.
const MAX_HEADERS: u64 = 4096;
/// Limit of section names and notes. Real files have a few KiB.
const MAX_NAMES: u64 = 1 << 20;
const MAX_NOTES: u64 = 64 << 10;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
/// A segment that the loader fills in and then makes read-only.
const PT_GNU_RELRO: u32 = 0x6474_e552;
const PF_X: u32 = 1;
/// 24 bytes each: 10 million symbols.
const MAX_SYMBOLS: u64 = 240 << 20;
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;
const SHT_NOBITS: u32 = 8;
const SHF_COMPRESSED: u64 = 0x800;
const NT_GNU_BUILD_ID: u32 = 3;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const DT_NULL: u64 = 0;
const DT_SONAME: u64 = 14;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
/// A flag that linkers write into position-independent programs, but not into libraries.
const DF_1_PIE: u64 = 0x0800_0000;
/// A dynamic table has some 30 entries of 16 bytes.
const MAX_DYNAMIC: u64 = 64 << 10;

/// `e_machine`.
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;

/// A named section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElfSection {
    pub(crate) piece: FileSlice,
    is_compressed: bool,
}

#[derive(Clone, Copy, Debug)]
struct ElfSegment {
    piece: FileSlice,
    executable: bool,
}

/// Facts of an ELF file.
#[derive(Clone, Debug)]
pub(crate) struct Elf {
    /// `None` for a machine whose code is not unwound.
    pub(crate) machine: Option<Machine>,
    pub(crate) build_id: Option<BuildId>,
    pub(crate) role: FileRole,
    /// Address of the lowest `PT_LOAD`: relative address 0.
    pub(crate) base_svma: u64,
    entry_svma: u64,
    segments: Vec<ElfSegment>,
    eh_frame_hdr: Option<FileSlice>,
    relro: Option<FileSlice>,
    sections_offset: u64,
    section_count: u64,
    names_index: u64,
}

impl Elf {
    /// Reads the headers and the build id. `None`: not a 64-bit little-endian ELF file, or damaged.
    pub(crate) fn read(file: &dyn ReadAt) -> Option<Elf> {
        let header = read_range(file, 0, 64, 64)?;
        // e_ident: magic, ELFCLASS64, ELFDATA2LSB.
        if header.get(..6)? != b"\x7fELF\x02\x01" || u16_at(&header, 54)? != 56 {
            return None;
        }
        let count = u64::from(u16_at(&header, 56)?);
        if count > MAX_HEADERS {
            return None;
        }
        let table = read_range(file, u64_at(&header, 32)?, count * 56, MAX_HEADERS * 56)?;
        let mut elf = Elf {
            machine: match u16_at(&header, 18)? {
                EM_X86_64 => Some(Machine::X86_64),
                EM_AARCH64 => Some(Machine::Aarch64),
                _ => None,
            },
            build_id: None,
            role: FileRole::Unknown,
            base_svma: u64::MAX,
            entry_svma: u64_at(&header, 24)?,
            segments: Vec::new(),
            eh_frame_hdr: None,
            relro: None,
            sections_offset: u64_at(&header, 40)?,
            section_count: if u16_at(&header, 58)? == 64 {
                u64::from(u16_at(&header, 60)?)
            } else {
                0
            },
            names_index: u64::from(u16_at(&header, 62)?),
        };
        let (mut has_interpreter, mut dynamic) = (false, None);
        for entry in table.chunks_exact(56) {
            let piece = FileSlice {
                svma: u64_at(entry, 16)?,
                offset: u64_at(entry, 8)?,
                size: u64_at(entry, 32)?,
            };
            match u32_at(entry, 0)? {
                PT_LOAD => {
                    elf.base_svma = elf.base_svma.min(piece.svma);
                    elf.segments.push(ElfSegment {
                        piece,
                        executable: u32_at(entry, 4)? & PF_X != 0,
                    });
                }
                PT_INTERP => has_interpreter = true,
                PT_DYNAMIC => dynamic = Some(piece),
                PT_GNU_RELRO => elf.relro = Some(piece),
                PT_GNU_EH_FRAME => elf.eh_frame_hdr = Some(piece),
                PT_NOTE if elf.build_id.is_none() => {
                    elf.build_id = read_range(file, piece.offset, piece.size, MAX_NOTES)
                        .and_then(|notes| build_id(&notes, u64_at(entry, 48).unwrap_or(4)));
                }
                _ => {}
            }
        }
        let dynamic = || read_range(file, dynamic?.offset, dynamic?.size, MAX_DYNAMIC);
        elf.role = match u16_at(&header, 16)? {
            ET_EXEC => FileRole::Program,
            ET_DYN => role(has_interpreter, &dynamic().unwrap_or_default()),
            _ => FileRole::Unknown,
        };
        (elf.base_svma != u64::MAX).then_some(elf)
    }

    /// True if the data at a relative address cannot change once the program runs.
    pub(crate) fn is_fixed_at_start(&self, relative: u64) -> bool {
        let svma = self.base_svma.wrapping_add(relative);
        self.relro.is_some_and(|relro| relro.offset_of(svma).is_some())
    }

    /// The bias, address minus stated address, of a mapping that starts at `start` with the file's byte `file_offset`.
    /// `None` if no segment is mapped there.
    ///
    /// A segment is mapped from the start of the page that holds its first byte. With lld, segments share pages, so one
    /// file offset can belong to two segments with different biases. The mapping is executable, so the executable
    /// segment counts.
    pub(crate) fn bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        for executable in [true, false] {
            // 4 KiB first. Rounded to 64 KiB, the neighbours of the right segment would also match.
            for page in [0x1000u64, 0x4000, 0x1_0000] {
                let found = self.segments.iter().find(|segment| {
                    let first = segment.piece.offset & !(page - 1);
                    segment.executable == executable
                        && file_offset >= first
                        && file_offset < segment.piece.offset.saturating_add(segment.piece.size)
                });
                if let Some(ElfSegment { piece, .. }) = found {
                    return Some(
                        start
                            .wrapping_sub(file_offset)
                            .wrapping_add(piece.offset)
                            .wrapping_sub(piece.svma),
                    );
                }
            }
        }
        None
    }

    /// Stated address ranges of code.
    pub(crate) fn code(&self) -> impl Iterator<Item = Range<u64>> {
        let code = self.segments.iter().filter(|segment| segment.executable);
        code.map(|ElfSegment { piece, .. }| piece.svma..piece.svma.saturating_add(piece.size))
    }

    /// `.eh_frame_hdr` by its program header, which files without section headers also have.
    pub(crate) fn eh_frame_hdr(&self) -> Option<FileSlice> {
        self.eh_frame_hdr
    }

    /// The file bytes from an address to the end of its segment.
    pub(crate) fn rest_from(&self, svma: u64) -> Option<FileSlice> {
        self.segments.iter().find_map(|segment| segment.piece.rest_from(svma))
    }

    /// Stated address range of the code segment that holds `svma`, as far as the file has bytes for it.
    pub(crate) fn code_around(&self, svma: u64) -> Option<Range<u64>> {
        let mut code = self.segments.iter().filter(|segment| segment.executable);
        let piece = code.find(|segment| segment.piece.offset_of(svma).is_some())?.piece;
        Some(piece.svma..piece.svma.checked_add(piece.size)?)
    }

    /// Stated addresses where functions begin, ascending: function symbols, global symbols without a type (from
    /// assembly), and the entry point.
    pub(crate) fn function_symbols(&self, file: &dyn ReadAt) -> Vec<u64> {
        let sections = self.sections(file, [b".symtab", b".dynsym"]).into_iter().flatten();
        let tables = sections.filter_map(|table| read_range(file, table.piece.offset, table.piece.size, MAX_SYMBOLS));
        let mut starts = vec![self.entry_svma];
        for table in tables {
            // `Elf64_Sym`: name 4, info 1, other 1, section 2, value 8, size 8.
            starts.extend(table.chunks_exact(24).filter_map(|symbol| {
                let (info, section, svma) = (*symbol.get(4)?, u16_at(symbol, 6)?, u64_at(symbol, 8)?);
                let is_function = match info & 0xf {
                    STT_FUNC | STT_GNU_IFUNC => true,
                    kind => kind == STT_NOTYPE && info >> 4 != STB_LOCAL,
                };
                (is_function && section != 0).then_some(svma)
            }));
        }
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// Finds sections by name, in one pass over the section headers. Sections without bytes in the file don't count.
    pub(crate) fn sections<const N: usize>(&self, file: &dyn ReadAt, names: [&[u8]; N]) -> [Option<ElfSection>; N] {
        self.try_sections(file, names).unwrap_or([None; N])
    }

    fn try_sections<const N: usize>(&self, file: &dyn ReadAt, names: [&[u8]; N]) -> Option<[Option<ElfSection>; N]> {
        // A count of 0 can also mean "more than 65279, look in section 0": not seen in files that have unwind tables.
        let count = self.section_count;
        if count == 0 || count > MAX_HEADERS * 16 {
            return None;
        }
        let table = read_range(file, self.sections_offset, count * 64, MAX_HEADERS * 16 * 64)?;
        let header = |index: u64| table.chunks_exact(64).nth(usize::try_from(index).ok()?);
        let names_header = header(self.names_index)?;
        let strings = read_range(file, u64_at(names_header, 24)?, u64_at(names_header, 32)?, MAX_NAMES)?;
        let mut found = [None; N];
        for entry in table.chunks_exact(64) {
            let Some(name) = usize::try_from(u32_at(entry, 0)?).ok().and_then(|at| strings.get(at..)) else {
                continue;
            };
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let Some(slot) = names.iter().position(|wanted| *wanted == name) else {
                continue;
            };
            if u32_at(entry, 4)? != SHT_NOBITS {
                found[slot] = Some(ElfSection {
                    piece: FileSlice {
                        svma: u64_at(entry, 16)?,
                        offset: u64_at(entry, 24)?,
                        size: u64_at(entry, 32)?,
                    },
                    is_compressed: u64_at(entry, 8)? & SHF_COMPRESSED != 0,
                });
            }
        }
        Some(found)
    }
}

/// Reads a section's contents, unpacked.
pub(crate) fn read_section(file: &dyn ReadAt, section: ElfSection) -> Option<Vec<u8>> {
    let bytes = read_slice(file, section.piece)?;
    match section.is_compressed {
        true => compressed_section::unpack(&bytes),
        false => Some(bytes),
    }
}

/// Role of a file that can be loaded at any address. The loader of glibc has a library name (DT_SONAME), and musl's has
/// none. libc.so.6 of glibc has a library name and an interpreter.
fn role(has_interpreter: bool, dynamic: &[u8]) -> FileRole {
    let entries = dynamic.chunks_exact(16);
    let entries = entries.filter_map(|entry| Some((u64_at(entry, 0)?, u64_at(entry, 8)?)));
    let (mut has_name, mut is_program) = (false, false);
    for (tag, value) in entries.take_while(|(tag, _)| *tag != DT_NULL) {
        has_name |= tag == DT_SONAME;
        is_program |= tag == DT_FLAGS_1 && value & DF_1_PIE != 0;
    }
    match (is_program, has_interpreter) {
        (true, _) => FileRole::Program,
        (false, true) if has_name => FileRole::Unknown,
        (false, true) => FileRole::Program,
        (false, false) => FileRole::Library,
    }
}

fn build_id(mut notes: &[u8], align: u64) -> Option<BuildId> {
    // Notes are padded to 4 bytes, or to 8 in segments that say so (.note.gnu.property).
    let padded = |size: usize| {
        if align == 8 {
            size.checked_next_multiple_of(8)
        } else {
            size.checked_next_multiple_of(4)
        }
    };
    loop {
        let name_size = usize::try_from(u32_at(notes, 0)?).ok()?;
        let size = usize::try_from(u32_at(notes, 4)?).ok()?;
        let kind = u32_at(notes, 8)?;
        let name = notes.get(12..12usize.checked_add(name_size)?)?;
        let content = padded(12usize.checked_add(name_size)?)?;
        let end = content.checked_add(size)?;
        let bytes = notes.get(content..end)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" && (1..=64).contains(&size) {
            return Some(BuildId(bytes.to_vec()));
        }
        notes = notes.get(padded(end)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(segments: &[(u64, u64, u64, bool)]) -> Elf {
        let segment = |&(offset, svma, size, executable)| ElfSegment {
            piece: FileSlice { svma, offset, size },
            executable,
        };
        Elf {
            machine: Some(Machine::X86_64),
            build_id: None,
            role: FileRole::Unknown,
            base_svma: 0,
            entry_svma: 0,
            segments: segments.iter().map(segment).collect(),
            eh_frame_hdr: None,
            relro: None,
            sections_offset: 0,
            section_count: 0,
            names_index: 0,
        }
    }

    #[test]
    fn with_lld_the_bias_is_that_of_the_executable_segment() {
        // readelf -lW of a program linked by lld:
        //   LOAD 0x000000 0x0000000000000000 0x0015c4 R
        //   LOAD 0x0015d0 0x00000000000025d0 0x000f10 R E
        //   LOAD 0x0024e0 0x00000000000044e0 0x000350 RW
        let elf = elf(&[
            (0, 0, 0x15c4, false),
            (0x15d0, 0x25d0, 0xf10, true),
            (0x24e0, 0x44e0, 0x350, false),
        ]);
        // The mapping starts at page 1 of the file, which three segments share.
        assert_eq!(elf.bias(0x5555_0000_2000, 0x1000), Some(0x5555_0000_0000));
        // Its second page, remapped on its own.
        assert_eq!(elf.bias(0x5555_0000_3000, 0x2000), Some(0x5555_0000_0000));
    }

    #[test]
    fn a_program_at_a_fixed_address_has_no_bias() {
        let elf = elf(&[(0, 0x40_0000, 0x500, false), (0x1000, 0x40_1000, 0x2000, true)]);
        assert_eq!(elf.bias(0x40_1000, 0x1000), Some(0));
        assert_eq!(elf.bias(0x40_1000, 0x9000), None);
    }

    #[test]
    fn a_loader_is_told_from_a_program() {
        let role = |has_interpreter: bool, entries: &[(u64, u64)]| {
            let words = entries.iter().flat_map(|(tag, value)| [*tag, *value]);
            let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            super::role(has_interpreter, &bytes)
        };
        let pie = (DT_FLAGS_1, DF_1_PIE | 1);
        assert_eq!(role(true, &[(DT_NULL, 0), (DT_SONAME, 1)]), FileRole::Program);
        assert_eq!(role(true, &[pie, (DT_SONAME, 1)]), FileRole::Program);
        assert_eq!(role(false, &[(1, 2), pie]), FileRole::Program, "static-pie");
        assert_eq!(role(true, &[(DT_SONAME, 1)]), FileRole::Unknown, "libc.so.6");
        assert_eq!(role(false, &[(DT_SONAME, 1)]), FileRole::Library, "ld-linux");
        assert_eq!(role(false, &[(DT_FLAGS_1, 1)]), FileRole::Library, "ld-musl");
    }

    #[test]
    fn a_build_id_is_found_after_other_notes() {
        let mut notes = Vec::new();
        for (kind, name, content) in [
            (5u32, b"GNU\0", &[1u8, 2, 3][..]),
            (NT_GNU_BUILD_ID, b"GNU\0", &[0xab; 20]),
        ] {
            notes.extend((name.len() as u32).to_le_bytes());
            notes.extend((content.len() as u32).to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(name);
            notes.extend(content);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id(&notes, 4), Some(BuildId(vec![0xab; 20])));
        assert_eq!(build_id(&notes[..notes.len() - 1], 4), None);
    }
}
