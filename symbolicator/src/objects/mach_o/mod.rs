//! What is particular to Mach-O: its symbol tables (`symbols`, `exports`), universal files, the shared cache of system
//! libraries, and debug info that stays in the object files (`debug_map`, `object_files`).

pub(super) mod debug_map;
mod exports;
mod object_files;
pub(crate) mod shared_cache;
pub(super) mod symbols;
pub(super) mod universal;

use object::read::macho::MachOFile64;
use object::{Endianness, Object, ObjectSegment, macho};

type MachO<'a> = MachOFile64<'a, Endianness>;

/// The address of the image: relative address 0. Object files that no linker has placed have no segment of this name.
pub(super) fn image_base(object: &object::File<'_>) -> u64 {
    let is_text = |segment: &object::Segment<'_, '_>| segment.name() == Ok(Some(macho::SEG_TEXT));
    object.segments().find(is_text).map_or(0, |segment| segment.address())
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
