//! Bytes that a linker or a debug info tool compressed: ELF sections with `SHF_COMPRESSED`, `.zdebug_` sections, `.gnu_debugdata`.
//!
//! The crates for it are those that write profiles (flate2) and spools (zstd), so sprof builds each format's code once. lzma-rust2 has no
//! unsafe code as it is built here.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status};
use lzma_rust2::XzReader;

/// How bytes were compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `ELFCOMPRESS_ZLIB`: a zlib stream (RFC 1950).
    Zlib,
    /// `ELFCOMPRESS_ZSTD`: Zstandard frames (RFC 8878).
    Zstandard,
}

/// The `size` bytes that `packed` unpacks to. The caller limits `size`, which comes from a file.
///
/// # Errors
///
/// `packed` is damaged, or unpacks to another size.
pub fn decompress(compression: Compression, packed: &[u8], size: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    unpacked.try_reserve_exact(size)?;
    let is_whole = match compression {
        Compression::Zlib => {
            let status = Decompress::new(true).decompress_vec(packed, &mut unpacked, FlushDecompress::Finish)?;
            status == Status::StreamEnd
        }
        Compression::Zstandard => {
            zstd_safe::decompress(&mut unpacked, packed)
                .map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
            true
        }
    };
    match is_whole && unpacked.len() == size {
        true => Ok(unpacked),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} bytes unpacked where {size} were stated", unpacked.len()),
        )),
    }
}

/// Memory that unpacking xz may take, in KiB: `xz -9` needs 65 MB (xz(1)).
const MAX_XZ_MEMORY_KIB: u32 = 128 << 10;

/// What an xz file unpacks to, which does not state its size: `at_most` so many bytes.
///
/// # Errors
///
/// `packed` is damaged, or unpacks to more.
pub fn decompress_xz(packed: &[u8], at_most: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let limit = (at_most as u64).saturating_add(1);
    XzReader::new_mem_limit(packed, false, MAX_XZ_MEMORY_KIB)
        .take(limit)
        .read_to_end(&mut unpacked)?;
    match unpacked.len() <= at_most {
        true => Ok(unpacked),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("unpacks to more than {at_most} bytes"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::ZlibEncoder;

    use super::*;

    fn packed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        match compression {
            Compression::Zlib => {
                let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstandard => {
                let mut packed = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
                zstd_safe::compress(&mut packed, bytes, 3).unwrap();
                packed
            }
        }
    }

    #[test]
    fn bytes_unpack_to_what_was_packed_and_to_nothing_else() {
        let long: Vec<u8> = (0..100_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for compression in [Compression::Zlib, Compression::Zstandard] {
            for bytes in [&b""[..], b"unwind", &long] {
                let packed = packed(compression, bytes);
                let size = bytes.len();
                assert_eq!(
                    decompress(compression, &packed, size).unwrap(),
                    bytes,
                    "{compression:?} {size}"
                );
                for wrong in [size + 1, size.wrapping_sub(1)] {
                    let refused = decompress(compression, &packed, wrong);
                    assert!(refused.is_err(), "{compression:?} {size} as {wrong}");
                }
                for length in (0..packed.len()).step_by(packed.len() / 20 + 1) {
                    let refused = decompress(compression, &packed[..length], size);
                    assert!(
                        refused.is_err() || size == 0,
                        "{compression:?} {size}: {length} of its bytes"
                    );
                }
            }
        }
    }
}
