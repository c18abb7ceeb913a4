//! The typed fields of `meta` and of markers' data.

use serde::{Deserialize, Deserializer};

use crate::data::facts::SprofFacts;
use crate::data::spans::OWN_TYPES;
use crate::data::{AboutSection, Category, RowValue};

/// The fields of `meta` that have a type.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::read) struct KnownMeta {
    pub(super) preprocessed_profile_version: Option<u32>,
    pub(super) product: Option<String>,
    pub(super) imported_from: Option<String>,
    pub(super) arguments: Option<String>,
    pub(super) oscpu: Option<String>,
    #[serde(rename = "CPUName")]
    pub(super) cpu_name: Option<String>,
    pub(super) start_time: Option<f64>,
    pub(super) profiling_start_time: Option<f64>,
    pub(super) profiling_end_time: Option<f64>,
    pub(super) interval: Option<f64>,
    /// True in files of the published `fxprof-processed-profile`.
    pub(super) source_code_is_not_on_searchfox: bool,
    pub(super) symbolicated: Option<bool>,
    pub(super) categories: Vec<Category>,
    pub(super) marker_schema: Option<Vec<RawSchema>>,
    pub(super) extra: Option<Vec<AboutSection>>,
    pub(super) sprof: Option<SprofFacts>,
}

/// A type of markers.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(in crate::read) struct RawSchema {
    pub(super) name: String,
    /// sprof's own field: markers of this type are samples of an event, and each represents this many events.
    pub(super) period: RowValue,
}

/// The fields of a marker's data that views use.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(in crate::read) struct RawMarkerData {
    pub(super) cause: RawCause,
    /// True if it is of one of the types that sprof makes.
    #[serde(rename = "type", deserialize_with = "is_own_type")]
    pub(super) is_own: bool,
    /// True if there is a field `lane`: the span is async.
    #[serde(rename = "lane", deserialize_with = "is_number")]
    pub(super) is_async: bool,
    /// True if there is a field `cut`: the span is longer.
    #[serde(rename = "cut", deserialize_with = "is_text")]
    pub(super) is_cut: bool,
}

fn is_own_type<'de, D: Deserializer<'de>>(json: D) -> Result<bool, D::Error> {
    let kind = RowValue::deserialize(json)?;
    Ok(matches!(kind, RowValue::Text(kind) if OWN_TYPES.contains(&&*kind)))
}

fn is_number<'de, D: Deserializer<'de>>(json: D) -> Result<bool, D::Error> {
    Ok(matches!(RowValue::deserialize(json)?, RowValue::Number(_)))
}

fn is_text<'de, D: Deserializer<'de>>(json: D) -> Result<bool, D::Error> {
    Ok(matches!(RowValue::deserialize(json)?, RowValue::Text(_)))
}

/// A marker's cause. Some types have a text field with this name.
#[derive(Default, Deserialize)]
#[serde(untagged)]
pub(in crate::read) enum RawCause {
    Stack {
        stack: Option<u32>,
        /// sprof's own field: the number of events, if it differs from the type's period.
        weight: Option<f64>,
    },
    Other(serde::de::IgnoredAny),
    #[default]
    None,
}
