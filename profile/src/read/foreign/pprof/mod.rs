//! pprof profiles: of Go's `runtime/pprof`, gperftools, sprof's export, and many others.
//!
//! The file is read twice. `header` reads everything except samples, because names may come after their users; then
//! each sample becomes a row. `prune` drops the frames that the file asks to drop.

mod header;
mod prune;
mod threads;

use rustc_hash::FxHashMap;

use super::source::{ForeignFile, ForeignReader};
use super::tables::ForeignTables;
use super::{Foreign, ReadError, choose, others};
use crate::data::NO_STACK_LABEL;
use crate::data::SavedLib;
use crate::data::{AboutRow, AboutSection, NONE, RowValue, WeightUnit, Weights};
use crate::pprof_fields::{label, profile, sample};
use header::{ChosenBlocks, PprofHeader};
use prune::PrunedLocations;
use recording::protobuf::{CUT, FieldHead, FieldValue, MessageFault, MessageFields, head, numbers};
use threads::LabelledThreads;

/// Largest message within the file: a stack of 100,000 calls takes a megabyte.
const MAX_MESSAGE_BYTES: u64 = 64 << 20;

/// True if these bytes begin a pprof profile: all complete fields have numbers and types of its messages, at least one
/// carries information, and the bytes are not text. Single letters of a text also parse as fields.
pub(super) fn is_pprof(start: &[u8]) -> bool {
    let is_text = |byte: &u8| *byte >= b' ' || b"\t\r\n".contains(byte);
    let mut says_something = false;
    let mut fields = SniffedFields(start);
    while let Some((field, value)) = fields.next() {
        let is_right = match (field, value) {
            (profile::SAMPLE_TYPE | profile::PERIOD_TYPE, Some(FieldValue::Bytes(message))) => {
                has(message, &[1, 2], &[], &[])
            }
            (profile::SAMPLE, Some(FieldValue::Bytes(message))) => has(message, &[1, 2], &[1, 2], &[3]),
            (profile::MAPPING, Some(FieldValue::Bytes(message))) => {
                has(message, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[], &[])
            }
            (profile::LOCATION, Some(FieldValue::Bytes(message))) => has(message, &[1, 2, 3, 5], &[], &[4]),
            (profile::FUNCTION, Some(FieldValue::Bytes(message))) => has(message, &[1, 2, 3, 4, 5], &[], &[]),
            (profile::STRING_TABLE | profile::COMMENT, Some(FieldValue::Bytes(_))) => true,
            (profile::DROP_FRAMES..=profile::DOC_URL, Some(FieldValue::Number(_))) => field != profile::PERIOD_TYPE,
            // The message is cut off, by the limit or by the file's end.
            (profile::SAMPLE_TYPE..=profile::STRING_TABLE | profile::PERIOD_TYPE | profile::COMMENT, None) => break,
            _ => return false,
        };
        if !is_right {
            return false;
        }
        says_something |= field <= profile::FUNCTION && value != Some(FieldValue::Bytes(&[]));
    }
    says_something && !fields.is_wrong() && !start.iter().all(is_text)
}

/// True if the message has only fields of these numbers: numbers, lists of numbers, and messages.
fn has(message: &[u8], numbers: &[u64], lists: &[u64], messages: &[u64]) -> bool {
    let mut fields = SniffedFields(message);
    while let Some((field, value)) = fields.next() {
        let is_right = match value {
            Some(FieldValue::Number(_)) => numbers.contains(&field),
            Some(FieldValue::Bytes(_)) => lists.contains(&field) || messages.contains(&field),
            None => false,
        };
        if !is_right {
            return false;
        }
    }
    !fields.is_wrong()
}

/// The fields of a message that may be cut off. pprof has only varints and bytes.
struct SniffedFields<'a>(&'a [u8]);

impl<'a> SniffedFields<'a> {
    /// A field without a value is cut off. `None` at the end and at an invalid field.
    fn next(&mut self) -> Option<(u64, Option<FieldValue<'a>>)> {
        let kind = self.0.first()? & 7;
        let mut rest = self.0;
        let mut next = || {
            let byte = rest.split_off_first().copied();
            Ok::<_, std::convert::Infallible>(byte)
        };
        let Ok(Ok((field, head))) = head(&mut next) else {
            // The field's head is cut off, so the message ends here.
            if self.0.len() <= MAX_HEAD_BYTES && self.0.iter().skip(1).all(|byte| *byte >= 0x80) {
                self.0 = &[];
            }
            return None;
        };
        let value = match (kind, head) {
            (0, FieldHead::Number(number)) => FieldValue::Number(number),
            (2, FieldHead::Bytes(len)) => {
                let bytes = usize::try_from(len).ok().and_then(|len| rest.split_off(..len));
                match bytes {
                    Some(bytes) => FieldValue::Bytes(bytes),
                    None => {
                        self.0 = &[];
                        return Some((field, None));
                    }
                }
            }
            _ => return None,
        };
        self.0 = rest;
        Some((field, Some(value)))
    }

    /// True if the remaining bytes are an invalid field.
    fn is_wrong(&self) -> bool {
        !self.0.is_empty()
    }
}

/// A tag of one byte, and a number.
const MAX_HEAD_BYTES: usize = 11;

/// Reads the profile.
pub(super) fn read(source: &mut ForeignFile, event: Option<&str>) -> Result<Foreign, ReadError> {
    let header = header::read(source)?;
    let path = source.path.clone();
    let names = header.event_names();
    if names.is_empty() {
        return Err(ReadError::Incomplete {
            path,
            expected: "at least one sample_type: what its samples count",
        });
    }
    let default = header.default_event(&names);
    let chosen = choose(&path, event, &names, default)?;
    let measure = header.measure(chosen);
    let (pruned, mut notes) = PrunedLocations::new(&header);
    let mut building = PprofReader {
        pruned,
        measure,
        chosen,
        count_at: header.count_column(),
        blocks: header.chosen_blocks(chosen),
        tables: ForeignTables::default(),
        text_of: FxHashMap::default(),
        func_of: FxHashMap::default(),
        frames_of: FxHashMap::default(),
        frames: Vec::new(),
        expanded: FxHashMap::default(),
        threads: LabelledThreads::default(),
        unknown_locations: 0,
        other_labels: Vec::new(),
        header: &header,
    };
    let mut reader = source.read()?;
    reader.keeps(header.values)?;
    building.libs();
    let (mut message, mut parts) = (Vec::new(), SampleFields::default());
    while let Some((number, start, content)) = field(&mut reader)? {
        match (number, content) {
            (profile::SAMPLE, FieldHead::Bytes(len)) => {
                take(&mut reader, start, len, &mut message)?;
                let wrong =
                    |wrong: MessageFault| reader.wrong_at(start + wrong.at as u64, format!("a sample: {}", wrong.what));
                parts.read(&message).map_err(wrong)?;
                if parts.values.len() != names.len() {
                    return Err(reader.wrong_at(
                        start,
                        format!(
                            "a sample: expected {} values, one for each sample_type, found {}",
                            names.len(),
                            parts.values.len()
                        ),
                    ));
                }
                building.sample(&parts, &reader)?;
            }
            (_, FieldHead::Bytes(len)) => {
                reader.skip(len)?;
            }
            (_, FieldHead::Number(_)) => {}
        }
    }
    building.notes(&mut notes);
    // A thread without a process gets the program's name.
    let product = building.product();
    reader.keeps(product.len() as u64 * building.threads.len() as u64 / 8)?;
    drop(reader);
    let mut data = building.finish(product);
    data.weights = Some(Weights {
        name: header.text(header.sample_types[chosen].0).to_owned(),
        unit: header.text(header.sample_types[chosen].1).to_owned(),
        others: others(&names, chosen),
        is_exact: false,
    });
    Ok(Foreign { data, notes })
}

/// The next field of the file: its number, its start, and its head.
fn field(reader: &mut ForeignReader<'_>) -> Result<Option<(u64, u64, FieldHead)>, ReadError> {
    let start = reader.at();
    let read = head(&mut || reader.byte())?;
    match read {
        Ok((field, content)) => Ok(Some((field, start, content))),
        Err(what) if what == CUT && reader.at() == start => Ok(None),
        Err(what) if what == CUT => Err(reader.cut_off()),
        Err(what) => Err(reader.wrong_at(start, what)),
    }
}

/// The content of a field.
fn take(reader: &mut ForeignReader<'_>, start: u64, len: u64, message: &mut Vec<u8>) -> Result<(), ReadError> {
    if len > MAX_MESSAGE_BYTES {
        return Err(reader.wrong_at(
            start,
            format!("expected a message of at most {MAX_MESSAGE_BYTES} bytes, found one that is to have {len}"),
        ));
    }
    match reader.bytes(len, message)? {
        true => Ok(()),
        false => Err(reader.cut_off()),
    }
}

/// The fields of a sample's message.
#[derive(Default)]
struct SampleFields {
    /// Leaf first.
    locations: Vec<u64>,
    values: Vec<i64>,
    labels: Vec<PprofLabel>,
}

/// A label, as indices of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct PprofLabel {
    key: u64,
    text: u64,
    number: i64,
}

impl SampleFields {
    fn read(&mut self, message: &[u8]) -> Result<(), MessageFault> {
        self.locations.clear();
        self.values.clear();
        self.labels.clear();
        for field in MessageFields::new(message) {
            let (field, value) = field?;
            let read = match (field, value) {
                (sample::LOCATION_ID, value) => numbers(value, |id| self.locations.push(id)),
                (sample::VALUE, value) => numbers(value, |value| self.values.push(value as i64)),
                (sample::LABEL, FieldValue::Bytes(bytes)) => {
                    let mut read = PprofLabel::default();
                    for field in MessageFields::new(bytes) {
                        match field? {
                            (label::KEY, FieldValue::Number(key)) => read.key = key,
                            (label::STR, FieldValue::Number(text)) => read.text = text,
                            (label::NUM, FieldValue::Number(number)) => read.number = number as i64,
                            _ => {}
                        }
                    }
                    self.labels.push(read);
                    Ok(())
                }
                _ => Ok(()),
            };
            read.map_err(|what| MessageFault { what, at: 0 })?;
        }
        Ok(())
    }
}

/// The chosen values.
#[derive(Clone, Copy, Debug)]
struct ValueUnit {
    unit: WeightUnit,
    /// Factor from the file's unit.
    scale: f64,
}

struct PprofReader<'a> {
    header: &'a PprofHeader,
    pruned: PrunedLocations,
    measure: ValueUnit,
    chosen: usize,
    /// Index of the value that counts a row's samples.
    count_at: Option<usize>,
    blocks: Option<ChosenBlocks>,
    tables: ForeignTables,
    /// The text index for each text and function of the file. A long name is looked up once, whatever the number of
    /// references.
    text_of: FxHashMap<u64, u32>,
    func_of: FxHashMap<u64, u32>,
    /// For each location, its range of `frames`, outermost first.
    frames_of: FxHashMap<u64, (usize, usize)>,
    frames: Vec<u32>,
    /// The stack of a location with several lines below a stack. A sample costs its locations, whatever the lines of
    /// each.
    expanded: FxHashMap<(u32, u64), u32>,
    threads: LabelledThreads,
    unknown_locations: u64,
    /// Keys of labels that do not identify threads.
    other_labels: Vec<u64>,
}

/// Most keys in a note.
const LISTED_LABELS: usize = 8;

impl PprofReader<'_> {
    fn libs(&mut self) {
        let header = self.header;
        self.tables.data.libs = (header.mappings.iter())
            .map(|mapping| {
                let id = header.text(mapping.build_id);
                let is_code_id = id.len().is_multiple_of(2) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
                let (code_id, breakpad_id) = if is_code_id { (Some(id), None) } else { (None, Some(id)) };
                let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
                SavedLib {
                    breakpad_id: breakpad_id.and_then(some),
                    code_id: code_id.and_then(some),
                    ..SavedLib::of_path(header.text(mapping.file))
                }
            })
            .collect();
    }

    fn text(&mut self, text: u64) -> u32 {
        let tables = &mut self.tables;
        *(self.text_of.entry(text)).or_insert_with(|| tables.text(self.header.text(text)))
    }

    /// A function by its number in the file.
    fn func(&mut self, id: u64, lib: u32) -> u32 {
        if let Some(known) = self.func_of.get(&id) {
            return *known;
        }
        let header = self.header;
        let Some(function) = header.functions.get(&id) else {
            return self.tables.func("[function is not in the file]", lib, "");
        };
        let name = match header.text(function.name) {
            "" => self.text(function.system_name),
            _ => self.text(function.name),
        };
        // A function without a name needs a text.
        let name = if name == NONE {
            self.tables.text("[unknown]")
        } else {
            name
        };
        let file = self.text(function.file);
        let func = self.tables.func_of(name, header.lib_of_function(id), file);
        self.func_of.insert(id, func);
        func
    }

    /// Adds a sample. The limits are checked before each location is expanded: a location of a few bytes may have a
    /// million lines, and may be in a stack a million times.
    fn sample(&mut self, parts: &SampleFields, reader: &ForeignReader<'_>) -> Result<(), ReadError> {
        for label in &parts.labels {
            let is_new = self.other_labels.len() < LISTED_LABELS && !self.other_labels.contains(&label.key);
            if is_new && !threads::is_known(self.header.text(label.key)) {
                self.other_labels.push(label.key);
            }
        }
        let locations = self.pruned.kept(&parts.locations);
        let mut stack = NONE;
        for &location in locations.iter().rev() {
            let (first, count) = self.frames_at(location);
            reader.keeps(self.values().saturating_add(ForeignTables::STACK_VALUES * count as u64))?;
            let below = stack;
            if let Some(&known) = self.expanded.get(&(below, location)).filter(|_| count > 1) {
                stack = known;
                continue;
            }
            for at in first..first + count {
                stack = self.tables.stack(stack, self.frames[at]);
            }
            if count > 1 {
                self.expanded.insert((below, location), stack);
            }
        }
        // sprof's export marks samples without a stack in this way.
        if let [location] = parts.locations[..]
            && self.header.is_function_named(location, NO_STACK_LABEL)
        {
            stack = NONE;
        }
        let weight = parts.values[self.chosen] as f64 * self.measure.scale;
        let count = self.count_at.map(|at| parts.values[at].unsigned_abs());
        let variance = self.blocks.map(|blocks| blocks.variance(&parts.values));
        let thread = self.threads.of(self.header, &parts.labels);
        thread.add(stack, weight, count, variance);
        reader.keeps(self.values())
    }

    /// The approximate memory in units of 8 bytes.
    fn values(&self) -> u64 {
        let kept = self.tables.values() + self.threads.values() + self.frames.len() as u64;
        self.header.values.saturating_add(kept + 6 * self.expanded.len() as u64)
    }

    /// The frames of a location, as a range of `frames`.
    fn frames_at(&mut self, id: u64) -> (usize, usize) {
        if let Some(known) = self.frames_of.get(&id) {
            return *known;
        }
        let first = self.frames.len();
        let header = self.header;
        match header.locations.get(&id) {
            None => {
                self.unknown_locations += 1;
                let func = self
                    .tables
                    .func(&format!("[location {id} is not in the file]"), NONE, "");
                let frame = self.tables.frame(func, 0, NONE, None, false);
                self.frames.push(frame);
            }
            Some(location) => {
                let lib = header.lib(location.mapping);
                let address = header.relative_address(location);
                let lines = self.pruned.lines(id, &header.lines[location.lines()]);
                for (depth, line) in lines.iter().rev().enumerate() {
                    let func = self.func(line.function, lib);
                    let number = u32::try_from(line.line).unwrap_or(0);
                    let frame = self.tables.frame(func, number, lib, address, depth > 0);
                    self.frames.push(frame);
                }
                if lines.is_empty() {
                    let func = self.tables.func(&format!("0x{:x}", location.address), lib, "");
                    let frame = self.tables.frame(func, 0, lib, address, false);
                    self.frames.push(frame);
                }
            }
        }
        let found = (first, self.frames.len() - first);
        self.frames_of.insert(id, found);
        found
    }

    fn notes(&self, notes: &mut Vec<String>) {
        let header = self.header;
        let nameless = (self.frames_of.keys())
            .filter(|id| {
                header
                    .locations
                    .get(id)
                    .is_some_and(|location| location.line_count == 0)
            })
            .count();
        if nameless > 0 {
            notes.push(format!(
                "{nameless} of {} addresses have no name in the file, and stand as addresses: `go tool pprof -proto` with the \
                 program beside it adds names",
                self.frames_of.len()
            ));
        }
        if self.unknown_locations > 0 {
            notes.push(format!(
                "{} locations are used but not in the file: it is damaged or incomplete",
                self.unknown_locations
            ));
        }
        if header.comments_left_out > 0 {
            notes.push(format!(
                "{} comments of the file are not shown",
                header.comments_left_out
            ));
        }
        if !self.other_labels.is_empty() {
            let keys: Vec<&str> = self.other_labels.iter().map(|key| header.text(*key)).collect();
            notes.push(format!(
                "samples have labels that are not shown, and are added up over them: {}; `go tool pprof -tags` shows them",
                keys.join(", ")
            ));
        }
    }

    /// The recorded program, or else the first mapping.
    fn product(&self) -> String {
        let comments = self.header.comments.iter().map(|comment| self.header.text(*comment));
        let recorded = comments
            .filter_map(|comment| comment.strip_prefix("recorded program: "))
            .next();
        let first_lib = || self.tables.data.libs.first().and_then(|lib| lib.name.as_deref());
        recorded.or_else(first_lib).unwrap_or_default().to_owned()
    }

    fn finish(self, product: String) -> crate::data::Data {
        let header = self.header;
        let mut data = self.tables.into_data();
        data.imported_from = "a pprof profile".to_owned();
        data.unit = self.measure.unit;
        data.is_summed = true;
        data.symbolicated = true;
        data.threads = self.threads.finish();
        data.start_ms = header.time_ns as f64 / 1e6;
        data.duration_ms = (header.duration_ns > 0).then_some(header.duration_ns as f64 / 1e6);
        data.interval_ms = header.interval_ms().unwrap_or(0.0);
        let comments: Vec<&str> = header.comments.iter().map(|comment| header.text(*comment)).collect();
        data.product = product;
        // Most files have one process and do not name it.
        for thread in data.threads.iter_mut().filter(|thread| thread.process_name.is_empty()) {
            thread.process_name.clone_from(&data.product);
        }
        if !comments.is_empty() {
            let rows = comments.iter().enumerate().map(|(at, comment)| AboutRow {
                label: format!("Comment {}", at + 1),
                format: "string".to_owned(),
                value: RowValue::Text((*comment).to_owned()),
            });
            data.extra.push(AboutSection {
                label: "pprof".to_owned(),
                rows: rows.collect(),
            });
        }
        data
    }
}
