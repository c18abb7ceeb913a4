//! Sections that the linker compressed: Go's linker does it to `.debug_frame`, its only unwind table.

use crate::files::compression::{Compression, decompress};
use recording::little_endian::{u32_at, u64_at};

/// Bytes of an `Elf64_Chdr`: `ch_type`, a gap, `ch_size`, `ch_addralign`.
const HEADER_BYTES: usize = 24;
const ELFCOMPRESS_ZLIB: u32 = 1;
const ELFCOMPRESS_ZSTD: u32 = 2;
/// Limit of a section's unpacked size. The section of a Go program of 200 MB has 15 MB.
const MAX_UNPACKED: u64 = 256 << 20;

/// Unpacks a section with the flag `SHF_COMPRESSED`, from its bytes in the file. `None` if it is damaged, larger than
/// the limit, or compressed in an unknown way.
pub(crate) fn unpack(section: &[u8]) -> Option<Vec<u8>> {
    let compression = match u32_at(section, 0)? {
        ELFCOMPRESS_ZLIB => Compression::Zlib,
        ELFCOMPRESS_ZSTD => Compression::Zstandard,
        _ => return None,
    };
    let size = u64_at(section, 8).filter(|size| *size <= MAX_UNPACKED)?;
    decompress(compression, section.get(HEADER_BYTES..)?, usize::try_from(size).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored (not deflated) block of `bytes` in zlib's format, with its header.
    fn section(bytes: &[u8], claimed_size: u64) -> Vec<u8> {
        let mut section = ELFCOMPRESS_ZLIB.to_le_bytes().to_vec();
        section.extend([0; 4]);
        section.extend(claimed_size.to_le_bytes());
        section.extend(1u64.to_le_bytes());
        section.extend([0x78, 0x01, 1]);
        let length = bytes.len() as u16;
        section.extend(length.to_le_bytes());
        section.extend((!length).to_le_bytes());
        section.extend(bytes);
        let (mut a, mut b) = (1u32, 0u32);
        for byte in bytes {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        section.extend((b << 16 | a).to_be_bytes());
        section
    }

    #[test]
    fn a_section_unpacks_to_what_was_packed() {
        assert_eq!(unpack(&section(b"unwind", 6)).as_deref(), Some(&b"unwind"[..]));
    }

    #[test]
    fn claims_that_are_not_true_unpack_to_nothing() {
        assert_eq!(unpack(&section(b"unwind", u64::MAX)), None);
        let whole = section(b"unwind", 6);
        for length in 0..whole.len() {
            assert_eq!(unpack(&whole[..length]), None, "{length} bytes");
        }
    }
}
