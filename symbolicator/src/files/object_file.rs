//! One ELF or Mach-O file in memory.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::read::macho::MachHeader;
use object::{
    Architecture, CompressionFormat, Object, ObjectKind, ObjectSection, ObjectSegment, ObjectSymbol, SectionFlags, elf,
    macho,
};
use recording::module::{BuildId, Module};
use recording::sink::{InMemory, ReadAt};
use sha2::{Digest, Sha256};
use unwind::compression::{Compression, FileCompression, decompress, decompress_file};

use super::{mach_o, universal};
use crate::cache::Cache;
use crate::error::SymbolError;
use crate::sys::Mapping;

/// Largest size that a compressed section may unpack to. The debug info of Chromium, uncompressed, is about 3 GB.
const MAX_UNPACKED_BYTES: u64 = 4 << 30;

/// Largest ratio of unpacked to packed: debug info shrinks 2 to 8 times, `.debug_str` of generated code up to 30.
/// More is a decompression bomb. Small sections may shrink more.
const MAX_UNPACKED_RATIO: u64 = 100;

/// Largest file that is read into memory if it cannot be mapped.
const MAX_COPIED_BYTES: usize = 1 << 30;

/// Longest instruction (Intel SDM volume 2, 2.3.11): the last instruction of a range may reach this far beyond it.
const MAX_INSTRUCTION_BYTES: u64 = 15;
/// Alignment of the records in headers and symbol tables, in bytes.
const ALIGNMENT: usize = 8;

enum FileBytes {
    /// A part of a mapped file: the whole, what a universal file has for one processor, or a member of an archive.
    Mapped(Arc<Mapping>, Range<usize>),
    Owned(Vec<u8>),
}

impl FileBytes {
    fn whole(mapping: Mapping) -> FileBytes {
        let len = mapping.bytes().len();
        FileBytes::Mapped(Arc::new(mapping), 0..len)
    }
}

/// A file with a valid header.
pub(crate) struct ObjectFile {
    path: PathBuf,
    bytes: FileBytes,
    build_id: Option<BuildId>,
    base_svma: u64,
    entry: Option<u64>,
    is_mach_o: bool,
    arch: Option<&'static str>,
}

impl Deref for ObjectFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            FileBytes::Mapped(mapping, part) => mapping.bytes().get(part.clone()).unwrap_or_default(),
            FileBytes::Owned(bytes) => bytes,
        }
    }
}

impl ReadAt for ObjectFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        InMemory(&**self).read_exact_at(buffer, offset)
    }

    fn len(&self) -> u64 {
        (**self).len() as u64
    }
}

impl ObjectFile {
    pub(crate) fn open(path: &Path) -> Result<ObjectFile, SymbolError> {
        let mapping = Mapping::open(path).map_err(|error| SymbolError::unreadable(path, error))?;
        ObjectFile::new(path, FileBytes::whole(mapping))
    }

    /// Opens a file of a module. Of a universal file it is the part with the id of the module, or else for its
    /// processor.
    pub(crate) fn open_for(path: &Path, module: &Module) -> Result<ObjectFile, SymbolError> {
        let mapping = Mapping::open(path).map_err(|error| SymbolError::unreadable(path, error))?;
        ObjectFile::part_for(path, mapping, module)
    }

    fn part_for(path: &Path, mapping: Mapping, module: &Module) -> Result<ObjectFile, SymbolError> {
        let Some(parts) = universal::parts(mapping.bytes()) else {
            return ObjectFile::new(path, FileBytes::whole(mapping));
        };
        let mapping = Arc::new(mapping);
        let open = |part: Range<usize>| ObjectFile::new(path, FileBytes::Mapped(Arc::clone(&mapping), part)).ok();
        let mut files: Vec<ObjectFile> = parts.into_iter().filter_map(open).collect();
        let by_id = |file: &ObjectFile| module.build_id.is_some() && file.build_id == module.build_id;
        let by_processor = |file: &ObjectFile| module.arch.is_some() && file.arch == module.arch;
        let alone = files.len() == 1;
        let found = (files.iter().position(by_id))
            .or_else(|| files.iter().position(by_processor))
            // The error about another build names the id of a part.
            .or_else(|| (alone || module.build_id.is_some() && !files.is_empty()).then_some(0));
        let why = if files.is_empty() {
            "none of its parts is a valid Mach-O file; is it complete?"
        } else {
            "it is for several processors, and the profile does not say for which one its program was"
        };
        found
            .map(|index| files.swap_remove(index))
            .ok_or_else(|| SymbolError::unreadable(path, why))
    }

    /// A part of a mapped file, which lies at `path`.
    pub(crate) fn part(path: &Path, mapping: &Arc<Mapping>, part: Range<usize>) -> Result<ObjectFile, SymbolError> {
        // The records of an object file are read where they lie. GNU archives align members to 2 bytes.
        if part.start.is_multiple_of(ALIGNMENT) {
            return ObjectFile::new(path, FileBytes::Mapped(Arc::clone(mapping), part));
        }
        let bytes = mapping.bytes().get(part).unwrap_or_default().to_vec();
        ObjectFile::from_bytes(path, bytes)
    }

    /// Opens a small file of a module that may have thousands. It is copied: a copy cannot change.
    pub(crate) fn open_copied(path: &Path) -> Result<ObjectFile, SymbolError> {
        let mapping = Mapping::open(path).map_err(|error| SymbolError::unreadable(path, error))?;
        let whole = 0..mapping.bytes().len();
        ObjectFile::copied(path, mapping, whole)
    }

    /// Copies a part of a mapped file. A mapping keeps its file open, and a process of macOS may have 256 open files.
    pub(crate) fn copied(path: &Path, mapping: Mapping, part: Range<usize>) -> Result<ObjectFile, SymbolError> {
        if part.len() > MAX_COPIED_BYTES {
            return ObjectFile::part(path, &Arc::new(mapping), part);
        }
        let bytes = mapping.bytes().get(part).unwrap_or_default().to_vec();
        if mapping.check_unchanged() {
            ObjectFile::from_bytes(path, bytes)
        } else {
            Err(SymbolError::Rewritten { path: path.to_owned() })
        }
    }

    /// Opens the file of a module that was kept open since it ran. The module's path is its name, and the place to look
    /// for files beside it.
    pub(crate) fn open_kept(module: &Module, kept: &dyn ReadAt) -> Result<ObjectFile, SymbolError> {
        let path = &module.path;
        let unreadable = |error: &dyn std::fmt::Display| SymbolError::unreadable(path, error);
        if let Some(own) = kept.own_path() {
            let mapping = Mapping::open(&own).map_err(|error| unreadable(&error))?;
            return ObjectFile::part_for(path, mapping, module);
        }
        let len = usize::try_from(kept.len()).ok().filter(|len| *len <= MAX_COPIED_BYTES);
        let mut bytes = vec![0; len.ok_or_else(|| unreadable(&"too large to be copied into memory"))?];
        kept.read_exact_at(&mut bytes, 0).map_err(|error| unreadable(&error))?;
        ObjectFile::from_bytes(path, bytes)
    }

    /// Reads bytes that do not have a file of their own (the vDSO, `.gnu_debugdata`); `path` is their name in errors.
    pub(crate) fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<ObjectFile, SymbolError> {
        ObjectFile::new(path, FileBytes::Owned(bytes))
    }

    /// The file in `.gnu_debugdata`: symbols of the functions that `.dynsym` does not have, in Fedora's and its
    /// relatives' binaries. `None` if there is none.
    pub(crate) fn mini_debug_info(&self) -> Option<Result<ObjectFile, SymbolError>> {
        let packed = self
            .section(".gnu_debugdata")
            .ok()
            .filter(|packed| !packed.is_empty())?;
        let damaged = |error: &dyn std::fmt::Display| {
            SymbolError::unreadable(&self.path, format!("section .gnu_debugdata: {error}"))
        };
        let limit = MAX_UNPACKED_RATIO.saturating_mul(packed.len() as u64).max(1 << 20);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(MAX_COPIED_BYTES);
        let unpacked = decompress_file(FileCompression::Xz, &packed, limit).map_err(|error| damaged(&error));
        Some(unpacked.and_then(|bytes| {
            let file = ObjectFile::from_bytes(&self.path, bytes).map_err(|error| damaged(&error))?;
            // Its own program headers may be gone; its symbols have the addresses of this file.
            Ok(ObjectFile {
                base_svma: self.base_svma,
                ..file
            })
        }))
    }

    fn new(path: &Path, bytes: FileBytes) -> Result<ObjectFile, SymbolError> {
        let mut file = ObjectFile {
            path: path.to_owned(),
            bytes,
            build_id: None,
            base_svma: 0,
            entry: None,
            is_mach_o: false,
            arch: None,
        };
        let object = file.object()?;
        let arch = match object.architecture() {
            Architecture::X86_64 => Some("x86_64"),
            Architecture::Aarch64 => Some("aarch64"),
            _ => None,
        };
        let is_mach_o = matches!(object, object::File::MachO32(_) | object::File::MachO64(_));
        let (build_id, base_svma) = if is_mach_o {
            (
                object.mach_uuid().ok().flatten().map(BuildId::of_uuid),
                mach_o::image_base(&object),
            )
        } else {
            // `segments()` yields PT_LOAD alone. Relative address 0 is where the lowest of them would be loaded.
            (
                object.build_id().ok().flatten().map(|id| BuildId(id.to_vec())),
                object.segments().map(|segment| segment.address()).min().unwrap_or(0),
            )
        };
        // Libraries mostly have 0.
        let entry = Some(object.entry()).filter(|entry| !is_mach_o && *entry != 0);
        let entry = entry.and_then(|entry| entry.checked_sub(base_svma));
        (file.build_id, file.base_svma, file.entry) = (build_id, base_svma, entry);
        (file.is_mach_o, file.arch) = (is_mach_o, arch);
        Ok(file)
    }

    /// The headers of the file. They are parsed at each call, which is cheap and needs no self-reference. An error if
    /// they are damaged.
    pub(crate) fn object(&self) -> Result<object::File<'_>, SymbolError> {
        object::File::parse(&**self).map_err(|error| {
            SymbolError::unreadable(
                &self.path,
                format!("not a valid ELF or Mach-O file ({error}); is it complete?"),
            )
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// `x86_64` or `aarch64`.
    pub(crate) fn arch(&self) -> Option<&'static str> {
        self.arch
    }

    pub(crate) fn is_mach_o(&self) -> bool {
        self.is_mach_o
    }

    /// True for a Mach-O object file that no linker has placed: its code may start at address 0.
    pub(crate) fn is_unlinked(&self) -> bool {
        let is_relocatable = |object: object::File<'_>| object.kind() == ObjectKind::Relocatable;
        self.is_mach_o && self.object().is_ok_and(is_relocatable)
    }

    pub(crate) fn has_debug_info(&self) -> bool {
        self.has_section(".debug_info")
    }

    /// True if it has a full symbol table.
    pub(crate) fn has_symbols(&self) -> bool {
        if self.is_mach_o {
            (self.object()).is_ok_and(|object| object.symbols().any(|symbol| symbol.is_definition()))
        } else {
            self.has_section(".symtab")
        }
    }

    /// False for a file with debug info alone. The file of a `.dSYM` has the headers of all sections, and nothing in
    /// them.
    pub(crate) fn has_code(&self) -> bool {
        let is_dsym = |object: object::File<'_>| match object {
            object::File::MachO64(file) => file.macho_header().filetype(file.endian()) == macho::MH_DSYM,
            _ => false,
        };
        self.has_section(".text") && !self.object().is_ok_and(is_dsym)
    }

    /// `p_vaddr` of the lowest PT_LOAD, or the address of `__TEXT`: stated virtual address = relative address + this.
    pub(crate) fn base_svma(&self) -> u64 {
        self.base_svma
    }

    /// Relative address at which a program in an ELF file begins (`e_entry`). `None` in Mach-O files: they have `main`
    /// there, which mostly has a symbol.
    pub(crate) fn entry(&self) -> Option<u64> {
        self.entry
    }

    /// Identifies the file at the next start. `None` for a copy in memory.
    pub(crate) fn identity(&self) -> Option<Vec<u8>> {
        match &self.bytes {
            FileBytes::Mapped(mapping, _) => mapping.identity(),
            FileBytes::Owned(_) => None,
        }
    }

    /// Heap bytes that it takes; 0 for a mapped file.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.bytes {
            FileBytes::Mapped(..) => 0,
            FileBytes::Owned(bytes) => bytes.len(),
        }
    }

    /// True if it can be opened again by its path. Copies are of what the caller keeps, or of other files of the
    /// module.
    pub(crate) fn is_in_place(&self) -> bool {
        match &self.bytes {
            FileBytes::Mapped(mapping, _) => mapping.is_at(&self.path),
            FileBytes::Owned(_) => true,
        }
    }

    /// False if the file was written to since it was opened.
    pub(crate) fn check_unchanged(&self) -> bool {
        match &self.bytes {
            FileBytes::Mapped(mapping, _) => mapping.check_unchanged(),
            FileBytes::Owned(_) => true,
        }
    }

    /// True if a section of this name has content.
    pub(crate) fn has_section(&self, name: &str) -> bool {
        let object = self.object().ok();
        object.is_some_and(|object| section_by_name(&object, name).is_some())
    }

    /// The content of a section, unpacked; empty if the section does not exist.
    pub(crate) fn section(&self, name: &str) -> Result<Cow<'_, [u8]>, SymbolError> {
        match self.stored_section(name)? {
            StoredSection::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
            StoredSection::Packed(packed) => Ok(Cow::Owned(packed.unpack()?)),
        }
    }

    /// The content of a section as it is in the file; empty if the section does not exist.
    pub(crate) fn stored_section<'f, 'n>(&'f self, name: &'n str) -> Result<StoredSection<'f, 'n>, SymbolError> {
        let object = self.object()?;
        let Some(section) = section_by_name(&object, name) else {
            return Ok(StoredSection::Plain(&[]));
        };
        let data = (section.compressed_data()).map_err(|error| self.damaged(name, &error))?;
        let compression = match data.format {
            CompressionFormat::None => return Ok(StoredSection::Plain(data.data)),
            CompressionFormat::Zlib => Compression::Zlib,
            CompressionFormat::Zstandard => Compression::Zstandard,
            other => return Err(self.damaged(name, &format_args!("its compression ({other:?}) is not known"))),
        };
        let packed_bytes = data.data.len() as u64;
        let limit = MAX_UNPACKED_BYTES.min(packed_bytes.saturating_mul(MAX_UNPACKED_RATIO).max(1 << 20));
        if data.uncompressed_size > limit {
            return Err(self.damaged(
                name,
                &format_args!(
                    "claims to unpack from {packed_bytes} to {} bytes, more than is plausible",
                    data.uncompressed_size
                ),
            ));
        }
        Ok(StoredSection::Packed(PackedSection {
            file: self,
            name,
            compression,
            bytes: data.data,
            size: usize::try_from(data.uncompressed_size).map_err(|error| self.damaged(name, &error))?,
        }))
    }

    /// The machine code at a relative address: `size` bytes and enough for the last instruction, or fewer if the code
    /// ends there.
    pub(crate) fn code_at<'a>(&'a self, object: &object::File<'a>, start: u64, size: u64) -> Option<&'a [u8]> {
        let svma = start.checked_add(self.base_svma())?;
        let wanted = size + MAX_INSTRUCTION_BYTES;
        let section = object.sections().filter(is_code).find_map(|section| {
            let offset = svma.checked_sub(section.address())?;
            section.data().ok()?.get(usize::try_from(offset).ok()?..)
        });
        // A file without section headers still has its segments.
        let bytes = section.filter(|bytes| !bytes.is_empty()).or_else(|| {
            object.segments().find_map(|segment| {
                let executable = segment.permissions().executable();
                let offset = svma.checked_sub(segment.address()).filter(|_| executable)?;
                segment.data().ok()?.get(usize::try_from(offset).ok()?..)
            })
        })?;
        let len = bytes.len().min(usize::try_from(wanted).unwrap_or(usize::MAX));
        (len > 0).then(|| &bytes[..len])
    }

    fn damaged(&self, section: &str, reason: &dyn std::fmt::Display) -> SymbolError {
        SymbolError::unreadable(&self.path, format!("section {section}: {reason}"))
    }
}

/// A section as it is in the file.
pub(crate) enum StoredSection<'f, 'n> {
    Plain(&'f [u8]),
    Packed(PackedSection<'f, 'n>),
}

/// A compressed section of a plausible size.
pub(crate) struct PackedSection<'f, 'n> {
    file: &'f ObjectFile,
    name: &'n str,
    compression: Compression,
    bytes: &'f [u8],
    /// Bytes that it unpacks to.
    size: usize,
}

impl PackedSection<'_, '_> {
    fn unpack(&self) -> Result<Vec<u8>, SymbolError> {
        decompress(self.compression, self.bytes, self.size).map_err(|error| self.file.damaged(self.name, &error))
    }

    /// [`PackedSection::unpack`], or what was unpacked before from the same bytes.
    pub(crate) fn unpack_once(&self, cache: Option<&Path>) -> Result<Vec<u8>, SymbolError> {
        /// A smaller one is unpacked sooner than it is read.
        const WORTH_KEEPING: usize = 64 << 10;
        let Some(cache) = cache
            .filter(|_| self.size >= WORTH_KEEPING && Cache::takes(self.size))
            .map(Cache::new)
        else {
            return self.unpack();
        };
        // No checksum: who makes a file with another one's checksum would decide what the other file says.
        let digest = Sha256::digest(self.bytes);
        let mut entry = format!("section-{}-", self.size);
        for byte in digest {
            entry.push_str(&format!("{byte:02x}"));
        }
        if let Some(unpacked) = cache.get(&entry).filter(|unpacked| unpacked.len() == self.size) {
            return Ok(unpacked);
        }
        let unpacked = self.unpack()?;
        // Without it the next start unpacks it again.
        let _ = cache.put(&entry, &unpacked);
        Ok(unpacked)
    }
}

/// The section of this name that has bytes. Compressors of before 2015 renamed `.debug_info` to `.zdebug_info`.
fn section_by_name<'a, 'f>(object: &'f object::File<'a>, name: &str) -> Option<object::Section<'a, 'f>> {
    let section = object.section_by_name(name).or_else(|| {
        let rest = name.strip_prefix(".debug_")?;
        object.section_by_name(&format!(".zdebug_{rest}"))
    });
    section.filter(has_bytes)
}

/// False for the sections that a separate debug file has only headers of (SHT_NOBITS).
fn has_bytes<'a>(section: &impl ObjectSection<'a>) -> bool {
    section.file_range().is_some_and(|(_, size)| size > 0)
}

/// True for sections that hold code, also in a separate debug file where they have no content.
pub(crate) fn is_code<'a>(section: &impl ObjectSection<'a>) -> bool {
    match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(elf::SHF_EXECINSTR),
        SectionFlags::MachO { flags, .. } => {
            flags.intersects(macho::S_ATTR_PURE_INSTRUCTIONS | macho::S_ATTR_SOME_INSTRUCTIONS)
        }
        _ => false,
    }
}

/// The file offset of a slice of the file.
pub(crate) fn offset_in(file: &ObjectFile, part: &[u8]) -> Option<u64> {
    let whole: &[u8] = file;
    let offset = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    (offset.checked_add(part.len())? <= whole.len()).then_some(offset as u64)
}
