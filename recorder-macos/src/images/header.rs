//! The header of a Mach-O image in memory: how much code it has, and which build it is. Offsets are from
//! `mach-o/loader.h`.

use std::ops::Range;

use object::macho::{LC_SEGMENT_64, LC_UUID, MH_MAGIC_64, SEG_TEXT};
use recording::little_endian::{u32_at, u64_at};
use recording::module::BuildId;

use crate::kernel::{Mach, MachError};

/// Load commands at most; images of macOS have some kilobytes.
const MOST_BYTES: usize = 1 << 18;
/// Read at once: a page of any processor, which most headers fit into.
const FIRST: usize = 4 << 10;
/// `mach_header_64`.
const HEADER: usize = 32;
/// `segment_command_64` without its sections, and one section.
const SEGMENT: usize = 72;
const SECTION: usize = 80;

/// A header with its load commands, as the image has them.
#[derive(Clone, Debug)]
pub(crate) struct ImageHeader {
    bytes: Vec<u8>,
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its load command in [`ImageHeader::bytes`].
    pub(crate) command: Range<usize>,
    /// As the linker placed it.
    pub(crate) address: u64,
    pub(crate) size: u64,
}

impl ImageHeader {
    /// Reads the header at an address. An error if the memory can't be read or is not a header.
    pub(crate) fn read<M: Mach>(mach: &M, task: &M::Task, address: u64) -> Result<ImageHeader, MachError> {
        let mut bytes = vec![0; FIRST];
        mach.read(task, address, &mut bytes)?;
        let len = len_of(&bytes).ok_or(MachError::Code(0))?;
        if len > bytes.len() {
            bytes.resize(len, 0);
            mach.read(task, address, &mut bytes)?;
        }
        ImageHeader::from_bytes(bytes).ok_or(MachError::Code(0))
    }

    /// The header at the start of these bytes. `None` if the bytes are not a header, or end before it does.
    pub(crate) fn from_bytes(mut bytes: Vec<u8>) -> Option<ImageHeader> {
        let len = len_of(&bytes).filter(|len| *len <= bytes.len())?;
        bytes.truncate(len);
        Some(ImageHeader { bytes })
    }

    /// The header and its load commands.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The load commands of a kind, as ranges of [`ImageHeader::bytes`]. Ends before a command that does not fit.
    pub(crate) fn commands(&self, wanted: u32) -> impl Iterator<Item = Range<usize>> {
        let mut at = HEADER;
        let all = std::iter::from_fn(move || {
            let kind = u32_at(&self.bytes, at)?;
            let len = u32_at(&self.bytes, at + 4)? as usize;
            let place = at..at.checked_add(len)?;
            at = place.end;
            (len >= 8 && at <= self.bytes.len()).then_some((kind, place))
        });
        all.filter(move |(kind, _)| *kind == wanted).map(|(_, place)| place)
    }

    /// The segment of this name; `None` if the image has none.
    pub(crate) fn segment(&self, name: &str) -> Option<Segment> {
        let mut segments = self.commands(LC_SEGMENT_64.0);
        let command = segments.find(|place| {
            let named = self.bytes.get(place.start + 8..place.start + 24);
            named.and_then(|named| named.split(|byte| *byte == 0).next()) == Some(name.as_bytes())
        })?;
        Some(Segment {
            address: u64_at(&self.bytes, command.start + 24)?,
            size: u64_at(&self.bytes, command.start + 32)?,
            command,
        })
    }

    /// The segment with the code, which begins with this header.
    pub(crate) fn text(&self) -> Option<Segment> {
        self.segment(SEG_TEXT)
    }

    /// The offsets of a segment's sections in [`ImageHeader::bytes`].
    pub(crate) fn sections(&self, segment: &Segment) -> impl Iterator<Item = usize> {
        let first = segment.command.start + SEGMENT;
        (first..segment.command.end.saturating_sub(SECTION - 1)).step_by(SECTION)
    }

    /// The UUID, which two builds never share. `None` if the image has none.
    pub(crate) fn build_id(&self) -> Option<BuildId> {
        let place = self.commands(LC_UUID.0).next()?;
        let uuid = self.bytes.get(place.start + 8..place.start + 24)?;
        Some(BuildId::of_uuid(*uuid.first_chunk()?))
    }
}

fn len_of(bytes: &[u8]) -> Option<usize> {
    let len = HEADER + u32_at(bytes, 20)? as usize;
    (u32_at(bytes, 0)? == MH_MAGIC_64 && len <= MOST_BYTES).then_some(len)
}
