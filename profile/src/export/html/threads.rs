//! The rows of the timeline: threads, and counters of their processes.

use std::collections::hash_map::Entry;

use recording::counter::{Counter as ReadCounter, CounterOwner};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::columns::{PageColumns, micros};
use crate::data::{Counter, Data, Thread};
use crate::to_data::RUNNING;

/// Threads by name and id. The track of an event is in the row of the thread in which the event happened.
#[derive(Default)]
pub(super) struct ThreadRows {
    by_id: FxHashMap<(String, String, String), usize>,
    rows: Vec<Value>,
}

impl ThreadRows {
    pub(super) fn new(data: &Data) -> ThreadRows {
        let mut rows = ThreadRows::default();
        let (of_events, own): (Vec<_>, Vec<_>) = data.threads.iter().partition(|thread| thread.event_of.is_some());
        for thread in own {
            rows.add(thread);
        }
        // A track that was recorded as such has an id of its own, and follows its thread. One that was made of markers
        // has the thread's id.
        let mut thread_before = None;
        for thread in &data.threads {
            match &thread.event_of {
                None => thread_before = Some(thread),
                Some(of) => {
                    let is_of = |before: &&Thread| before.pid == thread.pid && before.name == *of;
                    if let Some(before) = thread_before.filter(is_of) {
                        let row = rows.of(before);
                        rows.by_id.entry(key(thread)).or_insert(row);
                    }
                }
            }
        }
        for thread in of_events {
            rows.add(thread);
        }
        rows
    }

    /// A row for a thread that has none.
    fn add(&mut self, thread: &Thread) {
        let number = self.rows.len();
        if let Entry::Vacant(vacant) = self.by_id.entry(key(thread)) {
            vacant.insert(number);
            let time = |field: &str| thread.rest.get(field).and_then(Value::as_f64).map(micros);
            self.rows.push(json!({
                "name": thread.event_of.as_ref().unwrap_or(&thread.name),
                "process": thread.process_name,
                "pid": thread.pid,
                "tid": thread.tid,
                "main": thread.is_main,
                "start": time("registerTime"),
                "end": time("unregisterTime"),
            }));
        }
    }

    /// The row of a thread.
    pub(super) fn of(&self, thread: &Thread) -> usize {
        self.by_id.get(&key(thread)).copied().unwrap_or(0)
    }

    pub(super) fn into_json(self) -> Value {
        Value::Array(self.rows)
    }
}

fn key(thread: &Thread) -> (String, String, String) {
    let name = thread.event_of.as_ref().unwrap_or(&thread.name);
    (thread.pid.clone(), thread.tid.clone(), name.clone())
}

/// Counters as lines: the rate, per second, or the sum so far.
pub(super) fn counters(data: &Data, rows: &ThreadRows, columns: &mut PageColumns) -> Value {
    let lines = data
        .counters
        .iter()
        .filter_map(|counter| line(data, counter, rows, columns));
    Value::Array(lines.collect())
}

fn line(data: &Data, counter: &Counter, rows: &ThreadRows, columns: &mut PageColumns) -> Option<Value> {
    let text = |key: &str| counter.fields.get(key).and_then(Value::as_str);
    // Hidden in the front end, too: the graph of the process's one thread shows the same.
    if text("name") == Some("processCPU") && counter.fields.contains_key("sprof") {
        return None;
    }
    let display = |key: &str| counter.fields.get("display")?.get(key)?.as_str();
    let samples = counter.fields.get("samples")?;
    let numbers = |key: &str| -> Option<Vec<f64>> {
        let list = samples.get(key)?.as_array()?;
        Some(list.iter().map(|number| number.as_f64().unwrap_or(0.0)).collect())
    };
    let times = numbers("time").or_else(|| {
        let sum = |sum: &mut f64, delta: f64| {
            *sum += delta;
            Some(*sum)
        };
        Some(numbers("timeDeltas")?.into_iter().scan(0.0, sum).collect())
    })?;
    let counts = numbers("count")?;
    let is_sum = display("graphType").map_or(text("name") == Some("malloc"), |kind| kind == "line-accumulated");
    let (mut sum, mut before) = (0.0, None);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (time, count) in times.iter().zip(&counts) {
        sum += count;
        let seconds = before.map_or(0.0, |before| (time - before) / 1000.0);
        let value = match is_sum {
            true => sum,
            false if seconds > 0.0 => count / seconds,
            false => 0.0,
        };
        before = Some(*time);
        points.push((*time, value));
    }
    let thread = data.threads.get(counter.thread as usize);
    let place = place(counter);
    if place != "machine"
        && text("name") != Some(RUNNING)
        && let Some(thread) = thread
    {
        points = within_life(points, thread);
    }
    // A point has the rate since the point before it, and a file has 0 before the first level.
    if let [first, second, ..] = &mut points[..]
        && (!is_sum || first.0 >= second.0)
    {
        first.1 = second.1;
    }
    // The front end takes the least sum as zero if the sum falls below it.
    let least = points.iter().map(|(_, value)| *value).fold(0.0, f64::min);
    let most = points.iter().map(|(_, value)| value - least).fold(0.0, f64::max);
    // Heights of a line of 16 bits: more than any screen shows.
    let height = |value: f64| {
        if most > 0.0 {
            ((value - least) / most * 65_535.0) as u64
        } else {
            0
        }
    };
    Some(json!({
        "name": display("label").or(text("name")).unwrap_or("counter"),
        "unit": display("unit").unwrap_or(""),
        "rate": !is_sum,
        "thread": thread.map(|thread| rows.of(thread)),
        "place": place,
        // Else it is of the whole process.
        "ofThread": thread.is_some_and(|thread| thread.event_of.is_some()),
        "most": most,
        "time": columns.deltas(points.iter().map(|(time, _)| micros(*time))),
        "value": columns.plain(points.iter().map(|(_, value)| height(*value))),
    }))
}

/// The points from the start of a thread to its end: before and after, events of it are not rare but impossible.
fn within_life(mut points: Vec<(f64, f64)>, thread: &Thread) -> Vec<(f64, f64)> {
    let time = |field: &str| thread.rest.get(field).and_then(Value::as_f64);
    if let Some(end) = time("unregisterTime") {
        // The point after the end has the rate up to the end.
        points.truncate(points.partition_point(|point| point.0 < end) + 1);
    }
    if let Some(start) = time("registerTime") {
        let before = points.partition_point(|point| point.0 <= start).saturating_sub(1);
        points.drain(..before);
    }
    points
}

/// Where a line stands: before the threads of its process, behind them, or behind all processes.
fn place(counter: &Counter) -> &'static str {
    let read = || ReadCounter::from_name(counter.fields.get("sprof")?.get("counter")?.as_str()?);
    match read() {
        None | Some(ReadCounter::ResidentBytes | ReadCounter::CpuNanoseconds) => "threads",
        Some(read) if read.info().owner == CounterOwner::Process => "process",
        Some(_) => "machine",
    }
}
