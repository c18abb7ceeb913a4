//! How much of a file is read: only what views use, or everything that is written again.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, IgnoredAny, MapAccess};
use serde_json::Value;

use super::meta::{KnownMeta, RawMarkerData};
use crate::data::Fields;

/// A choice of fields to read.
pub(in crate::read) trait FieldChoice: Default {
    /// Fields that views do not use: kept or skipped.
    type Of<T: Default + DeserializeOwned>: Default + DeserializeOwned + KeptField<T>;
    /// Symbols are kept: no view uses them, once functions are known by them.
    const HAS_SYMBOLS: bool;
    /// The data of a marker.
    type MarkerData: Default + DeserializeOwned + MarkerData;

    /// Reads a field without a typed counterpart.
    fn rest<'de, A: MapAccess<'de>>(rest: &mut Self::Of<Fields>, key: String, map: &mut A) -> Result<(), A::Error>;
    /// `meta` as typed fields, and as all its fields.
    fn meta<'de, D: Deserializer<'de>>(json: D) -> Result<(KnownMeta, Self::Of<Fields>), D::Error>;
}

/// A value that may have been skipped.
pub(in crate::read) trait KeptField<T> {
    /// The kept value, or a default.
    fn take(self) -> T;
}

impl<T> KeptField<T> for T {
    fn take(self) -> T {
        self
    }
}

/// Data of a marker.
pub(in crate::read) trait MarkerData {
    /// What views use, and all fields.
    fn split(self) -> (RawMarkerData, Option<Fields>);
}

impl MarkerData for RawMarkerData {
    fn split(self) -> (RawMarkerData, Option<Fields>) {
        (self, None)
    }
}

impl MarkerData for Fields {
    fn split(self) -> (RawMarkerData, Option<Fields>) {
        (RawMarkerData::deserialize(&self).unwrap_or_default(), Some(self))
    }
}

/// Only what views use.
#[derive(Default)]
pub(in crate::read) struct ViewFields;

/// A skipped value of some type.
pub(in crate::read) struct SkippedOf<T>(std::marker::PhantomData<T>);

impl<T> Default for SkippedOf<T> {
    fn default() -> Self {
        SkippedOf(std::marker::PhantomData)
    }
}

impl<'de, T> Deserialize<'de> for SkippedOf<T> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(json).map(|_| SkippedOf::default())
    }
}

impl<T: Default> KeptField<T> for SkippedOf<T> {
    fn take(self) -> T {
        T::default()
    }
}

impl FieldChoice for ViewFields {
    type Of<T: Default + DeserializeOwned> = SkippedOf<T>;
    const HAS_SYMBOLS: bool = false;
    type MarkerData = RawMarkerData;

    fn rest<'de, A: MapAccess<'de>>(_: &mut SkippedOf<Fields>, _: String, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(|_| ())
    }

    fn meta<'de, D: Deserializer<'de>>(json: D) -> Result<(KnownMeta, SkippedOf<Fields>), D::Error> {
        Ok((KnownMeta::deserialize(json)?, SkippedOf::default()))
    }
}

/// Everything.
#[derive(Default)]
pub(in crate::read) struct AllFields;

impl FieldChoice for AllFields {
    type Of<T: Default + DeserializeOwned> = T;
    const HAS_SYMBOLS: bool = true;
    type MarkerData = Fields;

    fn rest<'de, A: MapAccess<'de>>(rest: &mut Fields, key: String, map: &mut A) -> Result<(), A::Error> {
        rest.insert(key, map.next_value()?);
        Ok(())
    }

    fn meta<'de, D: Deserializer<'de>>(json: D) -> Result<(KnownMeta, Fields), D::Error> {
        let all = Value::Object(Fields::deserialize(json)?);
        let known = KnownMeta::deserialize(&all).map_err(D::Error::custom)?;
        match all {
            Value::Object(all) => Ok((known, all)),
            _ => Ok((known, Fields::new())),
        }
    }
}
