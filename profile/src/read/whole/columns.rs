//! Columns of profiles: lists of numbers, indices and texts. `null` or -1 is an absent value.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use crate::data::NONE;

/// Indices and small numbers; [`NONE`] for `null` and -1.
#[derive(Default)]
pub(super) struct Ids(pub(super) Vec<u32>);

/// Numbers; NaN for `null`.
#[derive(Default)]
pub(super) struct NumberColumn(pub(super) Vec<f64>);

/// Addresses; `None` for `null` and -1.
#[derive(Default)]
pub(super) struct Addresses(pub(super) Vec<Option<u64>>);

/// Texts.
#[derive(Default)]
pub(super) struct TextColumn(pub(super) Vec<Box<str>>);

/// A value of a column, from one JSON value.
trait ColumnValue: Sized {
    const EXPECTED: &'static str;
    fn of_number(number: f64) -> Option<Self>;
    fn of_unsigned(number: u64) -> Option<Self>;
    fn null() -> Option<Self>;
}

impl ColumnValue for u32 {
    const EXPECTED: &'static str = "an index, null or -1";
    fn of_number(number: f64) -> Option<u32> {
        let in_range = number == -1.0 || number.fract() == 0.0 && (0.0..f64::from(NONE)).contains(&number);
        in_range.then_some(if number < 0.0 { NONE } else { number as u32 })
    }
    fn of_unsigned(number: u64) -> Option<u32> {
        u32::try_from(number).ok().filter(|number| *number != NONE)
    }
    fn null() -> Option<u32> {
        Some(NONE)
    }
}

impl ColumnValue for f64 {
    const EXPECTED: &'static str = "a number or null";
    fn of_number(number: f64) -> Option<f64> {
        Some(number)
    }
    fn of_unsigned(number: u64) -> Option<f64> {
        Some(number as f64)
    }
    fn null() -> Option<f64> {
        Some(f64::NAN)
    }
}

impl ColumnValue for Option<u64> {
    const EXPECTED: &'static str = "an address, null or -1";
    fn of_number(number: f64) -> Option<Option<u64>> {
        let whole = number.fract() == 0.0 && (0.0..2f64.powi(64)).contains(&number);
        match number {
            -1.0 => Some(None),
            _ => whole.then_some(Some(number as u64)),
        }
    }
    fn of_unsigned(number: u64) -> Option<Option<u64>> {
        Some(Some(number))
    }
    fn null() -> Option<Option<u64>> {
        Some(None)
    }
}

/// One value: an element of a list.
struct ListElement<T>(T);

impl<'de, T: ColumnValue> Deserialize<'de> for ListElement<T> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(OneVisitor(PhantomData))
    }
}

struct OneVisitor<T>(PhantomData<T>);

impl<T: ColumnValue> Visitor<'_> for OneVisitor<T> {
    type Value = ListElement<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<ListElement<T>, E> {
        T::of_unsigned(number)
            .map(ListElement)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<ListElement<T>, E> {
        T::of_number(number as f64)
            .map(ListElement)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<ListElement<T>, E> {
        T::of_number(number)
            .map(ListElement)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<ListElement<T>, E> {
        T::of_unsigned(value.into())
            .map(ListElement)
            .ok_or_else(|| E::invalid_type(de::Unexpected::Bool(value), &self))
    }
    fn visit_unit<E: de::Error>(self) -> Result<ListElement<T>, E> {
        T::null()
            .map(ListElement)
            .ok_or_else(|| E::invalid_type(de::Unexpected::Unit, &self))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: ColumnValue> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list, each of it {}", T::EXPECTED)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(ListElement(value)) = seq.next_element()? {
            values.push(value);
        }
        values.shrink_to_fit();
        Ok(values)
    }
    /// An absent column may be `null`.
    fn visit_unit<E: de::Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(ListVisitor(PhantomData)).map(Ids)
    }
}

impl<'de> Deserialize<'de> for NumberColumn {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(ListVisitor(PhantomData)).map(NumberColumn)
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(ListVisitor(PhantomData)).map(Addresses)
    }
}

impl<'de> Deserialize<'de> for TextColumn {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        Vec::deserialize(json).map(TextColumn)
    }
}
