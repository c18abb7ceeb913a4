//! The few facts of a Mach-O file that unwinding needs, read by offset and never mapped.
//!
//! Names and field offsets are those of `<mach-o/loader.h>`, `<mach-o/fat.h>` and `<mach-o/nlist.h>`. Only 64-bit
//! little-endian files are read, alone or as a slice of a fat file.

use std::ops::Range;

use crate::files::file_slice::{FileSlice, read_range};
use crate::files::machine::Machine;
use recording::little_endian::{u32_at, u64_at};
use recording::module::BuildId;
use recording::sink::{Layout, ModuleMiss, ReadAt};
use recording::varint;

const MH_MAGIC_64: u32 = 0xfeed_facf;
/// Big-endian, as all of a fat header.
const FAT_MAGIC: u32 = 0xcafe_babe;
const FAT_MAGIC_64: u32 = 0xcafe_babf;
const CPU_TYPE_X86_64: u32 = 0x0100_0007;
const CPU_TYPE_ARM64: u32 = 0x0100_000c;
const LC_SYMTAB: u32 = 0x2;
const LC_ID_DYLIB: u32 = 0xd;
const LC_SEGMENT_64: u32 = 0x19;
const LC_UUID: u32 = 0x1b;
const LC_FUNCTION_STARTS: u32 = 0x26;
const VM_PROT_EXECUTE: u32 = 4;
/// dyld makes the segment read-only after it has filled it in.
const SG_READ_ONLY: u32 = 0x10;
const SECTION_TYPE: u32 = 0xff;
const S_SYMBOL_STUBS: u32 = 0x8;
const S_ATTR_SOME_INSTRUCTIONS: u32 = 0x400;

/// Limit of slices. Systems know five kinds. A Java class file has the same magic; its version, 45 or more, is at the
/// place of the count.
const MAX_SLICES: u32 = 16;
/// Limit of load commands, in bytes. Those of a browser have 10 KiB.
const MAX_COMMANDS: u64 = 1 << 20;
/// Limit of sections in a segment. Real segments have at most 30.
const MAX_SECTIONS: usize = 1 << 12;
/// Limit of the function starts, in bytes. Those of a browser have 1 MB.
const MAX_FUNCTION_STARTS: u64 = 64 << 20;
/// Limit of the symbols that are searched. The one library that is searched has 500.
const MAX_SYMBOLS: u32 = 1 << 14;

/// The library with the function that starts signal handlers.
const PLATFORM: &[u8] = b"/usr/lib/system/libsystem_platform.dylib";
/// The function that starts signal handlers, as C mangles it.
const TRAMPOLINE: &[u8] = b"__sigtramp\0";

#[derive(Clone, Debug)]
struct MachOSegment {
    /// The segment's part that has bytes in the file.
    piece: FileSlice,
    /// Offset of the segment in its load command.
    file_offset: u64,
    executable: bool,
    read_only: bool,
}

/// A section of code, in stated addresses.
#[derive(Clone, Debug)]
pub(crate) struct CodeSection {
    pub(crate) range: Range<u64>,
    /// True for code that jumps to imported functions, which `__unwind_info` does not describe.
    pub(crate) is_stubs: bool,
}

#[derive(Clone, Copy, Debug)]
struct SymbolTable {
    offset: u64,
    count: u32,
    strings_offset: u64,
}

/// Facts of a Mach-O file.
#[derive(Clone, Debug)]
pub(crate) struct MachO {
    /// `None` for a machine whose code is not unwound.
    pub(crate) machine: Option<Machine>,
    /// The UUID.
    pub(crate) build_id: Option<BuildId>,
    /// Address of the segment with the header, `__TEXT`: relative address 0.
    pub(crate) base_svma: u64,
    pub(crate) code: Vec<CodeSection>,
    /// `__unwind_info` and `__eh_frame`, by stated address and size.
    pub(crate) unwind_info: Option<Range<u64>>,
    pub(crate) eh_frame: Option<Range<u64>>,
    layout: Layout,
    /// Offset of the header in the file.
    header_at: u64,
    segments: Vec<MachOSegment>,
    /// Offset and size of the function starts, in their load command.
    function_starts: Option<(u64, u64)>,
    symbols: Option<SymbolTable>,
    is_platform_library: bool,
}

/// Place of the function that starts signal handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignalTrampoline {
    None,
    /// At this relative address.
    At(u64),
    /// In this file, at an unknown address: in the shared cache the file has no symbol for it.
    Somewhere,
}

impl MachO {
    /// Reads the headers. If several slices can be unwound, the one with the id `wanted` is read.
    pub(crate) fn read(file: &dyn ReadAt, wanted: Option<&BuildId>) -> Result<MachO, ModuleMiss> {
        let magic = read_range(file, 0, 8, 8).ok_or(ModuleMiss::Malformed)?;
        if u32_at(&magic, 0) == Some(MH_MAGIC_64) {
            return read_fat_slice(file, 0).ok_or(ModuleMiss::Malformed);
        }
        let mut slices = Vec::new();
        for offset in slices_of(file, &magic).ok_or(ModuleMiss::Malformed)? {
            let slice = read_fat_slice(file, offset).filter(|slice| slice.machine.is_some());
            slices.extend(slice);
        }
        match wanted {
            Some(_) => {
                let wanted = { slices.into_iter() }.find(|slice| slice.build_id.as_ref() == wanted);
                wanted.ok_or(ModuleMiss::Replaced)
            }
            None if slices.len() > 1 => Err(ModuleMiss::NotIdentified),
            None => slices.pop().ok_or(ModuleMiss::Malformed),
        }
    }

    /// The bias, address minus stated address, of a mapping that starts at `start` with the byte `offset`, counted from
    /// the header. `None` if no segment is mapped there.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let at = self.header_at.checked_add(offset)?;
        let holds = |segment: &&MachOSegment| {
            let piece = &segment.piece;
            at.checked_sub(piece.offset).is_some_and(|into| into < piece.size)
        };
        let found = { self.segments.iter() }.filter(holds);
        let MachOSegment { piece, .. } = found.max_by_key(|segment| segment.executable)?;
        let svma = piece.svma.wrapping_add(at - piece.offset);
        Some(start.wrapping_sub(svma))
    }

    /// True if the data at a relative address cannot change once the program runs.
    pub(crate) fn is_fixed_at_start(&self, relative: u64) -> bool {
        let svma = self.base_svma.wrapping_add(relative);
        let mut segments = self.segments.iter();
        segments.any(|segment| segment.read_only && segment.piece.offset_of(svma).is_some())
    }

    /// The file bytes from an address to the end of its segment.
    pub(crate) fn rest_from(&self, svma: u64) -> Option<FileSlice> {
        self.segments.iter().find_map(|segment| segment.piece.rest_from(svma))
    }

    /// The file bytes of an address range. `None` if the range is not in one segment.
    pub(crate) fn piece(&self, range: &Range<u64>) -> Option<FileSlice> {
        let size = range.end.checked_sub(range.start)?;
        let rest = self.rest_from(range.start).filter(|rest| rest.size >= size)?;
        Some(FileSlice { size, ..rest })
    }

    /// First addresses of all functions, relative and ascending. Empty if the file has no list of them.
    pub(crate) fn function_starts(&self, file: &dyn ReadAt) -> Vec<u32> {
        let Some((offset, size)) = self.function_starts else {
            return Vec::new();
        };
        let at = self.place(offset);
        let bytes = at.and_then(|at| read_range(file, at, size, MAX_FUNCTION_STARTS));
        let mut starts = Vec::new();
        let bytes = bytes.unwrap_or_default();
        let mut rest = &bytes[..];
        let mut address = 0u32;
        // Differences in ULEB128. A 0 is the end.
        while let Some(difference) = varint::take(&mut rest).filter(|difference| *difference > 0) {
            let Some(next) = u32::try_from(difference).ok().and_then(|by| address.checked_add(by)) else {
                break;
            };
            address = next;
            starts.push(address);
        }
        starts
    }

    /// Finds the function that starts signal handlers.
    pub(crate) fn trampoline(&self, file: &dyn ReadAt) -> SignalTrampoline {
        if !self.is_platform_library {
            return SignalTrampoline::None;
        }
        let found = self
            .symbols
            .and_then(|symbols| self.find_symbol(file, symbols, TRAMPOLINE));
        match found {
            Some(at) => SignalTrampoline::At(at),
            // The Intel version of the library exports it.
            None if self.machine == Some(Machine::X86_64) => SignalTrampoline::None,
            None => SignalTrampoline::Somewhere,
        }
    }

    /// Reads strings one by one: in the shared cache one string table serves all libraries.
    fn find_symbol(&self, file: &dyn ReadAt, symbols: SymbolTable, name: &[u8]) -> Option<u64> {
        let (table_at, strings_at) = (self.place(symbols.offset)?, self.place(symbols.strings_offset)?);
        let table = read_range(file, table_at, u64::from(symbols.count.min(MAX_SYMBOLS)) * 16, u64::MAX)?;
        let mut own = vec![0; name.len()];
        table.chunks_exact(16).find_map(|entry| {
            let at = strings_at.checked_add(u32_at(entry, 0)?.into())?;
            file.read_exact_at(&mut own, at).ok()?;
            let address = u64_at(entry, 8).filter(|address| *address != 0 && own == name)?;
            address.checked_sub(self.base_svma)
        })
    }

    /// The offset in the file of an offset in a load command.
    fn place(&self, file_offset: u64) -> Option<u64> {
        match self.layout {
            Layout::File => self.header_at.checked_add(file_offset),
            Layout::Memory => self.segments.iter().find_map(|segment| {
                let into = file_offset.checked_sub(segment.file_offset)?;
                (into < segment.piece.size).then_some(segment.piece.offset.checked_add(into)?)
            }),
        }
    }
}

/// Offsets of the slices of a fat file.
fn slices_of(file: &dyn ReadAt, magic: &[u8]) -> Option<Vec<u64>> {
    let big_endian = |bytes: &[u8], at| u32_at(bytes, at).map(u32::swap_bytes);
    let size = match big_endian(magic, 0)? {
        FAT_MAGIC => 20,
        FAT_MAGIC_64 => 32,
        _ => return None,
    };
    let count = big_endian(magic, 4).filter(|count| *count <= MAX_SLICES)?;
    let table = read_range(file, 8, u64::from(count) * size, 1 << 10)?;
    let slices = table.chunks_exact(size as usize).filter_map(|entry| match size {
        20 => big_endian(entry, 8).map(u64::from),
        _ => u64_at(entry, 8).map(u64::swap_bytes),
    });
    Some(slices.collect())
}

/// Reads a header and its load commands.
fn read_fat_slice(file: &dyn ReadAt, header_at: u64) -> Option<MachO> {
    let header = read_range(file, header_at, 32, 32)?;
    if u32_at(&header, 0)? != MH_MAGIC_64 {
        return None;
    }
    let (count, size) = (u32_at(&header, 16)?, u32_at(&header, 20)?);
    let commands = read_range(file, header_at.checked_add(32)?, size.into(), MAX_COMMANDS)?;
    let mut object = MachO {
        machine: match u32_at(&header, 4)? {
            CPU_TYPE_X86_64 => Some(Machine::X86_64),
            CPU_TYPE_ARM64 => Some(Machine::Aarch64),
            _ => None,
        },
        build_id: None,
        base_svma: 0,
        code: Vec::new(),
        unwind_info: None,
        eh_frame: None,
        layout: file.layout(),
        header_at,
        segments: Vec::new(),
        function_starts: None,
        symbols: None,
        is_platform_library: false,
    };
    let mut rest = &commands[..];
    let mut base = None;
    for _ in 0..count {
        let size = usize::try_from(u32_at(rest, 4)?).ok().filter(|size| *size >= 8)?;
        let command = rest.get(..size)?;
        rest = rest.get(size..)?;
        match u32_at(command, 0)? {
            LC_SEGMENT_64 => {
                if is_named(command, 8, b"__TEXT") {
                    base = u64_at(command, 24);
                }
                object.add_segment(command)?;
            }
            LC_UUID => {
                object.build_id = command
                    .get(8..)
                    .and_then(|uuid| Some(BuildId::of_uuid(*uuid.first_chunk()?)))
            }
            LC_FUNCTION_STARTS => {
                object.function_starts = Some((u32_at(command, 8)?.into(), u32_at(command, 12)?.into()))
            }
            LC_SYMTAB => {
                object.symbols = Some(SymbolTable {
                    offset: u32_at(command, 8)?.into(),
                    count: u32_at(command, 12)?,
                    strings_offset: u32_at(command, 16)?.into(),
                });
            }
            LC_ID_DYLIB => {
                let name = usize::try_from(u32_at(command, 8)?)
                    .ok()
                    .and_then(|at| command.get(at..));
                let name = name.and_then(|name| name.split(|byte| *byte == 0).next());
                object.is_platform_library = name == Some(PLATFORM);
            }
            _ => {}
        }
    }
    object.base_svma = base?;
    for segment in &mut object.segments {
        segment.piece.offset = match object.layout {
            Layout::File => header_at.checked_add(segment.file_offset)?,
            // The reader has no bytes below the header.
            Layout::Memory => match segment.piece.svma.checked_sub(object.base_svma) {
                Some(offset) => offset,
                None => {
                    segment.piece.size = 0;
                    continue;
                }
            },
        };
    }
    Some(object)
}

impl MachO {
    fn add_segment(&mut self, command: &[u8]) -> Option<()> {
        let file_offset = u64_at(command, 40)?;
        // Behind its file bytes, a segment has zeros.
        let size = u64_at(command, 48)?.min(u64_at(command, 32)?);
        self.segments.push(MachOSegment {
            piece: FileSlice {
                svma: u64_at(command, 24)?,
                offset: 0,
                size,
            },
            file_offset,
            executable: u32_at(command, 60)? & VM_PROT_EXECUTE != 0,
            read_only: u32_at(command, 68)? & SG_READ_ONLY != 0,
        });
        let sections = command.get(72..)?.chunks_exact(80);
        for section in sections.take(u32_at(command, 64)?.min(MAX_SECTIONS as u32) as usize) {
            let start = u64_at(section, 32)?;
            let range = start..start.checked_add(u64_at(section, 40)?)?;
            let flags = u32_at(section, 64)?;
            if is_named(section, 0, b"__unwind_info") {
                self.unwind_info = Some(range);
            } else if is_named(section, 0, b"__eh_frame") {
                self.eh_frame = Some(range);
            } else if flags & S_ATTR_SOME_INSTRUCTIONS != 0 || is_named(section, 0, b"__text") {
                self.code.push(CodeSection {
                    range,
                    // Stubs of Objective-C methods have the usual section type.
                    is_stubs: flags & SECTION_TYPE == S_SYMBOL_STUBS || is_named(section, 0, b"__objc_stubs"),
                });
            }
        }
        Some(())
    }
}

/// True if a name field of up to 16 bytes holds this name.
fn is_named(bytes: &[u8], at: usize, name: &[u8]) -> bool {
    let field = bytes.get(at..at + 16).unwrap_or_default();
    field.split(|byte| *byte == 0).next() == Some(name)
}
