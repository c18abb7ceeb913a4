//! A processed profile as in the file, versions 49 to 75, under the format's names. [`FieldChoice`] keeps or skips
//! unknown fields.
//!
//! Versions: docs-developer/CHANGELOG-formats.md of the front end up to 70; its upgraders after 70.

use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::columns::{Addresses, Ids, NumberColumn, TextColumn};
use super::extent::FieldChoice;
use super::meta::KnownMeta;
use crate::data::Fields;
use crate::data::SavedLib;

/// Reads an object into a structure: the listed keys into fields, all others into `rest`.
macro_rules! object_with_rest {
    ($name:ident { $($key:literal => $($field:ident).+),* }) => {
        impl<'de, E: FieldChoice> Deserialize<'de> for $name<E> {
            fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
                struct Object<E>(PhantomData<E>);

                impl<'de, E: FieldChoice> Visitor<'de> for Object<E> {
                    type Value = $name<E>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$name<E>, A::Error> {
                        let mut raw = $name::<E>::default();
                        while let Some(key) = map.next_key::<String>()? {
                            match key.as_str() {
                                $($key => raw.$($field).+ = map.next_value()?,)*
                                _ => E::rest(&mut raw.rest, key, &mut map)?,
                            }
                        }
                        Ok(raw)
                    }
                }

                json.deserialize_map(Object(PhantomData))
            }
        }
    };
}

#[derive(Default)]
pub(in crate::read) struct RawProfile<E: FieldChoice> {
    pub(super) meta: RawMeta<E>,
    pub(super) libs: Vec<SavedLib>,
    /// Texts from version 56, tables from 60.
    pub(super) shared: RawTables<E>,
    pub(super) threads: Vec<RawThread<E>>,
    pub(super) counters: Option<Vec<Fields>>,
    pub(super) rest: E::Of<Fields>,
}

object_with_rest!(RawProfile {
    "meta" => meta, "libs" => libs, "shared" => shared, "threads" => threads, "counters" => counters
});

/// `meta`: typed fields, and all fields.
#[derive(Default)]
pub(super) struct RawMeta<E: FieldChoice> {
    pub(super) known: KnownMeta,
    pub(super) all: E::Of<Fields>,
}

impl<'de, E: FieldChoice> Deserialize<'de> for RawMeta<E> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let (known, all) = E::meta(json)?;
        Ok(RawMeta { known, all })
    }
}

/// The tables of stacks.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "")]
pub(super) struct RawTables<E: FieldChoice> {
    pub(super) string_array: TextColumn,
    pub(super) stack_table: RawStacks,
    pub(super) frame_table: RawFrames<E>,
    pub(super) func_table: RawFuncs<E>,
    pub(super) resource_table: RawResources<E>,
    pub(super) native_symbols: RawSymbols,
    /// From version 58.
    pub(super) sources: RawSources<E>,
    pub(super) source_location_table: RawLocations,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawStacks {
    pub(super) frame: Ids,
    /// Until version 65.
    pub(super) prefix: Ids,
    /// From version 66: the distance back to the prefix; 0 for a root.
    pub(super) prefix_offset: Ids,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "")]
pub(super) struct RawFrames<E: FieldChoice> {
    pub(super) func: Ids,
    pub(super) address: Addresses,
    pub(super) line: Ids,
    pub(super) category: Ids,
    /// Until version 70.
    pub(super) inline_depth: Ids,
    pub(super) column: E::Of<Ids>,
    pub(super) subcategory: Ids,
    pub(super) native_symbol: Ids,
    #[serde(rename = "innerWindowID")]
    pub(super) inner_window_id: E::Of<NumberColumn>,
    /// From version 70.
    pub(super) lib: Ids,
    /// Positions from a source map, and in profiles of sprof lines of other files than the function's.
    pub(super) original_location: Ids,
    /// From version 71: which other columns are valid.
    pub(super) flags: Ids,
}

/// [`RawFrames::flags`].
pub(super) mod frame_flag {
    pub(crate) const INLINED: u32 = 1;
    pub(crate) const ADDRESS_AND_LIB: u32 = 2;
    pub(crate) const CATEGORY: u32 = 4;
    pub(crate) const NATIVE_SYMBOL: u32 = 8;
    pub(crate) const LINE: u32 = 16;
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "")]
pub(super) struct RawFuncs<E: FieldChoice> {
    pub(super) name: Ids,
    pub(super) resource: Ids,
    /// Until version 57: a text.
    pub(super) file_name: Ids,
    /// From version 58: a source.
    pub(super) source: Ids,
    #[serde(rename = "isJS")]
    pub(super) is_js: E::Of<Ids>,
    #[serde(rename = "relevantForJS")]
    pub(super) relevant_for_js: E::Of<Ids>,
    pub(super) line_number: E::Of<Ids>,
    pub(super) column_number: E::Of<Ids>,
    /// From version 75: which other columns are valid.
    pub(super) flags: Ids,
    /// sprof's own field: a text.
    #[serde(rename = "crate")]
    pub(super) krate: Ids,
}

/// [`RawFuncs::flags`].
pub(super) mod func_flag {
    pub(crate) const RESOURCE: u32 = 4;
    pub(crate) const SOURCE: u32 = 8;
}

#[derive(Default, Deserialize)]
#[serde(default, bound = "")]
pub(super) struct RawResources<E: FieldChoice> {
    /// Until version 69.
    pub(super) lib: Ids,
    pub(super) name: E::Of<Ids>,
    pub(super) host: E::Of<Ids>,
    pub(super) r#type: E::Of<Ids>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawSymbols {
    pub(super) lib_index: Ids,
    pub(super) address: Addresses,
    pub(super) name: Ids,
    pub(super) function_size: Addresses,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawLocations {
    pub(super) source: Ids,
    pub(super) line: Ids,
    pub(super) column: Ids,
}

#[derive(Default)]
pub(super) struct RawSources<E: FieldChoice> {
    pub(super) filename: Ids,
    pub(super) content: SourceContents,
    pub(super) rest: E::Of<Fields>,
}

object_with_rest!(RawSources { "filename" => filename, "content" => content });

/// The texts of source files. Anything else than a text is none.
#[derive(Default)]
pub(super) struct SourceContents(pub(super) Vec<Option<Box<str>>>);

impl<'de> Deserialize<'de> for SourceContents {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum SourceContent {
            Text(Box<str>),
            Other(serde::de::IgnoredAny),
        }
        let contents: Option<Vec<SourceContent>> = Deserialize::deserialize(json)?;
        let text = |content| match content {
            SourceContent::Text(text) => Some(text),
            SourceContent::Other(_) => None,
        };
        Ok(SourceContents(contents.into_iter().flatten().map(text).collect()))
    }
}

#[derive(Default)]
pub(super) struct RawThread<E: FieldChoice> {
    pub(super) name: String,
    pub(super) process_name: Option<String>,
    pub(super) pid: RawId,
    pub(super) tid: RawId,
    pub(super) is_main_thread: bool,
    /// sprof's own field: the sampled event, if it is not CPU time.
    pub(super) event: Option<String>,
    /// sprof's own field, of a track of an event: the thread in which the event happened.
    pub(super) event_of: Option<String>,
    pub(super) samples: RawSamples<E>,
    pub(super) markers: RawMarkers<E>,
    pub(super) native_allocations: Option<RawAllocations<E>>,
    /// Until version 59; then in `shared`. (Texts until 55.)
    pub(super) tables: RawTables<E>,
    pub(super) rest: E::Of<Fields>,
}

object_with_rest!(RawThread {
    "name" => name, "processName" => process_name, "pid" => pid, "tid" => tid, "isMainThread" => is_main_thread,
    "event" => event, "eventOf" => event_of, "samples" => samples, "markers" => markers, "nativeAllocations" => native_allocations,
    "stringArray" => tables.string_array,
    "stackTable" => tables.stack_table, "frameTable" => tables.frame_table, "funcTable" => tables.func_table,
    "resourceTable" => tables.resource_table, "nativeSymbols" => tables.native_symbols
});

#[derive(Default)]
pub(super) struct RawSamples<E: FieldChoice> {
    pub(super) length: Option<u64>,
    pub(super) stack: Ids,
    /// Either these times,
    pub(super) time: NumberColumn,
    /// or these differences.
    pub(super) time_deltas: NumberColumn,
    pub(super) weight: NumberColumn,
    /// sprof's own field: see `Samples::count` of the data.
    pub(super) count: NumberColumn,
    pub(super) weight_type: Option<String>,
    pub(super) thread_cpu_delta: E::Of<Option<NumberColumn>>,
    pub(super) rest: E::Of<Fields>,
}

object_with_rest!(RawSamples {
    "length" => length, "stack" => stack, "time" => time, "timeDeltas" => time_deltas, "weight" => weight, "count" => count,
    "weightType" => weight_type, "threadCPUDelta" => thread_cpu_delta
});

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "")]
pub(super) struct RawMarkers<E: FieldChoice> {
    pub(super) data: Vec<Option<E::MarkerData>>,
    pub(super) name: Ids,
    pub(super) start_time: NumberColumn,
    pub(super) end_time: NumberColumn,
    pub(super) phase: E::Of<Ids>,
    pub(super) category: E::Of<Ids>,
}

/// `RawNativeAllocationTable` of the front end's src/types/profile.ts.
#[derive(Default)]
pub(super) struct RawAllocations<E: FieldChoice> {
    pub(super) length: Option<u64>,
    pub(super) time: NumberColumn,
    pub(super) weight: NumberColumn,
    pub(super) stack: Ids,
    /// Only where frees are known.
    pub(super) memory_address: Option<Addresses>,
    pub(super) thread_id: Option<NumberColumn>,
    /// sprof's own fields: see `Allocations` of the data.
    pub(super) size: Option<Addresses>,
    pub(super) end: Option<f64>,
    pub(super) rest: E::Of<Fields>,
}

object_with_rest!(RawAllocations {
    "length" => length, "time" => time, "weight" => weight, "stack" => stack, "memoryAddress" => memory_address,
    "threadId" => thread_id, "size" => size, "end" => end
});

/// A pid or tid: a number in profiles of Firefox, otherwise a text.
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
