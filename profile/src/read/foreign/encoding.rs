//! Texts in other encodings than UTF-8, and with other line ends than a newline.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

const BUFFER_BYTES: usize = 1 << 17;

/// How the bytes of a file stand for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoding {
    units: CodeUnits,
    /// Bytes of the mark at the start.
    mark: usize,
    /// The line ends may be carriage returns alone.
    has_returns: bool,
}

/// The units of an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeUnits {
    /// UTF-8, or no text. Lines that are not UTF-8 are read as Latin-1: see [`text`].
    Bytes,
    /// UTF-16: what `>` of Windows PowerShell writes.
    Pairs { is_big_endian: bool },
    /// UTF-32.
    Quads { is_big_endian: bool },
}

impl CodeUnits {
    const WITHOUT_MARK: [CodeUnits; 4] = [
        CodeUnits::Quads { is_big_endian: false },
        CodeUnits::Quads { is_big_endian: true },
        CodeUnits::Pairs { is_big_endian: false },
        CodeUnits::Pairs { is_big_endian: true },
    ];

    fn of_mark(start: &[u8]) -> Option<(CodeUnits, usize)> {
        Some(match start {
            [0xff, 0xfe, 0, 0, ..] => (CodeUnits::Quads { is_big_endian: false }, 4),
            [0, 0, 0xfe, 0xff, ..] => (CodeUnits::Quads { is_big_endian: true }, 4),
            [0xff, 0xfe, ..] => (CodeUnits::Pairs { is_big_endian: false }, 2),
            [0xfe, 0xff, ..] => (CodeUnits::Pairs { is_big_endian: true }, 2),
            [0xef, 0xbb, 0xbf, ..] => (CodeUnits::Bytes, 3),
            _ => return None,
        })
    }

    /// The units of bytes; at the end of a file some bytes may be left.
    fn of(self, bytes: &[u8]) -> Vec<u32> {
        match self {
            CodeUnits::Bytes => bytes.iter().map(|byte| u32::from(*byte)).collect(),
            CodeUnits::Pairs { is_big_endian } => {
                let unit = if is_big_endian {
                    u16::from_be_bytes
                } else {
                    u16::from_le_bytes
                };
                bytes.as_chunks().0.iter().map(|pair| u32::from(unit(*pair))).collect()
            }
            CodeUnits::Quads { is_big_endian } => {
                let unit = if is_big_endian {
                    u32::from_be_bytes
                } else {
                    u32::from_le_bytes
                };
                bytes.as_chunks().0.iter().map(|quad| unit(*quad)).collect()
            }
        }
    }

    /// True if these bytes are text in this encoding: no character is one that no text has, and wide ones are mostly
    /// ASCII.
    fn fit(self, start: &[u8]) -> bool {
        let units = self.of(start);
        let is_control =
            |unit: &u32| *unit < 0x20 && !b"\t\n\r\x0b\x0c\x1b".iter().any(|byte| u32::from(*byte) == *unit);
        let ascii = units.iter().filter(|unit| **unit < 0x80).count();
        let is_mostly_ascii = self == CodeUnits::Bytes || ascii * 2 > units.len();
        is_mostly_ascii && !units.iter().any(is_control)
    }
}

impl Encoding {
    pub(super) const PLAIN: Encoding = Encoding {
        units: CodeUnits::Bytes,
        mark: 0,
        has_returns: false,
    };

    /// The encoding of a file that begins with these bytes.
    pub(super) fn detect(start: &[u8]) -> Encoding {
        let (units, mark) = CodeUnits::of_mark(start).unwrap_or_else(|| {
            let wide = CodeUnits::WITHOUT_MARK.into_iter().find(|units| units.fit(start));
            (wide.unwrap_or(CodeUnits::Bytes), 0)
        });
        let is_text = units != CodeUnits::Bytes || CodeUnits::Bytes.fit(start) || mark > 0;
        let has_newline = || units.of(start).contains(&u32::from(b'\n'));
        Encoding {
            units,
            mark,
            has_returns: is_text && !has_newline(),
        }
    }

    /// The bytes of the file as UTF-8 with newlines, or as they are.
    pub(super) fn utf8<'a>(self, bytes: impl Read + 'a) -> Box<dyn BufRead + 'a> {
        if self == Encoding::PLAIN {
            return Box::new(BufReader::with_capacity(BUFFER_BYTES, bytes));
        }
        Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            Utf8Writer {
                encoding: self,
                bytes: BufReader::with_capacity(BUFFER_BYTES, bytes),
                ready: Vec::new(),
                taken: 0,
                high: None,
                is_at_start: true,
            },
        ))
    }
}

/// Writes a file as UTF-8.
struct Utf8Writer<R> {
    encoding: Encoding,
    bytes: R,
    ready: Vec<u8>,
    /// Bytes of `ready` that were read.
    taken: usize,
    /// The first half of a character of UTF-16.
    high: Option<u16>,
    is_at_start: bool,
}

impl<R: Read> Utf8Writer<R> {
    /// False at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        // A multiple of all units.
        const CHUNK_BYTES: u64 = 1 << 16;
        let mut chunk = Vec::new();
        (&mut self.bytes).take(CHUNK_BYTES).read_to_end(&mut chunk)?;
        self.ready.clear();
        self.taken = 0;
        let is_end = chunk.is_empty();
        let mark = if std::mem::take(&mut self.is_at_start) {
            self.encoding.mark
        } else {
            0
        };
        let chunk = chunk.get(mark..).unwrap_or_default();
        match self.encoding.units {
            CodeUnits::Bytes => self.ready.extend_from_slice(chunk),
            CodeUnits::Pairs { .. } => self.utf16(chunk),
            units @ CodeUnits::Quads { .. } => {
                let characters = units.of(chunk).into_iter();
                let characters = characters.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
                self.ready.extend(characters.collect::<String>().as_bytes());
            }
        }
        if self.encoding.has_returns {
            // The first line may be longer than the start that showed no newline.
            self.encoding.has_returns = !self.ready.contains(&b'\n');
            if self.encoding.has_returns {
                let returns = self.ready.iter_mut().filter(|byte| **byte == b'\r');
                returns.for_each(|byte| *byte = b'\n');
            }
        }
        Ok(!is_end)
    }

    /// A chunk has an even number of bytes, but for the last one.
    fn utf16(&mut self, chunk: &[u8]) {
        let units = self.encoding.units.of(chunk).into_iter().map(|unit| unit as u16);
        let units = self.high.take().into_iter().chain(units);
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

impl<R: Read> Read for Utf8Writer<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() && self.fill()? {}
        Ok(take(&self.ready, &mut self.taken, buffer))
    }
}

/// Reads text whose lines are not looked at, such as JSON: UTF-8, and Latin-1 where it is not.
pub(super) struct MixedText<R> {
    bytes: R,
    /// Read, and not yet written. The last bytes may be the beginning of a character.
    waiting: Vec<u8>,
    ready: Vec<u8>,
    /// Bytes of `ready` that were read.
    taken: usize,
}

impl<R: Read> MixedText<R> {
    pub(super) fn new(bytes: R) -> MixedText<R> {
        MixedText {
            bytes,
            waiting: Vec::new(),
            ready: Vec::new(),
            taken: 0,
        }
    }

    /// False at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        const CHUNK_BYTES: usize = 1 << 16;
        const CHARACTER_BYTES: usize = 4;
        self.ready.clear();
        self.taken = 0;
        let before = self.waiting.len();
        self.waiting.resize(before + CHUNK_BYTES, 0);
        let read = self.bytes.read(&mut self.waiting[before..]);
        self.waiting.truncate(before + *read.as_ref().unwrap_or(&0));
        let is_end = read? == 0;
        let mut kept = 0;
        for part in self.waiting.utf8_chunks() {
            self.ready.extend_from_slice(part.valid().as_bytes());
            let invalid = part.invalid();
            let is_last = invalid.as_ptr_range().end == self.waiting.as_ptr_range().end;
            if is_last && !is_end && !invalid.is_empty() && invalid.len() < CHARACTER_BYTES {
                kept = invalid.len();
                break;
            }
            let characters = invalid.iter().map(|byte| char::from(*byte));
            characters.for_each(|character| self.ready.extend(character.encode_utf8(&mut [0; 4]).as_bytes()));
        }
        self.waiting.drain(..self.waiting.len() - kept);
        Ok(!is_end)
    }
}

impl<R: Read> Read for MixedText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() && self.fill()? {}
        Ok(take(&self.ready, &mut self.taken, buffer))
    }
}

/// Copies what is ready and not taken.
fn take(ready: &[u8], taken: &mut usize, buffer: &mut [u8]) -> usize {
    let rest = &ready[*taken..];
    let len = rest.len().min(buffer.len());
    buffer[..len].copy_from_slice(&rest[..len]);
    *taken += len;
    len
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
        Encoding::detect(bytes).utf8(bytes).read_to_string(&mut out).unwrap();
        out
    }

    /// The text as UTF-16 and UTF-32 of both byte orders.
    fn wide(text: &str) -> [Vec<u8>; 4] {
        let pairs = || text.encode_utf16();
        let quads = || text.chars().map(u32::from);
        [
            pairs().flat_map(u16::to_le_bytes).collect(),
            pairs().flat_map(u16::to_be_bytes).collect(),
            quads().flat_map(u32::to_le_bytes).collect(),
            quads().flat_map(u32::to_be_bytes).collect(),
        ]
    }

    #[test]
    fn texts_of_all_encodings_and_line_ends_are_the_same() {
        let long = "x".repeat(2 * 4096);
        for text in [
            format!("main;größe;\u{1f600} 12\n{}", "a;b 1\n".repeat(40_000)),
            format!("main;größe;{long} 12\nb;{long} 1\n"),
            "a;ö 1\n".to_owned(),
        ] {
            for text_as_written in [text.clone(), text.replace('\n', "\r")] {
                let marked = format!("\u{feff}{text_as_written}");
                let all = [wide(&text_as_written), wide(&marked)].concat();
                for bytes in all
                    .iter()
                    .map(Vec::as_slice)
                    .chain([text_as_written.as_bytes(), marked.as_bytes()])
                {
                    assert!(read(bytes) == text, "{:?}", &bytes[..14]);
                }
            }
            let with_both = text.replace('\n', "\r\n");
            for bytes in wide(&with_both).iter().map(Vec::as_slice).chain([with_both.as_bytes()]) {
                assert!(read(bytes) == with_both, "{:?}", &bytes[..14]);
            }
        }
        // An emoji across two chunks.
        let odd = format!("{}\u{1f600}", "x".repeat((1 << 15) - 2));
        let units = odd.encode_utf16().flat_map(u16::to_le_bytes);
        assert!(read(&[0xff, 0xfe].into_iter().chain(units).collect::<Vec<u8>>()) == odd);
    }

    #[test]
    fn files_that_are_no_text_stay_as_they_are() {
        let words: Vec<u8> = [0u64, 3, 0, 10_000, 0, 13]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        for bytes in [&words[..], b"\x0a\x04\x08\x01\x10\x0d", b"\x12\x0d\x08\x01"] {
            assert_eq!(Encoding::detect(bytes), Encoding::PLAIN, "{bytes:?}");
        }
    }

    /// Also where a read ends in a character.
    #[test]
    fn mixed_text_is_utf_8_and_latin_1_where_it_is_not() {
        struct SlowDecoder<'a>(&'a [u8]);
        impl Read for SlowDecoder<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let len = 1.min(buffer.len());
                self.0.read(&mut buffer[..len])
            }
        }
        for (bytes, expected) in [
            ("größe \u{1f600}".as_bytes(), "größe \u{1f600}"),
            (b"gr\xf6\xdfe", "größe"),
            (b"gr\xc3\xb6\xdfe\xf0\x9f", "größeð\u{9f}"),
            (b"", ""),
        ] {
            let mut text = String::new();
            MixedText::new(bytes).read_to_string(&mut text).unwrap();
            assert_eq!(text, expected);
            text.clear();
            MixedText::new(SlowDecoder(bytes)).read_to_string(&mut text).unwrap();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn latin_1_is_known_by_what_is_no_utf_8() {
        assert_eq!(super::text(b"gr\xf6\xdfe"), "größe");
        assert_eq!(super::text("größe".as_bytes()), "größe");
        assert_eq!(super::text(&"größe".as_bytes()[..4]), "grö");
        assert_eq!(super::text(&"größe".as_bytes()[..5]), "grö\u{fffd}");
    }
}
