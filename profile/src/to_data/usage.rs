//! `counters`: what was read of processes and of the machine over time, and the heap of processes.

use recording::counter::{Counter as ReadCounter, CounterInfo, CounterOwner, CounterUnit};
use serde_json::{Value, json};

use super::counters::{counter_step, end_ns, line};
use super::numbers::{json_ms, number};
use crate::data::{Counter, ResourceFacts, UnreadFacts};
use crate::recorded::Profile;
use crate::recorded::spans::PlotSeries;
use crate::recorded::thread::RecordedProcess;

/// Sorts them below the counters of events, whose weights are their indices.
const SORT_WEIGHT: usize = 1000;
/// `GraphColor`s of src/types/profile.ts.
const COLORS: [&str; 6] = ["orange", "grey", "blue", "red", "green", "purple"];

/// The counters of each process with a main thread in the file, and then those of the machine, which follow the first
/// process.
pub(super) fn lines(profile: &Profile) -> Vec<Counter> {
    // For each process: its main thread, and the number of its threads with samples.
    let mut threads_of = vec![(None, 0); profile.processes.len()];
    for (index, thread) in profile.threads.iter().enumerate() {
        if let Some((main, busy)) = threads_of.get_mut(thread.process.0)
            && thread.event.is_none()
        {
            *main = main.or(thread.is_main.then_some(index));
            *busy += usize::from(thread.samples.len() > 0);
        }
    }
    let mut lines = Vec::new();
    for (process, (main, busy)) in profile.processes.iter().zip(threads_of) {
        let Some(main) = main else { continue };
        for (counter, points) in process.usage.lines() {
            let is_alone = counter == ReadCounter::CpuNanoseconds && busy <= 1;
            let drawn = DrawnCounter {
                info: counter.info(),
                device: "",
                pid: &process.id,
                thread: main,
                is_hidden: is_alone,
            };
            lines.push(drawn.line(points));
        }
        lines.extend(
            process
                .plots
                .iter()
                .map(|(name, series)| plot(process, main, name, series)),
        );
        if process.heap.rows.len() > 0 {
            lines.push(heap(profile, process, main));
        }
    }
    let Some((index, first)) = profile
        .threads
        .iter()
        .enumerate()
        .find(|(_, thread)| thread.event.is_none())
    else {
        return lines;
    };
    for ((counter, device), series) in &profile.machine.series {
        let drawn = DrawnCounter {
            info: counter.info(),
            device: device.as_str(),
            pid: &profile.processes[first.process.0].id,
            thread: index,
            is_hidden: false,
        };
        if series.points().len() > 1 {
            lines.push(drawn.line(series.points()));
        }
    }
    lines
}

/// What is known of the machine's figures as a whole; `None` if nobody tried to read them.
pub(super) fn facts(profile: &Profile) -> Option<ResourceFacts> {
    let machine = &profile.machine;
    let unread = machine.unread.iter().map(|((counter, cause), times)| UnreadFacts {
        counter: counter.info().name.to_owned(),
        cause: cause.name().to_owned(),
        processes: (counter.info().owner == CounterOwner::Process).then_some(*times),
    });
    machine.is_recorded().then(|| ResourceFacts {
        cpus: profile.info.host.logical_cpus,
        memory_bytes: profile.info.host.memory_bytes,
        unread: unread.collect(),
    })
}

/// A counter of a process, or of the machine beside one.
struct DrawnCounter<'a> {
    info: &'static CounterInfo,
    device: &'a str,
    pid: &'a str,
    thread: usize,
    /// The front end leaves out counters of the name `processCPU` (src/profile-logic/tracks.ts): for a process with one
    /// thread, the thread's graph shows the same.
    is_hidden: bool,
}

impl DrawnCounter<'_> {
    fn line(&self, points: &[(i64, u64)]) -> Counter {
        let info = self.info;
        let label = match self.device {
            "" => info.label.to_owned(),
            device => format!("{device}: {}", info.label),
        };
        let name = match (self.is_hidden, self.device) {
            (true, _) => "processCPU".to_owned(),
            (false, "") => info.name.to_owned(),
            (false, device) => format!("{} {device}", info.name),
        };
        let (category, description) = match info.counter {
            ReadCounter::ResidentBytes => ("Memory", "Memory of the process that is in RAM"),
            ReadCounter::CpuNanoseconds => ("CPU", "CPU time of all threads of the process"),
            _ => ("Resource", &*label),
        };
        let samples = match info.is_sum {
            true => sums(points, info.unit),
            false => levels(points.iter().map(|(time, value)| (*time, *value as f64))),
        };
        let mut made = line(
            [&name, category, description],
            self.pid,
            self.thread,
            samples,
            self.display(&label),
        );
        made.fields
            .insert("sprof".to_owned(), json!({"counter": info.name, "device": self.device}));
        made
    }

    /// `CounterDisplayConfig` of src/types/profile.ts.
    fn display(&self, label: &str) -> Value {
        let info = self.info;
        let number = json!({"unit": "number"});
        let bytes = json!({"unit": "bytes"});
        let percent = json!({"unit": "percent"});
        let second = json!({"unit": "bytes-per-second"});
        let (unit, rate, total) = match info.unit {
            CounterUnit::Nanoseconds => (
                "percent",
                (&percent, "100 % is one all the time"),
                (&number, "ms in the selection"),
            ),
            CounterUnit::Bytes => ("bytes", (&second, "a second"), (&bytes, "in the selection")),
            CounterUnit::Count => ("count", (&number, "per ms"), (&number, "in the selection")),
            CounterUnit::Hertz => ("Hz", (&number, ""), (&number, "")),
        };
        let rows = match info.is_sum {
            true => json!([
                {"type": "value", "source": "rate", "format": rate.0, "label": format!("{label} ({})", rate.1)},
                {"type": "value", "source": "selection-total", "format": total.0, "requiresPreviewSelection": true,
                    "label": format!("{label}: {}", total.1)},
            ]),
            false => json!([
                {"type": "value", "source": "sample-number", "format": total.0, "label": label},
                {"type": "value", "source": "count-range", "format": total.0, "label": "Range in the graph"},
            ]),
        };
        display(
            info.is_sum,
            unit,
            COLORS[info.counter as usize % COLORS.len()],
            info.counter as usize,
            label,
            &rows,
        )
    }
}

fn display(is_sum: bool, unit: &str, color: &str, place: usize, label: &str, tooltip_rows: &Value) -> Value {
    json!({
        "graphType": if is_sum { "line-rate" } else { "line-accumulated" },
        "unit": unit,
        "color": color,
        "markerSchemaLocation": null,
        "sortWeight": SORT_WEIGHT + place,
        "label": label,
        "tooltipRows": tooltip_rows,
    })
}

/// The front end sums the counts and treats the first as unreliable, so the first is zero at the first reading's time.
/// `number` holds the value; the front end shows it as it is.
fn levels(points: impl Iterator<Item = (i64, f64)>) -> Value {
    let mut points = points.peekable();
    let first = points.peek().map(|(time, _)| (*time, 0.0));
    let points: Vec<(i64, f64)> = first.into_iter().chain(points).collect();
    let before = [0.0].into_iter().chain(points.iter().map(|(_, value)| *value));
    let counts = points.iter().zip(before);
    let counts: Vec<Value> = counts.map(|((_, value), before)| number(value - before)).collect();
    let numbers: Vec<Value> = points.iter().map(|(_, value)| number(*value)).collect();
    json!({"time": times(&points), "count": counts, "number": numbers, "length": points.len()})
}

/// What was added since the previous point. Times are in ms: their rate is the number of busy CPUs, or disks.
fn sums(points: &[(i64, u64)], unit: CounterUnit) -> Value {
    let before = points.first().into_iter().chain(points);
    let counts = points.iter().zip(before);
    let counts: Vec<Value> = counts
        .map(|((_, value), (_, before))| {
            let added = value.saturating_sub(*before);
            match unit {
                CounterUnit::Nanoseconds => number(added as f64 / 1e6),
                _ => added.into(),
            }
        })
        .collect();
    json!({"time": times(points), "count": counts, "length": points.len()})
}

fn times<T>(points: &[(i64, T)]) -> Vec<Value> {
    points.iter().map(|(time, _)| json_ms(*time)).collect()
}

/// A counter of the program.
fn plot(process: &RecordedProcess, main: usize, name: &str, series: &PlotSeries) -> Counter {
    let format = json!({"unit": "number"});
    let rows = json!([
        {"type": "value", "source": "sample-number", "format": format, "label": name},
        {"type": "value", "source": "count-range", "format": format, "label": "Range in the graph"},
    ]);
    let display = display(false, "count", "magenta", 0, name, &rows);
    line(
        [name, "Program", "A counter of the program"],
        &process.id,
        main,
        levels(series.points()),
        display,
    )
}

/// Living blocks, by the samples of the heap.
fn heap(profile: &Profile, process: &RecordedProcess, main: usize) -> Counter {
    let text = [
        "heap",
        "Memory",
        "Sampled blocks that the process has allocated and not freed",
    ];
    let bytes = json!({"unit": "bytes"});
    let rows = json!([
        {"type": "value", "source": "sample-number", "format": bytes, "label": "Heap, by its samples"},
        {"type": "value", "source": "count-range", "format": bytes, "label": "Range in the graph"},
    ]);
    let display = display(false, "bytes", "green", 0, "Heap", &rows);
    line(
        text,
        &process.id,
        main,
        levels(
            heap_points(profile, process)
                .into_iter()
                .map(|(time, value)| (time, value as f64)),
        ),
        display,
    )
}

/// The bytes of the living blocks of a process over time: in each step the most and the last, and the same before the
/// next step and at the end, since lines are drawn from point to point.
fn heap_points(profile: &Profile, process: &RecordedProcess) -> Vec<(i64, u64)> {
    let step = counter_step(profile);
    let mut points: Vec<(i64, u64)> = Vec::new();
    let start = (process.start.max(0), 0);
    let (mut sum, mut most, mut last) = (0u64, start, start);
    for row in process.heap.rows.iter() {
        if row.time / step != last.0 / step {
            points.extend([most, last, ((row.time - 1).max(last.0), sum)]);
            most = (row.time, 0);
        }
        sum = match row.taken {
            Some(_) => sum.saturating_add(row.weight),
            None => sum.saturating_sub(row.weight),
        };
        last = (row.time, sum);
        if sum >= most.1 {
            most = last;
        }
    }
    let end = process.end.unwrap_or_else(|| end_ns(profile));
    points.extend([most, last, (end.max(last.0), sum)]);
    points.dedup();
    points
}
