//! Moves everything in a profile that has a time.

use serde_json::Value;

use crate::data::{Data, Fields, MarkerPhase, shift_value};

/// Start and end of the profile, Unix time in ms.
pub(super) fn span_ms(data: &Data) -> (f64, f64) {
    let (begin, end) = file_span_ms(data);
    let start = match data.starts_with_recording {
        true => data.start_ms,
        false => data.start_ms + begin,
    };
    (start, start + end - begin)
}

/// Start and end in the file's times.
fn file_span_ms(data: &Data) -> (f64, f64) {
    let number = |key: &str| data.meta.get(key).and_then(Value::as_f64).filter(|ms| ms.is_finite());
    let samples = data.threads.iter().flat_map(|thread| &thread.samples.time_ms);
    let first = samples
        .clone()
        .copied()
        .filter(|time| time.is_finite())
        .reduce(f64::min);
    let last = samples.copied().filter(|time| time.is_finite()).reduce(f64::max);
    // If the file has no start, the front end takes the first sample.
    let begin = number("profilingStartTime").or(first).unwrap_or(0.0);
    let end = number("profilingEndTime").or(last).unwrap_or(begin);
    (begin, end.max(begin))
}

/// Moves the profile to this start in the merged timeline, ms.
pub(super) fn shift(data: &mut Data, begin_ms: f64) {
    let by_ms = begin_ms - file_span_ms(data).0;
    for thread in &mut data.threads {
        thread.samples.time_ms.iter_mut().for_each(|time| *time += by_ms);
        if let Some(allocations) = &mut thread.allocations {
            allocations.shift(by_ms);
        }
        for marker in &mut thread.markers {
            marker.start_ms += by_ms;
            marker.end_ms += by_ms;
            let cause = marker.fields.as_mut().and_then(|fields| fields.get_mut("cause"));
            cause.into_iter().for_each(|cause| shift_field(cause, "time", by_ms));
            debug_assert!(marker.phase != MarkerPhase::Instant || marker.start_ms == marker.end_ms);
        }
        shift_thread(&mut thread.rest, by_ms);
    }
    data.counters.iter_mut().for_each(|counter| counter.shift(by_ms));
    for key in ["profilingStartTime", "profilingEndTime"] {
        if let Some(time) = data.meta.get_mut(key) {
            shift_value(time, by_ms);
        }
    }
    if let Some(recorded) = &mut data.recorded {
        recorded.run_starts_ms.iter_mut().for_each(|start| *start += by_ms);
    }
    data.start_ms -= by_ms;
}

fn shift_thread(fields: &mut Fields, by_ms: f64) {
    for key in [
        "processStartupTime",
        "processShutdownTime",
        "registerTime",
        "unregisterTime",
    ] {
        fields
            .get_mut(key)
            .into_iter()
            .for_each(|time| shift_value(time, by_ms));
    }
    let paused = fields.get_mut("pausedRanges").and_then(Value::as_array_mut);
    for range in paused.into_iter().flatten() {
        shift_field(range, "startTime", by_ms);
        shift_field(range, "endTime", by_ms);
    }
    let table = fields.get_mut("jsAllocations");
    let times = table.and_then(|table| table.get_mut("time")?.as_array_mut());
    times.into_iter().flatten().for_each(|time| shift_value(time, by_ms));
}

fn shift_field(object: &mut Value, key: &str, by_ms: f64) {
    object
        .get_mut(key)
        .into_iter()
        .for_each(|time| shift_value(time, by_ms));
}
