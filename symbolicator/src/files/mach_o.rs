//! Parts of Mach-O files that finding and reading share.

use object::read::macho::MachOFile64;
use object::{Endianness, Object, ObjectSegment, macho};

pub(crate) type MachO<'a> = MachOFile64<'a, Endianness>;

/// The address of the image: relative address 0. Object files that no linker has placed have no segment of this name.
pub(super) fn image_base(object: &object::File<'_>) -> u64 {
    let is_text = |segment: &object::Segment<'_, '_>| segment.name() == Ok(Some(macho::SEG_TEXT));
    object.segments().find(is_text).map_or(0, |segment| segment.address())
}

/// The first load command of a kind that has its data in `__LINKEDIT`.
pub(crate) fn command<'a>(
    object: &MachO<'a>,
    kind: macho::LoadCommandType,
) -> Option<&'a macho::LinkeditDataCommand<Endianness>> {
    let mut commands = object.macho_load_commands().ok()?;
    while let Some(command) = commands.next().ok()? {
        if command.cmd() == kind {
            return command.data().ok();
        }
    }
    None
}

/// `link_edit` is the file that has the segment `__LINKEDIT`.
pub(crate) fn exports_trie<'a>(object: &MachO<'a>, link_edit: &'a [u8]) -> Option<&'a [u8]> {
    let endian = object.endian();
    if let Some(command) = command(object, macho::LC_DYLD_EXPORTS_TRIE) {
        return command.data(endian, link_edit).ok();
    }
    let mut commands = object.macho_load_commands().ok()?;
    while let Some(command) = commands.next().ok()? {
        if let Some(info) = command.dyld_info().ok()? {
            let start = info.export_off.get(endian) as usize;
            return object
                .data()
                .get(start..start.checked_add(info.export_size.get(endian) as usize)?);
        }
    }
    None
}
