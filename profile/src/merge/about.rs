//! Facts about a whole profile, combined for several profiles.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::data::facts::SprofFacts;
use crate::data::{CountedEvent, Data, NONE, RecordingFacts, RunExtent, SampledFacts};
use crate::to_data::number;

/// Starts with the first profile.
pub(super) fn begin(data: &mut Data, name: &str, start_ms: f64) {
    data.start_ms = start_ms;
    data.starts_with_recording = false;
    if let Some(sections) = data.meta.get_mut("extra").and_then(Value::as_array_mut) {
        name_sections(sections, name);
    }
}

/// Adds a further profile, whose tables are already merged.
pub(super) fn append(whole: &mut Data, mut data: Data, name: &str) {
    let threads = whole.threads.len() as u64;
    whole.threads.append(&mut data.threads);
    for mut counter in data.counters {
        if counter.thread != NONE {
            counter.thread += threads as u32;
        }
        whole.counters.push(counter);
    }
    for schema in data.schemas {
        let name = schema.get("name");
        match whole.schemas.iter_mut().find(|known| known.get("name") == name) {
            Some(known) => add_fields(known, &schema),
            None => whole.schemas.push(schema),
        }
    }
    whole.symbolicated &= data.symbolicated;
    if whole.product.is_empty() {
        whole.product = data.product;
    } else if !data.product.is_empty() && whole.product != data.product {
        whole.product = format!("{}, {}", whole.product, data.product);
    }
    whole.recorded = match (whole.recorded.take(), data.recorded) {
        (Some(whole), Some(other)) => Some(sum(whole, other)),
        // Unknown if one of them is unknown.
        _ => None,
    };
    // Facts about imported samples hold for the whole only if all profiles are imported.
    if !SprofFacts::of_meta(&whole.meta).is_imported() || !SprofFacts::of_meta(&data.meta).is_imported() {
        whole.meta.remove("sprof");
    }
    for (key, value) in data.rest {
        match whole.rest.get_mut(&key) {
            Some(known) => append_list(known, value),
            None => drop(whole.rest.insert(key, value)),
        }
    }
    let meta = &mut whole.meta;
    // Sums have none.
    if let Some(other) = meta_ms(&data.meta, "profilingEndTime") {
        let ms = meta_ms(meta, "profilingEndTime").unwrap_or(other);
        meta.insert("profilingEndTime".to_owned(), number(ms.max(other)));
    }
    if let (Some(ms), Some(other)) = (meta_ms(meta, "interval"), meta_ms(&data.meta, "interval")) {
        meta.insert("interval".to_owned(), number(ms.min(other)));
    }
    if let Some(Value::Array(mut sections)) = data.meta.remove("extra") {
        name_sections(&mut sections, name);
        append_list(meta.entry("extra").or_insert_with(|| json!([])), Value::Array(sections));
    }
    if let Some(visible) = data.meta.get("initialVisibleThreads").and_then(Value::as_array) {
        let moved = visible
            .iter()
            .filter_map(Value::as_u64)
            .map(|thread| json!(thread + threads));
        let all = meta.entry("initialVisibleThreads").or_insert_with(|| json!([]));
        append_list(all, Value::Array(moved.collect()));
    }
}

/// Updates `meta` from the fields.
pub(super) fn finish(whole: &mut Data) {
    if let Some(recorded) = &whole.recorded {
        let facts = SprofFacts::of_recorded(recorded.clone());
        whole.meta.insert("sprof".to_owned(), json!(facts));
    }
    for (key, value) in [
        ("product", json!(whole.product)),
        ("importedFrom", json!(crate::to_data::PRODUCER)),
        ("startTime", number(whole.start_ms)),
        ("profilingStartTime", json!(0)),
    ] {
        whole.meta.insert(key.to_owned(), value);
    }
    // The values of these keys differ from file to file.
    for key in [
        "endTime",
        "startTimeAsClockMonotonicNanosecondsSinceBoot",
        "arguments",
        "device",
        "profilingStartTimeUptime",
    ] {
        whole.meta.remove(key);
    }
}

fn meta_ms(meta: &crate::data::Fields, key: &str) -> Option<f64> {
    meta.get(key).and_then(Value::as_f64)
}

fn name_sections(sections: &mut [Value], name: &str) {
    for section in sections {
        if let Some(label) = section.get_mut("label")
            && let Some(text) = label.as_str()
        {
            *label = format!("{name}: {text}").into();
        }
    }
}

/// Adds the fields that a type of markers has in another profile: those of spans are the program's own.
fn add_fields(known: &mut Value, other: &Value) {
    let fields = known.get_mut("fields").and_then(Value::as_array_mut);
    if let (Some(fields), Some(others)) = (fields, other.get("fields").and_then(Value::as_array)) {
        let key = |field: &Value| field.get("key").and_then(Value::as_str).map(str::to_owned);
        let mut keys: HashSet<Option<String>> = fields.iter().map(key).collect();
        fields.extend(others.iter().filter(|field| keys.insert(key(field))).cloned());
    }
}

/// If both are not lists, the first value stays.
fn append_list(whole: &mut Value, other: Value) {
    if let (Value::Array(whole), Value::Array(mut other)) = (whole, other) {
        whole.append(&mut other);
    }
}

fn sum(mut whole: RecordingFacts, other: RecordingFacts) -> RecordingFacts {
    if whole.event != other.event {
        whole.event = format!("{}, {}", whole.event, other.event);
    }
    if whole.kernel_code != other.kernel_code {
        whole.kernel_code = format!("{}; {}", whole.kernel_code, other.kernel_code);
    }
    for asked in other.asked_events {
        if !whole.asked_events.contains(&asked) {
            whole.asked_events.push(asked);
        }
    }
    for event in other.counted_events {
        let same = |known: &&mut CountedEvent| known.event == event.event && known.period == event.period;
        match whole.counted_events.iter_mut().find(same) {
            Some(known) => known.counted = known.counted.saturating_add(event.counted),
            None => whole.counted_events.push(event),
        }
    }
    whole.commit = whole.commit.filter(|commit| Some(commit) == other.commit.as_ref());
    whole.stack_bytes = whole.stack_bytes.filter(|bytes| Some(*bytes) == other.stack_bytes);
    whole.asked_rate_hz = whole.asked_rate_hz.filter(|hz| Some(*hz) == other.asked_rate_hz);
    whole.achieved_rate_hz = whole.achieved_rate_hz.filter(|hz| Some(*hz) == other.achieved_rate_hz);
    if whole.extent != other.extent {
        whole.extent = RunExtent::Window;
    }
    whole.run_starts_ms.extend(other.run_starts_ms);
    whole.run_starts_ms.sort_by(f64::total_cmp);
    whole.tracks_are_cpus &= other.tracks_are_cpus;
    whole.processes += other.processes;
    whole.threads += other.threads;
    whole.samples = whole.samples.zip(other.samples).map(|(whole, other)| whole + other);
    whole.lost += other.lost;
    whole.truncated += other.truncated;
    whole.unverified += other.unverified;
    whole.by_framehop += other.by_framehop;
    whole.stacks_beside += other.stacks_beside;
    whole.truncated_beside += other.truncated_beside;
    whole.unverified_beside += other.unverified_beside;
    whole.heap = match (whole.heap, other.heap) {
        (Some(heap), Some(more)) => Some(heap.plus(more)),
        (heap, more) => heap.or(more),
    };
    // Of different times or machines.
    whole.running = None;
    whole.sampled = whole.sampled.zip(other.sampled).map(|(whole, other)| SampledFacts {
        sampled_ns: whole.sampled_ns.saturating_add(other.sampled_ns),
        parts: whole.parts.saturating_add(other.parts),
        lasted_ns: Vec::new(),
    });
    whole.resources = match (whole.resources, other.resources) {
        (Some(resources), Some(more)) => Some(resources.plus(more)),
        (resources, more) => resources.or(more),
    };
    for span in other.thinned_spans {
        match whole.thinned_spans.iter_mut().find(|known| known.name == span.name) {
            Some(known) => {
                known.count += span.count;
                known.kept += span.kept;
                known.intervals += span.intervals;
                known.total_ns = known.total_ns.saturating_add(span.total_ns);
                known.longest_ns = known.longest_ns.max(span.longest_ns);
            }
            None => whole.thinned_spans.push(span),
        }
    }
    whole.files_over_limit += other.files_over_limit;
    for limit in other.limits {
        let same = |known: &&mut crate::RecordingLimit| known.what == limit.what && known.words == limit.words;
        match whole.limits.iter_mut().find(same) {
            Some(known) => {
                known.count = known
                    .count
                    .map(|count| count + limit.count.unwrap_or(0))
                    .or(limit.count);
                known.ns = known.ns.map(|ns| ns + limit.ns.unwrap_or(0)).or(limit.ns);
            }
            None => whole.limits.push(limit),
        }
    }
    whole
}
