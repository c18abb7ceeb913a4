//! A processed profile as it is in the file, versions 50 to 75. Names are those of the format; unknown fields are passed over.
//!
//! Versions: docs-developer/CHANGELOG-formats.md of the front end up to 70; after that, its upgraders.

use serde::Deserialize;

use super::columns::{Addresses, Ids, Numbers, Texts};
use crate::facts::Facts;
use crate::read::SavedLib;
use crate::view::data::{RowValue, Section};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(in crate::read) struct RawProfile {
    pub(super) meta: RawMeta,
    pub(super) libs: Vec<SavedLib>,
    /// Texts from version 56, tables from 60.
    pub(super) shared: RawTables,
    pub(super) threads: Vec<RawThread>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawMeta {
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
    pub(super) symbolicated: Option<bool>,
    pub(super) categories: Vec<RawCategory>,
    pub(super) marker_schema: Option<Vec<RawSchema>>,
    pub(super) extra: Option<Vec<Section>>,
    pub(super) sprof: Option<Facts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawCategory {
    pub(super) name: String,
}

/// A type of markers.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawSchema {
    pub(super) name: String,
    /// sprof's own: markers of this type are samples of an event, each of which stands for so many.
    pub(super) period: RowValue,
}

/// What stacks are made of.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawTables {
    pub(super) string_array: Texts,
    pub(super) stack_table: RawStacks,
    pub(super) frame_table: RawFrames,
    pub(super) func_table: RawFuncs,
    pub(super) resource_table: RawResources,
    /// From version 58.
    pub(super) sources: RawSources,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawStacks {
    pub(super) frame: Ids,
    /// Until version 65.
    pub(super) prefix: Ids,
    /// From version 66: how far back the prefix is; 0 for a root.
    pub(super) prefix_offset: Ids,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawFrames {
    pub(super) func: Ids,
    pub(super) address: Addresses,
    pub(super) line: Ids,
    pub(super) category: Ids,
    /// Until version 70.
    pub(super) inline_depth: Ids,
    /// From version 70.
    pub(super) lib: Ids,
    /// From version 71: what of the other columns counts.
    pub(super) flags: Ids,
}

/// [`RawFrames::flags`].
pub(super) mod frame_flag {
    pub(crate) const INLINED: u32 = 1;
    pub(crate) const ADDRESS_AND_LIB: u32 = 2;
    pub(crate) const CATEGORY: u32 = 4;
    pub(crate) const LINE: u32 = 16;
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawFuncs {
    pub(super) name: Ids,
    pub(super) resource: Ids,
    /// Until version 57: a text.
    pub(super) file_name: Ids,
    /// From version 58: a source.
    pub(super) source: Ids,
    /// From version 75: what of the other columns counts.
    pub(super) flags: Ids,
}

/// [`RawFuncs::flags`].
pub(super) mod func_flag {
    pub(crate) const RESOURCE: u32 = 4;
    pub(crate) const SOURCE: u32 = 8;
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawResources {
    /// Until version 69.
    pub(super) lib: Ids,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawSources {
    pub(super) filename: Ids,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawThread {
    pub(super) name: String,
    pub(super) process_name: Option<String>,
    pub(super) pid: RawId,
    pub(super) tid: RawId,
    pub(super) is_main_thread: bool,
    /// sprof's own: what the samples are of, where it is not CPU time.
    pub(super) event: Option<String>,
    pub(super) samples: RawSamples,
    pub(super) markers: RawMarkers,
    // Until version 59; in `shared` since. (Texts until 55.)
    pub(super) string_array: Texts,
    pub(super) stack_table: RawStacks,
    pub(super) frame_table: RawFrames,
    pub(super) func_table: RawFuncs,
    pub(super) resource_table: RawResources,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawSamples {
    pub(super) length: Option<u64>,
    pub(super) stack: Ids,
    /// Either these,
    pub(super) time: Numbers,
    /// or these.
    pub(super) time_deltas: Numbers,
    pub(super) weight: Numbers,
    /// sprof's own: see `Samples::count` of the data.
    pub(super) count: Numbers,
    pub(super) weight_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawMarkers {
    pub(super) data: Vec<Option<RawMarkerData>>,
    pub(super) name: Ids,
    pub(super) start_time: Numbers,
    pub(super) end_time: Numbers,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawMarkerData {
    pub(super) cause: RawCause,
}

/// What led to a marker. Some types have a text of this name.
#[derive(Default, Deserialize)]
#[serde(untagged)]
pub(super) enum RawCause {
    Stack {
        stack: Option<u32>,
        /// sprof's own, where it is another than the type's period.
        weight: Option<f64>,
    },
    Other(serde::de::IgnoredAny),
    #[default]
    None,
}

/// A pid or tid: a number in profiles of Firefox, a text elsewhere.
#[derive(Deserialize)]
#[serde(untagged)]
pub(in crate::read) enum RawId {
    Number(f64),
    Text(String),
    None(()),
}

impl Default for RawId {
    fn default() -> Self {
        RawId::None(())
    }
}

impl RawId {
    pub(in crate::read) fn into_text(self) -> String {
        match self {
            RawId::Number(number) => number.to_string(),
            RawId::Text(text) => text,
            RawId::None(()) => String::new(),
        }
    }
}
