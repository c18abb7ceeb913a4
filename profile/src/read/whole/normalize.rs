//! Converts tables of any version to [`Data`]: checks every index, and makes equal texts and functions one.

use serde_json::Value;

use super::NotKept;
use super::columns::{Ids, NumberColumn};
use super::extent::{FieldChoice, KeptField, MarkerData};
use super::meta::{RawCause, RawSchema};
use super::raw::{
    RawFrames, RawFuncs, RawLocations, RawMarkers, RawProfile, RawResources, RawSamples, RawStacks, RawTables,
    RawThread,
};
use super::raw::{RawSymbols, frame_flag, func_flag};
use crate::data::facts::without_event;
use crate::data::{
    Category, Counter, Data, Fields, ForViews, Frame, Func, Marker, MarkerPhase, NONE, RowValue, Samples, Script,
    ScriptOrigin,
};
use crate::data::{Stack, Symbol, TextFields, Thread, WeightUnit, map_stacks_of_allocations};
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
            counters: (raw.counters.take().unwrap_or_default().into_iter())
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

    fn symbols(&mut self, raw: &RawSymbols, places: &FileIndices, at: &str) -> Result<(), TableFault> {
        let libs = IndexColumn(at, "nativeSymbols.libIndex", &raw.lib_index.0);
        let names = IndexColumn(at, "nativeSymbols.name", &raw.name.0);
        for index in 0..names.2.len() {
            let name = names.required(index, places.texts.len(), "texts")?;
            self.data.symbols.push(Symbol {
                lib: libs.required(index, self.data.libs.len(), "libraries")?,
                address: raw.address.0.get(index).copied().flatten().unwrap_or(0),
                name: id(&places.texts, name),
                size: raw.function_size.0.get(index).copied().flatten(),
            });
        }
        Ok(())
    }

    /// The functions of the table, with the libraries of their resources, and properties of script functions.
    fn funcs<E: FieldChoice>(
        &self,
        raw: RawFuncs<E>,
        resources: RawResources<E>,
        places: &FileIndices,
        at: &str,
    ) -> Result<Vec<(Func, Option<Script>)>, TableFault> {
        let texts = &places.texts;
        let names = IndexColumn(at, "funcTable.name", &raw.name.0);
        let resource_of = IndexColumn(at, "funcTable.resource", &raw.resource.0);
        let (files, file_ids) = match self.version >= SOURCES {
            true => (IndexColumn(at, "funcTable.source", &raw.source.0), &places.sources),
            false => (IndexColumn(at, "funcTable.fileName", &raw.file_name.0), texts),
        };
        let krates = IndexColumn(at, "funcTable.crate", &raw.krate.0);
        let flags = IndexColumn(at, "funcTable.flags", &raw.flags.0);
        let has_flags = self.version >= FLAGS_OF_FUNCS;
        let resource_libs = &resources.lib.0;
        let scripts = ScriptColumns {
            is_js: raw.is_js.take(),
            relevant_for_js: raw.relevant_for_js.take(),
            line: raw.line_number.take(),
            column: raw.column_number.take(),
            resource_name: resources.name.take(),
            resource_host: resources.host.take(),
            resource_type: resources.r#type.take(),
        };
        (0..names.2.len())
            .map(|index| {
                let flags = if has_flags { flags.value(index)? } else { u32::MAX };
                let file = match flags & func_flag::SOURCE != 0 {
                    true => files.optional(index, file_ids.len(), "sources")?,
                    false => NONE,
                };
                let resource = match flags & func_flag::RESOURCE != 0 && self.version < LIBS_OF_FRAMES {
                    true => resource_of.optional(index, resource_libs.len(), "resources")?,
                    false => NONE,
                };
                let lib = id(resource_libs, resource);
                let func = Func {
                    name: id(texts, names.required(index, texts.len(), "texts")?),
                    lib: self.lib(lib, || format!("{at}.resourceTable.lib[{resource}]"))?,
                    file: id(file_ids, file),
                    script: NONE,
                    krate: id(texts, krates.optional(index, texts.len(), "texts")?),
                };
                Ok((func, scripts.of(index, resource_of.get(index), texts)))
            })
            .collect()
    }

    fn lib(&self, lib: u32, place: impl Fn() -> String) -> Result<u32, TableFault> {
        let count = self.data.libs.len();
        match lib == NONE || (lib as usize) < count {
            true => Ok(lib),
            false => Err(beyond(&place(), lib, count, "libraries")),
        }
    }

    fn frames<E: FieldChoice>(
        &mut self,
        raw: RawFrames<E>,
        funcs: &[(Func, Option<Script>)],
        first_symbol: usize,
        (locations, places): (&RawLocations, &FileIndices),
        at: &str,
    ) -> Result<(), TableFault> {
        let location = IndexColumn(at, "frameTable.originalLocation", &raw.original_location.0);
        let sources = IndexColumn(at, "sourceLocationTable.source", &locations.source.0);
        let (lines, columns) = (&locations.line.0, &locations.column.0);
        let locations = |index| -> Result<Option<(u32, u32, u32)>, TableFault> {
            if has_line((&raw.line.0, &raw.flags.0), index) {
                return Ok(None);
            }
            match location.optional(index, sources.2.len(), "locations")? {
                NONE => Ok(None),
                at => {
                    let source = sources.optional(at as usize, places.sources.len(), "sources")?;
                    let column = Some(id(columns, at)).filter(|column| *column > 0);
                    Ok(Some((
                        id(&places.sources, source),
                        id(lines, at),
                        column.unwrap_or(NONE),
                    )))
                }
            }
        };
        let columns = raw.column.take();
        let windows = raw.inner_window_id.take();
        let column = IndexColumn(at, "frameTable.column", &columns.0);
        let subcategory = IndexColumn(at, "frameTable.subcategory", &raw.subcategory.0);
        let symbol = IndexColumn(at, "frameTable.nativeSymbol", &raw.native_symbol.0);
        let symbol_count = self.data.symbols.len() - first_symbol;
        let func = IndexColumn(at, "frameTable.func", &raw.func.0);
        let line = IndexColumn(at, "frameTable.line", &raw.line.0);
        let category = IndexColumn(at, "frameTable.category", &raw.category.0);
        let inline_depth = IndexColumn(at, "frameTable.inlineDepth", &raw.inline_depth.0);
        let libs = IndexColumn(at, "frameTable.lib", &raw.lib.0);
        let flags = IndexColumn(at, "frameTable.flags", &raw.flags.0);
        let count = func.2.len();
        self.data.frames.reserve_exact(count);
        for index in 0..count {
            let &(mut of, ref script) = &funcs[func.required(index, funcs.len(), "functions")? as usize];
            // Script properties are in the order in which frames refer to them. Writing the data and reading it again
            // gives the same order.
            of.script = match script {
                Some(script) => (self.scripts.get(script)).unwrap_or_else(|| self.scripts.index(script.clone())),
                None => NONE,
            };
            let flags = match self.version >= FLAGS_OF_FRAMES {
                true => flags.value(index)?,
                false => u32::MAX ^ frame_flag::INLINED,
            };
            let has = |flag: u32| flags & flag != 0;
            if self.version >= LIBS_OF_FRAMES && has(frame_flag::ADDRESS_AND_LIB) {
                of.lib = self.lib(libs.get(index), || format!("{at}.frameTable.lib[{index}]"))?;
            }
            let categories = self.data.categories.len();
            let category = match has(frame_flag::CATEGORY) {
                true => category.optional(index, categories, "categories")?,
                false => NONE,
            };
            let address = raw.address.0.get(index).copied().flatten();
            let depth = match inline_depth.get(index) {
                0 | NONE => has(frame_flag::INLINED).into(),
                depth => u16::try_from(depth).unwrap_or(u16::MAX),
            };
            let symbol = match has(frame_flag::NATIVE_SYMBOL) {
                true => symbol.optional(index, symbol_count, "native symbols")?,
                false => NONE,
            };
            let own_line = if has(frame_flag::LINE) { line.get(index) } else { NONE };
            let elsewhere = locations(index)?;
            let (line_file, line, column) = elsewhere.unwrap_or((NONE, own_line, column.get(index)));
            let frame = Frame {
                func: self.funcs.index(of),
                line,
                line_file: if line == NONE || line_file == of.file {
                    NONE
                } else {
                    line_file
                },
                column,
                category,
                subcategory: u16::try_from(subcategory.get(index)).unwrap_or(0),
                inline_depth: depth,
                symbol: if symbol == NONE {
                    NONE
                } else {
                    first_symbol as u32 + symbol
                },
                lib: of.lib,
                window: self.window(windows.0.get(index).copied()),
                address: address.filter(|_| has(frame_flag::ADDRESS_AND_LIB)),
            };
            self.data.frames.push(frame);
        }
        Ok(())
    }

    /// JavaScript converts the id to a double: 64-bit -1 becomes 18446744073709552000.
    fn window(&mut self, id: Option<f64>) -> u32 {
        let id = id.filter(|id| !id.is_nan());
        id.map_or(NONE, |id| self.windows.index(id as u64))
    }

    fn stacks(&mut self, raw: &RawStacks, first_frame: usize, at: &str) -> Result<(), TableFault> {
        let frames = IndexColumn(at, "stackTable.frame", &raw.frame.0);
        let prefixes = IndexColumn(at, "stackTable.prefix", &raw.prefix.0);
        let offsets = IndexColumn(at, "stackTable.prefixOffset", &raw.prefix_offset.0);
        let frame_count = self.data.frames.len() - first_frame;
        let first_stack = self.data.stacks.len();
        let count = frames.2.len();
        if u32::try_from(first_stack + count).is_err() {
            return Err(format!("{at}.stackTable: more than {NONE} stacks"));
        }
        self.data.stacks.reserve_exact(count);
        for index in 0..count {
            let prefix = match self.version >= PREFIX_OFFSETS {
                true => match offsets.value(index)? as usize {
                    0 => None,
                    offset => Some(index.checked_sub(offset).ok_or_else(|| {
                        format!("{at}.stackTable.prefixOffset[{index}] is {offset}: before the first stack")
                    })?),
                },
                false => match prefixes.get(index) {
                    NONE => None,
                    prefix if (prefix as usize) < index => Some(prefix as usize),
                    prefix => {
                        return Err(format!(
                            "{at}.stackTable.prefix[{index}] is {prefix}: a stack comes after that of its caller"
                        ));
                    }
                },
            };
            let frame = first_frame as u32 + frames.required(index, frame_count, "frames")?;
            self.data.stacks.push(Stack {
                prefix: prefix.map_or(NONE, |prefix| (first_stack + prefix) as u32),
                frame,
            });
        }
        Ok(())
    }

    fn thread<E: FieldChoice>(
        &mut self,
        raw: RawThread<E>,
        texts: &[u32],
        first_stack: usize,
        at: &str,
    ) -> Result<(), TableFault> {
        let unit = match raw.samples.weight_type.as_deref() {
            Some("tracing-ms") => WeightUnit::Milliseconds,
            Some("bytes") => WeightUnit::Bytes,
            _ if raw.event.is_some() => WeightUnit::Counts,
            _ => WeightUnit::Samples,
        };
        let samples = self.samples(raw.samples, first_stack, at)?;
        let markers = self.markers(raw.markers, texts, first_stack, at)?;
        let mut rest = raw.rest.take();
        // Its texts refer to a table that is rebuilt here.
        rest.remove("jsTracer");
        map_stacks_of_allocations(&mut rest, |stack| stack.saturating_add(first_stack as u32));
        let counted = raw.event.as_deref().filter(|_| raw.event_of.is_none());
        let name = counted
            .and_then(|event| without_event(&raw.name, event))
            .map(str::to_owned);
        self.data.threads.push(Thread {
            process_name: raw.process_name.unwrap_or_default(),
            pid: raw.pid.into_text(),
            tid: raw.tid.into_text(),
            is_main: raw.is_main_thread || raw.name == "GeckoMain",
            name: name.unwrap_or(raw.name),
            event: raw.event,
            event_of: raw.event_of,
            unit,
            samples,
            markers,
            rest,
        });
        Ok(())
    }

    fn markers<E: FieldChoice>(
        &self,
        raw: RawMarkers<E>,
        texts: &[u32],
        first_stack: usize,
        at: &str,
    ) -> Result<Vec<Marker>, TableFault> {
        let names = IndexColumn(at, "markers.name", &raw.name.0);
        let (phases, categories) = (raw.phase.take(), raw.category.take());
        let (phases, categories) = (
            IndexColumn(at, "markers.phase", &phases.0),
            IndexColumn(at, "markers.category", &categories.0),
        );
        let time = |times: &[f64], index: usize| times.get(index).copied().filter(|time| !time.is_nan());
        let stacks = self.data.stacks.len() - first_stack;
        let mut data = raw.data.into_iter();
        (0..names.2.len())
            .map(|index| {
                let (start, end) = (time(&raw.start_time.0, index), time(&raw.end_time.0, index));
                let phase = match phases.get(index) {
                    1 => MarkerPhase::Interval,
                    2 => MarkerPhase::Start,
                    3 => MarkerPhase::End,
                    NONE if end.is_some_and(|end| start.is_none_or(|start| start <= end)) => MarkerPhase::Interval,
                    _ => MarkerPhase::Instant,
                };
                // Firefox writes 0 for the time that the phase lacks.
                let (start, end) = match phase {
                    MarkerPhase::Interval => (start.or(end), end.or(start)),
                    MarkerPhase::Instant | MarkerPhase::Start => (start.or(end), start.or(end)),
                    MarkerPhase::End => (end.or(start), end.or(start)),
                };
                let (cause, fields) = data.next().flatten().map_or((RawCause::None, None), MarkerData::split);
                let (stack, weight) = match cause {
                    RawCause::Stack { stack, weight } => (stack.unwrap_or(NONE), weight),
                    RawCause::Other(_) | RawCause::None => (NONE, None),
                };
                if stack != NONE && stack as usize >= stacks {
                    let place = format!("{at}.markers.data[{index}].cause.stack");
                    return Err(beyond(&place, stack, stacks, "stacks"));
                }
                Ok(Marker {
                    name: id(texts, names.required(index, texts.len(), "texts")?),
                    start_ms: start.unwrap_or(0.0),
                    end_ms: end.unwrap_or(0.0),
                    phase,
                    category: match categories.get(index) {
                        NONE => 0,
                        category => category,
                    },
                    stack: if stack == NONE {
                        NONE
                    } else {
                        stack + first_stack as u32
                    },
                    weight,
                    fields: fields.map(|mut fields| {
                        self.text_fields.map(&mut fields, |text| id(texts, text));
                        Box::new(fields)
                    }),
                })
            })
            .collect()
    }

    fn samples<E: FieldChoice>(
        &mut self,
        raw: RawSamples<E>,
        first_stack: usize,
        at: &str,
    ) -> Result<Samples, TableFault> {
        let mut stack = raw.stack.0;
        let count = stack.len();
        if raw.length.is_some_and(|length| length != count as u64) {
            return Err(format!(
                "{at}.samples.length is {}, but {count} stacks are listed",
                raw.length.unwrap_or(0)
            ));
        }
        let stacks = self.data.stacks.len() - first_stack;
        for (index, stack) in stack.iter_mut().enumerate().filter(|(_, stack)| **stack != NONE) {
            if *stack as usize >= stacks {
                return Err(beyond(
                    &format!("{at}.samples.stack[{index}]"),
                    *stack,
                    stacks,
                    "stacks",
                ));
            }
            *stack += first_stack as u32;
        }
        let mut time_ms = raw.time.0;
        if time_ms.is_empty() {
            time_ms = raw.time_deltas.0;
            let mut now = 0.0;
            for time in &mut time_ms {
                now += *time;
                *time = now;
            }
            // For a thread without samples, the front end writes one difference: `null`.
            if count == 0 {
                time_ms.clear();
            }
        }
        let same_length = |length: usize, column: &str| match length == count {
            true => Ok(()),
            false => Err(format!(
                "{at}.samples.{column} has {length} values, but there are {count} samples"
            )),
        };
        same_length(time_ms.len(), "time")?;
        let weight = Some(raw.weight.0).filter(|weights| !weights.is_empty());
        if let Some(weights) = &weight {
            same_length(weights.len(), "weight")?;
        }
        let own_count = Some(raw.count.0).filter(|counts| !counts.is_empty());
        if let Some(counts) = &own_count {
            same_length(counts.len(), "count")?;
        }
        let cpu_delta = raw.thread_cpu_delta.take().map(|NumberColumn(deltas)| deltas);
        Ok(Samples {
            cpu_delta: cpu_delta.filter(|deltas| deltas.len() == count),
            rest: raw.rest.take(),
            time_ms,
            stack,
            weight,
            count: own_count.map(|counts| counts.into_iter().map(|count| count as u64).collect()),
        })
    }
}

/// Columns that only script functions fill.
struct ScriptColumns {
    is_js: Ids,
    relevant_for_js: Ids,
    line: Ids,
    column: Ids,
    resource_name: Ids,
    resource_host: Ids,
    resource_type: Ids,
}

impl ScriptColumns {
    /// `ResourceType.Library`: its functions are native.
    const LIBRARY: u32 = 1;

    /// The script properties of the function at this index; `None` for native functions.
    fn of(&self, index: usize, resource: u32, texts: &[u32]) -> Option<Script> {
        let get = |column: &Ids, index: usize| column.0.get(index).copied().unwrap_or(NONE);
        let kind = get(&self.resource_type, resource as usize);
        let script = Script {
            is_js: get(&self.is_js, index) == 1,
            relevant_for_js: get(&self.relevant_for_js, index) == 1,
            line: get(&self.line, index),
            column: get(&self.column, index),
            resource: (!matches!(kind, Self::LIBRARY | NONE)).then(|| ScriptOrigin {
                name: id(texts, get(&self.resource_name, resource as usize)),
                host: id(texts, get(&self.resource_host, resource as usize)),
                kind,
            }),
        };
        let is_native = !script.is_js
            && !script.relevant_for_js
            && (script.line, script.column) == (NONE, NONE)
            && script.resource.is_none();
        (!is_native).then_some(script)
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
