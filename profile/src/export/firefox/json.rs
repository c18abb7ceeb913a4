//! Writes JSON as a stream: a large column is never in memory as a whole.

use std::io::{self, Write};

use serde_json::Value;

use crate::data::NONE;

/// Bytes in the buffer before a write. Measured: 16 KiB to 256 KiB write equally fast.
const FLUSH_BYTES: usize = 64 * 1024;

/// Writes JSON from start to end, with commas. Keys must not contain characters that need escaping.
pub(super) struct Json<'a> {
    out: &'a mut dyn Write,
    buf: Vec<u8>,
    needs_comma: bool,
}

impl<'a> Json<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Json {
            out,
            buf: Vec::with_capacity(FLUSH_BYTES + 4096),
            needs_comma: false,
        }
    }

    /// Writes the rest of the buffer.
    pub(super) fn finish(self) -> io::Result<()> {
        self.out.write_all(&self.buf)?;
        self.out.flush()
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        if self.buf.len() >= FLUSH_BYTES {
            self.out.write_all(&self.buf)?;
            self.buf.clear();
        }
        Ok(())
    }

    fn comma(&mut self) -> io::Result<()> {
        if self.needs_comma {
            self.buf.push(b',');
        }
        self.flush_if_full()
    }

    pub(super) fn key(&mut self, key: &str) -> io::Result<()> {
        self.comma()?;
        self.buf.push(b'"');
        self.buf.extend_from_slice(key.as_bytes());
        self.buf.extend_from_slice(b"\":");
        self.needs_comma = false;
        Ok(())
    }

    pub(super) fn object(&mut self, content: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.nested(b'{', b'}', content)
    }

    pub(super) fn array(&mut self, content: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.nested(b'[', b']', content)
    }

    fn nested(&mut self, open: u8, close: u8, content: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.comma()?;
        self.buf.push(open);
        self.needs_comma = false;
        content(self)?;
        self.buf.push(close);
        self.needs_comma = true;
        Ok(())
    }

    /// Writes one value; `put` appends it to the buffer.
    pub(super) fn value(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.comma()?;
        put(&mut self.buf);
        self.needs_comma = true;
        Ok(())
    }

    /// `"key":[v,v,...]`.
    pub(super) fn column<T>(
        &mut self,
        key: &str,
        values: impl Iterator<Item = T>,
        put: impl Fn(&mut Vec<u8>, T),
    ) -> io::Result<()> {
        self.key(key)?;
        self.array(|json| {
            for value in values {
                json.value(|buf| put(buf, value))?;
            }
            Ok(())
        })
    }

    /// `"key":[v,v,v...]`: `count` equal values.
    pub(super) fn constant_column(&mut self, key: &str, count: usize, value: &str) -> io::Result<()> {
        self.column(key, 0..count, |buf, _| buf.extend_from_slice(value.as_bytes()))
    }

    /// `"key":value` for small values, by serde_json.
    pub(super) fn entry(&mut self, key: &str, value: &impl serde::Serialize) -> io::Result<()> {
        self.key(key)?;
        self.item(value)
    }

    /// `"key":value` for each field. The keys may contain any characters.
    pub(super) fn fields<'f>(&mut self, fields: impl IntoIterator<Item = (&'f String, &'f Value)>) -> io::Result<()> {
        for (key, value) in fields {
            self.comma()?;
            put_string(&mut self.buf, key);
            self.buf.push(b':');
            self.needs_comma = false;
            self.item(value)?;
        }
        Ok(())
    }

    /// An element of a list, by serde_json.
    pub(super) fn item(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        self.comma()?;
        serde_json::to_writer(&mut self.buf, value)?;
        self.needs_comma = true;
        Ok(())
    }
}

/// Milliseconds as nanoseconds.
pub(in crate::export) fn ns(ms: f64) -> i64 {
    // `as` saturates on overflow. From 26 days on, `ms * 1e6` is rounded to halves of a nanosecond, and may become the
    // next one: 4436874554.397677 ms was written as 4436874554.397678. The parts are exact.
    let whole = ms.trunc();
    (whole as i64)
        .saturating_mul(1_000_000)
        .saturating_add(((ms - whole) * 1e6).round() as i64)
}

/// `None` for [`NONE`].
pub(in crate::export) fn some(index: u32) -> Option<u64> {
    (index != NONE).then_some(index.into())
}

pub(super) fn put_unsigned(buf: &mut Vec<u8>, mut value: u64) {
    // u64::MAX has 20 digits.
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    buf.extend_from_slice(&digits[at..]);
}

pub(super) fn put_optional(buf: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => put_unsigned(buf, value),
        None => buf.extend_from_slice(b"null"),
    }
}

/// An index in a column where the format uses -1 instead of null.
pub(super) fn put_or_minus_one(buf: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => put_unsigned(buf, value),
        None => buf.extend_from_slice(b"-1"),
    }
}

/// Nanoseconds as exact milliseconds: 1_000_123 is `1.000123`.
pub(super) fn put_ms(buf: &mut Vec<u8>, ns: i64) {
    if ns < 0 {
        buf.push(b'-');
    }
    let ns = ns.unsigned_abs();
    put_unsigned(buf, ns / 1_000_000);
    let mut fraction = ns % 1_000_000;
    if fraction == 0 {
        return;
    }
    buf.push(b'.');
    let mut digits = [0u8; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
    let len = digits
        .iter()
        .rposition(|&digit| digit != b'0')
        .map_or(0, |last| last + 1);
    buf.extend_from_slice(&digits[..len]);
}

pub(super) fn put_optional_ms(buf: &mut Vec<u8>, ns: Option<i64>) {
    match ns {
        Some(ns) => put_ms(buf, ns),
        None => buf.extend_from_slice(b"null"),
    }
}

/// A quoted string, escaped as in RFC 8259, section 7: quotes, backslashes and control characters.
pub(super) fn put_string(buf: &mut Vec<u8>, string: &str) {
    buf.push(b'"');
    let mut rest = string.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
    {
        buf.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => buf.extend_from_slice(&[b'\\', byte]),
            byte => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let low = HEX[usize::from(byte & 0xf)];
                buf.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), low]);
            }
        }
        rest = &rest[at + 1..];
    }
    buf.extend_from_slice(rest);
    buf.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut buf = Vec::new();
        put(&mut buf);
        String::from_utf8(buf).unwrap()
    }

    #[test]
    fn nanoseconds_are_exact_in_milliseconds() {
        for (ns, expected) in [
            (0, "0"),
            (1, "0.000001"),
            (-1, "-0.000001"),
            (1_000_000, "1"),
            (1_500_000, "1.5"),
            (-2_000_100, "-2.0001"),
            (i64::MAX, "9223372036854.775807"),
            (i64::MIN, "-9223372036854.775808"),
        ] {
            assert_eq!(text(|buf| put_ms(buf, ns)), expected);
        }
    }

    #[test]
    fn integers_to_the_last_digit() {
        for value in [0, 9, 10, 99, 100, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(text(|buf| put_unsigned(buf, value)), value.to_string());
        }
    }

    #[test]
    fn milliseconds_of_long_times_are_those_that_were_read() {
        for text_of in [
            "4436874554.397677",
            "4439569452.529432",
            "0.000001",
            "12.5",
            "-4436874554.397677",
        ] {
            let ms: f64 = text_of.parse().unwrap();
            assert_eq!(text(|buf| put_ms(buf, ns(ms))), text_of);
        }
    }

    #[test]
    fn strings_come_back_through_another_parser() {
        for string in ["", "plain", "q\"uote\\", "\u{0}\u{1f}\n\t", "ünïcödé \u{1F600} \u{7f}"] {
            let written = text(|buf| put_string(buf, string));
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), string);
        }
    }
}
