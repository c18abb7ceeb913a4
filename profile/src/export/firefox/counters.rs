//! `counters`: lines over time, of how often events happened, and of what processes used.

use std::io;

use serde_json::{Value, json};

use super::json::{Json, put_ms, put_unsigned};
use super::tracks::Shown;
use super::usage::Lines;
use crate::model::Profile;
use crate::model::samples::Samples;

/// Points of a line, about as many as a screen has columns.
const POINTS: i64 = 2000;
/// Points are at least this far apart: a software event comes with a weight of 16, so that rates over less would be spikes.
const LEAST_STEP_NS: i64 = 1_000_000;

/// `GraphColor`s of src/types/profile.ts, one for each event in turn.
const COLORS: [&str; 6] = ["blue", "orange", "green", "purple", "teal", "magenta"];

pub(super) fn write(profile: &Profile, json: &mut Json) -> io::Result<()> {
    let events = Shown::of(profile).lines;
    let usage = Lines::of(profile);
    if events.is_empty() && usage.is_empty() {
        return Ok(());
    }
    json.key("counters")?;
    json.array(|json| {
        for (place, thread) in events.iter().enumerate() {
            write_counter(profile, place, *thread, json)?;
        }
        usage.write(json)
    })
}

fn write_counter(profile: &Profile, place: usize, index: usize, json: &mut Json) -> io::Result<()> {
    let thread = &profile.threads[index];
    let event = profile.counted_event(thread).unwrap_or("event");
    // The name of a further event's track has both.
    let label = match (thread.event, thread.is_main || is_of_main_thread(profile, index)) {
        (_, true) => event.to_owned(),
        (Some(_), false) => thread.name.clone(),
        (None, false) => format!("{} · {event}", thread.name),
    };
    let end = i64::try_from(profile.info.end.nanos_since(profile.info.clock.timestamp)).unwrap_or(i64::MAX);
    let step = (end / POINTS).max(LEAST_STEP_NS);
    let counts = counts(&thread.samples, end, step);
    json.object(|json| {
        json.entry("name", &event)?;
        json.entry("category", &"Event")?;
        json.entry("description", &format!("How often {event} happened"))?;
        json.entry("pid", &profile.processes[thread.process.0].id)?;
        // The thread that a click on the line selects.
        json.entry("mainThreadIndex", &index)?;
        json.key("samples")?;
        json.object(|json| {
            json.column("time", 0..counts.len() as i64, |buf, point| put_ms(buf, point * step))?;
            json.column("count", counts.iter(), |buf, count| put_unsigned(buf, *count))?;
            json.entry("length", &counts.len())
        })?;
        let color = COLORS[thread.event.unwrap_or(0) as usize % COLORS.len()];
        json.entry("display", &display(event, &label, color, place))
    })
}

/// True for the track of a further event beside a main thread.
fn is_of_main_thread(profile: &Profile, index: usize) -> bool {
    let before = profile.threads[..index].iter().rev();
    profile.threads[index].event.is_some()
        && before
            .clone()
            .find(|thread| thread.event.is_none())
            .is_some_and(|of| of.is_main)
}

/// How often since the point before. The first point has none: the front end takes the first value of a counter for unreliable.
fn counts(samples: &Samples, end: i64, step: i64) -> Vec<u64> {
    let points = end.max(0) / step + 2;
    let mut counts = vec![0u64; points as usize];
    for sample in samples.iter() {
        let point = (sample.time.max(0) / step + 1).min(points - 1);
        let count = &mut counts[point as usize];
        *count = count.saturating_add(sample.period);
    }
    counts
}

/// `CounterDisplayConfig` of src/types/profile.ts.
fn display(event: &str, label: &str, color: &str, place: usize) -> Value {
    let number = json!({"unit": "number"});
    json!({
        "graphType": "line-rate",
        "unit": event,
        "color": color,
        "markerSchemaLocation": null,
        "sortWeight": place,
        "label": label,
        "tooltipRows": [
            {"type": "value", "source": "rate", "format": number, "label": format!("{event} per ms")},
            {"type": "value", "source": "count", "format": number, "label": format!("{event} since the point before")},
            {"type": "separator"},
            {"type": "value", "source": "selection-total", "format": number, "requiresPreviewSelection": true,
                "label": format!("{event} in the selection")},
            {"type": "value", "source": "committed-range-total", "format": number, "label": format!("{event} in all")},
        ],
    })
}
