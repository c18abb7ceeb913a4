//! The entries of `.eh_frame`, found by their lengths and not parsed. See the LSB, "The .eh_frame section".

use recording::little_endian::{u32_at, u64_at};

/// Replaces `B` by `S` in the augmentation strings of the section; neither adds bytes to an entry. `B` says that return
/// addresses are signed with the second key (arm64e), and gimli does not read such entries. The caller must not look
/// for `S`, signal frames, in the result.
pub(crate) fn without_b_key(mut section: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some((entry, next)) = CfiEntry::at(&section, at) {
        if let Some(string) = entry.augmentation(&section)
            && let Some(b) = string.iter().position(|byte| *byte == b'B')
            && let Some(byte) = section.get_mut(entry.id_at + 5 + b)
        {
            *byte = b'S';
        }
        at = next;
    }
    section
}

/// An entry of the section.
struct CfiEntry {
    id_at: usize,
    id: u32,
}

impl CfiEntry {
    /// The entry at an offset, and the offset of the next entry. `None` at the end of the section.
    fn at(section: &[u8], at: usize) -> Option<(CfiEntry, usize)> {
        let (header, length) = match u32_at(section, at)? {
            0 => return None,
            u32::MAX => (12, u64_at(section, at + 4).unwrap_or(u64::MAX)),
            length => (4, u64::from(length)),
        };
        let id_at = at + header;
        let id = u32_at(section, id_at)?;
        let next = { usize::try_from(length).ok() }.and_then(|length| id_at.checked_add(length));
        Some((CfiEntry { id_at, id }, next.unwrap_or(usize::MAX)))
    }

    /// The augmentation string of a CIE; `None` for an FDE.
    fn augmentation<'a>(&self, section: &'a [u8]) -> Option<&'a [u8]> {
        // 4 bytes id, 1 byte version, then the string.
        let string = section.get(self.id_at + 5..).filter(|_| self.id == 0)?;
        let end = string.iter().take(8).take_while(|byte| **byte != 0).count();
        string.get(..end)
    }
}

/// Offsets of the FDEs whose CIE has `S` in its augmentation string. A plain walk over lengths, because parsing
/// hundreds of thousands of entries to find one is too slow.
pub(crate) fn signal_frame_entries(section: &[u8]) -> Vec<usize> {
    let mut signal_cies = Vec::new();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((entry, next)) = CfiEntry::at(section, at) {
        match entry.augmentation(section) {
            Some(string) if string.contains(&b'S') && signal_cies.len() < 64 => signal_cies.push(at),
            Some(_) => {}
            None if signal_cies.contains(&entry.id_at.wrapping_sub(entry.id as usize)) => found.push(at),
            None => {}
        }
        at = next;
    }
    found
}
