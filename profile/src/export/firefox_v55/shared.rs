//! What all threads share: the first pass over the file.

use std::collections::BTreeSet;
use std::io::Read;

use rustc_hash::FxHashSet;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::columns::{Indexes, Object, Table};
use super::{FROM, Lost, V55Error};

/// Until version 59 the tables are the threads', and only texts are shared.
const SHARED_TABLES: u64 = 60;
const SOURCES: u64 = 58;
const PREFIX_OFFSETS: u64 = 66;
const LIBS_OF_FRAMES: u64 = 70;

/// The parts of the file that the second pass needs from the start.
pub(super) struct Shared {
    pub(super) version: u64,
    pub(super) texts: Vec<Box<RawValue>>,
    /// The text of each source's file name.
    pub(super) sources: Indexes,
    /// `None` where each thread has its own.
    pub(super) tables: Option<Tables>,
    /// Names of the libraries, as JSON.
    pub(super) lib_names: Vec<String>,
    /// Fields of markers that are indexes of texts, by the marker's type.
    pub(super) text_fields: FxHashSet<(String, String)>,
    /// Fields that no version up to 70 has.
    pub(super) unknown: Object,
    lost: Lost,
}

/// Stacks and what they point at.
pub(super) struct Tables {
    pub(super) stack_frame: Indexes,
    pub(super) stack_prefix: Vec<Option<u32>>,
    pub(super) stacks: Table,
    pub(super) frame_func: Indexes,
    pub(super) frame_symbol: Indexes,
    /// Of each frame.
    pub(super) frame_lib: Vec<Option<u32>>,
    pub(super) frames: Table,
    pub(super) func_name: Indexes,
    pub(super) func_resource: Indexes,
    /// The text of the file's name.
    pub(super) func_file: Vec<Option<u32>>,
    pub(super) funcs: Table,
    pub(super) resource_name: Indexes,
    pub(super) resource_host: Indexes,
    pub(super) resource_type: Indexes,
    pub(super) resources: Table,
    pub(super) symbol_name: Indexes,
    pub(super) symbols: Table,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct First {
    meta: FirstMeta,
    libs: Vec<FirstLib>,
    shared: Object,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct FirstMeta {
    preprocessed_profile_version: u64,
    marker_schema: Vec<FirstSchema>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FirstLib {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FirstSchema {
    name: String,
    fields: Vec<FirstField>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FirstField {
    key: String,
    format: serde_json::Value,
}

impl Shared {
    pub(super) fn read(json: impl Read) -> Result<Shared, V55Error> {
        let mut json = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(128 << 10, json));
        let First { meta, libs, shared } = First::deserialize(&mut json)?;
        json.end()?;
        let version = meta.preprocessed_profile_version;
        if !u32::try_from(version).is_ok_and(|version| FROM.contains(&version)) {
            return Err(V55Error::Version(version));
        }
        let sources: Object = shared.parse("sources")?;
        let lost = lost(&sources, &shared)?;
        let mut read = Shared {
            version,
            texts: shared.parse("stringArray")?,
            sources: sources.parse("filename")?,
            tables: None,
            lib_names: libs
                .iter()
                .map(|lib| serde_json::Value::from(lib.name.as_str()).to_string())
                .collect(),
            text_fields: FxHashSet::default(),
            unknown: Object::default(),
            lost,
        };
        for schema in meta.marker_schema {
            let is_text = |field: &FirstField| {
                let format = field.format.as_str().unwrap_or_default();
                ["unique-string", "flow-id", "terminating-flow-id"].contains(&format)
            };
            let fields = schema.fields.into_iter().filter(is_text);
            read.text_fields
                .extend(fields.map(|field| (schema.name.clone(), field.key)));
        }
        if version >= SHARED_TABLES {
            read.tables = Some(read.tables_of(&shared)?);
        }
        let known = BTreeSet::from([
            "stringArray",
            "sources",
            "sourceLocationTable",
            "stackTable",
            "frameTable",
            "funcTable",
            "resourceTable",
            "nativeSymbols",
        ]);
        read.unknown = Object(
            shared
                .0
                .into_iter()
                .filter(|(key, _)| !known.contains(key.as_str()))
                .collect(),
        );
        Ok(read)
    }

    pub(super) fn lost(self) -> Lost {
        self.lost
    }

    /// The tables in `shared`, or in a thread.
    pub(super) fn tables_of(&self, object: &Object) -> Result<Tables, V55Error> {
        let part = |key: &str| object.parse::<Object>(key);
        let (stacks, frames, funcs) = (part("stackTable")?, part("frameTable")?, part("funcTable")?);
        let (resources, symbols) = (part("resourceTable")?, part("nativeSymbols")?);
        let func_resource: Indexes = funcs.parse("resource")?;
        let frame_func: Indexes = frames.parse("func")?;
        let stack_frame: Indexes = stacks.parse("frame")?;
        let frame_lib = match self.version >= LIBS_OF_FRAMES {
            true => frames.parse::<Indexes>("lib")?.iter().collect(),
            false => {
                let libs: Indexes = resources.parse("lib")?;
                let lib = |func: Option<u32>| libs.get(func_resource.get(func?)?);
                frame_func.iter().map(lib).collect()
            }
        };
        let func_file = match self.version >= SOURCES {
            true => {
                let sources: Indexes = funcs.parse("source")?;
                sources.iter().map(|source| self.sources.get(source?)).collect()
            }
            false => funcs.parse::<Indexes>("fileName")?.iter().collect(),
        };
        let tables = Tables {
            stack_prefix: prefixes(&stacks, self.version)?,
            stack_frame,
            stacks: Table::without(&stacks, &["frame", "prefix", "prefixOffset"])?,
            frame_symbol: frames.parse("nativeSymbol")?,
            frame_func,
            frame_lib,
            frames: Table::without(&frames, &["func", "nativeSymbol", "lib", "originalLocation"])?,
            func_name: funcs.parse("name")?,
            func_resource,
            func_file,
            funcs: Table::without(&funcs, &["name", "resource", "source", "fileName", "originalLocation"])?,
            resource_name: resources.parse("name")?,
            resource_host: resources.parse("host")?,
            resource_type: resources.parse("type")?,
            resources: Table::without(&resources, &["name", "host", "type", "lib"])?,
            symbol_name: symbols.parse("name")?,
            symbols: Table::without(&symbols, &["name"])?,
        };
        tables.check()?;
        Ok(tables)
    }
}

impl Tables {
    /// Stacks and frames must point at something: what is written from them must be whole.
    fn check(&self) -> Result<(), V55Error> {
        let wrong = |what: String| Err(V55Error::Inconsistent(what));
        for (stack, (frame, prefix)) in self.stack_frame.iter().zip(&self.stack_prefix).enumerate() {
            if frame.is_none_or(|frame| frame as usize >= self.frame_func.len()) {
                return wrong(format!("stackTable.frame[{stack}] is no frame"));
            }
            if prefix.is_some_and(|prefix| prefix as usize >= stack) {
                return wrong(format!("stackTable.prefix[{stack}] is no stack before it"));
            }
        }
        if self.stack_prefix.len() != self.stack_frame.len() {
            return wrong("the columns of stackTable are not equally long".into());
        }
        let funcs = self.func_name.len();
        match self
            .frame_func
            .iter()
            .position(|func| func.is_none_or(|func| func as usize >= funcs))
        {
            Some(frame) => wrong(format!("frameTable.func[{frame}] is no function")),
            None => Ok(()),
        }
    }
}

fn prefixes(stacks: &Object, version: u64) -> Result<Vec<Option<u32>>, V55Error> {
    if version < PREFIX_OFFSETS {
        return Ok(stacks.parse::<Indexes>("prefix")?.iter().collect());
    }
    let offsets: Indexes = stacks.parse("prefixOffset")?;
    let prefix = |(stack, offset): (usize, Option<u32>)| {
        let offset = offset.filter(|offset| *offset > 0)?;
        // One that points before the first stack is found by the check.
        Some((stack as u32).checked_sub(offset).unwrap_or(u32::MAX))
    };
    Ok(offsets.iter().enumerate().map(prefix).collect())
}

fn lost(sources: &Object, shared: &Object) -> Result<Lost, V55Error> {
    let mut details = FxHashSet::default();
    for (key, usual) in [
        ("id", "null"),
        ("uuid", "null"),
        ("startLine", "1"),
        ("startColumn", "1"),
        ("sourceMapURL", "null"),
        ("content", "null"),
    ] {
        let column: Vec<Box<RawValue>> = sources.parse(key)?;
        let unusual = column.iter().enumerate().filter(|(_, value)| value.get() != usual);
        details.extend(unusual.map(|(row, _)| row));
    }
    let frames: Object = shared.parse("frameTable")?;
    let positions: Indexes = frames.parse("originalLocation")?;
    Ok(Lost {
        source_details: details.len() as u64,
        original_positions: positions.iter().flatten().count() as u64,
    })
}
