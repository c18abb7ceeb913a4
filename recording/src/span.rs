//! Sections of a program that the program or the user named, with typed fields in a few bytes.

use crate::clock::Timestamp;
use crate::varint::{put, take, unzigzag, zigzag};

/// Most bytes of a span's name. Sources cut longer ones.
pub const MAX_SPAN_NAME: usize = 1 << 10;
/// Most bytes of the fields of a span, as [`SpanFields`] has them.
pub const MAX_SPAN_FIELDS: usize = 8 << 10;

/// A section of a thread's time, or an instant. The event's time is the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span<'a> {
    /// Its name.
    pub name: &'a str,
    /// When it began; `None` for an instant.
    pub began: Option<Timestamp>,
    /// Its values.
    pub fields: SpanFields<'a>,
    /// For a span that may overlap others of its thread without being inside them, such as an async task: spans that
    /// follow one another in one lane have the same number.
    pub lane: Option<u64>,
    /// Connects it with spans of other threads.
    pub flow: Option<SpanFlow>,
}

/// A connection of spans of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanFlow {
    /// The same number in all spans that are connected.
    pub id: u64,
    /// This is the last span of them: the number may be used again.
    pub ends: bool,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SpanValue<'a> {
    /// A number.
    Signed(i64),
    /// A number.
    Unsigned(u64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// A text.
    Text(&'a str),
}

/// Names and values: for each, the name, a number for the kind of the value, and the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanFields<'a>(&'a [u8]);

const SIGNED: u64 = 0;
const UNSIGNED: u64 = 1;
const FLOAT: u64 = 2;
const BOOL: u64 = 3;
const TEXT: u64 = 4;

impl<'a> SpanFields<'a> {
    /// Fields from the bytes of [`SpanFields::as_bytes`]. Bytes of another form have the fields before the fault.
    pub fn from_bytes(bytes: &'a [u8]) -> SpanFields<'a> {
        SpanFields(bytes)
    }

    /// The bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Name and value of each field.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, SpanValue<'a>)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let name = take_text(&mut rest)?;
            let value = match take(&mut rest)? {
                SIGNED => SpanValue::Signed(unzigzag(take(&mut rest)?)),
                UNSIGNED => SpanValue::Unsigned(take(&mut rest)?),
                FLOAT => SpanValue::Float(f64::from_bits(take(&mut rest)?)),
                BOOL => SpanValue::Bool(take(&mut rest)? != 0),
                TEXT => SpanValue::Text(take_text(&mut rest)?),
                _ => return None,
            };
            Some((name, value))
        })
    }
}

/// Makes [`SpanFields`].
#[derive(Clone, Debug, Default)]
pub struct SpanFieldsBuffer(Vec<u8>);

impl SpanFieldsBuffer {
    /// Removes all fields.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends a field. False if all would be more than [`MAX_SPAN_FIELDS`] bytes: then the field is left out.
    #[must_use]
    pub fn push(&mut self, name: &str, value: SpanValue<'_>) -> bool {
        let out = &mut self.0;
        let start = out.len();
        put_text(out, name);
        let (kind, number) = match value {
            SpanValue::Signed(value) => (SIGNED, zigzag(value)),
            SpanValue::Unsigned(value) => (UNSIGNED, value),
            SpanValue::Float(value) => (FLOAT, value.to_bits()),
            SpanValue::Bool(value) => (BOOL, value.into()),
            SpanValue::Text(value) => (TEXT, value.len() as u64),
        };
        put(out, kind);
        put(out, number);
        if let SpanValue::Text(value) = value {
            out.extend(value.bytes());
        }
        let fits = out.len() <= MAX_SPAN_FIELDS;
        if !fits {
            out.truncate(start);
        }
        fits
    }

    /// The fields so far.
    pub fn fields(&self) -> SpanFields<'_> {
        SpanFields(&self.0)
    }
}

impl<'a> Span<'a> {
    /// A span without fields, in its thread alone.
    pub fn new(name: &'a str, began: Option<Timestamp>) -> Span<'a> {
        Span {
            name,
            began,
            fields: SpanFields::default(),
            lane: None,
            flow: None,
        }
    }

    /// Appends the span.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_text(out, &self.name[..self.name.floor_char_boundary(MAX_SPAN_NAME)]);
        let flow = self.flow.map(|flow| (flow.id, u64::from(flow.ends)));
        let has = [self.began.is_some(), self.lane.is_some(), flow.is_some()];
        put(out, has.iter().rev().fold(0, |bits, has| bits << 1 | u64::from(*has)));
        let (id, ends) = flow.unzip();
        let numbers = [self.began.map(|began| began.0), self.lane, id, ends];
        numbers.into_iter().flatten().for_each(|number| put(out, number));
        put(out, self.fields.0.len() as u64);
        out.extend(self.fields.0);
    }

    /// Takes the span that [`Span::put`] appended from the front; `None` if there is none.
    pub fn take(bytes: &mut &'a [u8]) -> Option<Span<'a>> {
        let name = take_text(bytes)?;
        let has = take(bytes)?;
        let mut number = |bit: u64| Some(if has & bit != 0 { Some(take(bytes)?) } else { None });
        let (began, lane, id, ends) = (number(1)?, number(2)?, number(4)?, number(4)?);
        Some(Span {
            name,
            began: began.map(Timestamp),
            lane,
            flow: id.zip(ends).map(|(id, ends)| SpanFlow { id, ends: ends != 0 }),
            fields: SpanFields(take_bytes(bytes)?),
        })
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend(text.bytes());
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(take_bytes(bytes)?).ok()
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take(bytes)?).ok()?;
    bytes.split_off(..len)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn spans_come_back_as_they_went_in_and_cut_ones_do_not() {
        let values = [
            ("", SpanValue::Signed(i64::MIN)),
            ("ä", SpanValue::Unsigned(u64::MAX)),
            ("rate", SpanValue::Float(-0.25)),
            ("is", SpanValue::Bool(true)),
            ("text", SpanValue::Text("a\0b\nc")),
        ];
        let mut fields = SpanFieldsBuffer::default();
        assert!(values.iter().all(|(name, value)| fields.push(name, *value)));
        assert!(!fields.push("long", SpanValue::Text(&"x".repeat(MAX_SPAN_FIELDS))));
        assert_eq!(fields.fields().iter().collect::<Vec<_>>(), values);
        let span = Span {
            fields: fields.fields(),
            lane: Some(7),
            flow: Some(SpanFlow {
                id: 1 << 60,
                ends: true,
            }),
            ..Span::new("parse", Some(Timestamp(12)))
        };
        for span in [span, Span::new("", None)] {
            let mut bytes = Vec::new();
            span.put(&mut bytes);
            assert_eq!(Span::take(&mut &bytes[..]), Some(span));
            for end in 0..bytes.len() {
                assert_eq!(Span::take(&mut &bytes[..end]), None, "{end}");
            }
        }
        for end in 0..fields.fields().as_bytes().len() {
            let cut = SpanFields::from_bytes(&fields.fields().as_bytes()[..end]);
            assert!(cut.iter().eq(values.into_iter().take(cut.iter().count())));
        }
    }
}
