//! Markers of processes and of the recording, and their display in the front end.

use recording::event::Role;
use recording::info::{EventInfo, SampleBy};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::counters::end_ns;
use super::numbers::{json_ms, ms, number};
use crate::data::{self, MarkerPhase, NONE, SPAN_SCHEMA};
use crate::recorded::Profile;
use crate::recorded::spans::{SpanKey, SpanKeyKind};
use crate::recorded::strings::StringId;
use crate::recorded::thread::{MarkerKind, PointMarker, PointValue, RecordedMarker, RecordedThread, SpanMarker};

/// A marker of a thread, with fields only on request.
pub(super) fn marker(
    profile: &Profile,
    thread: &RecordedThread,
    marker: &RecordedMarker,
    with_fields: bool,
) -> data::Marker {
    let (stack, weight) = match &marker.what {
        MarkerKind::Point(point) => {
            let event = profile.info.events.get(point.event as usize);
            // For sched_stat_runtime, the period is a number of nanoseconds.
            let is_usual = Some(point.period) == event.map(usual_period);
            let weight = (point.stack.is_some() && !is_usual).then_some(point.period as f64);
            (point.stack.map_or(NONE, |stack| stack.0), weight)
        }
        _ => (NONE, None),
    };
    let fields = with_fields.then(|| match fields(profile, thread, marker) {
        Value::Object(fields) => Box::new(fields),
        _ => Box::default(),
    });
    // A span may have begun long before, or may end in the year 2500: such a marker would stretch the time line.
    let (mut start, mut end) = (marker.start, marker.end.unwrap_or(marker.start));
    let (mut is_async, mut is_cut) = (false, false);
    if let MarkerKind::Span(span) = &marker.what {
        (start, end) = (start.max(0), end.min(end_ns(profile).max(start)));
        is_async = span.lane.is_some();
        is_cut = start > marker.start || marker.end.is_some_and(|whole| whole > end);
    }
    data::Marker {
        name: name_of(profile, &marker.what).0,
        start_ms: ms(start),
        end_ms: ms(end),
        phase: if marker.end.is_some() {
            MarkerPhase::Interval
        } else {
            MarkerPhase::Instant
        },
        // Markers are not code: `Other`.
        category: 0,
        stack,
        weight,
        is_own: !matches!(marker.what, MarkerKind::Span(_)),
        is_async,
        is_cut,
        fields,
    }
}

fn fields(profile: &Profile, thread: &RecordedThread, marker: &RecordedMarker) -> Value {
    let what = &marker.what;
    let text = |id| profile.strings.get(id);
    let kind = text(kind_id(profile, what));
    match *what {
        MarkerKind::Point(ref point) => point_data(profile, thread, marker.start, point, kind),
        MarkerKind::Span(ref span) => span_data(profile, marker, span, kind),
        MarkerKind::Child { pid, name } => json!({"type": kind, "pid": text(pid), "process": text(name)}),
        MarkerKind::Exec { from, to } | MarkerKind::Renamed { from, to } => {
            json!({"type": kind, "from": text(from), "to": text(to)})
        }
        MarkerKind::Lost { count, cause } => json!({"type": kind, "count": count, "cause": cause}),
        MarkerKind::Throttled | MarkerKind::Paused => json!({"type": kind}),
        MarkerKind::Trigger { words } => json!({"type": kind, "trigger": text(words)}),
        MarkerKind::Malformed { what } => json!({"type": kind, "what": what}),
        MarkerKind::NoSamples { why } => json!({"type": kind, "why": why.to_string()}),
        MarkerKind::Ran { name, harness, how } => {
            json!({"type": kind, "name": text(name), "harness": harness, "how": how})
        }
    }
}

fn name_of(profile: &Profile, what: &MarkerKind) -> StringId {
    match what {
        MarkerKind::Ran { name, .. } => *name,
        MarkerKind::Span(span) => span.name,
        what => kind_id(profile, what),
    }
}

fn kind_id(profile: &Profile, what: &MarkerKind) -> StringId {
    match what.name_index() {
        Ok(index) => profile.marker_names[index],
        // Every event has a name. A missing name is a fault of the builder, and no reason to panic.
        Err(event) => (profile.event_names.get(event))
            .copied()
            .unwrap_or(profile.marker_names[0]),
    }
}

/// Numbers are texts: the front end would group the digits of a process id and round 64-bit numbers.
fn point_data(profile: &Profile, thread: &RecordedThread, time: i64, point: &PointMarker, kind: &str) -> Value {
    let mut data = serde_json::Map::new();
    data.insert("type".to_owned(), json!(kind));
    let event = profile.info.events.get(point.event as usize);
    let fields = event.map_or(&[][..], |event| &event.fields);
    for (field, value) in fields.iter().zip(&point.values) {
        let value = match *value {
            PointValue::Unsigned(value) => value.to_string(),
            PointValue::Signed(value) => value.to_string(),
            PointValue::Address(value) => format!("{value:#x}"),
            PointValue::Float(value) => value.to_string(),
            PointValue::Text(text) => profile.strings.get(text).to_owned(),
        };
        data.insert(key(field), Value::String(value));
    }
    if point.stack.is_some() {
        data.insert("cause".to_owned(), json!({"tid": thread.id, "time": json_ms(time)}));
    }
    Value::Object(data)
}

/// The span's own fields, and those of [`span_schema`].
fn span_data(profile: &Profile, marker: &RecordedMarker, span: &SpanMarker, kind: &str) -> Value {
    let mut data = serde_json::Map::new();
    data.insert("type".to_owned(), json!(kind));
    for (index, value) in &span.fields {
        let SpanKey { key, kind } = &profile.spans.keys[*index as usize];
        let value = match (*value, kind) {
            (PointValue::Text(text), _) => json!(profile.strings.get(text)),
            (PointValue::Unsigned(value) | PointValue::Address(value), SpanKeyKind::Text) => json!(value.to_string()),
            (PointValue::Signed(value), SpanKeyKind::Text) => json!(value.to_string()),
            (PointValue::Float(value), SpanKeyKind::Text) => json!(value.to_string()),
            (PointValue::Unsigned(value) | PointValue::Address(value), _) => json!(value),
            (PointValue::Signed(value), _) => json!(value),
            (PointValue::Float(value), _) => number(value),
        };
        data.insert(span_key(key), value);
    }
    if let Some(lane) = span.lane {
        data.insert("lane".to_owned(), json!(lane));
    }
    if let Some((id, ends)) = span.flow {
        data.insert(if ends { "terminates" } else { "flow" }.to_owned(), json!(id.0));
    }
    let is_cut = [
        (marker.start < 0).then_some("began before the recording"),
        marker
            .end
            .filter(|end| *end > end_ns(profile))
            .map(|_| "ended after the recording"),
    ];
    if is_cut.iter().any(Option::is_some) {
        let cut: Vec<&str> = is_cut.into_iter().flatten().collect();
        data.insert("cut".to_owned(), json!(cut.join(", ")));
    }
    Value::Object(data)
}

fn span_key(field: &str) -> String {
    match field {
        "lane" | "flow" | "terminates" | "cut" => format!("{field}_"),
        _ => key(field),
    }
}

/// A field's key, distinct from the own keys of a marker's data.
fn key(field: &str) -> String {
    match field {
        "type" | "cause" | "category" | "interval" => format!("{field}_"),
        _ => field.to_owned(),
    }
}

/// `meta.markerSchema`.
pub(super) fn schemas(profile: &Profile) -> Vec<Value> {
    let events = profile.info.events.iter();
    let points = events.filter(|event| event.role == Role::Point);
    let spans = span_schema(&profile.spans.keys);
    let fixed = fixed_schemas().into_iter().chain([spans]);
    fixed.chain(points.map(point_schema)).collect()
}

/// Events whose markers are samples, and the number of events for each marker.
pub(super) fn periods(profile: &Profile) -> FxHashMap<String, f64> {
    let events = profile.info.events.iter();
    let points = events.filter(|event| event.role == Role::Point);
    points
        .map(|event| (event.name.clone(), usual_period(event) as f64))
        .collect()
}

/// The number of events for a marker without a weight of its own.
pub(super) fn usual_period(event: &EventInfo) -> u64 {
    match event.sample_by {
        SampleBy::Period(period) => period,
        SampleBy::Frequency(_) => 1,
    }
}

/// The type of a point event's markers: its values, the first also in the table. `period` marks them as samples of the
/// event; the front end ignores it.
fn point_schema(event: &EventInfo) -> Value {
    const IN_TABLE: usize = 6;
    let label: Vec<String> = (event.fields.iter())
        .take(IN_TABLE)
        .map(|field| format!("{field}={{marker.data.{}}}", key(field)))
        .collect();
    let fields: Vec<Value> = (event.fields.iter())
        .map(|field| json!({"key": key(field), "label": field, "format": "string"}))
        .collect();
    json!({
        "name": event.name, "display": ["marker-chart", "marker-table", "timeline-overview"],
        "tableLabel": label.join(" "), "tooltipLabel": event.name, "chartLabel": event.name,
        "description": "An event that was named with -e, with the stack that led to it.",
        "fields": fields, "period": usual_period(event),
    })
}

/// The type of spans: with the fields of all of them.
fn span_schema(keys: &[SpanKey]) -> Value {
    const IN_TABLE: usize = 6;
    let label = keys.iter().take(IN_TABLE);
    let label = label.map(|key| format!("{{marker.data.{}}}", span_key(&key.key)));
    let fields = keys.iter().map(|SpanKey { key, kind }| {
        let format = match kind {
            SpanKeyKind::Integer => "integer",
            SpanKeyKind::Decimal => "decimal",
            SpanKeyKind::Text => "string",
        };
        json!({"key": span_key(key), "label": key, "format": format})
    });
    let own = [
        json!({"key": "cut", "label": "Longer than shown", "format": "string"}),
        json!({"key": "lane", "label": "Lane", "format": "integer", "hidden": true}),
        json!({"key": "flow", "label": "Flow", "format": "flow-id"}),
        json!({"key": "terminates", "label": "End of flow", "format": "terminating-flow-id"}),
    ];
    json!({
        "name": SPAN_SCHEMA, "display": ["marker-chart", "marker-table", "timeline-overview"],
        "tableLabel": label.collect::<Vec<_>>().join(" "), "tooltipLabel": "{marker.name}", "chartLabel": "{marker.name}",
        "description": "A section that the program named, or that was chosen with --span.",
        "fields": fields.chain(own).collect::<Vec<_>>(),
    })
}

fn fixed_schemas() -> [Value; MarkerKind::NAMES.len() - 1] {
    const NAMES: [&str; MarkerKind::NAMES.len()] = MarkerKind::NAMES;
    let shown = json!(["marker-chart", "marker-table", "timeline-overview"]);
    // See `MarkerKind::is_in_timeline`.
    let in_lists = json!(["marker-chart", "marker-table"]);
    [
        json!({
            "name": NAMES[0], "display": shown,
            "tooltipLabel": "Child process {marker.data.pid}", "tableLabel": "{marker.data.process} ({marker.data.pid})",
            "chartLabel": "{marker.data.process}",
            "description": "A process that this one started, from its start to its end.",
            "fields": [
                {"key": "pid", "label": "Process id", "format": "string"},
                {"key": "process", "label": "Last name", "format": "string"},
            ],
        }),
        json!({
            "name": NAMES[1], "display": in_lists, "tableLabel": "{marker.data.from} → {marker.data.to}",
            "description": "The process began to run another program.",
            "fields": [
                {"key": "from", "label": "Old name", "format": "string"},
                {"key": "to", "label": "New name", "format": "string"},
            ],
        }),
        json!({
            "name": NAMES[2], "display": in_lists, "tableLabel": "{marker.data.from} → {marker.data.to}",
            "description": "The thread got another name.",
            "fields": [
                {"key": "from", "label": "Old name", "format": "string"},
                {"key": "to", "label": "New name", "format": "string"},
            ],
        }),
        json!({
            "name": NAMES[3], "display": shown, "tableLabel": "{marker.data.count}: {marker.data.cause}",
            "description": "The recorder could not keep up: samples are missing before this time. Of all threads, not of this one.",
            "fields": [
                {"key": "count", "label": "Records", "format": "integer"},
                {"key": "cause", "label": "Cause", "format": "string"},
            ],
        }),
        json!({
            "name": NAMES[4], "display": shown,
            "description": "The kernel reduced the sampling rate of a CPU for a while.",
            "fields": [],
        }),
        json!({
            "name": NAMES[5], "display": shown, "tableLabel": "{marker.data.what}",
            "description": "A record that could not be understood, and was left out.",
            "fields": [{"key": "what", "label": "What was wrong", "format": "string"}],
        }),
        json!({
            "name": NAMES[6], "display": shown, "tableLabel": "No samples: {marker.data.why}",
            "fields": [{"key": "why", "label": "Why", "format": "string"}],
        }),
        json!({
            "name": NAMES[7], "display": shown, "tableLabel": "{marker.data.harness}: {marker.data.name}",
            "tooltipLabel": "{marker.data.name}", "chartLabel": "{marker.data.name}",
            "description": "A benchmark or a test. Its name and its times are made of the samples' stacks, as said below.",
            "fields": [
                {"key": "name", "label": "Name", "format": "string"},
                {"key": "harness", "label": "Run by", "format": "string"},
                {"key": "how", "label": "How this is known", "format": "string"},
            ],
        }),
        json!({
            "name": NAMES[8], "display": shown,
            "description": "The program had paused the recording: no samples are from here, of all threads and processes.",
            "fields": [],
        }),
        json!({
            "name": NAMES[9], "display": shown, "tableLabel": "Trigger: {marker.data.trigger}",
            "description": "What the user wanted a profile of happened here.",
            "fields": [{"key": "trigger", "label": "Trigger", "format": "string"}],
        }),
    ]
}
