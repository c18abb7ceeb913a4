//! Inflates files that are compressed with zstd (RFC 8878), as heaptrack's are.

use std::io::{self, BufRead, Read};

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// The first bytes of such files.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The largest window that is taken, as a power of two: 64 MiB. `zstd -19` needs 8.
const MAX_WINDOW_LOG: u32 = 26;

/// The inflated bytes of frames one after the other.
pub(super) struct ZstdReader<R> {
    context: DCtx<'static>,
    from: R,
    /// True from the end of a frame to the next byte.
    is_between_frames: bool,
}

impl<R: BufRead> ZstdReader<R> {
    pub(super) fn new(from: R) -> io::Result<ZstdReader<R>> {
        let mut context = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        let limited = context.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG));
        limited.map_err(invalid)?;
        Ok(ZstdReader {
            context,
            from,
            is_between_frames: true,
        })
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let packed = self.from.fill_buf()?;
            let is_end = packed.is_empty();
            if buffer.is_empty() || (is_end && self.is_between_frames) {
                return Ok(0);
            }
            let (mut input, mut output) = (InBuffer::around(packed), OutBuffer::around(&mut *buffer));
            let expected = self
                .context
                .decompress_stream(&mut output, &mut input)
                .map_err(invalid)?;
            self.is_between_frames = expected == 0;
            let (read, written) = (input.pos(), output.pos());
            self.from.consume(read);
            match written {
                0 if is_end && !self.is_between_frames => return Err(io::ErrorKind::UnexpectedEof.into()),
                0 => {}
                written => return Ok(written),
            }
        }
    }
}

fn invalid(code: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code))
}
