//! The text of `perf script`, with times, threads and call paths: the input of `cargo flamegraph` and inferno.
//!
//! There is no specification: tools/perf/builtin-script.c of Linux writes the fields that the user chooses (`-F`). A sample is a line with
//! its thread, time and event, then its frames, leaf first, then an empty line:
//!
//! ```text
//! app 7/8 [000]   12.000345:    1000000 cpu-clock:uhH:
//!         55d1c2a3b1e5 leaf+0x15 (/home/me/app)
//!         7f3a1b2c3d4e __libc_start_main+0x7d (/usr/lib/libc.so.6)
//! ```

use std::path::Path;

use rustc_hash::FxHashMap;

use super::encoding;
use super::source::{Reader, Source};
use super::tables::Tables;
use super::{Foreign, ReadError, choose, others};
use crate::category::Kind;
use crate::data::{Category, NONE, Samples, Thread, Unit, Weights};
use crate::export::label::NO_STACK;
use crate::read::SavedLib;
use crate::read::v8::readable_names;

/// True if these bytes begin with a sample, or with the header of `perf script --header`.
pub(super) fn is_perf_script(start: &[u8]) -> bool {
    // perf_session__fprintf_info, tools/perf/util/session.c.
    if start.starts_with(b"# ========\n# captured on") {
        return true;
    }
    let lines = start.split_inclusive(|byte| *byte == b'\n');
    let mut lines = lines.skip_while(|line| line.trim_ascii().is_empty() || line.starts_with(b"#"));
    let mut line = || {
        let line = lines.next().filter(|line| line.ends_with(b"\n"))?;
        Some(String::from_utf8_lossy(line).trim_end().to_owned())
    };
    let (Some(first), second) = (line(), line()) else {
        return false;
    };
    if head(&first).is_some() || is_whole(&head_without_time(&first)) {
        return true;
    }
    // Without times, the frame below tells a sample. `-F ip,sym` leaves nothing but frames.
    let is_frame = |line: &str| is_indented(line) && frame(line).is_some_and(|frame| !frame.name.is_empty());
    is_frame(&first) || !is_indented(&first) && second.is_some_and(|second| is_frame(&second))
}

/// True for the lines below the first line of a sample, which itself may be padded with spaces.
fn is_indented(line: &str) -> bool {
    line.starts_with('\t')
}

/// The first line of a sample. `-F` may leave any field out.
#[derive(Debug, Default)]
struct Head<'a> {
    /// Empty without `comm`.
    name: &'a str,
    /// `None` without `pid`.
    pid: Option<&'a str>,
    /// Empty without `tid`.
    tid: &'a str,
    time_ns: Option<u64>,
    period: Option<u64>,
    /// Empty without `event`.
    event: &'a str,
    /// The only frame of a sample without a call chain; the fields of a tracepoint.
    rest: &'a str,
}

/// `name [PID/]TID [CPU] SECONDS.FRACTION: [PERIOD] EVENT: ...`. The time identifies it, because thread names have any characters.
fn head(line: &str) -> Option<Head<'_>> {
    colons(line).find_map(|(before, after)| {
        let (before, time) = split_last(before);
        let thread = thread(before);
        let (period, event, rest) = period_and_event(after)?;
        // Other texts have numbers with a colon behind them, too. perf prints six or nine decimals.
        let is_whole = !thread.name.is_empty() && !thread.tid.is_empty() && !event.is_empty();
        let has_decimals = || {
            time.split_once('.')
                .is_some_and(|(_, decimals)| matches!(decimals.len(), 6 | 9))
        };
        (is_whole || has_decimals()).then_some(Head {
            time_ns: Some(time_ns(time)?),
            period,
            event,
            rest,
            ..thread
        })
    })
}

/// The first line of a sample without a time. Only the frames below prove that it is one.
fn head_without_time(line: &str) -> Head<'_> {
    let found = colons(line).find_map(|(before, after)| {
        // `app 4100 1000000 cycles:u:`, `app 4100 sched:sched_switch: prev_comm=app ...`.
        let event = split_last(before).1;
        let (before, period) = with_period(&before[..before.len() - event.len()]);
        let thread = thread(before);
        let rest = after.trim();
        (rest.is_empty() || !thread.tid.is_empty()).then_some(Head {
            period,
            event,
            rest,
            ..thread
        })
    });
    found.unwrap_or_else(|| in_one_line(line).unwrap_or_else(|| thread(line)))
}

/// `app 4100 55d0c0de1149 leaf`, without event and call chain: the number of the thread, then an address.
fn in_one_line(line: &str) -> Option<Head<'_>> {
    /// Addresses of code are longer than numbers of threads.
    const ADDRESS_DIGITS: usize = 6;
    let mut before = 0;
    while let Some((word, rest)) = first_word(&line[before..]) {
        let at = line.len() - rest.len();
        let address = first_word(rest).map_or("", |(address, _)| address);
        let is_address = address.len() >= ADDRESS_DIGITS && address.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_address && (is_ids(word) || is_cpu(word)) {
            let thread = thread(&line[..at]);
            return (!thread.tid.is_empty()).then_some(Head {
                rest: rest.trim(),
                ..thread
            });
        }
        before = at;
    }
    None
}

/// True if a line is a whole sample.
fn is_whole(head: &Head<'_>) -> bool {
    let is_found = |frame: FrameLine<'_>| !frame.file.is_empty() || head.event.is_empty() && !frame.name.is_empty();
    !head.tid.is_empty() && frame(head.rest).is_some_and(is_found)
}

/// What stands before and behind each colon that ends a word.
fn colons(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let ends = line.match_indices(':').map(|(at, _)| (&line[..at], &line[at + 1..]));
    ends.filter(|(_, after)| after.chars().next().is_none_or(char::is_whitespace))
}

/// Takes the period off the end: a number behind the thread's number, or a number padded to ten characters.
fn with_period(before: &str) -> (&str, Option<u64>) {
    const PERIOD_WIDTH: usize = 10;
    let before = before.trim_end();
    let (rest, word) = split_last(before);
    let padded = before.len() - before[..before.len() - word.len()].trim_end().len();
    let is_padded = padded > PERIOD_WIDTH || rest.is_empty() && padded == PERIOD_WIDTH;
    let previous = split_last(rest).1;
    match word.parse() {
        Ok(period) if is_padded || is_ids(previous) || is_cpu(previous) => (rest, Some(period)),
        _ => (before, None),
    }
}

/// `name [PID/]TID [CPU]`. Each part may be missing.
fn thread(text: &str) -> Head<'_> {
    let (rest, last) = split_last(text);
    let text = if is_cpu(last) { rest } else { text.trim() };
    let (name, ids) = split_last(text);
    let (pid, tid) = match ids.split_once('/') {
        Some((pid, tid)) => (Some(pid), tid),
        None => (None, ids),
    };
    let known = Head::default();
    match is_ids(ids) {
        true => Head {
            name,
            pid,
            tid,
            ..known
        },
        false => Head { name: text, ..known },
    }
}

fn is_cpu(text: &str) -> bool {
    let number = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    number.is_some_and(is_number)
}

/// `PID/TID`, or one number. perf prints -1 for threads that have exited.
fn is_ids(text: &str) -> bool {
    let is_id = |id: &str| is_number(id.strip_prefix('-').unwrap_or(id));
    match text.split_once('/') {
        Some((pid, tid)) => is_id(pid) && is_id(tid),
        None => is_id(text),
    }
}

/// `[PERIOD] EVENT: ...` behind a time, or the only frame of a sample without an event; `None` for anything else.
fn period_and_event(after: &str) -> Option<(Option<u64>, &str, &str)> {
    let period = first_word(after).and_then(|(word, rest)| Some((word.parse().ok()?, rest)));
    let (period, rest) = period.map_or((None, after), |(period, rest)| (Some(period), rest));
    let Some((word, rest)) = first_word(rest) else {
        return Some((period, "", ""));
    };
    match word.strip_suffix(':') {
        Some(event) => Some((period, event, rest.trim())),
        // Lines of --show-mmap-events and similar options.
        None if word.starts_with("PERF_RECORD_") => Some((period, word, rest.trim())),
        None => {
            let is_frame = frame(after).is_some_and(|frame| !frame.file.is_empty());
            is_frame.then_some((None, "", after.trim()))
        }
    }
}

/// The last word, and what stands before it; both without white space around them.
fn split_last(text: &str) -> (&str, &str) {
    let text = text.trim();
    match text.rfind(char::is_whitespace) {
        Some(at) => (text[..at].trim_end(), text[at..].trim_start()),
        None => ("", text),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn first_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Seconds with six or nine decimals.
fn time_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let ns = fraction.parse::<u64>().ok()? * scale;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// A frame: the function's name and its file.
struct FrameLine<'a> {
    name: &'a str,
    file: &'a str,
}

/// `ADDRESS NAME[+0xOFFSET] (FILE)`; `-F` may drop everything after the address.
fn frame(line: &str) -> Option<FrameLine<'_>> {
    let (address, rest) = first_word(line)?;
    let digits = address.strip_prefix("0x").unwrap_or(address);
    u64::from_str_radix(digits, 16).ok()?;
    let rest = rest.trim();
    // The suffix of a path whose file was replaced while mapped.
    let (rest, is_deleted) = match rest.strip_suffix(" (deleted))") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let inner = if is_deleted { Some(rest) } else { rest.strip_suffix(')') };
    let place = inner.and_then(|inner| match inner.rsplit_once(" (") {
        Some((name, file)) => Some((name, file)),
        None => Some(("", inner.strip_prefix('(')?)),
    });
    let (name, file) = place.unwrap_or((rest, ""));
    let name = match name.rsplit_once("+0x") {
        Some((bare, offset)) if u64::from_str_radix(offset, 16).is_ok() => bare,
        _ => name,
    };
    Some(FrameLine {
        name: name.trim(),
        file,
    })
}

/// The unit of an event's periods, and the factor to it.
fn unit(event: &str) -> (Unit, f64) {
    // Modifiers follow a colon: `cpu-clock:u`.
    let name = event.split(':').next().unwrap_or_default();
    match name {
        "cpu-clock" | "task-clock" => (Unit::Milliseconds, 1e-6),
        // The names in sprof's export.
        "samples" | "waits" => (Unit::Samples, 1.0),
        "bytes" => (Unit::Bytes, 1.0),
        name if name.ends_with("-ns") => (Unit::Milliseconds, 1e-6),
        _ => (Unit::Counts, 1.0),
    }
}

/// Reads the text.
pub(super) fn read(source: &mut Source, event: Option<&str>) -> Result<Foreign, ReadError> {
    let path = source.path.clone();
    let mut building = Building {
        asked: event,
        ..Building::default()
    };
    let mut reader = source.read()?;
    let mut line = Vec::new();
    while reader.line(&mut line)? {
        let text = encoding::text(&line);
        building.line(&text);
        reader.keeps(building.values())?;
    }
    building.end_sample();
    let lines = reader.line_number();
    building.finish(&path, lines, &reader)
}

/// A frame of the current sample: text of the name, library, and file and line if known. [`INLINED`] stands for the library of the frame
/// that it is inlined into.
#[derive(Clone, Copy)]
struct Place {
    name: u32,
    lib: u32,
    file: u32,
    line: u32,
}

const INLINED: u32 = NONE - 1;

struct Rows {
    name: String,
    /// Texts of the file; the first one is empty if absent.
    pid: String,
    tid: String,
    time_ns: Vec<u64>,
    stack: Vec<u32>,
    period: Vec<Option<u64>>,
}

#[derive(Default)]
struct Building<'a> {
    asked: Option<&'a str>,
    tables: Tables,
    libs: FxHashMap<u32, u32>,
    /// Number of samples by event name.
    events: Vec<(String, u64)>,
    /// Index of the chosen event.
    chosen: Option<usize>,
    threads: Vec<Rows>,
    by_ids: FxHashMap<(String, String), usize>,
    /// Thread, time and period of the current sample, if it is of the chosen event.
    at_hand: Option<(usize, Option<u64>, Option<u64>)>,
    /// The number and the text of a line that begins a sample if a frame follows.
    maybe_head: Option<(u64, String)>,
    /// True from a sample's first line to the empty line after it.
    is_inside: bool,
    /// Its frames, leaf first.
    frames: Vec<Place>,
    nameless_leaves: u64,
    /// A sample has no time.
    has_no_times: bool,
    lost: u64,
    not_understood: u64,
    first_not_understood: u64,
    lines: u64,
    os: String,
    cpu: String,
    values: u64,
}

impl<'a> Building<'a> {
    fn values(&self) -> u64 {
        self.values + self.tables.values() + self.frames.len() as u64 * 2
    }

    fn line(&mut self, line: &str) {
        self.lines += 1;
        if line.trim().is_empty() {
            return self.end_sample();
        }
        if let Some(comment) = line.strip_prefix('#') {
            return self.comment(comment);
        }
        if !is_indented(line)
            && let Some(head) = head(line)
        {
            self.end_sample();
            return self.begin_sample(&head);
        }
        if !self.is_inside {
            let head = self.maybe_head.take();
            if let Some(first) = frame(line).filter(|_| is_indented(line)) {
                let line = head.map_or_else(String::new, |(_, line)| line);
                self.begin_sample(&head_without_time(&line));
                return self.frame(&first);
            }
            self.maybe_head = head;
            self.end_sample();
            self.maybe_head = Some((self.lines, line.to_owned()));
            return;
        }
        if self.is_inside && line.starts_with(char::is_whitespace) {
            match frame(line) {
                Some(frame) => return self.frame(&frame),
                None if self.source_line(line.trim()) => return,
                None => {}
            }
        }
        self.not_understood(self.lines);
    }

    fn not_understood(&mut self, line: u64) {
        if self.not_understood == 0 {
            self.first_not_understood = line;
        }
        self.not_understood += 1;
    }

    /// `# os release : 6.1.0` and other lines.
    fn comment(&mut self, comment: &str) {
        let Some((key, value)) = comment.split_once(" : ") else {
            return;
        };
        match key.trim() {
            "os release" => self.os = format!("Linux {}", value.trim()),
            "cpudesc" => self.cpu = value.trim().to_owned(),
            _ => {}
        }
    }

    fn begin_sample(&mut self, head: &Head<'_>) {
        if let Some(record) = head.event.strip_prefix("PERF_RECORD_") {
            // `PERF_RECORD_LOST lost 12`, of --show-lost-events.
            if record == "LOST" || record == "LOST_SAMPLES" {
                let count = head.rest.split_whitespace().last().and_then(|word| word.parse().ok());
                self.lost = self.lost.saturating_add(count.unwrap_or(1));
            }
            return;
        }
        self.is_inside = true;
        // What a period counts is not known without the event.
        let (event, period) = match head.event {
            "" => ("samples", None),
            event => (event, head.period),
        };
        let event = self.event(event);
        if self.chosen != Some(event) {
            return;
        }
        let thread = self.thread(head);
        self.at_hand = Some((thread, head.time_ns, period));
        if let Some(frame) = frame(head.rest).filter(|frame| !frame.file.is_empty()) {
            self.frame(&frame);
        }
    }

    fn event(&mut self, name: &str) -> usize {
        let found = self.events.iter().position(|(known, _)| known == name);
        let at = found.unwrap_or(self.events.len());
        if found.is_none() && at < MAX_EVENTS {
            self.events.push((name.to_owned(), 0));
            let is_asked = self.asked.is_none_or(|asked| name.eq_ignore_ascii_case(asked));
            self.chosen = self.chosen.or(is_asked.then_some(at));
        }
        if let Some((_, count)) = self.events.get_mut(at) {
            *count += 1;
        }
        at
    }

    fn thread(&mut self, head: &Head<'_>) -> usize {
        // Without numbers, the names tell threads.
        let tid = if head.tid.is_empty() { head.name } else { head.tid };
        let ids = (head.pid.unwrap_or_default().to_owned(), tid.to_owned());
        let threads = &mut self.threads;
        let values = &mut self.values;
        let at = *self.by_ids.entry(ids).or_insert_with_key(|(pid, tid)| {
            *values += 48;
            threads.push(Rows {
                name: String::new(),
                pid: pid.clone(),
                tid: if head.tid.is_empty() {
                    String::new()
                } else {
                    tid.clone()
                },
                time_ns: Vec::new(),
                stack: Vec::new(),
                period: Vec::new(),
            });
            threads.len() - 1
        });
        // A thread starts with its parent's name.
        let name = &mut threads[at].name;
        if name != head.name {
            self.values += head.name.len() as u64 / 8;
            head.name.clone_into(name);
        }
        at
    }

    fn frame(&mut self, frame: &FrameLine<'_>) {
        if self.at_hand.is_none() {
            return;
        }
        let lib = match frame.file {
            "" | "[unknown]" => NONE,
            "inlined" => INLINED,
            file => self.lib(file),
        };
        let is_nameless = matches!(frame.name, "" | "[unknown]");
        self.nameless_leaves += u64::from(is_nameless && self.frames.is_empty());
        let name = if is_nameless { "[unknown]" } else { frame.name };
        self.frames.push(Place {
            name: self.tables.text(name),
            lib,
            file: NONE,
            line: NONE,
        });
    }

    /// Reads `main.c:12`, on its own line below the frame (`-F +srcline`). False for another line.
    fn source_line(&mut self, text: &str) -> bool {
        let place = text
            .rsplit_once(':')
            .and_then(|(file, line)| Some((file, line.parse().ok()?)));
        match (place, self.frames.last_mut()) {
            (Some((file, line)), Some(frame)) => {
                (frame.file, frame.line) = (self.tables.text(file), line);
                true
            }
            (place, _) => place.is_some() && self.at_hand.is_none(),
        }
    }

    fn lib(&mut self, path: &str) -> u32 {
        let text = self.tables.text(path);
        let libs = &mut self.tables.data.libs;
        let next = libs.len() as u32;
        let lib = *self.libs.entry(text).or_insert(next);
        if lib == next {
            self.values += 24 + path.len() as u64 / 2;
            libs.push(SavedLib::of_path(path));
        }
        lib
    }

    fn end_sample(&mut self) {
        self.is_inside = false;
        if let Some((number, line)) = self.maybe_head.take() {
            // Without call chains, a sample is one line.
            let head = head_without_time(&line);
            match is_whole(&head) {
                true => self.begin_sample(&head),
                false => self.not_understood(number),
            }
            self.is_inside = false;
        }
        let Some((thread, time_ns, period)) = self.at_hand.take() else {
            return;
        };
        let mut stack = NONE;
        let mut outer = NONE;
        let is_no_stack = |frame: &Place| self.tables.text_of(frame.name) == NO_STACK;
        if let [frame] = &self.frames[..]
            && is_no_stack(frame)
        {
            // sprof's export marks samples without a stack in this way.
            self.frames.clear();
        }
        for place in self.frames.drain(..).rev() {
            let inlined = place.lib == INLINED;
            if !inlined {
                outer = place.lib;
            }
            let func = self.tables.func_of(place.name, outer, place.file);
            let line = if place.line == NONE { 0 } else { place.line };
            let frame = self.tables.frame(func, line, outer, None, inlined);
            stack = self.tables.stack(stack, frame);
        }
        let rows = &mut self.threads[thread];
        self.has_no_times |= time_ns.is_none();
        rows.time_ns.push(time_ns.unwrap_or_default());
        rows.stack.push(stack);
        rows.period.push(period);
        self.values += 8;
    }

    fn finish(self, path: &Path, lines: u64, reader: &Reader<'_>) -> Result<Foreign, ReadError> {
        let names: Vec<String> = self.events.iter().map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            let expected =
                "expected a sample of perf script, `app 7/8 [000] 12.345678: 1000000 cpu-clock:`, found the end";
            return Err(reader.wrong_line(if lines == 0 {
                "expected a sample, found an empty file"
            } else {
                expected
            }));
        }
        let chosen = choose(path, self.asked, &names, 0)?;
        let event = names[chosen].clone();
        let all_periods = || self.threads.iter().flat_map(|rows| &rows.period);
        let has_periods = all_periods().all(Option::is_some);
        let (unit, scale) = if has_periods {
            unit(&event)
        } else {
            (Unit::Samples, 1.0)
        };
        let mut notes = self.notes(has_periods);
        let zero_ns = self
            .threads
            .iter()
            .flat_map(|rows| &rows.time_ns)
            .min()
            .copied()
            .unwrap_or(0);
        let interval_ms = match unit {
            Unit::Milliseconds => all_periods()
                .flatten()
                .max()
                .map_or(0.0, |period| *period as f64 * scale),
            _ => 0.0,
        };
        let has_no_times = self.has_no_times;
        if has_no_times {
            notes.push("the text has no times, so samples are added up; `perf script -F +time` prints them".to_owned());
        }
        let mut main_names: FxHashMap<String, String> = FxHashMap::default();
        for rows in &self.threads {
            match rows.pid == rows.tid {
                true => main_names.insert(rows.pid.clone(), rows.name.clone()),
                false => None,
            };
        }
        let mut data = self.tables.into_data();
        let threads = self.threads.into_iter().map(|rows| {
            let mut order: Vec<usize> = (0..rows.stack.len()).collect();
            order.sort_by_key(|at| rows.time_ns[*at]);
            let weights = || order.iter().map(|at| rows.period[*at].unwrap_or(1));
            let process_name = main_names.get(&rows.pid).filter(|_| !rows.pid.is_empty());
            Thread {
                is_main: rows.pid == rows.tid,
                process_name: process_name.unwrap_or(&rows.name).clone(),
                samples: Samples {
                    time_ms: (order.iter())
                        .map(|at| {
                            if has_no_times {
                                0.0
                            } else {
                                (rows.time_ns[*at] - zero_ns) as f64 / 1e6
                            }
                        })
                        .collect(),
                    stack: order.iter().map(|at| rows.stack[*at]).collect(),
                    weight: Some(weights().map(|period| period as f64 * scale).collect()),
                    count: Some(match unit {
                        Unit::Samples => weights().collect(),
                        _ => vec![1; order.len()],
                    }),
                    ..Samples::default()
                },
                unit,
                event: (unit == Unit::Counts).then(|| event.clone()),
                name: rows.name,
                pid: rows.pid,
                tid: rows.tid,
                ..Thread::default()
            }
        });
        data.threads = threads.collect();
        data.product = data
            .threads
            .first()
            .map(|thread| thread.process_name.clone())
            .unwrap_or_default();
        data.imported_from = "perf script".to_owned();
        (data.os, data.cpu) = (self.os, self.cpu);
        data.interval_ms = interval_ms;
        data.is_summed = has_no_times;
        data.unit = unit;
        data.symbolicated = true;
        data.categories = Category::all();
        for frame in &mut data.frames {
            let lib = data.libs.get(frame.lib as usize).and_then(|lib| lib.path.as_deref());
            frame.category = lib.map_or(0, |lib| {
                kind_of(lib, &data.product).category(frame.is_inlined()).0 as u32
            });
        }
        readable_names(&mut data);
        data.weights = Some(Weights {
            name: event,
            unit: if unit == Unit::Milliseconds {
                "nanoseconds".to_owned()
            } else {
                String::new()
            },
            others: others(&names, chosen),
        });
        if data.threads.iter().all(|thread| thread.pid.is_empty()) {
            notes.push("the text has no process ids; `perf script -F +pid` prints them".to_owned());
        }
        Ok(Foreign { data, notes })
    }

    fn notes(&self, has_periods: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if self.lost > 0 {
            notes.push(format!("{} records were lost while recording", self.lost));
        }
        if !has_periods {
            notes.push("the text does not say what samples stand for: each counts as one".to_owned());
        }
        if self.nameless_leaves > 0 {
            notes.push(format!(
                "perf had no name for the leaf of {}; a report of the perf.data file itself may have one",
                super::count(self.nameless_leaves, "sample")
            ));
        }
        if self.not_understood > 0 {
            notes.push(format!(
                "{} not understood and left out, the first of them line {}",
                match self.not_understood {
                    1 => "1 line is".to_owned(),
                    lines => format!("{lines} lines are"),
                },
                self.first_not_understood
            ));
        }
        notes
    }
}

/// Most event names of a file: each lookup is linear.
const MAX_EVENTS: usize = 1000;

/// The kind of a file, by its path.
fn kind_of(path: &str, program: &str) -> Kind {
    let name = path.rsplit('/').next().unwrap_or(path);
    match path {
        "[vdso]" => Kind::Vdso,
        // The kernel, and its modules: `[ext4]`, or their files.
        path if path.starts_with("[kernel") || path.contains("/vmlinux") || name.contains(".ko") => Kind::Kernel,
        path if path.starts_with("/tmp/perf-") || name.starts_with("jitted-") => Kind::Jit,
        _ if name.starts_with(program) && !program.is_empty() => Kind::Program,
        path => Kind::of_file(Path::new(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_samples_are_as_perf_prints_them() {
        let of = |line: &'static str| {
            let head = head(line)?;
            Some((head.name, head.pid, head.tid, head.time_ns?, head.period, head.event))
        };
        for (line, expected) in [
            (
                "java 25607 4794564.109216: cycles:",
                ("java", None, "25607", 4_794_564_109_216_000, None, "cycles"),
            ),
            (
                "V8 WorkerThread 24636/25607 [000] 94564.109216:      33 cycles:u: ",
                (
                    "V8 WorkerThread",
                    Some("24636"),
                    "25607",
                    94_564_109_216_000,
                    Some(33),
                    "cycles:u",
                ),
            ),
            (
                "            perf   123 [001]     1.000000001:   250000   cpu-clock:pppH:      ffff81 f+0x1 ([kernel.kallsyms])",
                ("perf", None, "123", 1_000_000_001, Some(250_000), "cpu-clock:pppH"),
            ),
            (
                "a: 1.5: b 7/-1 [003] 2.000000: sched:sched_switch: prev_comm=x",
                ("a: 1.5: b", Some("7"), "-1", 2_000_000_000, None, "sched:sched_switch"),
            ),
        ] {
            assert_eq!(of(line), Some(expected), "{line}");
        }
        for line in [
            "main;work 12",
            "hello: world",
            "a 7/7 1: cycles:",
            "a 7 1.5: 12",
            "a x 1.5: cycles:",
            "7 1.5: cycles:",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn the_first_lines_of_samples_may_lack_any_field() {
        let of = |line: &'static str| {
            let head = head_without_time(line);
            (head.name, head.pid, head.tid, head.period, head.event)
        };
        for (line, expected) in [
            ("app 4100 cycles: ", ("app", None, "4100", None, "cycles")),
            (
                "foobar [worker] 21332 cycles:u:",
                ("foobar [worker]", None, "21332", None, "cycles:u"),
            ),
            (
                "a: b  7/8  1000 cycles:",
                ("a: b", Some("7"), "8", Some(1000), "cycles"),
            ),
            ("app     1000000 cycles:", ("app", None, "", Some(1_000_000), "cycles")),
            ("   1000000 cycles:", ("", None, "", Some(1_000_000), "cycles")),
            ("  4100 [003] cycles:", ("", None, "4100", None, "cycles")),
            (
                "app  4100 [003]  250000 cycles:",
                ("app", None, "4100", Some(250_000), "cycles"),
            ),
            (
                "app 7 sched:sched_switch: prev_comm=x: y",
                ("app", None, "7", None, "sched:sched_switch"),
            ),
            ("cycles: ", ("", None, "", None, "cycles")),
            ("app", ("app", None, "", None, "")),
            ("my app  7/8 [001]", ("my app", Some("7"), "8", None, "")),
            (
                "     busy  2243   7f2b0eb76439 clock_gettime@@GLIBC_2.17",
                ("busy", None, "2243", None, ""),
            ),
            ("", ("", None, "", None, "")),
        ] {
            assert_eq!(of(line), expected, "{line}");
        }
        let timed = |line: &'static str| {
            let head = head(line)?;
            Some((head.name, head.tid, head.time_ns?, head.event, head.rest))
        };
        for (line, expected) in [
            (
                "  7/8 100.000000:  1 cpu-clock: ",
                ("", "8", 100_000_000_000, "cpu-clock", ""),
            ),
            ("app 7 [001] 1.000000001: ", ("app", "7", 1_000_000_001, "", "")),
            ("1.000000: 10 f+0x1 (/a)", ("", "", 1_000_000_000, "", "10 f+0x1 (/a)")),
        ] {
            assert_eq!(timed(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn frames_have_a_name_and_a_file() {
        for (line, name, file) in [
            ("\t    55d1 leaf+0x15 (/home/me/app)", "leaf", "/home/me/app"),
            (
                "\t  ffff8100 do_sys+0x5 ([kernel.kallsyms])",
                "do_sys",
                "[kernel.kallsyms]",
            ),
            (
                "\t 7f A::operator()(int) const+0x1f (/a b/c)",
                "A::operator()(int) const",
                "/a b/c",
            ),
            ("\t 7f f+0x1 (/usr/bin/app (deleted))", "f", "/usr/bin/app"),
            ("\t 7f f (inlined)", "f", "inlined"),
            ("\t 7f [unknown] ([unknown])", "[unknown]", "[unknown]"),
            ("\t 7f only_a_name", "only_a_name", ""),
            ("\t 7f (/lib/x)", "", "/lib/x"),
        ] {
            let found = frame(line).unwrap();
            assert_eq!((found.name, found.file), (name, file), "{line}");
        }
        assert!(frame("\t main.c:12").is_none());
    }
}
