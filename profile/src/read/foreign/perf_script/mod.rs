//! The text of `perf script`, with times, threads and call paths: the input of `cargo flamegraph` and inferno.
//!
//! There is no specification: tools/perf/builtin-script.c of Linux writes the fields that the user chooses (`-F`). A
//! sample is a line with its thread, time and event, then its frames, leaf first, then an empty line:
//!
//! ```text
//! app 7/8 [000]   12.000345:    1000000 cpu-clock:uhH:
//!         55d1c2a3b1e5 leaf+0x15 (/home/me/app)
//!         7f3a1b2c3d4e __libc_start_main+0x7d (/usr/lib/libc.so.6)
//! ```

mod line;
mod programs;

use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use super::encoding;
use super::source::{ForeignFile, ForeignReader};
use super::tables::ForeignTables;
use super::{Foreign, ReadError, choose, others};
use crate::data::NO_STACK_LABEL;
use crate::data::SavedLib;
use crate::data::{NONE, Samples, Thread, WeightUnit, Weights};
pub(super) use line::is_perf_script;
use line::{DEFERRED_CALL_CHAIN, FrameLine, SampleHead, frame, head, head_without_time, is_indented, is_whole};
use programs::{SampledThread, ScriptPrograms};
use recording::stack::StackMark;

/// The unit of an event's periods, and the factor to it.
fn unit(event: &str) -> (WeightUnit, f64) {
    // Modifiers follow a colon: `cpu-clock:u`.
    let name = event.split(':').next().unwrap_or_default();
    match name {
        "cpu-clock" | "task-clock" => (WeightUnit::Milliseconds, 1e-6),
        // The names in sprof's export.
        "samples" | "waits" => (WeightUnit::Samples, 1.0),
        "bytes" => (WeightUnit::Bytes, 1.0),
        name if name.ends_with("-ns") => (WeightUnit::Milliseconds, 1e-6),
        _ => (WeightUnit::Counts, 1.0),
    }
}

/// Reads the text.
pub(super) fn read(source: &mut ForeignFile, event: Option<&str>) -> Result<Foreign, ReadError> {
    let path = source.path.clone();
    let mut building = PerfScriptReader {
        asked: event,
        ..PerfScriptReader::default()
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

/// A frame of the current sample: text of the name, library, and file and line if known. [`INLINED`] stands for the
/// library of the frame that it is inlined into.
#[derive(Clone, Copy)]
struct ScriptFrame {
    name: u32,
    lib: u32,
    file: u32,
    line: u32,
}

const INLINED: u32 = NONE - 1;

/// The samples of a thread while it executes one program.
struct ProgramSamples {
    thread: SampledThread,
    program: usize,
    time_ns: Vec<u64>,
    stack: Vec<u32>,
    period: Vec<Option<u64>>,
}

#[derive(Default)]
struct PerfScriptReader<'a> {
    asked: Option<&'a str>,
    tables: ForeignTables,
    libs: FxHashMap<u32, u32>,
    /// Number of samples by event name.
    events: Vec<(String, u64)>,
    /// Index of the chosen event.
    chosen: Option<usize>,
    programs: ScriptPrograms,
    threads: Vec<ProgramSamples>,
    /// By program, and number or else name of the thread.
    by_ids: FxHashMap<(usize, String), usize>,
    /// Time and period of the current sample, if it is of the chosen event.
    at_hand: Option<(Option<u64>, Option<u64>)>,
    /// Its thread.
    thread: SampledThread,
    /// The number and the text of a line that begins a sample if a frame follows.
    maybe_head: Option<(u64, String)>,
    /// True from a sample's first line to the empty line after it.
    is_inside: bool,
    /// Its frames, leaf first.
    frames: Vec<ScriptFrame>,
    nameless_leaves: u64,
    /// A sample has no time.
    has_no_times: bool,
    lost: u64,
    deferred: u64,
    not_understood: u64,
    first_not_understood: u64,
    lines: u64,
    os: String,
    cpu: String,
    values: u64,
}

impl<'a> PerfScriptReader<'a> {
    fn values(&self) -> u64 {
        self.values + self.tables.values() + self.programs.values() + self.frames.len() as u64 * 2
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

    fn begin_sample(&mut self, head: &SampleHead<'_>) {
        self.is_inside = head.event == DEFERRED_CALL_CHAIN;
        self.deferred += u64::from(self.is_inside);
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
        head.pid.unwrap_or_default().clone_into(&mut self.thread.pid);
        head.tid.clone_into(&mut self.thread.tid);
        head.name.clone_into(&mut self.thread.name);
        self.at_hand = Some((head.time_ns, period));
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

    /// The rows of the current sample.
    fn thread(&mut self) -> usize {
        let libs = &self.tables.data.libs;
        let files = (self.frames.iter()).filter_map(|frame| {
            let path = libs.get(frame.lib as usize)?.path.as_deref()?;
            Some((frame.lib, path))
        });
        let program = self.programs.of_sample(&self.thread, files);
        // Without numbers, threads are distinguished by their names.
        let tid = if self.thread.tid.is_empty() {
            &self.thread.name
        } else {
            &self.thread.tid
        };
        let at = *self.by_ids.entry((program, tid.clone())).or_insert_with(|| {
            self.values += 48 + 2 * tid.len() as u64 / 8;
            self.threads.push(ProgramSamples {
                thread: SampledThread::default(),
                program,
                time_ns: Vec::new(),
                stack: Vec::new(),
                period: Vec::new(),
            });
            self.threads.len() - 1
        });
        // A thread starts with its parent's name.
        let known = &mut self.threads[at].thread;
        if *known != self.thread {
            self.values += self.thread.name.len() as u64 / 8;
            known.clone_from(&self.thread);
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
        let name = match frame.name {
            // With --no-merge-callchains, this identifies the record that has the user part.
            "(cookie)" if lib == NONE => StackMark::TruncatedDeferred.label(),
            name => name,
        };
        let is_nameless = matches!(name, "" | "[unknown]");
        self.nameless_leaves += u64::from(is_nameless && self.frames.is_empty());
        let name = if is_nameless { "[unknown]" } else { name };
        self.frames.push(ScriptFrame {
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
        let Some((time_ns, period)) = self.at_hand.take() else {
            return;
        };
        let thread = self.thread();
        let mut stack = NONE;
        let mut outer = NONE;
        let is_no_stack = |frame: &ScriptFrame| self.tables.text_of(frame.name) == NO_STACK_LABEL;
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

    fn finish(self, path: &Path, lines: u64, reader: &ForeignReader<'_>) -> Result<Foreign, ReadError> {
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
            (WeightUnit::Samples, 1.0)
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
            WeightUnit::Milliseconds => all_periods()
                .flatten()
                .max()
                .map_or(0.0, |period| *period as f64 * scale),
            _ => 0.0,
        };
        let has_no_times = self.has_no_times;
        if has_no_times {
            notes.push("the text has no times, so samples are added up; `perf script -F +time` prints them".to_owned());
        }
        let mut data = self.tables.into_data();
        let (processes, of_program) = self.programs.into_processes();
        let threads = of_processes(self.threads, &of_program);
        let with_file = threads.iter().position(|rows| processes[rows.program].has_file);
        let mut uses: FxHashMap<(String, String), u32> = FxHashMap::default();
        let mut has_main: FxHashSet<usize> = FxHashSet::default();
        let threads = threads.into_iter().map(|rows| {
            let mut order: Vec<usize> = (0..rows.stack.len()).collect();
            order.sort_by_key(|at| rows.time_ns[*at]);
            let weights = || order.iter().map(|at| rows.period[*at].unwrap_or(1));
            let process = &processes[rows.program];
            let SampledThread { pid, tid, name } = rows.thread;
            let earlier = uses.entry((pid.clone(), tid.clone())).or_default();
            *earlier += 1;
            Thread {
                is_main: pid == tid && has_main.insert(rows.program),
                process_name: if process.name.is_empty() {
                    name.clone()
                } else {
                    process.name.clone()
                },
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
                        WeightUnit::Samples => weights().collect(),
                        _ => vec![1; order.len()],
                    }),
                    ..Samples::default()
                },
                unit,
                event: (unit == WeightUnit::Counts).then(|| event.clone()),
                name,
                pid: numbered(pid, process.earlier),
                tid: numbered(tid, *earlier - 1),
                ..Thread::default()
            }
        });
        data.threads = threads.collect();
        // What runs before the first program has the code of libraries and of the kernel alone.
        let product = data.threads.get(with_file.unwrap_or(0));
        data.product = product.map(|thread| thread.process_name.clone()).unwrap_or_default();
        data.imported_from = "perf script".to_owned();
        (data.os, data.cpu) = (self.os, self.cpu);
        data.interval_ms = interval_ms;
        data.is_summed = has_no_times;
        data.unit = unit;
        data.symbolicated = true;
        data.weights = Some(Weights {
            name: event,
            unit: if unit == WeightUnit::Milliseconds {
                "nanoseconds".to_owned()
            } else {
                String::new()
            },
            others: others(&names, chosen),
            is_exact: false,
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
        if self.deferred > 0 {
            notes.push(format!(
                "{} printed apart from the samples, which end in the kernel; `perf script` without --no-merge-callchains \
                 joins them",
                match self.deferred {
                    1 => "1 deferred call chain is".to_owned(),
                    chains => format!("{chains} deferred call chains are"),
                }
            ));
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

/// Puts the rows of a thread together where only a name changed. Those of a main thread stay apart, each with its name:
/// A process that executes a link to its own file also gets another name.
fn of_processes(threads: Vec<ProgramSamples>, of_program: &[usize]) -> Vec<ProgramSamples> {
    let mut known: FxHashMap<(usize, String), usize> = FxHashMap::default();
    let mut together: Vec<ProgramSamples> = Vec::new();
    for mut rows in threads {
        rows.program = of_program[rows.program];
        let at = match rows.thread.is_main_for_certain() {
            true => together.len(),
            false => *(known.entry((rows.program, rows.thread.tid.clone()))).or_insert(together.len()),
        };
        match together.get_mut(at) {
            None => together.push(rows),
            Some(known) => {
                known.thread = rows.thread;
                known.time_ns.append(&mut rows.time_ns);
                known.stack.append(&mut rows.stack);
                known.period.append(&mut rows.period);
            }
        }
    }
    together
}

/// `1234`, then `1234.1`, `1234.2`, as in recordings. No number stays none.
fn numbered(number: String, earlier: u32) -> String {
    match earlier {
        0 => number,
        _ if number.is_empty() => number,
        earlier => format!("{number}.{earlier}"),
    }
}

/// Most event names of a file: each lookup is linear.
const MAX_EVENTS: usize = 1000;
