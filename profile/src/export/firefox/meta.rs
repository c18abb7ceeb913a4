//! `meta`: what the profile is of, as it was read or built.

use std::io;

use super::FORMAT_VERSION;
use super::json::Json;
use crate::data::Data;

/// What is written from fields of the data.
const OWN: [&str; 4] = [
    "preprocessedProfileVersion",
    "categories",
    "symbolicated",
    "markerSchema",
];

pub(super) fn write(data: &Data, json: &mut Json) -> io::Result<()> {
    let others = data.meta.iter().filter(|(key, _)| !OWN.contains(&key.as_str()));
    json.fields(others)?;
    json.entry("preprocessedProfileVersion", &FORMAT_VERSION)?;
    json.entry("categories", &data.categories)?;
    json.entry("symbolicated", &data.symbolicated)?;
    json.entry("markerSchema", &data.schemas)
}
