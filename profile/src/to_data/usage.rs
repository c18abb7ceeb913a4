//! `counters`: memory and CPU time of processes over time.

use serde_json::{Value, json};

use super::counters::line;
use super::numbers::{json_ms, number};
use crate::data::Counter;
use crate::recorded::Profile;
use crate::recorded::thread::RecordedProcess;
use crate::recorded::usage::UsageSeries;

/// Sorts them below the counters of events, whose weights are their indices.
const SORT_WEIGHT: usize = 1000;

/// At most two counters for each process with a main thread in the file.
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
            lines.push(memory(process, main));
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
fn memory(process: &RecordedProcess, main_thread: usize) -> Counter {
    let points = process.usage.resident_bytes.points();
    let first = points.first().map(|(time, _)| (*time, 0));
    let points: Vec<(i64, u64)> = first.into_iter().chain(points.iter().copied()).collect();
    let before = [0].into_iter().chain(points.iter().map(|(_, bytes)| *bytes));
    let counts = points.iter().zip(before);
    let counts: Vec<i64> = counts
        .map(|((_, bytes), before)| bytes.cast_signed().wrapping_sub(before.cast_signed()))
        .collect();
    let numbers: Vec<u64> = points.iter().map(|(_, bytes)| *bytes).collect();
    line(
        ["memory", "Memory", "Memory of the process that is in RAM"],
        &process.id,
        main_thread,
        json!({"time": times(&points), "count": counts, "number": numbers, "length": points.len()}),
        memory_display(),
    )
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
fn memory_display() -> Value {
    let bytes = json!({"unit": "bytes"});
    json!({
        "graphType": "line-accumulated",
        "unit": "bytes",
        "color": "orange",
        "markerSchemaLocation": null,
        "sortWeight": SORT_WEIGHT,
        "label": "Memory",
        "tooltipRows": [
            {"type": "value", "source": "sample-number", "format": bytes, "label": "Memory in RAM"},
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
        "sortWeight": SORT_WEIGHT + 1,
        "label": "Process CPU",
        "tooltipRows": [
            {"type": "value", "source": "rate", "format": {"unit": "percent"}, "label": "CPU of all threads (100 % is one CPU)"},
            {"type": "value", "source": "selection-total", "format": {"unit": "number"}, "requiresPreviewSelection": true,
                "label": "ms of CPU time in the selection"},
        ],
    })
}
