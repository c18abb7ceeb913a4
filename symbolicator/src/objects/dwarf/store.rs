//! The sections of debug info, kept in memory for as long as anything borrows from them.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use gimli::{DwarfPackage, EndianSlice, LittleEndian, SectionId};
use object::Object;
use typed_arena::Arena;

use crate::error::SymbolError;
use crate::files::object_file::{ObjectFile, StoredSection};

/// DWARF bytes, borrowed from the mapped file or from an unpacked section.
pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;

fn empty<'a>() -> Slice<'a> {
    EndianSlice::new(&[], LittleEndian)
}

/// The files, and the unpacked sections of those that are compressed.
pub(super) struct SectionStore {
    pub(super) main: Arc<ObjectFile>,
    pub(super) supplementary: Option<Arc<ObjectFile>>,
    pub(super) package: Option<ObjectFile>,
    /// `.dwo` files that look-ups have opened.
    pub(super) opened: Arena<ObjectFile>,
    pub(super) unpacked: Arena<Vec<u8>>,
    /// The folder for sections that were unpacked.
    pub(super) cache: Option<PathBuf>,
    /// Heap that unpacked sections and copied files take.
    pub(super) held_bytes: Cell<usize>,
}

impl SectionStore {
    fn section<'a>(&'a self, file: &'a ObjectFile, name: &str) -> Result<Slice<'a>, SymbolError> {
        if !file.object()?.is_little_endian() {
            return Err(SymbolError::unreadable(
                file.path(),
                "big-endian debug info is not supported",
            ));
        }
        let bytes: &'a [u8] = match file.stored_section(name)? {
            StoredSection::Plain(bytes) => bytes,
            StoredSection::Packed(packed) => {
                let unpacked = packed.unpack_once(self.cache.as_deref())?;
                self.held_bytes.update(|bytes| bytes + unpacked.len());
                self.unpacked.alloc(unpacked)
            }
        };
        Ok(EndianSlice::new(bytes, LittleEndian))
    }

    /// Keeps a `.dwo` file.
    pub(super) fn keep(&self, file: ObjectFile) -> &ObjectFile {
        self.held_bytes.update(|bytes| bytes + file.held_bytes());
        self.opened.alloc(file)
    }

    /// The sections of a file with whole units.
    pub(super) fn load<'a>(&'a self, file: &'a ObjectFile) -> Result<gimli::Dwarf<Slice<'a>>, SymbolError> {
        gimli::Dwarf::load(|id| {
            if needed(id) {
                self.section(file, id.name())
            } else {
                Ok(empty())
            }
        })
    }

    /// The sections of a `.dwo` file.
    pub(super) fn load_dwo<'a>(&'a self, file: &'a ObjectFile) -> Result<gimli::Dwarf<Slice<'a>>, SymbolError> {
        gimli::Dwarf::load(|id| match (needed(id), id.dwo_name()) {
            (true, Some(name)) => self.section(file, name),
            _ => Ok(empty()),
        })
    }

    /// The `.dwp` package. If it cannot be read, its units keep their symbol names.
    pub(super) fn load_package(&self) -> Option<DwarfPackage<Slice<'_>>> {
        let file = self.package.as_ref()?;
        let section = |id: SectionId| match id.dwo_name() {
            // All of them: the index gives each unit its part of each section, and gimli refuses the unit where a part
            // is not there.
            Some(name) => self.section(file, name).map_err(|_| gimli::Error::Io),
            None => Ok(empty()),
        };
        DwarfPackage::load(section, empty()).ok()
    }
}

/// Sections that a look-up reads. Others (locations of variables, macros) may be large and are not unpacked.
const READ: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

fn needed(id: SectionId) -> bool {
    READ.contains(&id)
}

/// True for the names of sections that look-ups read.
pub(in crate::objects) fn reads_section(name: &str) -> bool {
    READ.iter().any(|id| id.name() == name)
}
