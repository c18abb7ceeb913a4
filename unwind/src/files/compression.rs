//! Bytes that a linker or a debug info tool compressed: ELF sections with `SHF_COMPRESSED`, `.zdebug_` sections,
//! `.gnu_debugdata`; compressed kernel modules.
//!
//! sprof also writes profiles with flate2 and spools with zstd, so each format's code is built once. lzma-rust2 is
//! built without unsafe code.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use lzma_rust2::XzReader;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// How bytes were compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `ELFCOMPRESS_ZLIB`: a zlib stream (RFC 1950).
    Zlib,
    /// `ELFCOMPRESS_ZSTD`: Zstandard frames (RFC 8878).
    Zstandard,
}

/// Unpacks `packed` to `size` bytes. The caller limits `size`, which comes from a file.
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
        false => Err(invalid(format!(
            "{} bytes unpacked where {size} were stated",
            unpacked.len()
        ))),
    }
}

/// How a whole file was compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCompression {
    /// RFC 1952.
    Gzip,
    /// The .xz file format.
    Xz,
    /// Zstandard frames (RFC 8878).
    Zstandard,
}

/// Memory that unpacking xz may take, in KiB: `xz -9` needs 65 MB (xz(1)).
const MAX_XZ_MEMORY_KIB: u32 = 128 << 10;

/// Unpacks a whole file to `at_most` bytes or fewer. The file need not state its size.
///
/// # Errors
///
/// `packed` is damaged, or unpacks to more.
pub fn decompress_file(compression: FileCompression, packed: &[u8], at_most: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let limit = (at_most as u64).saturating_add(1);
    match compression {
        FileCompression::Gzip => MultiGzDecoder::new(packed).take(limit).read_to_end(&mut unpacked)?,
        FileCompression::Xz => XzReader::new_mem_limit(packed, false, MAX_XZ_MEMORY_KIB)
            .take(limit)
            .read_to_end(&mut unpacked)?,
        FileCompression::Zstandard => unpack_zstandard(packed, at_most, &mut unpacked)?,
    };
    match unpacked.len() <= at_most {
        true => Ok(unpacked),
        false => Err(invalid(format!("unpacks to more than {at_most} bytes"))),
    }
}

/// Unpacks until the stream ends, or until there are more than `at_most` bytes.
fn unpack_zstandard(packed: &[u8], at_most: usize, unpacked: &mut Vec<u8>) -> io::Result<usize> {
    let mut context = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
    let mut piece = vec![0; DCtx::out_size()];
    let mut input = InBuffer::around(packed);
    loop {
        let mut output = OutBuffer::around(&mut piece[..]);
        let expected = context
            .decompress_stream(&mut output, &mut input)
            .map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
        let written = output.pos();
        unpacked.extend_from_slice(&piece[..written]);
        let is_read = input.pos() == packed.len();
        // 0 means that a frame is complete. Without this check, a cut file would pass for a whole one.
        match (is_read, expected) {
            _ if unpacked.len() > at_most => return Ok(unpacked.len()),
            (true, 0) => return Ok(unpacked.len()),
            (true, _) if written < piece.len() => return Err(invalid("ends within a frame".to_owned())),
            _ => {}
        }
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
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

    #[test]
    fn whole_files_unpack_to_their_content_and_cut_ones_are_errors() {
        let long: Vec<u8> = (0..200_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&long).unwrap();
        let files = [
            (FileCompression::Gzip, gzip.finish().unwrap()),
            (FileCompression::Zstandard, packed(Compression::Zstandard, &long)),
        ];
        for (compression, file) in files {
            let unpack = |bytes: &[u8], at_most| decompress_file(compression, bytes, at_most);
            assert!(unpack(&file, long.len()).unwrap() == long, "{compression:?}");
            assert!(unpack(&file, long.len() - 1).is_err(), "{compression:?}");
            for length in (0..file.len()).step_by(file.len() / 20 + 1) {
                let cut = unpack(&file[..length], long.len());
                assert!(cut.is_err(), "{compression:?}: {length} of its bytes");
            }
        }
    }
}
