//! Files of callgrind and cachegrind, lines of text: <https://valgrind.org/docs/manual/cl-format.html>. cachegrind's
//! format is callgrind's without calls.
//!
//! `line` parses a line, `arcs` sums calls.

mod arcs;
mod line;

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::encoding;
use super::source::{ForeignFile, ForeignReader};
use super::tables::ForeignTables;
use super::{Foreign, ForeignFormat, ReadError, choose, others};
use crate::data::SavedLib;
use crate::data::{Calls, NONE, Samples, Thread, WeightUnit, Weights};
use arcs::CallArcs;
use line::{CallgrindLine, CostPosition, NameKind, NameOrNumber};

/// The format that these bytes begin, if it is one of both.
pub(super) fn kind(start: &[u8]) -> Option<ForeignFormat> {
    let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    if start.starts_with(b"# callgrind format") {
        return Some(ForeignFormat::Callgrind);
    }
    let (mut has_events, mut is_callgrind) = (false, false);
    let first = lines
        .by_ref()
        .find(|line| !line.is_empty() && !line.starts_with(b"#"))?;
    for line in std::iter::once(first).chain(lines) {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let key = line
            .iter()
            .position(|byte| b":=".contains(byte))
            .map(|end| &line[..end]);
        match key.unwrap_or_default() {
            b"version" | b"creator" | b"positions" | b"part" | b"pid" | b"thread" | b"ob" | b"calls" | b"cfn" => {
                is_callgrind = true;
            }
            b"events" => has_events = true,
            b"desc" | b"cmd" | b"event" | b"summary" | b"totals" | b"fl" | b"fn" => {}
            // A line of the body, or an incomplete last line.
            _ if has_events => break,
            _ => return None,
        }
    }
    match (has_events, is_callgrind) {
        (true, true) => Some(ForeignFormat::Callgrind),
        (true, false) => Some(ForeignFormat::Cachegrind),
        // The file is cut off, or its header is longer than these bytes. Other keys may begin a line of folded stacks.
        (false, true)
            if [&b"version:"[..], b"creator:", b"positions:"]
                .iter()
                .any(|key| first.starts_with(key)) =>
        {
            Some(ForeignFormat::Callgrind)
        }
        // Files of massif begin with other descriptions.
        (false, _) if first.starts_with(b"desc: I1") => Some(ForeignFormat::Cachegrind),
        (false, _) => None,
    }
}

/// Reads the file.
pub(super) fn read(source: &mut ForeignFile, kind: ForeignFormat, event: Option<&str>) -> Result<Foreign, ReadError> {
    let path = source.path.clone();
    let mut reader = source.read()?;
    let mut building = CallgrindReader::new();
    let mut line = Vec::new();
    while reader.line(&mut line)? {
        let text = encoding::text(&line);
        let parsed = line::parse(text.trim_start(), building.columns).map_err(|what| reader.wrong_line(what))?;
        if let CallgrindLine::Header("events", value) = parsed {
            building.events(value, event, &path, &reader)?;
        } else {
            building.line(parsed, &reader)?;
        }
        reader.keeps(building.tables.values() + building.values)?;
    }
    if building.known_events.is_empty() {
        return Err(match reader.line_number() {
            0 => reader.wrong_line("expected a line `events: ...`, found an empty file"),
            _ => reader.wrong_line("expected a line `events: ...`, found the end"),
        });
    }
    drop(reader);
    building.finish(kind)
}

/// Begins a description in the header that is a note on what the file lacks, as `sprof count` writes it.
pub const NOTE_OF_COUNT: &str = "sprof: ";
/// See [`NameKind::table`].
const FUNCTIONS: usize = 2;

/// The numbers before the costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct PositionColumns {
    pub(super) instr: bool,
    /// Basic blocks, which are ignored.
    pub(super) block: bool,
    pub(super) line: bool,
}

impl Default for PositionColumns {
    fn default() -> Self {
        PositionColumns {
            instr: false,
            block: false,
            line: true,
        }
    }
}

#[derive(Default)]
struct CallgrindReader {
    tables: ForeignTables,
    columns: PositionColumns,
    /// Texts by their numbers in the file, for objects, files and functions.
    names: [FxHashMap<u64, u32>; 3],
    known_events: Vec<String>,
    /// The index of the chosen event.
    chosen: usize,
    /// The column of the chosen event in the current part.
    cost_at: usize,
    /// A text, as are the fields of threads: a long text may occur thousands of times.
    pid: u32,
    thread: u32,
    command: u32,
    creator: String,
    /// Process, thread and command.
    threads: Vec<[u32; 3]>,
    thread_ids: FxHashMap<(u32, u32), u32>,
    at_thread: u32,
    thread_is_known: bool,
    libs: FxHashMap<u32, u32>,
    /// Texts, [`NONE`] before the first name.
    object: u32,
    file: u32,
    /// The current function, its file and its name.
    func: u32,
    func_file: u32,
    func_name: u32,
    called: CalledFunction,
    last: CostPosition,
    own: FxHashMap<(u32, u32), u64>,
    /// In the file's order.
    own_order: Vec<(u32, u32)>,
    arcs: CallArcs,
    sum: u64,
    /// The sum of the totals in the parts, and the current part's total.
    stated_sum: u64,
    has_totals: bool,
    /// What `sprof count` says of the file.
    notes: Vec<String>,
    stated_in_part: Option<u64>,
    values: u64,
}

/// The subject of the next line of costs, if it is a call.
#[derive(Default)]
struct CalledFunction {
    object: Option<u32>,
    file: Option<u32>,
    func: Option<u32>,
    calls: Option<u64>,
}

impl CallgrindReader {
    fn new() -> CallgrindReader {
        CallgrindReader {
            pid: NONE,
            thread: NONE,
            command: NONE,
            object: NONE,
            file: NONE,
            func: NONE,
            func_file: NONE,
            func_name: NONE,
            ..CallgrindReader::default()
        }
    }

    fn events(
        &mut self,
        value: &str,
        asked: Option<&str>,
        path: &std::path::Path,
        reader: &ForeignReader<'_>,
    ) -> Result<(), ReadError> {
        let names: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        if names.is_empty() {
            return Err(reader.wrong_line("expected names of events"));
        }
        if self.known_events.is_empty() {
            self.chosen = choose(path, asked, &names, 0)?;
            self.known_events = names;
            self.cost_at = self.chosen;
            self.values += self.known_events.len() as u64 * 8;
            return Ok(());
        }
        let chosen = &self.known_events[self.chosen];
        self.cost_at = (names.iter().position(|name| name == chosen)).ok_or_else(|| {
            reader.wrong_line(format!(
                "expected the event {chosen} of the part before among the events of this part"
            ))
        })?;
        Ok(())
    }

    fn line(&mut self, line: CallgrindLine<'_>, reader: &ForeignReader<'_>) -> Result<(), ReadError> {
        match line {
            CallgrindLine::Nothing => {}
            CallgrindLine::Header(key, value) => self.header(key, value, reader)?,
            CallgrindLine::Name(kind, name) => self.name(kind, name, reader)?,
            CallgrindLine::Calls(calls) => self.called.calls = Some(calls),
            CallgrindLine::Jump => {}
            CallgrindLine::Costs(position, costs) => {
                if self.known_events.is_empty() {
                    return Err(reader.wrong_line("expected a line `events: ...` before the first costs"));
                }
                self.last = line::absolute(position, self.last, self.columns)
                    .ok_or_else(|| reader.wrong_line("expected a position that is not below 0"))?;
                let cost =
                    line::cost(costs, self.cost_at, self.known_events.len()).map_err(|what| reader.wrong_line(what))?;
                self.costs(cost, reader)?;
            }
        }
        Ok(())
    }

    fn header(&mut self, key: &str, value: &str, reader: &ForeignReader<'_>) -> Result<(), ReadError> {
        match key {
            "version" if value.parse::<u32>().is_ok_and(|version| version > 1) => {
                return Err(reader.wrong_line(format!("expected version 1 of callgrind's format, found {value}")));
            }
            "creator" => self.creator = value.to_owned(),
            "desc" => {
                if let Some(note) = value.strip_prefix(NOTE_OF_COUNT) {
                    self.values += 8 + note.len() as u64 / 8;
                    self.notes.push(note.to_owned());
                }
            }
            "cmd" => self.command = self.tables.text(value),
            "pid" => {
                self.pid = self.tables.text(value);
                self.thread_is_known = false;
            }
            "thread" => {
                self.thread = self.tables.text(value);
                self.thread_is_known = false;
            }
            "part" => self.end_part(),
            "positions" => self.columns = line::columns(value).map_err(|what| reader.wrong_line(what))?,
            "summary" | "totals" => {
                let cost = line::cost(value, self.cost_at, self.known_events.len());
                self.stated_in_part = Some(cost.map_err(|what| reader.wrong_line(what))?);
                self.has_totals = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Each part has its own total, at its start or its end.
    fn end_part(&mut self) {
        self.stated_sum = self.stated_sum.saturating_add(self.stated_in_part.take().unwrap_or(0));
    }

    fn name(&mut self, kind: NameKind, name: NameOrNumber<'_>, reader: &ForeignReader<'_>) -> Result<(), ReadError> {
        let of = kind.table();
        let text = match name {
            // A function without a name may have a cost.
            NameOrNumber::Plain("") if of == FUNCTIONS => self.tables.text("[unknown]"),
            NameOrNumber::Plain(text) => self.tables.text(text),
            NameOrNumber::New(id, text) => {
                let text = self.tables.text(text);
                self.names[of].insert(id, text);
                self.values += 2;
                text
            }
            NameOrNumber::Known(id) => *(self.names[of].get(&id)).ok_or_else(|| {
                reader.wrong_line(format!(
                    "expected the number of a name that was given before, found ({id})"
                ))
            })?,
        };
        match kind {
            NameKind::Object => self.object = text,
            NameKind::File => self.file = text,
            NameKind::Function => {
                self.func_name = text;
                let lib = self.lib(self.object);
                self.func = self.tables.func_of(text, lib, self.file);
                self.func_file = self.file;
            }
            NameKind::InlinedFile => self.file = text,
            NameKind::CalledObject => self.called.object = Some(text),
            NameKind::CalledFile => self.called.file = Some(text),
            NameKind::CalledFunction => self.called.func = Some(text),
            NameKind::JumpFile | NameKind::JumpFunction => {}
        }
        Ok(())
    }

    fn costs(&mut self, cost: u64, reader: &ForeignReader<'_>) -> Result<(), ReadError> {
        if self.func_name == NONE {
            return Err(reader.wrong_line("expected a line `fn=...` before the first costs"));
        }
        let lib = self.lib(self.object);
        let line = u32::try_from(self.last.line).unwrap_or(0);
        let address = self.columns.instr.then_some(self.last.instr);
        let line_file = if self.file == self.func_file { NONE } else { self.file };
        let frame = self.tables.frame_of_line((self.func, line, line_file), lib, address);
        let thread = self.thread();
        let Some(calls) = self.called.calls.take() else {
            let at = (thread, frame);
            match self.own.entry(at) {
                Entry::Occupied(mut own) => *own.get_mut() = own.get().saturating_add(cost),
                Entry::Vacant(own) => {
                    own.insert(cost);
                    self.own_order.push(at);
                    self.values += 8;
                }
            }
            self.sum = self.sum.saturating_add(cost);
            return Ok(());
        };
        let called = std::mem::take(&mut self.called);
        let name = (called.func).ok_or_else(|| reader.wrong_line("expected a line `cfn=...` before `calls=...`"))?;
        let lib = self.lib(called.object.unwrap_or(self.object));
        let file = called.file.unwrap_or(self.file);
        self.values += self.arcs.add((thread, frame), (name, lib, file), calls, cost);
        Ok(())
    }

    fn lib(&mut self, object: u32) -> u32 {
        let path = self.tables.text_of(object);
        if path.is_empty() || path == "???" {
            return NONE;
        }
        let libs = &mut self.tables.data.libs;
        let next = libs.len() as u32;
        let lib = *self.libs.entry(object).or_insert(next);
        if lib == next {
            let lib = SavedLib::of_path(self.tables.text_of(object));
            self.values += 20 + self.tables.text_of(object).len() as u64 / 2;
            self.tables.data.libs.push(lib);
        }
        lib
    }

    fn thread(&mut self) -> u32 {
        if !self.thread_is_known {
            let key = (self.pid, self.thread);
            let next = self.threads.len() as u32;
            self.at_thread = *self.thread_ids.entry(key).or_insert(next);
            if self.at_thread == next {
                self.threads.push([self.pid, self.thread, self.command]);
                let length = |text| self.tables.text_of(text).len();
                let names = length(self.pid) + 2 * length(self.thread) + length(self.command);
                self.values += 48 + names as u64 / 8;
            }
            self.thread_is_known = true;
        }
        self.at_thread
    }

    fn finish(mut self, kind: ForeignFormat) -> Result<Foreign, ReadError> {
        self.end_part();
        let mut notes = std::mem::take(&mut self.notes);
        let name = self.known_events[self.chosen].clone();
        if self.stated_sum > 0 && self.stated_sum != self.sum {
            notes.push(format!(
                "its lines add up to {} {name}, but its own sum is {}: it is cut off, or not all of it was written",
                self.sum, self.stated_sum
            ));
        } else if !self.has_totals {
            notes.push("it has no sum of its own at its end: it may be cut off".to_owned());
        }
        notes.push(match kind {
            ForeignFormat::Cachegrind => "cachegrind counts no calls: totals are what functions cost themselves, and there are no callers".to_owned(),
            _ => "callgrind knows which function called which, but no call paths: totals are those of its arcs, and there is no \
                  call tree"
                .to_owned(),
        });
        if self.columns.instr && kind == ForeignFormat::Callgrind {
            notes.push("the file has no build ids: machine code is that of the files as they are now".to_owned());
        }
        let mut data = self.tables.into_data();
        let first = self.threads.first().map_or(self.command, |[_, _, command]| *command);
        let (program, arguments) = program_of(data.text(first));
        let (program, arguments) = (program.to_owned(), arguments.to_owned());
        let threads = self
            .threads
            .into_iter()
            .map(|texts| texts.map(|text| data.text(text).to_owned()));
        let threads: Vec<[String; 3]> = threads.collect();
        let mut samples: Vec<Samples> = vec![Samples::default(); threads.len()];
        let mut stack_of: FxHashMap<u32, u32> = FxHashMap::default();
        for (thread, frame) in self.own_order {
            let next = data.stacks.len() as u32;
            let stack = *stack_of.entry(frame).or_insert(next);
            if stack == next {
                data.stacks.push(crate::data::Stack { prefix: NONE, frame });
            }
            let rows = &mut samples[thread as usize];
            rows.stack.push(stack);
            rows.time_ms.push(0.0);
            rows.weight
                .get_or_insert_default()
                .push(self.own[&(thread, frame)] as f64);
        }
        data.threads = (threads.into_iter().zip(samples))
            .map(|([pid, tid, command], samples)| Thread {
                name: if tid.is_empty() {
                    String::new()
                } else {
                    format!("thread {tid}")
                },
                process_name: program_of(&command).0.to_owned(),
                pid,
                tid,
                samples,
                ..Thread::default()
            })
            .collect();
        data.calls = match kind {
            ForeignFormat::Callgrind => {
                let arcs = self.arcs.finish(&mut data);
                Calls::Arcs(arcs)
            }
            _ => Calls::Unknown,
        };
        data.arguments = arguments;
        data.product = program;
        // Files of callgrind's format that others write may hold samples.
        let is_exact = kind == ForeignFormat::Cachegrind || self.creator.starts_with("callgrind-");
        data.imported_from = match (kind, self.creator.as_str()) {
            (ForeignFormat::Cachegrind, _) => "cachegrind".to_owned(),
            (_, "") => "a callgrind file".to_owned(),
            (_, creator) => creator.to_owned(),
        };
        data.unit = WeightUnit::Counts;
        data.is_summed = true;
        data.symbolicated = true;
        data.weights = Some(Weights {
            name,
            unit: String::new(),
            others: others(&self.known_events, self.chosen),
            is_exact,
        });
        Ok(Foreign { data, notes })
    }
}

/// Name and arguments of the program in a command line.
fn program_of(command: &str) -> (&str, &str) {
    let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
    (program.rsplit('/').next().unwrap_or(program), arguments.trim())
}
