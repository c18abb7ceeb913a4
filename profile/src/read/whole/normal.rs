//! From the tables of any version to [`Data`]: every index is checked, equal texts and functions become one.

use rustc_hash::FxHashMap;

use super::end;
use super::raw::{RawCause, RawSchema, frame_flag, func_flag};
use super::raw::{RawFrames, RawFuncs, RawMarkers, RawProfile, RawSamples, RawStacks, RawTables, RawThread};
use crate::view::data::RowValue;
use crate::view::data::{Data, Frame, Func, Marker, NONE, Samples, Stack, Thread, Unit};

/// What is wrong with which part: `threads[2].samples.stack[7] is 99, but there are 50 stacks`.
pub(super) type Wrong = String;

/// From this version on stacks, frames and functions are shared by all threads.
const SHARED_TABLES: u32 = 60;
/// From this version on texts are.
const SHARED_TEXTS: u32 = 56;
const SOURCES: u32 = 58;
const PREFIX_OFFSETS: u32 = 66;
const LIBS_OF_FRAMES: u32 = 70;
const FLAGS_OF_FRAMES: u32 = 71;
const FLAGS_OF_FUNCS: u32 = 75;

pub(super) fn normalize(mut raw: RawProfile, version: u32) -> Result<Data, Wrong> {
    let schemas = raw.meta.marker_schema.take().unwrap_or_default();
    let mut normal = Normal {
        version,
        periods: schemas.into_iter().filter_map(period).collect(),
        of_points: Vec::new(),
        data: Data {
            product: std::mem::take(&mut raw.meta.product).unwrap_or_default(),
            imported_from: std::mem::take(&mut raw.meta.imported_from).unwrap_or_default(),
            arguments: std::mem::take(&mut raw.meta.arguments).unwrap_or_default(),
            os: std::mem::take(&mut raw.meta.oscpu).unwrap_or_default(),
            cpu: std::mem::take(&mut raw.meta.cpu_name).unwrap_or_default(),
            start_ms: raw.meta.start_time.unwrap_or(0.0),
            duration_ms: (raw.meta.profiling_end_time).map(|end| end - raw.meta.profiling_start_time.unwrap_or(0.0)),
            extra: raw.meta.extra.take().unwrap_or_default(),
            interval_ms: raw.meta.interval.unwrap_or(1.0),
            symbolicated: raw.meta.symbolicated.unwrap_or(true),
            categories: raw.meta.categories.drain(..).map(|category| category.name).collect(),
            libs: std::mem::take(&mut raw.libs),
            ..Data::default()
        },
        texts: FxHashMap::default(),
        funcs: FxHashMap::default(),
    };
    // Where things of the file stand in the data.
    let mut shared = Places::default();
    if version >= SHARED_TEXTS {
        shared.texts = normal.texts(std::mem::take(&mut raw.shared.string_array.0));
    }
    if version >= SOURCES {
        let files = Column("shared", "sources.filename", &raw.shared.sources.filename.0);
        shared.sources = (0..files.2.len())
            .map(|index| Ok(id(&shared.texts, files.optional(index, shared.texts.len(), "texts")?)))
            .collect::<Result<_, Wrong>>()?;
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
                own = Places {
                    texts: normal.texts(std::mem::take(&mut thread.string_array.0)),
                    ..Places::default()
                };
                &own
            }
        };
        let mut first_stack = 0;
        if version < SHARED_TABLES {
            first_stack = normal.data.stacks.len();
            let tables = RawTables {
                stack_table: std::mem::take(&mut thread.stack_table),
                frame_table: std::mem::take(&mut thread.frame_table),
                func_table: std::mem::take(&mut thread.func_table),
                resource_table: std::mem::take(&mut thread.resource_table),
                ..RawTables::default()
            };
            normal.tables(tables, places, &at)?;
        }
        normal.thread(thread, &places.texts, first_stack, &at)?;
    }
    let facts = raw.meta.sprof.unwrap_or_default();
    if !facts.restore(&mut normal.data) {
        end::count_equal_weights(&mut normal.data);
    }
    normal.data.point_events = normal.periods.into_keys().collect();
    normal.data.point_events.sort();
    // Behind all others: CPU time is what a file is of, unless it has none.
    normal.data.threads.append(&mut normal.of_points);
    end::begin_at(&mut normal.data, raw.meta.profiling_start_time);
    normal.data.unit = end::unit_of_first(&normal.data);
    Ok(normal.data)
}

/// An event whose markers are samples, and what each of these stands for.
fn period(schema: RawSchema) -> Option<(String, f64)> {
    match schema.period {
        RowValue::Number(period) => Some((schema.name, period.as_f64()?)),
        RowValue::Text(_) | RowValue::Other(_) | RowValue::None => None,
    }
}

/// Where in the data the texts and sources of the file are.
#[derive(Default)]
struct Places {
    texts: Vec<u32>,
    /// The text of each source's path.
    sources: Vec<u32>,
}

struct Normal {
    version: u32,
    /// Of the events whose markers are samples.
    periods: FxHashMap<String, f64>,
    /// A thread for each event beside each thread that has markers of it.
    of_points: Vec<Thread>,
    data: Data,
    texts: FxHashMap<Box<str>, u32>,
    funcs: FxHashMap<Func, u32>,
}

impl Normal {
    /// Where each text of a list stands in the data.
    fn texts(&mut self, texts: Vec<Box<str>>) -> Vec<u32> {
        texts.into_iter().map(|text| self.text(text)).collect()
    }

    fn text(&mut self, text: Box<str>) -> u32 {
        let next = self.data.texts.len() as u32;
        let id = *self.texts.entry(text.clone()).or_insert(next);
        if id == next {
            self.data.texts.push(text);
        }
        id
    }

    /// Adds the tables of a thread, or of all threads.
    fn tables(&mut self, raw: RawTables, places: &Places, at: &str) -> Result<(), Wrong> {
        let funcs = self.funcs(&raw.func_table, places, &raw.resource_table.lib.0, at)?;
        let first_frame = self.data.frames.len();
        self.frames(&raw.frame_table, &funcs, at)?;
        self.stacks(&raw.stack_table, first_frame, at)
    }

    /// A function of each of the table's, with the library of its resource.
    fn funcs(&self, raw: &RawFuncs, places: &Places, resource_libs: &[u32], at: &str) -> Result<Vec<Func>, Wrong> {
        let texts = &places.texts;
        let names = Column(at, "funcTable.name", &raw.name.0);
        let resources = Column(at, "funcTable.resource", &raw.resource.0);
        let (files, file_ids) = match self.version >= SOURCES {
            true => (Column(at, "funcTable.source", &raw.source.0), &places.sources),
            false => (Column(at, "funcTable.fileName", &raw.file_name.0), texts),
        };
        let flags = Column(at, "funcTable.flags", &raw.flags.0);
        let has_flags = self.version >= FLAGS_OF_FUNCS;
        (0..names.2.len())
            .map(|index| {
                let flags = if has_flags { flags.value(index)? } else { u32::MAX };
                let file = match flags & func_flag::SOURCE != 0 {
                    true => files.optional(index, file_ids.len(), "sources")?,
                    false => NONE,
                };
                let resource = match flags & func_flag::RESOURCE != 0 && self.version < LIBS_OF_FRAMES {
                    true => resources.optional(index, resource_libs.len(), "resources")?,
                    false => NONE,
                };
                let lib = id(resource_libs, resource);
                Ok(Func {
                    name: id(texts, names.required(index, texts.len(), "texts")?),
                    lib: self.lib(lib, || format!("{at}.resourceTable.lib[{resource}]"))?,
                    file: id(file_ids, file),
                })
            })
            .collect()
    }

    fn lib(&self, lib: u32, place: impl Fn() -> String) -> Result<u32, Wrong> {
        let count = self.data.libs.len();
        match lib == NONE || (lib as usize) < count {
            true => Ok(lib),
            false => Err(beyond(&place(), lib, count, "libraries")),
        }
    }

    fn frames(&mut self, raw: &RawFrames, funcs: &[Func], at: &str) -> Result<(), Wrong> {
        let func = Column(at, "frameTable.func", &raw.func.0);
        let line = Column(at, "frameTable.line", &raw.line.0);
        let category = Column(at, "frameTable.category", &raw.category.0);
        let inline_depth = Column(at, "frameTable.inlineDepth", &raw.inline_depth.0);
        let libs = Column(at, "frameTable.lib", &raw.lib.0);
        let flags = Column(at, "frameTable.flags", &raw.flags.0);
        let count = func.2.len();
        self.data.frames.reserve_exact(count);
        for index in 0..count {
            let mut of = funcs[func.required(index, funcs.len(), "functions")? as usize];
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
            let inlined = has(frame_flag::INLINED) || !matches!(inline_depth.get(index), 0 | NONE);
            let frame = Frame {
                func: self.func(of),
                line: if has(frame_flag::LINE) { line.get(index) } else { NONE },
                category,
                lib: of.lib,
                address: address.filter(|_| has(frame_flag::ADDRESS_AND_LIB)),
                inlined,
            };
            self.data.frames.push(frame);
        }
        Ok(())
    }

    fn func(&mut self, func: Func) -> u32 {
        let next = self.data.funcs.len() as u32;
        let id = *self.funcs.entry(func).or_insert(next);
        if id == next {
            self.data.funcs.push(func);
        }
        id
    }

    fn stacks(&mut self, raw: &RawStacks, first_frame: usize, at: &str) -> Result<(), Wrong> {
        let frames = Column(at, "stackTable.frame", &raw.frame.0);
        let prefixes = Column(at, "stackTable.prefix", &raw.prefix.0);
        let offsets = Column(at, "stackTable.prefixOffset", &raw.prefix_offset.0);
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

    fn thread(&mut self, raw: RawThread, texts: &[u32], first_stack: usize, at: &str) -> Result<(), Wrong> {
        let unit = match raw.samples.weight_type.as_deref() {
            Some("tracing-ms") => Unit::Milliseconds,
            Some("bytes") => Unit::Bytes,
            _ if raw.event.is_some() => Unit::Counts,
            _ => Unit::Samples,
        };
        let samples = self.samples(raw.samples, first_stack, at)?;
        let markers = markers(&raw.markers, texts, at)?;
        let thread = Thread {
            process_name: raw.process_name.unwrap_or_default(),
            pid: raw.pid.into_text(),
            tid: raw.tid.into_text(),
            is_main: raw.is_main_thread || raw.name == "GeckoMain",
            name: raw.name,
            event: raw.event,
            unit,
            samples,
            markers,
        };
        self.points(&thread, &raw.markers, first_stack, at)?;
        self.data.threads.push(thread);
        Ok(())
    }

    /// Markers of events that happen at one time are samples of these, too, so that all views, exports and comparisons have them.
    fn points(&mut self, thread: &Thread, raw: &RawMarkers, first_stack: usize, at: &str) -> Result<(), Wrong> {
        let stacks = self.data.stacks.len() - first_stack;
        let mut points = Vec::new();
        for (index, (marker, data)) in thread.markers.iter().zip(&raw.data).enumerate() {
            let Some(period) = self.periods.get(self.data.text(marker.name)) else {
                continue;
            };
            let (stack, weight) = match data.as_ref().map(|data| &data.cause) {
                Some(RawCause::Stack { stack, weight }) => (*stack, weight.unwrap_or(*period)),
                Some(RawCause::Other(_) | RawCause::None) | None => (None, *period),
            };
            let stack = match stack {
                None => NONE,
                Some(stack) if (stack as usize) < stacks => stack + first_stack as u32,
                Some(stack) => {
                    return Err(beyond(
                        &format!("{at}.markers.data[{index}].cause.stack"),
                        stack,
                        stacks,
                        "stacks",
                    ));
                }
            };
            points.push(PointSample {
                name: marker.name,
                time_ms: marker.start_ms,
                stack,
                weight,
            });
        }
        let of_points = threads_of_points(points, thread, |name| self.data.text(name).to_owned());
        self.of_points.extend(of_points);
        Ok(())
    }

    fn samples(&mut self, raw: RawSamples, first_stack: usize, at: &str) -> Result<Samples, Wrong> {
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
        Ok(Samples {
            time_ms,
            stack,
            weight,
            count: own_count.map(|counts| counts.into_iter().map(|count| count as u64).collect()),
        })
    }
}

/// A marker of a point event, as a sample of that event.
pub(crate) struct PointSample {
    /// Index of the text that names the event.
    pub(crate) name: u32,
    /// Since the profile's time 0.
    pub(crate) time_ms: f64,
    /// Index of a stack, or [`NONE`].
    pub(crate) stack: u32,
    /// How many it stands for.
    pub(crate) weight: f64,
}

/// A thread for each event that a thread has points of.
pub(crate) fn threads_of_points(
    mut points: Vec<PointSample>,
    of: &Thread,
    name: impl Fn(u32) -> String,
) -> Vec<Thread> {
    points.sort_by(|a, b| a.name.cmp(&b.name).then(a.time_ms.total_cmp(&b.time_ms)));
    let by_event = points.chunk_by(|a, b| a.name == b.name);
    let threads = by_event.map(|points| {
        let event = name(points[0].name);
        Thread {
            name: format!("{} · {event}", of.name),
            process_name: of.process_name.clone(),
            pid: of.pid.clone(),
            tid: of.tid.clone(),
            is_main: false,
            event: Some(event),
            unit: Unit::Counts,
            samples: Samples {
                time_ms: points.iter().map(|point| point.time_ms).collect(),
                stack: points.iter().map(|point| point.stack).collect(),
                weight: Some(points.iter().map(|point| point.weight).collect()),
                count: None,
            },
            markers: Vec::new(),
        }
    });
    threads.collect()
}

fn markers(raw: &RawMarkers, texts: &[u32], at: &str) -> Result<Vec<Marker>, Wrong> {
    let names = Column(at, "markers.name", &raw.name.0);
    let time = |times: &[f64], index: usize| times.get(index).copied().filter(|time| !time.is_nan());
    (0..names.2.len())
        .map(|index| {
            let (start, end) = (time(&raw.start_time.0, index), time(&raw.end_time.0, index));
            Ok(Marker {
                name: id(texts, names.required(index, texts.len(), "texts")?),
                start_ms: start.or(end).unwrap_or(0.0),
                end_ms: end.or(start).unwrap_or(0.0),
            })
        })
        .collect()
}

/// A column of indices, with the place and the name that it has in the file.
struct Column<'a>(&'a str, &'a str, &'a [u32]);

impl Column<'_> {
    /// [`NONE`] where the column is shorter or absent.
    fn get(&self, index: usize) -> u32 {
        self.2.get(index).copied().unwrap_or(NONE)
    }

    /// A number that must be there.
    fn value(&self, index: usize) -> Result<u32, Wrong> {
        match self.get(index) {
            NONE => Err(format!("{}.{}[{index}] is missing", self.0, self.1)),
            value => Ok(value),
        }
    }

    fn optional(&self, index: usize, count: usize, of: &str) -> Result<u32, Wrong> {
        match self.get(index) {
            NONE => Ok(NONE),
            value if (value as usize) < count => Ok(value),
            value => Err(beyond(&format!("{}.{}[{index}]", self.0, self.1), value, count, of)),
        }
    }

    fn required(&self, index: usize, count: usize, of: &str) -> Result<u32, Wrong> {
        self.value(index)?;
        self.optional(index, count, of)
    }
}

fn beyond(place: &str, value: u32, count: usize, of: &str) -> Wrong {
    format!("{place} is {value}, but there are {count} {of}")
}

fn id(ids: &[u32], index: u32) -> u32 {
    ids.get(index as usize).copied().unwrap_or(NONE)
}
