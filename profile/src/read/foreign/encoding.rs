//! Texts in other encodings than UTF-8, and with other line ends than a newline.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

const BUFFER_BYTES: usize = 1 << 17;

/// How the bytes of a file stand for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// UTF-8, or no text. Lines that are no UTF-8 are Latin-1: see [`text`].
    Plain,
    /// UTF-8 behind a mark, as Windows writes it.
    Utf8WithMark,
    /// Little-endian, with a mark: what `>` of Windows PowerShell writes.
    Utf16Le,
    /// Big-endian, with a mark.
    Utf16Be,
    /// Lines end with a carriage return alone.
    CarriageReturns,
}

impl Encoding {
    /// The encoding of a file that begins with these bytes.
    pub(super) fn of(start: &[u8]) -> Encoding {
        match start {
            [0xff, 0xfe, ..] => Encoding::Utf16Le,
            [0xfe, 0xff, ..] => Encoding::Utf16Be,
            [0xef, 0xbb, 0xbf, ..] => Encoding::Utf8WithMark,
            _ if start.contains(&b'\r') && !start.iter().any(|byte| b"\n\0".contains(byte)) => {
                Encoding::CarriageReturns
            }
            _ => Encoding::Plain,
        }
    }

    /// The bytes of the file as UTF-8 with newlines, or as they are.
    pub(super) fn utf8<'a>(self, bytes: impl Read + 'a) -> Box<dyn BufRead + 'a> {
        match self {
            Encoding::Plain => Box::new(BufReader::with_capacity(BUFFER_BYTES, bytes)),
            _ => Box::new(BufReader::with_capacity(
                BUFFER_BYTES,
                Utf8 {
                    encoding: self,
                    bytes: BufReader::with_capacity(BUFFER_BYTES, bytes),
                    ready: Vec::new(),
                    taken: 0,
                    high: None,
                    is_at_start: true,
                },
            )),
        }
    }
}

/// Writes a file as UTF-8.
struct Utf8<R> {
    encoding: Encoding,
    bytes: R,
    ready: Vec<u8>,
    /// Bytes of `ready` that were read.
    taken: usize,
    /// The first half of a character of UTF-16.
    high: Option<u16>,
    is_at_start: bool,
}

impl<R: Read> Utf8<R> {
    fn fill(&mut self) -> io::Result<()> {
        const CHUNK_BYTES: u64 = 1 << 16;
        let mut chunk = Vec::new();
        (&mut self.bytes).take(CHUNK_BYTES).read_to_end(&mut chunk)?;
        self.ready.clear();
        self.taken = 0;
        let mark = match self.encoding {
            _ if !std::mem::take(&mut self.is_at_start) => 0,
            Encoding::Utf16Le | Encoding::Utf16Be => 2,
            Encoding::Utf8WithMark => 3,
            Encoding::Plain | Encoding::CarriageReturns => 0,
        };
        let chunk = chunk.get(mark..).unwrap_or_default();
        match self.encoding {
            Encoding::Utf16Le => self.utf16(chunk, u16::from_le_bytes),
            Encoding::Utf16Be => self.utf16(chunk, u16::from_be_bytes),
            Encoding::CarriageReturns => {
                let ends = chunk.iter().map(|byte| if *byte == b'\r' { b'\n' } else { *byte });
                self.ready.extend(ends);
            }
            Encoding::Plain | Encoding::Utf8WithMark => self.ready.extend_from_slice(chunk),
        }
        Ok(())
    }

    /// A chunk has an even number of bytes, but for the last one.
    fn utf16(&mut self, chunk: &[u8], unit: impl Fn([u8; 2]) -> u16) {
        let (pairs, _) = chunk.as_chunks::<2>();
        let units = self.high.take().into_iter().chain(pairs.iter().map(|pair| unit(*pair)));
        let mut last = None;
        for character in char::decode_utf16(units) {
            if let Some(Err(_)) = last {
                self.ready.extend("\u{fffd}".as_bytes());
            }
            if let Ok(character) = &character {
                self.ready.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            last = Some(character);
        }
        // The other half is in the next chunk.
        if let Some(Err(half)) = last {
            self.high = Some(half.unpaired_surrogate());
        }
    }
}

impl<R: Read> Read for Utf8<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.ready.len() {
            self.fill()?;
        }
        let ready = &self.ready[self.taken..];
        let len = ready.len().min(buffer.len());
        buffer[..len].copy_from_slice(&ready[..len]);
        self.taken += len;
        Ok(len)
    }
}

/// A line: UTF-8, or Latin-1 if no character beyond ASCII in it is UTF-8. Names that were cut in a character keep the
/// rest.
pub(super) fn text(line: &[u8]) -> Cow<'_, str> {
    let lossy = String::from_utf8_lossy(line);
    let has_utf8 = || {
        lossy
            .chars()
            .any(|character| !character.is_ascii() && character != '\u{fffd}')
    };
    match lossy {
        Cow::Owned(_) if !has_utf8() => Cow::Owned(line.iter().map(|byte| char::from(*byte)).collect()),
        lossy => lossy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> String {
        let mut out = String::new();
        Encoding::of(bytes).utf8(bytes).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn texts_of_all_encodings_and_line_ends_are_the_same() {
        let text = format!("main;größe;\u{1f600} 12\n{}", "a;b 1\n".repeat(40_000));
        let units: Vec<u16> = text.encode_utf16().collect();
        let le: Vec<u8> = [0xff, 0xfe]
            .into_iter()
            .chain(units.iter().flat_map(|unit| unit.to_le_bytes()))
            .collect();
        let be: Vec<u8> = [0xfe, 0xff]
            .into_iter()
            .chain(units.iter().flat_map(|unit| unit.to_be_bytes()))
            .collect();
        let marked = format!("\u{feff}{text}");
        let returns = text.replace('\n', "\r");
        for bytes in [text.as_bytes(), &le, &be, marked.as_bytes(), returns.as_bytes()] {
            assert!(read(bytes) == text, "{:?}", &bytes[..20]);
        }
        // An emoji across two chunks.
        let odd = format!("{}\u{1f600}", "x".repeat((1 << 15) - 2));
        let units = odd.encode_utf16().flat_map(u16::to_le_bytes);
        assert!(read(&[0xff, 0xfe].into_iter().chain(units).collect::<Vec<u8>>()) == odd);
    }

    #[test]
    fn latin_1_is_known_by_what_is_no_utf_8() {
        assert_eq!(super::text(b"gr\xf6\xdfe"), "größe");
        assert_eq!(super::text("größe".as_bytes()), "größe");
        assert_eq!(super::text(&"größe".as_bytes()[..4]), "grö");
        assert_eq!(super::text(&"größe".as_bytes()[..5]), "grö\u{fffd}");
    }
}
