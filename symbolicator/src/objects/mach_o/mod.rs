//! What is particular to Mach-O: its symbol tables (`symbols`, `exports`), universal files, the shared cache of system libraries, and debug info that stays in the object files
//! (`debug_map`, `object_files`).

pub(super) mod debug_map;
mod exports;
mod object_files;
pub(crate) mod shared_cache;
pub(super) mod symbols;
pub(super) mod universal;

use std::ops::Range;

use object::read::macho::MachOFile64;
use object::{Endianness, Object, ObjectSegment, macho};

use super::file::ObjectFile;
use super::symtab::{code_sections, section_at};

type MachO<'a> = MachOFile64<'a, Endianness>;

/// The address of the image: relative address 0. Object files that no linker has placed have no segment of this name.
pub(super) fn image_base(object: &object::File<'_>) -> u64 {
    let is_text = |segment: &object::Segment<'_, '_>| segment.name() == Ok(Some(macho::SEG_TEXT));
    object.segments().find(is_text).map_or(0, |segment| segment.address())
}

/// Where functions begin, by `LC_FUNCTION_STARTS`: also those that have no symbol.
#[derive(Default)]
pub(super) struct FunctionStarts {
    /// Relative addresses, ascending.
    starts: Vec<u64>,
    /// Sections with code: (start, end), by address.
    code: Vec<(u64, u64)>,
}

impl FunctionStarts {
    /// Empty where the file has none.
    pub(super) fn read(file: &ObjectFile) -> FunctionStarts {
        // Files of ELF are not parsed for this.
        let Some(object) = file.is_mach_o().then(|| file.object().ok()).flatten() else {
            return FunctionStarts::default();
        };
        let code = code_sections(file, &object);
        let object::File::MachO64(object) = object else {
            return FunctionStarts::default();
        };
        let starts = command(&object, macho::LC_FUNCTION_STARTS)
            .and_then(|command| command.function_starts(object.endian(), object.data(), 0).ok());
        let mut starts: Vec<u64> = starts.into_iter().flatten().map_while(Result::ok).collect();
        starts.dedup();
        FunctionStarts { starts, code }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The function that holds a relative address. It reaches to the next one, or to the end of its section.
    pub(super) fn at(&self, address: u64) -> Option<Range<u64>> {
        let after = self.starts.partition_point(|start| *start <= address);
        let start = *self.starts.get(after.checked_sub(1)?)?;
        let (_, section_end) = section_at(&self.code, start)?;
        let end = self
            .starts
            .get(after)
            .map_or(section_end, |next| section_end.min(*next));
        (address < end).then_some(start..end)
    }

    /// The start of the first function behind an address.
    pub(super) fn next_start(&self, address: u64) -> Option<u64> {
        let after = self.starts.partition_point(|start| *start <= address);
        self.starts.get(after).copied()
    }

    /// Heap bytes.
    pub(super) fn held_bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.code)
    }
}

/// The first load command of a kind that has its data in `__LINKEDIT`.
fn command<'a>(object: &MachO<'a>, kind: macho::LoadCommandType) -> Option<&'a macho::LinkeditDataCommand<Endianness>> {
    let mut commands = object.macho_load_commands().ok()?;
    while let Some(command) = commands.next().ok()? {
        if command.cmd() == kind {
            return command.data().ok();
        }
    }
    None
}
