//! Strings.

use super::Parser;
use super::error::{Error, ParseFault, Result};

impl Parser<'_> {
    /// The text after a consumed quote.
    #[inline]
    pub(super) fn text(&mut self) -> Result<&str> {
        let plain = plain(self.input.rest());
        let is_whole = self.input.rest().get(plain) == Some(&b'"') && plain as u64 <= self.max_text_bytes;
        match is_whole {
            true => self.input.skip(plain + 1),
            false => self.long_text()?,
        }
        let bytes = match is_whole {
            true => &self.input.before(plain + 1)[..plain],
            false => &self.scratch,
        };
        std::str::from_utf8(bytes).map_err(|_| {
            let why = ParseFault::Syntax("invalid unicode code point");
            Error::new(why).at(self.input.last_place())
        })
    }

    /// Copies a text to the scratch space.
    fn long_text(&mut self) -> Result<()> {
        self.scratch.clear();
        loop {
            let plain = plain(self.input.rest());
            self.check_text(self.scratch.len() + plain)?;
            self.scratch.extend_from_slice(&self.input.rest()[..plain]);
            self.input.skip(plain);
            match self.input.peek()? {
                b'"' => {
                    self.input.bump();
                    return Ok(());
                }
                b'\\' => {
                    self.input.bump();
                    self.escape()?;
                }
                byte if byte >= b' ' => {}
                _ => return Err(self.wrong(CONTROL)),
            }
        }
    }

    /// Skips a text. Skipped texts may have any encoding.
    pub(super) fn skip_text(&mut self) -> Result<()> {
        let mut len = 0;
        loop {
            let plain = plain(self.input.rest());
            len += plain;
            self.check_text(len)?;
            self.input.skip(plain);
            match self.input.peek()? {
                b'"' => {
                    self.input.bump();
                    return Ok(());
                }
                b'\\' => {
                    self.input.bump();
                    len += 2;
                    match self.input.peek()? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.input.bump(),
                        b'u' => {
                            self.input.bump();
                            self.hex()?;
                        }
                        _ => return Err(self.wrong("invalid escape")),
                    }
                }
                byte if byte >= b' ' => {}
                _ => return Err(self.wrong(CONTROL)),
            }
        }
    }

    fn check_text(&self, len: usize) -> Result<()> {
        match len as u64 > self.max_text_bytes {
            true => Err(self.limit("one string of it", self.max_text_bytes)),
            false => Ok(()),
        }
    }

    /// Decodes an escape: RFC 8259, section 7.
    fn escape(&mut self) -> Result<()> {
        let byte = match self.input.peek()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.input.bump();
                return self.escaped_code_point();
            }
            _ => return Err(self.wrong("invalid escape")),
        };
        self.input.bump();
        self.scratch.push(byte);
        Ok(())
    }

    /// Decodes four hexadecimal digits, or a pair of surrogates for code points beyond 16 bits.
    fn escaped_code_point(&mut self) -> Result<()> {
        let first = self.hex()?;
        let code_point = match first {
            0xd800..0xdc00 => {
                for byte in *b"\\u" {
                    if self.input.peek()? != byte {
                        return Err(self.wrong("lone leading surrogate in hex escape"));
                    }
                    self.input.bump();
                }
                match self.hex()? {
                    second @ 0xdc00..0xe000 => 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => return Err(self.wrong("lone leading surrogate in hex escape")),
                }
            }
            first => first,
        };
        let Some(char) = char::from_u32(code_point) else {
            return Err(self.wrong("lone trailing surrogate in hex escape"));
        };
        self.scratch.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn hex(&mut self) -> Result<u32> {
        let mut number = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.input.peek()?).to_digit(16) else {
                return Err(self.wrong("invalid escape"));
            };
            self.input.bump();
            number = number << 4 | digit;
        }
        Ok(number)
    }
}

const CONTROL: &str = "control character (\\u0000-\\u001F) found while parsing a string";

/// Number of bytes before a quote, a backslash or a control character.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    let (eights, rest) = bytes.as_chunks();
    for (at, eight) in eights.iter().enumerate() {
        let found = specials(u64::from_le_bytes(*eight));
        if found != 0 {
            return at * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    eights.len() * 8 + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// The highest bit of the first special byte, 0 without one. The bits of later bytes are undefined, because subtraction
/// borrows from them.
fn specials(eight: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = LOW << 7;
    // The bytes below `limit`; `limit` is at most 0x80.
    let below = |bytes: u64, limit: u8| bytes.wrapping_sub(LOW * u64::from(limit)) & !bytes & HIGH;
    let equal = |byte: u8| below(eight ^ (LOW * u64::from(byte)), 1);
    below(eight, b' ') | equal(b'"') | equal(b'\\')
}
