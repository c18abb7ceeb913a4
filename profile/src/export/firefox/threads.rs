//! `threads`: samples and markers; `counters`.

use std::io;

use super::json::{Json, ns, put_ms, put_optional, put_optional_ms, put_unsigned, some};
use crate::data::facts::counted_by;
use crate::data::{Allocations, Counter, Fields, Marker, MarkerPhase, Samples, Thread, WeightUnit};
use crate::to_data::number;

fn put_weight(buf: &mut Vec<u8>, weight: f64, unit: WeightUnit) {
    match unit {
        WeightUnit::Milliseconds => put_ms(buf, ns(weight)),
        _ if !weight.is_finite() => buf.push(b'0'),
        _ => put_number(buf, weight),
    }
}

/// A decimal number without an exponent, which reads back as the same number.
fn put_number(buf: &mut Vec<u8>, number: f64) {
    // Above this number, f64 skips whole numbers.
    const WHOLE: f64 = (1u64 << 53) as f64;
    match number.fract() == 0.0 && (0.0..WHOLE).contains(&number) {
        true => put_unsigned(buf, number as u64),
        false => buf.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// `null` for a number that is not known.
fn put_known(buf: &mut Vec<u8>, number: &f64) {
    match number.is_finite() {
        true => put_number(buf, *number),
        false => buf.extend_from_slice(b"null"),
    }
}

pub(super) fn write(thread: &Thread, json: &mut Json) -> io::Result<()> {
    json.fields(&thread.rest)?;
    match &thread.event {
        // The front end calls counts samples. This name stands above the call tree.
        Some(event) if thread.event_of.is_none() => json.entry("name", &counted_by(&thread.name, event))?,
        _ => json.entry("name", &thread.name)?,
    }
    json.entry("isMainThread", &thread.is_main)?;
    json.entry("processName", &thread.process_name)?;
    json.entry("pid", &thread.pid)?;
    json.entry("tid", &thread.tid)?;
    if let Some(event) = &thread.event {
        json.entry("event", event)?;
    }
    if let Some(of) = &thread.event_of {
        json.entry("eventOf", of)?;
    }
    json.key("samples")?;
    json.object(|json| write_samples(thread, json))?;
    json.key("markers")?;
    json.object(|json| write_markers(thread, json))?;
    if let Some(allocations) = &thread.allocations {
        json.key("nativeAllocations")?;
        json.object(|json| write_allocations(allocations, json))?;
    }
    Ok(())
}

fn write_allocations(allocations: &Allocations, json: &mut Json) -> io::Result<()> {
    json.column("time", allocations.time_ms.iter(), |buf, time| put_ms(buf, ns(*time)))?;
    json.column("weight", allocations.weight.iter(), put_known)?;
    json.column("stack", allocations.stack.iter(), |buf, stack| {
        put_optional(buf, some(*stack))
    })?;
    for (key, numbers) in [("memoryAddress", &allocations.address), ("size", &allocations.size)] {
        if let Some(numbers) = numbers {
            json.column(key, numbers.iter(), |buf, number| put_optional(buf, *number))?;
        }
    }
    if let Some(threads) = &allocations.thread {
        json.column("threadId", threads.iter(), put_known)?;
    }
    if let Some(end) = allocations.end_ms {
        json.key("end")?;
        json.value(|buf| put_ms(buf, ns(end)))?;
    }
    json.fields(&allocations.rest)?;
    json.entry("length", &allocations.weight.len())
}

/// Samples weighted by time each have a weight. Without weights, the front end takes the gaps between samples as their
/// time: 206 samples of 1 ms with waits between them became 3,008 ms.
fn write_samples(thread: &Thread, json: &mut Json) -> io::Result<()> {
    let samples = &thread.samples;
    let unit = thread.unit;
    json.column("stack", samples.stack.iter(), |buf, stack| {
        put_optional(buf, some(*stack))
    })?;
    let mut last = 0;
    let deltas = samples.time_ms.iter().map(|time| {
        let time = ns(*time);
        let delta = time.wrapping_sub(last);
        last = time;
        delta
    });
    json.column("timeDeltas", deltas, put_ms)?;
    match &samples.weight {
        Some(weights) => json.column("weight", weights.iter(), |buf, weight| put_weight(buf, *weight, unit))?,
        None if samples.is_empty() => json.constant_column("weight", 0, "")?,
        None => json.entry("weight", &())?,
    }
    json.entry("weightType", &weight_type(unit))?;
    // sprof's own column: the number of samples that each row represents.
    if let Some(counts) = &samples.count {
        json.column("count", counts.iter(), |buf, count| put_unsigned(buf, *count))?;
    }
    write_cpu(samples, json)?;
    json.fields(&samples.rest)?;
    json.entry("length", &samples.len())
}

/// The front end has no unit for counts, so they are written as samples. It ignores the thread's `event`, which names
/// the count.
pub(in crate::export) fn weight_type(unit: WeightUnit) -> &'static str {
    match unit {
        WeightUnit::Milliseconds => "tracing-ms",
        WeightUnit::Bytes => "bytes",
        WeightUnit::Samples | WeightUnit::Counts => "samples",
    }
}

/// Writes CPU time.
fn write_cpu(samples: &Samples, json: &mut Json) -> io::Result<()> {
    const KEY: &str = "threadCPUDelta";
    match &samples.cpu_delta {
        Some(deltas) => json.column(KEY, deltas.iter(), put_known),
        None => Ok(()),
    }
}

fn write_markers(thread: &Thread, json: &mut Json) -> io::Result<()> {
    let markers = &thread.markers;
    json.column("data", markers.iter(), |buf, marker| match &marker.fields {
        // Writing JSON to memory cannot fail.
        Some(fields) => drop(serde_json::to_writer(buf, &with_cause(marker, fields))),
        None => buf.extend_from_slice(b"null"),
    })?;
    json.column("name", markers.iter(), |buf, marker| {
        put_unsigned(buf, marker.name.into())
    })?;
    json.column("startTime", markers.iter(), |buf, marker| {
        put_optional_ms(buf, (marker.phase != MarkerPhase::End).then(|| ns(marker.start_ms)));
    })?;
    json.column("endTime", markers.iter(), |buf, marker| {
        let has_end = matches!(marker.phase, MarkerPhase::Interval | MarkerPhase::End);
        put_optional_ms(buf, has_end.then(|| ns(marker.end_ms)));
    })?;
    json.column("phase", markers.iter(), |buf, marker| {
        put_unsigned(buf, marker.phase as u64)
    })?;
    json.column("category", markers.iter(), |buf, marker| {
        put_unsigned(buf, marker.category.into())
    })?;
    json.entry("length", &markers.len())
}

/// The fields with the index of the marker's stack in the data.
pub(in crate::export) fn with_cause(marker: &Marker, fields: &Fields) -> Fields {
    let mut fields = fields.clone();
    if let (Some(stack), Some(cause)) = (
        some(marker.stack),
        fields.get_mut("cause").and_then(|cause| cause.as_object_mut()),
    ) {
        cause.insert("stack".to_owned(), stack.into());
        if let Some(weight) = marker.weight {
            cause.insert("weight".to_owned(), number(weight));
        }
    }
    fields
}

pub(super) fn write_counter(counter: &Counter, json: &mut Json) -> io::Result<()> {
    json.object(|json| {
        json.entry("mainThreadIndex", &some(counter.thread).unwrap_or(0))?;
        json.fields(&counter.fields)
    })
}
