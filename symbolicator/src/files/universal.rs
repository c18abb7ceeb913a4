//! Universal ("fat") files: one file with the code for several processors.

use std::ops::Range;

use object::read::macho::{FatArch, MachOFatFile32, MachOFatFile64};
use object::{Architecture, FileKind};

/// Parts that are looked at. A universal file has one for each kind of processor.
const MAX_PARTS: usize = 32;

/// The parts of a universal file that lie in it; `None` for all other files.
pub(super) fn parts(file: &[u8]) -> Option<Vec<Range<usize>>> {
    let parts = with_processors(file)?;
    Some(parts.into_iter().map(|(_, part)| part).collect())
}

/// The part for a processor, in the words of [`Module::arch`](recording::module::Module::arch). A file that is not
/// universal is its own part.
pub(crate) fn part_of(file: &[u8], arch: Option<&str>) -> Option<Range<usize>> {
    let Some(parts) = with_processors(file) else {
        return Some(0..file.len());
    };
    let is_for = |(processor, _): &(Architecture, Range<usize>)| match processor {
        Architecture::Aarch64 => arch == Some("aarch64"),
        Architecture::X86_64 => arch == Some("x86_64"),
        _ => false,
    };
    parts.into_iter().find(is_for).map(|(_, part)| part)
}

fn with_processors(file: &[u8]) -> Option<Vec<(Architecture, Range<usize>)>> {
    match FileKind::parse(file).ok()? {
        FileKind::MachOFat32 => Some(listed(file, MachOFatFile32::parse(file).ok()?.arches())),
        FileKind::MachOFat64 => Some(listed(file, MachOFatFile64::parse(file).ok()?.arches())),
        _ => None,
    }
}

fn listed<Arch: FatArch>(file: &[u8], arches: &[Arch]) -> Vec<(Architecture, Range<usize>)> {
    let part = |arch: &Arch| {
        let (offset, size) = arch.file_range();
        let (start, end) = (
            usize::try_from(offset).ok()?,
            usize::try_from(offset.checked_add(size)?).ok()?,
        );
        (end <= file.len()).then_some((arch.architecture(), start..end))
    };
    arches.iter().take(MAX_PARTS).filter_map(part).collect()
}
