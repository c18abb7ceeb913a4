//! Converts tables of any version to [`Data`]: checks every index, and makes equal texts and functions one.
//!
//! `tables`: what stacks are made of. `threads`: what happened.

mod tables;
mod threads;

use serde_json::Value;

use super::NotKept;
use super::extent::{FieldChoice, KeptField};
use super::meta::RawSchema;
use super::raw::{RawProfile, RawTables, frame_flag};
use crate::data::{Category, Counter, Data, Fields, ForViews, Func, NONE, RowValue, Script, TextFields};
use crate::function_files::merge_functions_of_symbols;
use crate::sources::adopt;
use crate::unique::Unique;

/// The fault and its place: `threads[2].samples.stack[7] is 99, but there are 50 stacks`.
pub(super) type TableFault = String;

/// From this version on, all threads share stacks, frames and functions.
const SHARED_TABLES: u32 = 60;
/// From this version on, all threads share texts.
const SHARED_TEXTS: u32 = 56;
const SOURCES: u32 = 58;
const PREFIX_OFFSETS: u32 = 66;
const LIBS_OF_FRAMES: u32 = 70;
const FLAGS_OF_FRAMES: u32 = 71;
const FLAGS_OF_FUNCS: u32 = 75;

pub(super) fn normalize<E: FieldChoice>(
    mut raw: RawProfile<E>,
    version: u32,
) -> Result<(Data, ForViews, NotKept), TableFault> {
    let known = raw.meta.known;
    let schemas = known.marker_schema.unwrap_or_default();
    let mut meta = raw.meta.all.take();
    let all_schemas = match meta.remove("markerSchema") {
        Some(Value::Array(schemas)) => schemas,
        _ => Vec::new(),
    };
    let mut normal = Normalizer {
        version,
        text_fields: TextFields::from_schemas(&all_schemas),
        data: Data {
            product: known.product.unwrap_or_default(),
            imported_from: known.imported_from.unwrap_or_default(),
            arguments: known.arguments.unwrap_or_default(),
            os: known.oscpu.unwrap_or_default(),
            cpu: known.cpu_name.unwrap_or_default(),
            start_ms: known.start_time.unwrap_or(0.0),
            starts_with_recording: known.source_code_is_not_on_searchfox && known.profiling_start_time.is_none(),
            duration_ms: (known.profiling_end_time).map(|end| end - known.profiling_start_time.unwrap_or(0.0)),
            extra: known.extra.unwrap_or_default(),
            interval_ms: known.interval.unwrap_or(1.0),
            symbolicated: known.symbolicated.unwrap_or(true),
            categories: categories(known.categories, known.sprof.is_some()),
            libs: std::mem::take(&mut raw.libs),
            schemas: all_schemas,
            meta,
            rest: raw.rest.take(),
            counters: (std::mem::take(&mut raw.counters).unwrap_or_default().into_iter())
                .map(counter)
                .collect(),
            ..Data::default()
        },
        texts: Unique::default(),
        funcs: Unique::default(),
        scripts: Unique::default(),
        windows: Unique::default(),
    };
    let sources = std::mem::take(&mut raw.shared.sources.rest).take();
    let frames = &raw.shared.frame_table;
    let positions = (0..).zip(&frames.original_location.0);
    let positions =
        positions.filter(|(frame, position)| **position != NONE && has_line((&frames.line.0, &frames.flags.0), *frame));
    let not_kept = NotKept {
        source_details: source_details(&sources),
        original_positions: positions.count() as u64,
    };
    let for_views = ForViews {
        facts: known.sprof.unwrap_or_default(),
        periods: schemas.into_iter().filter_map(period).collect(),
        zero_ms: known.profiling_start_time,
    };
    // The data's index of each of the file's items.
    let mut shared = FileIndices::default();
    if version >= SHARED_TEXTS {
        shared.texts = normal.texts(std::mem::take(&mut raw.shared.string_array.0));
    }
    if version >= SOURCES {
        let files = IndexColumn("shared", "sources.filename", &raw.shared.sources.filename.0);
        shared.sources = (0..files.2.len())
            .map(|index| Ok(id(&shared.texts, files.optional(index, shared.texts.len(), "texts")?)))
            .collect::<Result<_, TableFault>>()?;
        for (text, content) in shared
            .sources
            .iter()
            .zip(std::mem::take(&mut raw.shared.sources.content.0))
        {
            if let (Some(path), Some(content)) = (normal.texts.all.get(*text as usize), content) {
                let source = [(path.clone(), Some(content))].into_iter().collect();
                adopt(&mut normal.data.sources, source);
            }
        }
    }
    if version >= SHARED_TABLES {
        normal.tables(raw.shared, &shared, "shared")?;
    }
    for (index, mut thread) in raw.threads.into_iter().enumerate() {
        let at = format!("threads[{index}]");
        let own;
        let places = match version >= SHARED_TEXTS {
            true => &shared,
            false => {
                own = FileIndices {
                    texts: normal.texts(std::mem::take(&mut thread.tables.string_array.0)),
                    ..FileIndices::default()
                };
                &own
            }
        };
        let mut first_stack = 0;
        if version < SHARED_TABLES {
            first_stack = normal.data.stacks.len();
            normal.tables(std::mem::take(&mut thread.tables), places, &at)?;
        }
        normal.thread(thread, &places.texts, first_stack, &at)?;
    }
    let Normalizer {
        mut data,
        texts,
        funcs,
        scripts,
        windows,
        ..
    } = normal;
    (data.texts, data.funcs) = (texts.all, funcs.all);
    (data.scripts, data.windows) = (scripts.all, windows.all);
    merge_functions_of_symbols(&mut data);
    if !E::HAS_SYMBOLS {
        data.symbols = Vec::new();
        data.frames.iter_mut().for_each(|frame| frame.symbol = NONE);
    }
    Ok((data, for_views, not_kept))
}

/// Number of source files with more than a name.
fn source_details(sources: &Fields) -> u64 {
    let columns = ["id", "uuid", "startLine", "startColumn", "sourceMapURL"];
    let columns = columns.into_iter().filter_map(|key| sources.get(key)?.as_array());
    let mut detailed = std::collections::BTreeSet::new();
    for column in columns {
        let unusual = column
            .iter()
            .enumerate()
            .filter(|(_, value)| !(value.is_null() || **value == 1));
        detailed.extend(unusual.map(|(row, _)| row));
    }
    detailed.len() as u64
}

/// An event whose markers are samples, and the number of events for each marker.
fn period(schema: RawSchema) -> Option<(String, f64)> {
    match schema.period {
        RowValue::Number(period) => Some((schema.name, period.as_f64()?)),
        RowValue::Text(_) | RowValue::Other(_) | RowValue::None => None,
    }
}

/// Profiles of sprof had no `isWait` at first: their waits have these names.
fn categories(mut categories: Vec<Category>, is_of_sprof: bool) -> Vec<Category> {
    if is_of_sprof && !categories.iter().any(|category| category.is_wait) {
        for category in &mut categories {
            category.is_wait = matches!(&*category.name, "Off-CPU" | "Waiting for a CPU");
        }
    }
    categories
}

fn counter(mut fields: Fields) -> Counter {
    let thread = fields.remove("mainThreadIndex").and_then(|thread| thread.as_u64());
    Counter {
        thread: thread.and_then(|thread| u32::try_from(thread).ok()).unwrap_or(NONE),
        fields,
    }
}

/// The data's index of each text and source of the file.
#[derive(Default)]
struct FileIndices {
    texts: Vec<u32>,
    /// The text of each source's path.
    sources: Vec<u32>,
}

struct Normalizer {
    version: u32,
    text_fields: TextFields,
    data: Data,
    texts: Unique<Box<str>>,
    funcs: Unique<Func>,
    scripts: Unique<Script>,
    windows: Unique<u64>,
}

impl Normalizer {
    /// The data's index of each text of a list.
    fn texts(&mut self, texts: Vec<Box<str>>) -> Vec<u32> {
        texts.into_iter().map(|text| self.texts.index(text)).collect()
    }

    /// Adds the tables of a thread, or of all threads.
    fn tables<E: FieldChoice>(&mut self, raw: RawTables<E>, places: &FileIndices, at: &str) -> Result<(), TableFault> {
        let first_symbol = self.data.symbols.len();
        self.symbols(&raw.native_symbols, places, at)?;
        let funcs = self.funcs(raw.func_table, raw.resource_table, places, at)?;
        let first_frame = self.data.frames.len();
        self.frames(
            raw.frame_table,
            &funcs,
            first_symbol,
            (&raw.source_location_table, places),
            at,
        )?;
        self.stacks(&raw.stack_table, first_frame, at)
    }
}

/// True if a frame has a line of its function's file.
fn has_line((lines, flags): (&[u32], &[u32]), frame: usize) -> bool {
    let has_flag = |flags: &u32| flags & frame_flag::LINE != 0;
    let line = lines.get(frame).filter(|line| **line != NONE);
    line.is_some() && flags.get(frame).is_none_or(has_flag)
}

/// A column of indices, with its place and name in the file.
struct IndexColumn<'a>(&'a str, &'a str, &'a [u32]);

impl IndexColumn<'_> {
    /// [`NONE`] if the column is shorter or absent.
    fn get(&self, index: usize) -> u32 {
        self.2.get(index).copied().unwrap_or(NONE)
    }

    /// A required number.
    fn value(&self, index: usize) -> Result<u32, TableFault> {
        match self.get(index) {
            NONE => Err(format!("{}.{}[{index}] is missing", self.0, self.1)),
            value => Ok(value),
        }
    }

    fn optional(&self, index: usize, count: usize, of: &str) -> Result<u32, TableFault> {
        match self.get(index) {
            NONE => Ok(NONE),
            value if (value as usize) < count => Ok(value),
            value => Err(beyond(&format!("{}.{}[{index}]", self.0, self.1), value, count, of)),
        }
    }

    fn required(&self, index: usize, count: usize, of: &str) -> Result<u32, TableFault> {
        self.value(index)?;
        self.optional(index, count, of)
    }
}

fn beyond(place: &str, value: u32, count: usize, of: &str) -> TableFault {
    format!("{place} is {value}, but there are {count} {of}")
}

fn id(ids: &[u32], index: u32) -> u32 {
    ids.get(index as usize).copied().unwrap_or(NONE)
}
