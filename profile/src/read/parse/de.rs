//! serde's interface: visitors get the next value.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::error::{Error, ParseFault, Result};
use super::number::JsonNumber;
use super::{MAX_READ_DEPTH, Parser};
use crate::read::position::FilePosition;

/// Overhead of an allocation of a text.
const TEXT_BYTES: usize = 16;

impl<'de> Deserializer<'de> for &mut Parser<'_> {
    type Error = Error;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let token = self.input.token()?;
        let value = match token {
            b'-' | b'0'..=b'9' => match self.number()? {
                JsonNumber::Unsigned(number) => visitor.visit_u64(number),
                JsonNumber::Signed(number) => visitor.visit_i64(number),
                JsonNumber::Float(number) => visitor.visit_f64(number),
            },
            b'n' => {
                self.literal(b"null")?;
                visitor.visit_unit()
            }
            b't' => {
                self.literal(b"true")?;
                visitor.visit_bool(true)
            }
            b'f' => {
                self.literal(b"false")?;
                visitor.visit_bool(false)
            }
            b'"' => {
                self.input.bump();
                let text = self.text()?;
                let bytes = TEXT_BYTES + text.len();
                let value = visitor.visit_str(text);
                self.keep(bytes)?;
                value
            }
            b'[' => self.nested(b']', |parser| visitor.visit_seq(Items::new(parser))),
            b'{' => self.nested(b'}', |parser| visitor.visit_map(Items::new(parser))),
            _ => return Err(self.wrong("expected value")),
        };
        // A visitor's error has no place.
        value.map_err(|error| error.at(self.input.last_place()))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.input.token()? {
            b'n' => {
                self.literal(b"null")?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    /// A text that names a variant.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.input.token()? {
            b'"' => {
                self.input.bump();
                let value = visitor.visit_enum(StrDeserializer::<Error>::new(self.text()?));
                value.map_err(|error: Error| error.at(self.input.last_place()))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    /// A field name, which no visitor keeps.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.input.token()? {
            b'"' => {
                self.input.bump();
                let value = visitor.visit_str(self.text()?);
                value.map_err(|error: Error| error.at(self.input.last_place()))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct
    }
}

impl Parser<'_> {
    /// Consumes a bracket, its content and the closing bracket.
    fn nested<T>(&mut self, closer: u8, visit: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let bracket = self.go_deeper()?;
        match visit(self) {
            Ok(value) => self.come_back(closer).map(|()| value),
            Err(error) => Err(self.unwanted(error, bracket)),
        }
    }

    // The rest is not generic: there is one `nested` for each type that is read.

    /// Returns the place of the bracket.
    fn go_deeper(&mut self) -> Result<FilePosition> {
        self.depth += 1;
        if self.depth > MAX_READ_DEPTH {
            return Err(Error::new(ParseFault::Syntax("recursion limit exceeded")).at(self.input.next_place()));
        }
        Ok(self.input.next_place())
    }

    fn come_back(&mut self, closer: u8) -> Result<()> {
        match self.input.token()? {
            byte if byte == closer => self.input.bump(),
            // The visitor stopped early.
            _ => return Err(self.wrong("trailing characters")),
        }
        self.depth -= 1;
        Ok(())
    }

    #[cold]
    fn unwanted(&mut self, error: Error, bracket: FilePosition) -> Error {
        if self.input.next_place() != bracket {
            return error.at(self.input.last_place());
        }
        // The value is unexpected. The error is reported only for valid JSON, so that a thousand brackets are reported
        // as nesting.
        match self.skip() {
            Ok(()) => error.at(bracket),
            Err(error) => error,
        }
    }
}

/// Approximate memory of a map's entry; a structure's field has less.
const ENTRY_BYTES: usize = 64;

/// The items of a list or an object, from its opening bracket.
struct Items<'p, 'a> {
    parser: &'p mut Parser<'a>,
    is_first: bool,
}

impl<'p, 'a> Items<'p, 'a> {
    fn new(parser: &'p mut Parser<'a>) -> Self {
        Items { parser, is_first: true }
    }

    /// Goes to the next item; false if there is none.
    #[inline]
    fn advance(&mut self, closer: u8, expected: &'static str) -> Result<bool> {
        if std::mem::take(&mut self.is_first) {
            self.parser.input.bump();
            return Ok(self.parser.input.token()? != closer);
        }
        let token = self.parser.input.token()?;
        if token == closer {
            return Ok(false);
        }
        if token != b',' {
            return Err(self.parser.wrong(expected));
        }
        self.parser.input.bump();
        self.parser.count_value()?;
        match self.parser.input.token()? == closer {
            true => Err(self.parser.wrong("trailing comma")),
            false => Ok(true),
        }
    }
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Error;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        match self.advance(b']', "expected `,` or `]`")? {
            true => {
                self.parser.keep(size_of::<S::Value>())?;
                seed.deserialize(&mut *self.parser).map(Some)
            }
            false => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for Items<'_, '_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        if !self.advance(b'}', "expected `,` or `}`")? {
            return Ok(None);
        }
        match self.parser.input.token()? {
            b'"' => seed.deserialize(&mut *self.parser).map(Some),
            _ => Err(self.parser.wrong("key must be a string")),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        self.parser.colon()?;
        self.parser.keep(ENTRY_BYTES)?;
        seed.deserialize(&mut *self.parser)
    }
}
