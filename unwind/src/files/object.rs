//! A module's file, whichever its format.

use crate::files::elf::Elf;
use crate::files::file_slice::Piece;
use crate::files::machine::Machine;
use crate::files::macho::MachO;
use recording::module::{BuildId, FileRole};
use recording::sink::{ModuleMiss, ReadAt};

/// What a file of code says of itself.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Elf(Elf),
    MachO(MachO),
}

impl Object {
    /// Reads the headers. `wanted`: which slice of a fat file.
    pub(crate) fn read(file: &dyn ReadAt, wanted: Option<&BuildId>) -> Result<Object, ModuleMiss> {
        match Elf::read(file) {
            Some(elf) => Ok(Object::Elf(elf)),
            None => MachO::read(file, wanted).map(Object::MachO),
        }
    }

    /// `None`: another one, whose code is not unwound.
    pub(crate) fn machine(&self) -> Option<Machine> {
        match self {
            Object::Elf(elf) => elf.machine,
            Object::MachO(macho) => macho.machine,
        }
    }

    pub(crate) fn build_id(&self) -> Option<&BuildId> {
        match self {
            Object::Elf(elf) => elf.build_id.as_ref(),
            Object::MachO(macho) => macho.build_id.as_ref(),
        }
    }

    pub(crate) fn role(&self) -> FileRole {
        match self {
            Object::Elf(elf) => elf.role,
            Object::MachO(_) => FileRole::Unknown,
        }
    }

    /// Address of the lowest segment that is in the file: relative address 0.
    pub(crate) fn base_svma(&self) -> u64 {
        match self {
            Object::Elf(elf) => elf.base_svma,
            Object::MachO(macho) => macho.base_svma,
        }
    }

    /// Address minus stated address of a mapping that starts at `start` with the file's byte `file_offset`. In Mach-O
    /// files that counts from the header: a slice may be anywhere in a fat file.
    pub(crate) fn bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        match self {
            Object::Elf(elf) => elf.bias(start, file_offset),
            Object::MachO(macho) => macho.bias(start, file_offset),
        }
    }

    /// From an address to the end of its segment's file bytes.
    pub(crate) fn rest_from(&self, svma: u64) -> Option<Piece> {
        match self {
            Object::Elf(elf) => elf.rest_from(svma),
            Object::MachO(macho) => macho.rest_from(svma),
        }
    }

    /// True if the data at a relative address cannot change once the program runs.
    pub(crate) fn is_fixed_at_start(&self, relative: u64) -> bool {
        match self {
            Object::Elf(elf) => elf.is_fixed_at_start(relative),
            Object::MachO(macho) => macho.is_fixed_at_start(relative),
        }
    }

    /// True if nothing of a frame is above its frame record: compact entries can't say where the record is.
    pub(crate) fn records_top_frames(&self) -> bool {
        matches!(self, Object::MachO(_))
    }
}
