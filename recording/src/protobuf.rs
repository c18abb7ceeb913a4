//! Protobuf messages, as far as pprof and simpleperf use them: <https://protobuf.dev/programming-guides/encoding/>.
//!
//! Reading takes no memory: a file from outside may hold millions of messages of two bytes.

/// A message under construction.
#[derive(Default)]
pub struct ProtobufMessage(Vec<u8>);

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LEN: u64 = 2;
const FIXED_32: u64 = 5;

impl ProtobufMessage {
    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// A number. 0 is the default and is not written.
    pub fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    /// A text.
    pub fn text(&mut self, field: u64, value: &str) {
        self.chunk(field, value.as_bytes());
    }

    /// A nested message.
    pub fn message(&mut self, field: u64, inner: &ProtobufMessage) {
        self.chunk(field, &inner.0);
    }

    /// Several numbers in one field.
    pub fn packed(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let mut inner = ProtobufMessage::default();
        values.for_each(|value| inner.varint(value));
        self.chunk(field, &inner.0);
    }

    fn chunk(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LEN);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Seven bits a byte, the lowest first; the top bit says that more follow.
    fn varint(&mut self, value: u64) {
        crate::varint::put(&mut self.0, value);
    }
}

/// A field. Its number determines its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// A number of any kind.
    Number(u64),
    /// A text, a message, or several numbers.
    Bytes(&'a [u8]),
}

/// An error and its byte offset.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageFault {
    /// The fault, and the expected content.
    pub what: String,
    /// Bytes from the start of the message.
    pub at: usize,
}

/// The part of a field before its content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldHead {
    /// The whole field.
    Number(u64),
    /// The content has this many bytes.
    Bytes(u64),
}

/// Reads the fields of a message in memory.
#[derive(Clone)]
pub struct MessageFields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> MessageFields<'a> {
    /// The fields of this message. A fault ends them.
    pub fn new(bytes: &'a [u8]) -> MessageFields<'a> {
        MessageFields { bytes, at: 0 }
    }

    fn field(&mut self) -> Result<(u64, FieldValue<'a>), MessageFault> {
        let start = self.at;
        let mut next = || {
            let byte = self.bytes.get(self.at).copied();
            self.at += usize::from(byte.is_some());
            Ok::<_, std::convert::Infallible>(byte)
        };
        let head = match head(&mut next) {
            Ok(head) => head,
            Err(never) => match never {},
        };
        let (field, head) = head.map_err(|what| MessageFault { what, at: start })?;
        match head {
            FieldHead::Number(number) => Ok((field, FieldValue::Number(number))),
            FieldHead::Bytes(len) => {
                let rest = &self.bytes[self.at..];
                let Some(bytes) = usize::try_from(len).ok().and_then(|len| rest.get(..len)) else {
                    let what = format!(
                        "field {field} is to have {len} bytes, but only {} are left of its message",
                        rest.len()
                    );
                    return Err(MessageFault { what, at: start });
                };
                self.at += bytes.len();
                Ok((field, FieldValue::Bytes(bytes)))
            }
        }
    }
}

impl<'a> Iterator for MessageFields<'a> {
    type Item = Result<(u64, FieldValue<'a>), MessageFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

/// The number and head of a field. `next` returns the next byte, `None` at the end.
///
/// # Errors
///
/// Outer: the error of `next`. Inner: the bytes are not a field; the text says what was expected.
pub fn head<E>(next: &mut impl FnMut() -> Result<Option<u8>, E>) -> Result<Result<(u64, FieldHead), String>, E> {
    let tag = match number(next)? {
        Ok(tag) => tag,
        Err(what) => return Ok(Err(what)),
    };
    let (field, kind) = (tag >> 3, tag & 7);
    if field == 0 {
        return Ok(Err(format!("expected the number of a field, found {tag:#x}")));
    }
    let fixed = |bytes: u32, next: &mut dyn FnMut() -> Result<Option<u8>, E>| {
        let mut number = 0u64;
        for at in 0..bytes {
            match next()? {
                Some(byte) => number |= u64::from(byte) << (8 * at),
                None => return Ok(Err(CUT.to_owned())),
            }
        }
        Ok(Ok(FieldHead::Number(number)))
    };
    let head = match kind {
        VARINT => number(next)?.map(FieldHead::Number),
        LEN => number(next)?.map(FieldHead::Bytes),
        FIXED_64 => fixed(8, next)?,
        FIXED_32 => fixed(4, next)?,
        _ => Err(format!(
            "expected a number or bytes in field {field}, found type {kind} of protobuf"
        )),
    };
    Ok(head.map(|head| (field, head)))
}

/// The error of [`head`] and [`numbers`] at the end of the bytes.
pub const CUT: &str = "it ends in the middle of a field";

/// At most ten bytes.
fn number<E>(next: &mut (impl FnMut() -> Result<Option<u8>, E> + ?Sized)) -> Result<Result<u64, String>, E> {
    let mut number = 0u64;
    for shift in (0..70).step_by(7) {
        let Some(byte) = next()? else {
            return Ok(Err(CUT.to_owned()));
        };
        // Bits above the 64th are dropped, as in other decoders.
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Ok(Ok(number));
        }
    }
    Ok(Err("expected a number of at most ten bytes".to_owned()))
}

/// Calls `each` with the numbers of a repeated field, packed or not.
///
/// # Errors
///
/// A packed number is cut off, or has more than ten bytes.
pub fn numbers(value: FieldValue<'_>, mut each: impl FnMut(u64)) -> Result<(), String> {
    match value {
        FieldValue::Number(number) => each(number),
        FieldValue::Bytes(bytes) => {
            let mut bytes = bytes.iter();
            while !bytes.as_slice().is_empty() {
                let read = number(&mut || Ok::<_, std::convert::Infallible>(bytes.next().copied()));
                match read {
                    Ok(number) => each(number?),
                    Err(never) => match never {},
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut message = ProtobufMessage::default();
        message.number(1, u64::MAX);
        message.text(2, "testing");
        message.packed(300, [3, 270, 86942].into_iter());
        let mut read = MessageFields::new(message.bytes());
        assert_eq!(read.next(), Some(Ok((1, FieldValue::Number(u64::MAX)))));
        assert_eq!(read.next(), Some(Ok((2, FieldValue::Bytes(b"testing")))));
        let (field, value) = read.next().unwrap().unwrap();
        let mut found = Vec::new();
        numbers(value, |number| found.push(number)).unwrap();
        assert_eq!((field, found), (300, vec![3, 270, 86942]));
        assert_eq!(read.next(), None);
    }

    #[test]
    fn what_is_no_message_is_an_error_and_an_end() {
        for bad in [
            &[0x00][..],
            &[0x80],
            &[0x0a, 5, 1],
            &[0x0b],
            &[0x09, 1, 2],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            let mut read = MessageFields::new(bad);
            assert!(read.next().unwrap().is_err(), "{bad:x?}");
            assert_eq!(read.next(), None);
        }
    }

    /// The examples of the encoding's description.
    #[test]
    fn fields_as_the_description_has_them() {
        let mut inner = ProtobufMessage::default();
        inner.number(1, 150);
        assert_eq!(inner.bytes(), [0x08, 0x96, 0x01]);
        let mut outer = ProtobufMessage::default();
        outer.text(2, "testing");
        assert_eq!(outer.bytes(), b"\x12\x07testing");
        outer.clear();
        outer.message(3, &inner);
        assert_eq!(outer.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        outer.clear();
        outer.packed(6, [3, 270, 86942].into_iter());
        assert_eq!(outer.bytes(), [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        outer.clear();
        outer.number(1, 0);
        assert!(outer.bytes().is_empty());
    }
}
