//! `counters`: memory and CPU time of processes over time.

use serde_json::{Value, json};

use super::counters::{counter_step, end_ns, line};
use super::numbers::{json_ms, number};
use crate::data::Counter;
use crate::recorded::Profile;
use crate::recorded::thread::RecordedProcess;
use crate::recorded::usage::UsageSeries;

/// Sorts them below the counters of events, whose weights are their indices.
const SORT_WEIGHT: usize = 1000;

/// At most three counters for each process with a main thread in the file.
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
        if is_line(&process.usage.resident_bytes) {
            let text = ["memory", "Memory", "Memory of the process that is in RAM"];
            let points = process.usage.resident_bytes.points();
            let display = bytes_display(["Memory", "Memory in RAM", "orange"], SORT_WEIGHT);
            lines.push(sum_of_bytes(text, points, display, process, main));
        }
        if process.heap.rows.len() > 0 {
            let text = [
                "heap",
                "Memory",
                "Sampled blocks that the process has allocated and not freed",
            ];
            let display = bytes_display(["Heap", "Heap, by its samples", "green"], SORT_WEIGHT + 1);
            lines.push(sum_of_bytes(
                text,
                &heap_points(profile, process),
                display,
                process,
                main,
            ));
        }
        // For a process with one thread, the thread's graph shows the same.
        if busy > 1 && is_line(&process.usage.cpu_ns) {
            lines.push(cpu(process, main));
        }
    }
    lines
}

/// The front end sums the counts and treats the first as unreliable, so the first is zero at the first reading's time.
/// `number` holds the process's total; the front end shows it as it is.
fn sum_of_bytes(
    text: [&str; 3],
    points: &[(i64, u64)],
    display: Value,
    process: &RecordedProcess,
    main_thread: usize,
) -> Counter {
    let first = points.first().map(|(time, _)| (*time, 0));
    let points: Vec<(i64, u64)> = first.into_iter().chain(points.iter().copied()).collect();
    let before = [0].into_iter().chain(points.iter().map(|(_, bytes)| *bytes));
    let counts = points.iter().zip(before);
    let counts: Vec<i64> = counts
        .map(|((_, bytes), before)| bytes.cast_signed().wrapping_sub(before.cast_signed()))
        .collect();
    let numbers: Vec<u64> = points.iter().map(|(_, bytes)| *bytes).collect();
    line(
        text,
        &process.id,
        main_thread,
        json!({"time": times(&points), "count": counts, "number": numbers, "length": points.len()}),
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

/// Counts are ms of CPU time since the previous point. Their rate is the number of busy CPUs.
fn cpu(process: &RecordedProcess, main_thread: usize) -> Counter {
    let points = process.usage.cpu_ns.points();
    let before = points.first().into_iter().chain(points);
    let counts = points.iter().zip(before);
    let counts: Vec<Value> = counts
        .map(|((_, cpu_ns), (_, before))| number(cpu_ns.saturating_sub(*before) as f64 / 1e6))
        .collect();
    line(
        // Not `processCPU`: the front end leaves out counters of that name (src/profile-logic/tracks.ts).
        ["cpu", "CPU", "CPU time of all threads of the process"],
        &process.id,
        main_thread,
        json!({"time": times(points), "count": counts, "length": points.len()}),
        cpu_display(),
    )
}

fn times(points: &[(i64, u64)]) -> Vec<Value> {
    points.iter().map(|(time, _)| json_ms(*time)).collect()
}

/// A single point is not drawn.
fn is_line(series: &UsageSeries) -> bool {
    series.points().len() > 1
}

/// `CounterDisplayConfig` of src/types/profile.ts.
fn bytes_display([label, value, color]: [&str; 3], sort_weight: usize) -> Value {
    let bytes = json!({"unit": "bytes"});
    json!({
        "graphType": "line-accumulated",
        "unit": "bytes",
        "color": color,
        "markerSchemaLocation": null,
        "sortWeight": sort_weight,
        "label": label,
        "tooltipRows": [
            {"type": "value", "source": "sample-number", "format": bytes, "label": value},
            {"type": "value", "source": "count-range", "format": bytes, "label": "Range in the graph"},
        ],
    })
}

fn cpu_display() -> Value {
    json!({
        "graphType": "line-rate",
        "unit": "percent",
        "color": "grey",
        "markerSchemaLocation": null,
        "sortWeight": SORT_WEIGHT + 2,
        "label": "Process CPU",
        "tooltipRows": [
            {"type": "value", "source": "rate", "format": {"unit": "percent"}, "label": "CPU of all threads (100 % is one CPU)"},
            {"type": "value", "source": "selection-total", "format": {"unit": "number"}, "requiresPreviewSelection": true,
                "label": "ms of CPU time in the selection"},
        ],
    })
}
