//! Markers: what happened to processes and to the recording, and how the front end shows it.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::json::{Json, put_ms, put_optional_ms, put_unsigned};
use crate::model::Profile;
use crate::model::thread::{Marker, MarkerKind, Thread};

/// Markers are not code: category `Other`.
const CATEGORY: &str = "0";

/// `phase` (MarkerPhase in src/types/gecko-profile.ts).
const INSTANT: u64 = 0;
const INTERVAL: u64 = 1;

fn data(profile: &Profile, what: &MarkerKind) -> Value {
    let kind = what.name();
    let text = |id| profile.strings.get(id);
    match *what {
        MarkerKind::Child { pid, name } => json!({"type": kind, "pid": text(pid), "process": text(name)}),
        MarkerKind::Exec { from, to } | MarkerKind::Renamed { from, to } => {
            json!({"type": kind, "from": text(from), "to": text(to)})
        }
        MarkerKind::Lost { count, cause } => json!({"type": kind, "count": count, "cause": cause}),
        MarkerKind::Throttled => json!({"type": kind}),
        MarkerKind::Malformed { what } => json!({"type": kind, "what": what}),
        MarkerKind::NoSamples { why } => json!({"type": kind, "why": why}),
    }
}

/// `meta.markerSchema`.
pub(super) fn schema() -> Value {
    const NAMES: [&str; MarkerKind::NAMES.len()] = MarkerKind::NAMES;
    let shown = json!(["marker-chart", "marker-table", "timeline-overview"]);
    json!([
        {
            "name": NAMES[0], "display": shown,
            "tooltipLabel": "Child process {marker.data.pid}", "tableLabel": "{marker.data.process} ({marker.data.pid})",
            "chartLabel": "{marker.data.process}",
            "description": "A process that this one started, from its start to its end.",
            "fields": [
                {"key": "pid", "label": "Process id", "format": "string"},
                {"key": "process", "label": "Last name", "format": "string"},
            ],
        },
        {
            "name": NAMES[1], "display": shown, "tableLabel": "{marker.data.from} → {marker.data.to}",
            "description": "The process began to run another program.",
            "fields": [
                {"key": "from", "label": "Old name", "format": "string"},
                {"key": "to", "label": "New name", "format": "string"},
            ],
        },
        {
            "name": NAMES[2], "display": shown, "tableLabel": "{marker.data.from} → {marker.data.to}",
            "description": "The thread got another name.",
            "fields": [
                {"key": "from", "label": "Old name", "format": "string"},
                {"key": "to", "label": "New name", "format": "string"},
            ],
        },
        {
            "name": NAMES[3], "display": shown, "tableLabel": "{marker.data.count}: {marker.data.cause}",
            "description": "The recorder could not keep up: samples are missing before this time. Of all threads, not of this one.",
            "fields": [
                {"key": "count", "label": "Records", "format": "integer"},
                {"key": "cause", "label": "Cause", "format": "string"},
            ],
        },
        {
            "name": NAMES[4], "display": shown,
            "description": "The kernel reduced the sampling rate of a CPU for a while.",
            "fields": [],
        },
        {
            "name": NAMES[5], "display": shown, "tableLabel": "{marker.data.what}",
            "description": "A record that could not be understood, and was left out.",
            "fields": [{"key": "what", "label": "What was wrong", "format": "string"}],
        },
        {
            "name": NAMES[6], "display": shown, "tableLabel": "No samples: {marker.data.why}",
            "fields": [{"key": "why", "label": "Why", "format": "string"}],
        },
    ])
}

pub(super) fn write<W: Write>(profile: &Profile, thread: &Thread, json: &mut Json<W>) -> io::Result<()> {
    let markers = &thread.markers;
    json.column("data", markers.iter(), |buf, marker: &Marker| {
        // A `Value` made of strings and numbers, written to memory: can't fail.
        let _ = serde_json::to_writer(buf, &data(profile, &marker.what));
    })?;
    let name_ids = &profile.marker_names;
    json.column("name", markers.iter(), |buf, marker| {
        put_unsigned(buf, name_ids[marker.what.name_index()].0.into());
    })?;
    json.column("startTime", markers.iter(), |buf, marker| put_ms(buf, marker.start))?;
    json.column("endTime", markers.iter(), |buf, marker| {
        put_optional_ms(buf, marker.end)
    })?;
    json.column("phase", markers.iter(), |buf, marker| {
        put_unsigned(buf, if marker.end.is_some() { INTERVAL } else { INSTANT });
    })?;
    json.constant_column("category", markers.len(), CATEGORY)?;
    json.entry("length", &markers.len())
}
