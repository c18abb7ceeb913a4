//! The table of markers.

use profile::text::numbers::{bytes, counts, grouped, number_json, time};
use profile::view::markers::{MarkerField, MarkerRow, MarkerSpans, Markers};
use profile::view::select::Selection;
use serde_json::{Value, json};

use super::{ReportRow, Table};
use crate::args::Sort;

/// Most frequent values of a field in text and Markdown.
const FREQUENT: usize = 3;

/// At most `rows` rows.
pub(super) fn table(markers: Markers, sort: Sort, rows: usize) -> Table {
    let Markers {
        rows: mut found,
        seconds,
    } = markers;
    let total = |row: &MarkerRow| row.spans.unwrap_or_default().total_ms;
    match sort {
        Sort::Own => {}
        Sort::Total => found.sort_by(|a, b| total(b).total_cmp(&total(a))),
        Sort::Name => found.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    let has_spans = found.iter().any(|row| row.spans.is_some());
    // A probe with a period makes a marker of every tenth call, for example.
    let has_events = found.iter().any(|row| row.events != row.count as f64);
    let optional = |has: bool, heading| has.then_some(heading);
    let headings = [
        Some("count"),
        optional(has_events, "events"),
        optional(seconds.is_some(), "a second"),
        optional(has_spans, "total"),
        optional(has_spans, "longest"),
    ];
    let left_out = found.len().saturating_sub(rows);
    let made = found.into_iter().take(rows).map(|row| {
        let a_second = seconds.map(|seconds| row.events / seconds);
        let length = |of: fn(MarkerSpans) -> f64| row.spans.map_or_else(|| "-".to_owned(), |spans| time(of(spans)));
        let cells = [
            Some(grouped(row.count)),
            has_events.then(|| counts(row.events)),
            a_second.map(rate),
            has_spans.then(|| length(|spans| spans.total_ms)),
            has_spans.then(|| length(|spans| spans.longest_ms)),
        ];
        ReportRow {
            cells: cells.into_iter().flatten().collect(),
            details: row.fields.iter().map(in_words).collect(),
            fields: vec![
                ("name", json!(row.name)),
                ("type", json!(row.kind)),
                ("count", json!(row.count)),
                ("events", number_json(row.events)),
                ("per_second", a_second.map_or(Value::Null, number_json)),
                ("spans", row.spans.map_or(Value::Null, spans_json)),
                ("fields", row.fields.iter().map(field_json).collect()),
            ],
            place: row.kind.filter(|kind| *kind != row.name).unwrap_or_default(),
            name: row.name,
            ..ReportRow::default()
        }
    });
    Table {
        id: "markers",
        title: "Markers".to_owned(),
        own_label: "",
        other_label: "",
        headings: headings.into_iter().flatten().collect(),
        rows: made.collect(),
        left_out,
    }
}

/// A line for each event whose markers are fewer than the kernel's count says.
pub(crate) fn missing(selection: &Selection<'_>) -> Vec<String> {
    let data = selection.data;
    let counted = data.recorded.iter().flat_map(|recorded| &recorded.counted_events);
    let lines = counted.filter_map(|event| {
        let markers = data.threads.iter().flat_map(|thread| &thread.markers);
        let markers = markers.filter(|marker| data.text(marker.name) == event.event).count() as u64;
        let expected = event.counted / event.period.max(1);
        (markers < expected).then(|| {
            format!(
                "{}: the profile has {} of {} markers, by the kernel's count; name fewer events, or give it a period",
                event.event,
                grouped(markers),
                grouped(expected)
            )
        })
    });
    lines.collect()
}

/// `1,234`; with decimals for a rare marker: `0.25`.
pub(super) fn rate(a_second: f64) -> String {
    match a_second {
        rate if rate >= 100.0 => counts(rate),
        rate if rate >= 1.0 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

/// `count: 1 to 65536, median 4096; 4096 (85.3 %), 1 (2.0 %) and 40 more values`
fn in_words(field: &MarkerField) -> String {
    let shown = |value: &Value| shown(value, &field.format);
    if let ([(value, _)], 1) = (&field.frequent[..], field.distinct) {
        return format!("{}: always {}", field.label, shown(value));
    }
    let mut parts = Vec::new();
    // A short list of values shows the whole range.
    if let (Some([least, median, most]), true) = (&field.range, field.distinct > FREQUENT as u64) {
        let [least, median, most] = [least, median, most].map(|number| shown(&Value::Number(number.clone())));
        parts.push(format!("{least} to {most}, median {median}"));
    }
    let is_frequent = |count: u64| count > 1 || field.distinct <= FREQUENT as u64;
    let frequent: Vec<&(Value, u64)> = field
        .frequent
        .iter()
        .take(FREQUENT)
        .filter(|(_, count)| is_frequent(*count))
        .collect();
    let share = |count: u64| format!("{:.1} %", 100.0 * count as f64 / field.count as f64);
    let named = frequent
        .iter()
        .map(|(value, count)| format!("{} ({})", shown(value), share(*count)));
    let mut values = named.collect::<Vec<_>>().join(", ");
    match field.distinct - frequent.len() as u64 {
        0 => {}
        others if frequent.is_empty() => values = format!("{} values, each once", grouped(others)),
        1 => values.push_str(" and 1 more value"),
        others => values.push_str(&format!(" and {} more values", grouped(others))),
    }
    parts.push(values);
    format!("{}: {}", field.label, parts.join("; "))
}

/// The value in the format that the front end shows.
fn shown(value: &Value, format: &str) -> String {
    match (value, value.as_f64(), format) {
        (_, Some(size), "bytes") => bytes(size),
        (_, Some(ms), "duration" | "time" | "milliseconds") => time(ms),
        (Value::String(text), ..) => text.clone(),
        (value, ..) => value.to_string(),
    }
}

fn spans_json(spans: MarkerSpans) -> Value {
    json!({
        "count": spans.count,
        "total_ms": number_json(spans.total_ms),
        "longest_ms": number_json(spans.longest_ms),
    })
}

fn field_json(field: &MarkerField) -> Value {
    let [min, median, max] = match &field.range {
        Some(range) => range.clone().map(Value::Number),
        None => [Value::Null, Value::Null, Value::Null],
    };
    let frequent = field.frequent.iter();
    let frequent: Vec<Value> = frequent
        .map(|(value, count)| json!({"value": value, "count": count}))
        .collect();
    json!({
        "key": field.key, "label": field.label, "count": field.count, "distinct": field.distinct,
        "frequent": frequent, "min": min, "median": median, "max": max,
    })
}
