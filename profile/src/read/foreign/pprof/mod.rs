//! pprof profiles: Go's `runtime/pprof`, gperftools, our own export, and many others.
//!
//! The file is read twice: `header` keeps everything but the samples, because names may come after what uses them; then each
//! sample becomes a row at once. `prune` drops the frames that the file asks to drop.

mod header;
mod prune;
mod threads;

use rustc_hash::FxHashMap;

use super::source::{Reader, Source};
use super::tables::Tables;
use super::{Foreign, ReadError, choose, others};
use crate::export::label::NO_STACK;
use crate::read::SavedLib;
use crate::view::data::{NONE, Row, RowValue, Section, Unit, Weights};
use crate::wire::pprof::{label, profile, sample};
use crate::wire::protobuf::{CUT, Fields, Head, Value, Wrong, head, numbers};
use header::Header;
use prune::Pruned;
use threads::Threads;

/// A message, but the file itself, is no larger: a stack of 100,000 calls takes a megabyte.
const MAX_MESSAGE_BYTES: u64 = 64 << 20;

/// True if all fields that these bytes hold are such as a pprof profile begins with. `is_whole` says that no more follow.
pub(super) fn is_pprof(start: &[u8], is_whole: bool) -> bool {
    let (mut seen, mut has_type) = (0, false);
    for field in Fields::of(start) {
        let (field, value) = match field {
            Ok(field) => field,
            // Cut off, by us or as a whole, but not in the first field.
            Err(_) => return has_type || (seen > 0 && !is_whole) || seen > 2,
        };
        let is_right = match (field, value) {
            (profile::SAMPLE_TYPE | profile::PERIOD_TYPE, Value::Bytes(bytes)) => {
                has_type |= !bytes.is_empty();
                is_value_type(bytes)
            }
            (profile::SAMPLE..=profile::STRING_TABLE, Value::Bytes(_)) => true,
            (profile::COMMENT, _) => true,
            (profile::DROP_FRAMES..=profile::DOC_URL, Value::Number(_)) => field != profile::PERIOD_TYPE,
            _ => false,
        };
        if !is_right {
            return false;
        }
        seen += 1;
    }
    seen > 0
}

fn is_value_type(bytes: &[u8]) -> bool {
    Fields::of(bytes).all(|field| matches!(field, Ok((1 | 2, Value::Number(_)))))
}

/// Reads the profile.
pub(super) fn read(source: &mut Source, event: Option<&str>) -> Result<Foreign, ReadError> {
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
    let (pruned, mut notes) = Pruned::of(&header);
    let mut building = Building {
        pruned,
        measure,
        chosen,
        count_at: header.count_column(),
        tables: Tables::default(),
        frames_of: FxHashMap::default(),
        frames: Vec::new(),
        threads: Threads::default(),
        unknown_locations: 0,
        other_labels: Vec::new(),
        header: &header,
    };
    building.libs();
    let mut reader = source.read()?;
    let (mut message, mut parts) = (Vec::new(), Parts::default());
    while let Some((number, start, content)) = field(&mut reader)? {
        match (number, content) {
            (profile::SAMPLE, Head::Bytes(len)) => {
                take(&mut reader, start, len, &mut message)?;
                let wrong =
                    |wrong: Wrong| reader.wrong_at(start + wrong.at as u64, format!("a sample: {}", wrong.what));
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
                building.sample(&parts);
                let kept = building.tables.values() + building.threads.values() + building.frames.len() as u64;
                reader.keeps(header.values.saturating_add(kept))?;
            }
            (_, Head::Bytes(len)) => {
                reader.skip(len)?;
            }
            (_, Head::Number(_)) => {}
        }
    }
    drop(reader);
    building.notes(&mut notes);
    let mut data = building.finish();
    data.weights = Some(Weights {
        name: header.text(header.sample_types[chosen].0).to_owned(),
        unit: header.text(header.sample_types[chosen].1).to_owned(),
        others: others(&names, chosen),
    });
    Ok(Foreign { data, notes })
}

/// The next field of the file: its number, where it began, and what comes before its content.
fn field(reader: &mut Reader<'_>) -> Result<Option<(u64, u64, Head)>, ReadError> {
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
fn take(reader: &mut Reader<'_>, start: u64, len: u64, message: &mut Vec<u8>) -> Result<(), ReadError> {
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

/// What a sample's message has.
#[derive(Default)]
struct Parts {
    /// Leaf first.
    locations: Vec<u64>,
    values: Vec<i64>,
    labels: Vec<Label>,
}

/// A label, as indices of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Label {
    key: u64,
    text: u64,
    number: i64,
}

impl Parts {
    fn read(&mut self, message: &[u8]) -> Result<(), Wrong> {
        self.locations.clear();
        self.values.clear();
        self.labels.clear();
        for field in Fields::of(message) {
            let (field, value) = field?;
            let read = match (field, value) {
                (sample::LOCATION_ID, value) => numbers(value, |id| self.locations.push(id)),
                (sample::VALUE, value) => numbers(value, |value| self.values.push(value as i64)),
                (sample::LABEL, Value::Bytes(bytes)) => {
                    let mut read = Label::default();
                    for field in Fields::of(bytes) {
                        match field? {
                            (label::KEY, Value::Number(key)) => read.key = key,
                            (label::STR, Value::Number(text)) => read.text = text,
                            (label::NUM, Value::Number(number)) => read.number = number as i64,
                            _ => {}
                        }
                    }
                    self.labels.push(read);
                    Ok(())
                }
                _ => Ok(()),
            };
            read.map_err(|what| Wrong { what, at: 0 })?;
        }
        Ok(())
    }
}

/// What the chosen values are.
#[derive(Clone, Copy, Debug)]
struct Measure {
    unit: Unit,
    /// From the file's unit to that.
    scale: f64,
}

struct Building<'a> {
    header: &'a Header,
    pruned: Pruned,
    measure: Measure,
    chosen: usize,
    /// Which value tells how many samples a row stands for.
    count_at: Option<usize>,
    tables: Tables,
    /// For each location its part of `frames`, the outermost first.
    frames_of: FxHashMap<u64, (usize, usize)>,
    frames: Vec<u32>,
    threads: Threads,
    unknown_locations: u64,
    /// Keys of labels that say nothing about threads.
    other_labels: Vec<u64>,
}

/// Keys that a note lists.
const LISTED_LABELS: usize = 8;

impl Building<'_> {
    fn libs(&mut self) {
        let header = self.header;
        self.tables.data.libs = (header.mappings.iter())
            .map(|mapping| {
                let path = header.text(mapping.file).to_owned();
                let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
                let id = header.text(mapping.build_id);
                let is_code_id = id.len().is_multiple_of(2) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
                let (code_id, breakpad_id) = if is_code_id { (Some(id), None) } else { (None, Some(id)) };
                let some = |text: String| Some(text).filter(|text| !text.is_empty());
                SavedLib {
                    name: some(name.clone()),
                    path: some(path.clone()),
                    debug_name: some(name),
                    debug_path: some(path),
                    breakpad_id: breakpad_id.map(str::to_owned).and_then(some),
                    code_id: code_id.map(str::to_owned).and_then(some),
                    arch: None,
                }
            })
            .collect();
    }

    fn sample(&mut self, parts: &Parts) {
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
            for at in first..first + count {
                stack = self.tables.stack(stack, self.frames[at]);
            }
        }
        // How our own export marks samples that have no stack.
        if let [location] = parts.locations[..]
            && self.header.is_function_named(location, NO_STACK)
        {
            stack = NONE;
        }
        let weight = parts.values[self.chosen] as f64 * self.measure.scale;
        let count = self.count_at.map(|at| parts.values[at].unsigned_abs());
        self.threads.of(self.header, &parts.labels).add(stack, weight, count);
    }

    /// The frames of a location, as part of `frames`.
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
                    let func = match header.functions.get(&line.function) {
                        Some(function) => {
                            let name = match header.text(function.name) {
                                "" => header.text(function.system_name),
                                name => name,
                            };
                            self.tables
                                .func(name, header.lib_of_function(line.function), header.text(function.file))
                        }
                        None => self.tables.func("[function is not in the file]", lib, ""),
                    };
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
        if !self.other_labels.is_empty() {
            let keys: Vec<&str> = self.other_labels.iter().map(|key| header.text(*key)).collect();
            notes.push(format!(
                "samples have labels that are not shown, and are added up over them: {}; `go tool pprof -tags` shows them",
                keys.join(", ")
            ));
        }
    }

    fn finish(self) -> crate::view::data::Data {
        let header = self.header;
        let mut data = self.tables.data;
        data.imported_from = "a pprof profile".to_owned();
        data.unit = self.measure.unit;
        data.is_summed = true;
        data.symbolicated = true;
        data.threads = self.threads.finish();
        data.start_ms = header.time_ns as f64 / 1e6;
        data.duration_ms = (header.duration_ns > 0).then_some(header.duration_ns as f64 / 1e6);
        data.interval_ms = header.interval_ms().unwrap_or(0.0);
        let comments: Vec<&str> = header.comments.iter().map(|comment| header.text(*comment)).collect();
        let recorded = comments
            .iter()
            .find_map(|comment| comment.strip_prefix("recorded program: "));
        data.product = match (recorded, data.libs.first()) {
            (Some(program), _) => program.to_owned(),
            (None, Some(lib)) => lib.name.clone().unwrap_or_default(),
            (None, None) => String::new(),
        };
        // Most files are of one process, and do not name it.
        for thread in data.threads.iter_mut().filter(|thread| thread.process_name.is_empty()) {
            thread.process_name.clone_from(&data.product);
        }
        if !comments.is_empty() {
            let rows = comments.iter().enumerate().map(|(at, comment)| Row {
                label: format!("Comment {}", at + 1),
                format: "string".to_owned(),
                value: RowValue::Text((*comment).to_owned()),
            });
            data.extra.push(Section {
                label: "pprof".to_owned(),
                rows: rows.collect(),
            });
        }
        data
    }
}
