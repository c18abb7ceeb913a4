//! A module's file in any format.

use crate::files::elf::Elf;
use crate::files::file_slice::FileSlice;
use crate::files::machine::Machine;
use crate::files::macho::MachO;
use recording::module::{BuildId, FileRole};
use recording::sink::{ModuleMiss, ReadAt};

/// Facts of a file with code.
#[derive(Clone, Debug)]
pub(crate) enum ObjectFile {
    Elf(Elf),
    MachO(MachO),
}

impl ObjectFile {
    /// Reads the headers. `wanted` selects the slice of a fat file.
    pub(crate) fn read(file: &dyn ReadAt, wanted: Option<&BuildId>) -> Result<ObjectFile, ModuleMiss> {
        match Elf::read(file) {
            Some(elf) => Ok(ObjectFile::Elf(elf)),
            None => MachO::read(file, wanted).map(ObjectFile::MachO),
        }
    }

    /// `None` for a machine whose code is not unwound.
    pub(crate) fn machine(&self) -> Option<Machine> {
        match self {
            ObjectFile::Elf(elf) => elf.machine,
            ObjectFile::MachO(macho) => macho.machine,
        }
    }

    pub(crate) fn build_id(&self) -> Option<&BuildId> {
        match self {
            ObjectFile::Elf(elf) => elf.build_id.as_ref(),
            ObjectFile::MachO(macho) => macho.build_id.as_ref(),
        }
    }

    pub(crate) fn role(&self) -> FileRole {
        match self {
            ObjectFile::Elf(elf) => elf.role,
            ObjectFile::MachO(_) => FileRole::Unknown,
        }
    }

    /// Address of the lowest segment with file bytes: relative address 0.
    pub(crate) fn base_svma(&self) -> u64 {
        match self {
            ObjectFile::Elf(elf) => elf.base_svma,
            ObjectFile::MachO(macho) => macho.base_svma,
        }
    }

    /// The bias, address minus stated address, of a mapping that starts at `start` with the file's byte `file_offset`.
    /// In Mach-O files the offset counts from the header: a slice may be anywhere in a fat file.
    pub(crate) fn bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        match self {
            ObjectFile::Elf(elf) => elf.bias(start, file_offset),
            ObjectFile::MachO(macho) => macho.bias(start, file_offset),
        }
    }

    /// The file bytes from an address to the end of its segment.
    pub(crate) fn rest_from(&self, svma: u64) -> Option<FileSlice> {
        match self {
            ObjectFile::Elf(elf) => elf.rest_from(svma),
            ObjectFile::MachO(macho) => macho.rest_from(svma),
        }
    }

    /// True if the data at a relative address cannot change once the program runs.
    pub(crate) fn is_fixed_at_start(&self, relative: u64) -> bool {
        match self {
            ObjectFile::Elf(elf) => elf.is_fixed_at_start(relative),
            ObjectFile::MachO(macho) => macho.is_fixed_at_start(relative),
        }
    }

    /// True if a frame has nothing above its frame record. Compact entries can't say where the record is.
    pub(crate) fn records_top_frames(&self) -> bool {
        matches!(self, ObjectFile::MachO(_))
    }
}
