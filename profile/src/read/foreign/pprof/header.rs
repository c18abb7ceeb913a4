//! A pprof profile without its samples.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::{ValueUnit, field, take};
use crate::data::blocks::variance_of_sum;
use crate::data::{NONE, WeightUnit};
use crate::pprof_fields::{CHOSEN_BYTES, function, line, location, mapping, profile, value_type};
use crate::read::ReadError;
use crate::read::foreign::source::ForeignFile;
use recording::protobuf::{FieldHead, FieldValue, MessageFault, MessageFields, numbers};

/// Go's heap profiles have four, most files one or two. Messages list them all.
const MAX_SAMPLE_TYPES: usize = 64;
/// Longest name. Each reference may copy it.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Kept comments; the others are counted.
const MAX_COMMENTS: usize = 100;

#[derive(Default)]
pub(super) struct PprofHeader {
    pub(super) texts: Vec<Box<str>>,
    /// Type and unit, as texts.
    pub(super) sample_types: Vec<(u64, u64)>,
    pub(super) mappings: Vec<PprofMapping>,
    lib_of: FxHashMap<u64, u32>,
    pub(super) locations: FxHashMap<u64, PprofLocation>,
    pub(super) lines: Vec<SourceLine>,
    pub(super) functions: FxHashMap<u64, PprofFunction>,
    /// For each function, a mapping with its code, and whether it was not inlined there. Only locations give mappings.
    mapping_of: FxHashMap<u64, (u64, bool)>,
    pub(super) drop_frames: u64,
    pub(super) keep_frames: u64,
    pub(super) time_ns: i64,
    pub(super) duration_ns: i64,
    period_type: (u64, u64),
    period: i64,
    pub(super) comments: Vec<u64>,
    /// Comments beyond [`MAX_COMMENTS`].
    pub(super) comments_left_out: u64,
    default_sample_type: u64,
    /// Its approximate memory in units of 8 bytes.
    pub(super) values: u64,
}

/// A mapped file. Names are texts.
#[derive(Default)]
pub(super) struct PprofMapping {
    id: u64,
    start: u64,
    offset: u64,
    pub(super) file: u64,
    pub(super) build_id: u64,
}

/// Blocks of memory that were chosen by chance, as Go, gperftools and jemalloc do: values stand for all blocks.
#[derive(Clone, Copy)]
pub(super) struct ChosenBlocks {
    /// Index of the value with the number of blocks.
    number_at: usize,
    /// Index of the value with their bytes.
    bytes_at: usize,
    /// True if the chosen value is the bytes.
    counts_bytes: bool,
    /// Mean distance of chosen bytes.
    interval: f64,
}

impl ChosenBlocks {
    /// The variance of the chosen value of a row, if all of its blocks have one size.
    pub(super) fn variance(&self, values: &[i64]) -> f64 {
        let [number, bytes] = [self.number_at, self.bytes_at].map(|at| values[at].unsigned_abs() as f64);
        variance_of_sum(number, bytes, self.interval, self.counts_bytes)
    }
}

#[derive(Default)]
pub(super) struct PprofLocation {
    pub(super) mapping: u64,
    pub(super) address: u64,
    first_line: usize,
    pub(super) line_count: usize,
}

impl PprofLocation {
    /// Indices of [`PprofHeader::lines`]; innermost first.
    pub(super) fn lines(&self) -> Range<usize> {
        self.first_line..self.first_line + self.line_count
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct SourceLine {
    pub(super) function: u64,
    pub(super) line: i64,
}

/// Texts.
#[derive(Default)]
pub(super) struct PprofFunction {
    pub(super) name: u64,
    pub(super) system_name: u64,
    pub(super) file: u64,
}

/// Reads everything except samples.
pub(super) fn read(source: &mut ForeignFile) -> Result<PprofHeader, ReadError> {
    let mut header = PprofHeader::default();
    let mut reader = source.read()?;
    let mut message = Vec::new();
    while let Some((number, start, content)) = field(&mut reader)? {
        match content {
            FieldHead::Number(value) => header.number(number, value),
            FieldHead::Bytes(len) if number == profile::SAMPLE => {
                if !reader.skip(len)? {
                    return Err(reader.cut_off());
                }
            }
            FieldHead::Bytes(len) => {
                take(&mut reader, start, len, &mut message)?;
                header.message(number, &message).map_err(|wrong| {
                    let what = format!("{}: {}", name_of(number), wrong.what);
                    reader.wrong_at(start + wrong.at as u64, what)
                })?;
            }
        }
        reader.keeps(header.values)?;
    }
    if header.texts.is_empty() {
        return Err(reader.wrong_at(reader.at(), "expected a string_table, found the end"));
    }
    // A mapping's library has six texts, and several mappings may share texts.
    let text_bytes = |mapping: &PprofMapping| {
        5 * header.text(mapping.file).len() as u64 + header.text(mapping.build_id).len() as u64
    };
    let mapped: u64 = header.mappings.iter().map(text_bytes).sum();
    header.values = header.values.saturating_add(mapped / 8);
    Ok(header)
}

fn name_of(field: u64) -> &'static str {
    match field {
        profile::SAMPLE_TYPE => "a sample_type",
        profile::MAPPING => "a mapping",
        profile::LOCATION => "a location",
        profile::FUNCTION => "a function",
        profile::STRING_TABLE => "the string_table",
        profile::PERIOD_TYPE => "the period_type",
        _ => "a field",
    }
}

impl PprofHeader {
    fn number(&mut self, field: u64, value: u64) {
        match field {
            profile::DROP_FRAMES => self.drop_frames = value,
            profile::KEEP_FRAMES => self.keep_frames = value,
            profile::TIME_NANOS => self.time_ns = value as i64,
            profile::DURATION_NANOS => self.duration_ns = value as i64,
            profile::PERIOD => self.period = value as i64,
            profile::COMMENT => self.comment(value),
            profile::DEFAULT_SAMPLE_TYPE => self.default_sample_type = value,
            _ => {}
        }
    }

    fn message(&mut self, field: u64, message: &[u8]) -> Result<(), MessageFault> {
        match field {
            profile::SAMPLE_TYPE if self.sample_types.len() < MAX_SAMPLE_TYPES => {
                let typed = typed(message)?;
                self.sample_types.push(typed);
                self.values += 2;
            }
            profile::SAMPLE_TYPE => {
                let what = format!("expected at most {MAX_SAMPLE_TYPES} of them");
                return Err(MessageFault { what, at: 0 });
            }
            profile::PERIOD_TYPE => self.period_type = typed(message)?,
            profile::MAPPING => {
                let mut read = PprofMapping::default();
                each_number(message, |field, value| match field {
                    mapping::ID => read.id = value,
                    mapping::MEMORY_START => read.start = value,
                    mapping::FILE_OFFSET => read.offset = value,
                    mapping::FILENAME => read.file = value,
                    mapping::BUILD_ID => read.build_id = value,
                    _ => {}
                })?;
                self.lib_of.insert(read.id, self.mappings.len() as u32);
                self.mappings.push(read);
                self.values += 40;
            }
            profile::LOCATION => self.location(message)?,
            profile::FUNCTION => {
                let (mut id, mut read) = (0, PprofFunction::default());
                each_number(message, |field, value| match field {
                    function::ID => id = value,
                    function::NAME => read.name = value,
                    function::SYSTEM_NAME => read.system_name = value,
                    function::FILENAME => read.file = value,
                    _ => {}
                })?;
                self.functions.insert(id, read);
                self.values += 6;
            }
            profile::STRING_TABLE if message.len() > MAX_TEXT_BYTES => {
                let what = format!(
                    "expected texts of at most {MAX_TEXT_BYTES} bytes, found one of {}",
                    message.len()
                );
                return Err(MessageFault { what, at: 0 });
            }
            profile::STRING_TABLE => {
                self.values += 3 + message.len() as u64 / 8;
                self.texts.push(String::from_utf8_lossy(message).into());
            }
            // Packed.
            profile::COMMENT => {
                numbers(FieldValue::Bytes(message), |comment| self.comment(comment))
                    .map_err(|what| MessageFault { what, at: 0 })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn comment(&mut self, text: u64) {
        match self.comments.len() < MAX_COMMENTS {
            true => self.comments.push(text),
            false => self.comments_left_out += 1,
        }
    }

    fn location(&mut self, message: &[u8]) -> Result<(), MessageFault> {
        let (mut id, mut read) = (0, PprofLocation::default());
        read.first_line = self.lines.len();
        for field in MessageFields::new(message) {
            match field? {
                (location::ID, FieldValue::Number(value)) => id = value,
                (location::MAPPING_ID, FieldValue::Number(value)) => read.mapping = value,
                (location::ADDRESS, FieldValue::Number(value)) => read.address = value,
                (location::LINE, FieldValue::Bytes(bytes)) => {
                    let mut place = SourceLine::default();
                    each_number(bytes, |field, value| match field {
                        line::FUNCTION_ID => place.function = value,
                        line::LINE => place.line = value as i64,
                        _ => {}
                    })?;
                    self.lines.push(place);
                }
                _ => {}
            }
        }
        read.line_count = self.lines.len() - read.first_line;
        for (depth, place) in self.lines[read.first_line..].iter().rev().enumerate() {
            let is_whole = depth == 0;
            let known = self
                .mapping_of
                .entry(place.function)
                .or_insert((read.mapping, is_whole));
            if is_whole && !known.1 {
                *known = (read.mapping, true);
            }
        }
        self.values += 8 + 6 * read.line_count as u64;
        self.locations.insert(id, read);
        Ok(())
    }

    /// A text; empty if the file has no text with this number.
    pub(super) fn text(&self, text: u64) -> &str {
        let text = usize::try_from(text).ok().and_then(|text| self.texts.get(text));
        text.map_or("", |text| text)
    }

    /// The name of each value of a sample: the type, with the unit if two values have one type.
    pub(super) fn event_names(&self) -> Vec<String> {
        let name = |(kind, unit): (u64, u64)| {
            let name = self.text(kind);
            let same = |other: &&(u64, u64)| self.text(other.0) == name;
            match self.sample_types.iter().filter(same).count() {
                1 => name.to_owned(),
                _ => format!("{name}/{}", self.text(unit)),
            }
        };
        self.sample_types.iter().map(|typed| name(*typed)).collect()
    }

    /// The file's default, or else the last value, as in `go tool pprof`.
    pub(super) fn default_event(&self, names: &[String]) -> usize {
        let named = self.text(self.default_sample_type);
        let by_type = |typed: &(u64, u64)| !named.is_empty() && self.text(typed.0) == named;
        let found = self.sample_types.iter().position(by_type);
        found.unwrap_or(names.len().saturating_sub(1))
    }

    /// The index of the value that counts samples.
    pub(super) fn count_column(&self) -> Option<usize> {
        self.sample_types
            .iter()
            .position(|typed| self.is_count_of_samples(*typed))
    }

    fn is_count_of_samples(&self, (kind, unit): (u64, u64)) -> bool {
        matches!(self.text(kind), "samples" | "sample") && matches!(self.text(unit), "count" | "samples" | "")
    }

    pub(super) fn measure(&self, chosen: usize) -> ValueUnit {
        let typed = self.sample_types[chosen];
        let unit = self.text(typed.1);
        let (unit, scale) = match (time_unit_ms(unit), unit) {
            _ if self.is_count_of_samples(typed) => (WeightUnit::Samples, 1.0),
            (Some(ms), _) => (WeightUnit::Milliseconds, ms),
            (None, "bytes" | "byte" | "B") => (WeightUnit::Bytes, 1.0),
            (None, "kilobytes" | "kilobyte" | "kb" | "KB" | "KiB") => (WeightUnit::Bytes, 1024.0),
            (None, "megabytes" | "megabyte" | "mb" | "MB" | "MiB") => (WeightUnit::Bytes, 1024.0 * 1024.0),
            _ => (WeightUnit::Counts, 1.0),
        };
        ValueUnit { unit, scale }
    }

    /// Time between two samples, if the period is a time.
    pub(super) fn interval_ms(&self) -> Option<f64> {
        let ms = time_unit_ms(self.text(self.period_type.1))?;
        (self.period > 0).then_some(self.period as f64 * ms)
    }

    /// How the blocks were chosen, if the chosen value is of blocks of memory and the file has it.
    pub(super) fn chosen_blocks(&self, chosen: usize) -> Option<ChosenBlocks> {
        let period_type = [self.period_type.0, self.period_type.1].map(|text| self.text(text));
        let name = self.text(self.sample_types[chosen].0);
        let (prefix, counts_bytes) = match name.strip_suffix("objects") {
            Some(prefix) => (prefix, false),
            None => (name.strip_suffix("space")?, true),
        };
        let value = |what: &str| {
            let is_value = |typed: &(u64, u64)| self.text(typed.0).strip_prefix(prefix) == Some(what);
            self.sample_types.iter().position(is_value)
        };
        let blocks = ChosenBlocks {
            number_at: value("objects")?,
            bytes_at: value("space")?,
            counts_bytes,
            interval: self.period as f64,
        };
        (period_type == CHOSEN_BYTES && self.period > 0).then_some(blocks)
    }

    /// Index of the library of a mapping.
    pub(super) fn lib(&self, mapping: u64) -> u32 {
        self.lib_of.get(&mapping).copied().unwrap_or(NONE)
    }

    /// Index of a function's library.
    pub(super) fn lib_of_function(&self, function: u64) -> u32 {
        self.mapping_of
            .get(&function)
            .map_or(NONE, |(mapping, _)| self.lib(*mapping))
    }

    /// The address relative to the library's lowest `PT_LOAD`. A mapping from the file's start begins there. For other
    /// mappings, only the library file has the offset.
    pub(super) fn relative_address(&self, location: &PprofLocation) -> Option<u64> {
        let mapping = self.mappings.get(self.lib(location.mapping) as usize)?;
        match mapping.offset {
            0 => location.address.checked_sub(mapping.start),
            _ => None,
        }
    }

    /// True if the location has exactly one function, with this name.
    pub(super) fn is_function_named(&self, location: u64, name: &str) -> bool {
        let lines = self
            .locations
            .get(&location)
            .map(|location| &self.lines[location.lines()]);
        match lines {
            Some([line]) => {
                (self.functions.get(&line.function)).is_some_and(|function| self.text(function.name) == name)
            }
            _ => false,
        }
    }
}

/// Units of <https://github.com/google/pprof/blob/main/internal/measurement/measurement.go>.
fn time_unit_ms(unit: &str) -> Option<f64> {
    Some(match unit {
        "nanoseconds" | "nanosecond" | "ns" => 1e-6,
        "microseconds" | "microsecond" | "us" => 1e-3,
        "milliseconds" | "millisecond" | "ms" => 1.0,
        "seconds" | "second" | "s" | "sec" => 1e3,
        _ => return None,
    })
}

fn typed(message: &[u8]) -> Result<(u64, u64), MessageFault> {
    let mut typed = (0, 0);
    each_number(message, |field, value| match field {
        value_type::TYPE => typed.0 = value,
        value_type::UNIT => typed.1 = value,
        _ => {}
    })?;
    Ok(typed)
}

fn each_number(message: &[u8], mut each: impl FnMut(u64, u64)) -> Result<(), MessageFault> {
    for field in MessageFields::new(message) {
        if let (field, FieldValue::Number(value)) = field? {
            each(field, value);
        }
    }
    Ok(())
}
