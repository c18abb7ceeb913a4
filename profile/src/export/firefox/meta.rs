//! `meta`: the profile's origin and contents.

use std::io;

use serde_json::Value;

use super::FORMAT_VERSION;
use super::json::Json;
use crate::data::Data;

/// Fields that are written from typed data.
const OWN: [&str; 4] = [
    "preprocessedProfileVersion",
    "categories",
    "symbolicated",
    "markerSchema",
];

/// Fields that are written unchanged.
pub(in crate::export) fn other_meta(data: &Data) -> impl Iterator<Item = (&String, &Value)> {
    data.meta.iter().filter(|(key, _)| !OWN.contains(&key.as_str()))
}

pub(super) fn write(data: &Data, json: &mut Json) -> io::Result<()> {
    json.fields(other_meta(data))?;
    json.entry("preprocessedProfileVersion", &FORMAT_VERSION)?;
    json.entry("categories", &data.categories)?;
    json.entry("symbolicated", &data.symbolicated)?;
    json.entry("markerSchema", &data.schemas)
}
