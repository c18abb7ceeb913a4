//! Numbers. Short ones, which nearly all are, are parsed eight digits at a time; others by the standard library.

use super::error::{Error, ParseFault, Result};
use super::{Parser, input::AHEAD};

/// A JSON number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum JsonNumber {
    Unsigned(u64),
    /// Less than 0.
    Signed(i64),
    /// With a fraction or exponent, or too large for the others.
    Float(f64),
}

/// 10^n is exact up to 10^22.
const POWERS: [f64; 9] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];
/// Whole numbers are exact in an `f64` up to this.
const MAX_EXACT: u64 = 1 << 53;

impl Parser<'_> {
    /// Parses the number at the position, whose first byte is a digit or `-`.
    #[inline]
    pub(super) fn number(&mut self) -> Result<JsonNumber> {
        self.input.look_ahead()?;
        match short(self.input.rest_padded()) {
            Some((number, len)) => {
                self.input.skip(len);
                Ok(number)
            }
            None => self.long_number(),
        }
    }

    /// Skips the number at the position.
    #[inline]
    pub(super) fn skip_number(&mut self) -> Result<()> {
        self.input.look_ahead()?;
        match short(self.input.rest_padded()) {
            Some((_, len)) => {
                self.input.skip(len);
                Ok(())
            }
            None => self.scan_number::<false>(),
        }
    }

    #[cold]
    fn long_number(&mut self) -> Result<JsonNumber> {
        self.scratch.clear();
        self.scan_number::<true>()?;
        // The scan accepted only ASCII.
        let text = std::str::from_utf8(&self.scratch).unwrap_or_default();
        if !text.contains(['.', 'e', 'E']) {
            if let Ok(number) = text.parse() {
                return Ok(JsonNumber::Unsigned(number));
            }
            // -0 differs from 0 only as a float.
            if let Some(number) = text.parse().ok().filter(|number| *number != 0) {
                return Ok(JsonNumber::Signed(number));
            }
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(JsonNumber::Float(number)),
            _ => Err(Error::new(ParseFault::Syntax("number out of range")).at(self.input.last_place())),
        }
    }

    /// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`: RFC 8259, section 6. `KEEP` copies the number to the
    /// scratch space.
    fn scan_number<const KEEP: bool>(&mut self) -> Result<()> {
        self.takes::<KEEP>(|byte| byte == b'-')?;
        if self.takes::<KEEP>(|byte| byte == b'0')? {
            if self.input.peek()?.is_ascii_digit() {
                return Err(self.wrong("invalid number"));
            }
        } else {
            self.digits::<KEEP>()?;
        }
        if self.takes::<KEEP>(|byte| byte == b'.')? {
            self.digits::<KEEP>()?;
        }
        if self.takes::<KEEP>(|byte| matches!(byte, b'e' | b'E'))? {
            self.takes::<KEEP>(|byte| matches!(byte, b'+' | b'-'))?;
            self.digits::<KEEP>()?;
        }
        Ok(())
    }

    /// At least one digit.
    fn digits<const KEEP: bool>(&mut self) -> Result<()> {
        if !self.input.peek()?.is_ascii_digit() {
            return Err(self.wrong("invalid number"));
        }
        while self.takes::<KEEP>(|byte| byte.is_ascii_digit())? {}
        Ok(())
    }

    /// Consumes the next byte if it matches.
    #[inline]
    fn takes<const KEEP: bool>(&mut self, wanted: impl Fn(u8) -> bool) -> Result<bool> {
        let byte = self.input.peek()?;
        if !wanted(byte) {
            return Ok(false);
        }
        if KEEP {
            if self.scratch.len() as u64 >= self.max_text_bytes {
                return Err(self.limit("one number of it", self.max_text_bytes));
            }
            self.scratch.push(byte);
        }
        self.input.bump();
        Ok(true)
    }
}

/// The number and its length, if it has at most 8 digits before the point, at most 7 behind it, and no exponent.
#[inline]
fn short(bytes: &[u8]) -> Option<(JsonNumber, usize)> {
    // A sign, 8 digits, a point, 7 digits, and the byte after them.
    const { assert!(AHEAD >= 18) };
    let is_negative = bytes[0] == b'-';
    let whole = Digits::at(bytes, usize::from(is_negative));
    let len = usize::from(is_negative) + whole.count;
    let next = *bytes.get(len)?;
    if !whole.is_whole_part() || next.is_ascii_digit() {
        return None;
    }
    if !is_more(next) {
        let number = whole.value();
        return match is_negative {
            false => Some((JsonNumber::Unsigned(number), len)),
            true if number > 0 => Some((JsonNumber::Signed(-(number as i64)), len)),
            // -0
            true => None,
        };
    }
    let fraction = Digits::at(bytes, len + 1);
    let mantissa = whole.value() * POWERS[fraction.count] as u64 + fraction.value();
    let len = len + 1 + fraction.count;
    if next != b'.' || matches!(fraction.count, 0 | 8) || mantissa > MAX_EXACT || is_more(*bytes.get(len)?) {
        return None;
    }
    // Both are exact, so the quotient is rounded once and is the nearest number.
    let number = mantissa as f64 / POWERS[fraction.count];
    Some((JsonNumber::Float(if is_negative { -number } else { number }), len))
}

/// True if the number continues after its digits.
#[inline]
fn is_more(byte: u8) -> bool {
    matches!(byte, b'.' | b'e' | b'E')
}

/// Up to eight digits in a row.
#[derive(Clone, Copy)]
struct Digits {
    /// In the file's order: the first digit is the lowest byte.
    ascii: u64,
    count: usize,
}

/// A byte in each byte.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

impl Digits {
    /// The digits at `start`; none if fewer than 8 bytes follow.
    #[inline]
    fn at(bytes: &[u8], start: usize) -> Digits {
        let ascii = bytes.get(start..).and_then(<[u8]>::first_chunk);
        let ascii = ascii.map_or(0, |eight| u64::from_le_bytes(*eight));
        // `0` to `9` are 0x30 to 0x39: the upper half is 3, and stays 3 after adding 6. A carry leaves only a byte that
        // is no digit, and only changes later bytes.
        let upper = ascii & each(0xf0);
        let upper_plus_6 = ascii.wrapping_add(each(6)) & each(0xf0);
        let other = (upper | upper_plus_6 >> 4) ^ each(0x33);
        Digits {
            ascii,
            count: other.trailing_zeros() as usize / 8,
        }
    }

    /// True if there is a digit, and no leading 0 before others.
    #[inline]
    fn is_whole_part(self) -> bool {
        self.count == 1 || self.count > 1 && self.ascii as u8 != b'0'
    }

    /// The value of the digits.
    #[inline]
    fn value(self) -> u64 {
        // The last digit moves to the highest byte, with zeros before the first.
        let unused = 64 - 8 * self.count as u32;
        let ones = (self.ascii & each(0x0f)).checked_shl(unused).unwrap_or(0);
        let pairs = (ones & 0x00ff_00ff_00ff_00ff) * 10 + (ones >> 8 & 0x00ff_00ff_00ff_00ff);
        let fours = (pairs & 0x0000_ffff_0000_ffff) * 100 + (pairs >> 16 & 0x0000_ffff_0000_ffff);
        (fours & 0xffff_ffff) * 10_000 + (fours >> 32)
    }
}
