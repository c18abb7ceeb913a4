//! `counters`: the rate of events and the resource usage of processes over time.

use serde_json::{Value, json};

use super::numbers::json_ms;
use super::tracks::InitialTracks;
use crate::data::Counter;
use crate::recorded::Profile;
use crate::recorded::samples::PackedSamples;

/// Points of a counter: about the columns of a screen.
const POINTS: i64 = 2000;
/// Least distance of points. A software event has a weight of 16, so rates over shorter times would be spikes.
const LEAST_STEP_NS: i64 = 1_000_000;

/// `GraphColor`s of src/types/profile.ts; the events use them in turn.
const COLORS: [&str; 6] = ["blue", "orange", "green", "purple", "teal", "magenta"];

pub(super) fn of_events(profile: &Profile) -> Vec<Counter> {
    let events = InitialTracks::new(profile).lines;
    let counters = events
        .iter()
        .enumerate()
        .map(|(place, thread)| counter(profile, place, *thread));
    counters.collect()
}

/// A counter in the form of the front end's `RawCounter`.
pub(super) fn line(
    [name, category, description]: [&str; 3],
    pid: &str,
    thread: usize,
    samples: Value,
    display: Value,
) -> Counter {
    let fields = [
        ("name", name.into()),
        ("category", category.into()),
        ("description", description.into()),
        ("pid", pid.into()),
        ("samples", samples),
        ("display", display),
    ];
    Counter {
        // A click on the counter selects this thread.
        thread: thread as u32,
        fields: fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}

fn counter(profile: &Profile, place: usize, index: usize) -> Counter {
    let thread = &profile.threads[index];
    let event = profile.counted_event(thread).unwrap_or("event");
    // The name of a further event's track contains the thread and the event.
    let label = match (thread.event, thread.is_main || is_of_main_thread(profile, index)) {
        (_, true) => event.to_owned(),
        (Some(_), false) => thread.name.clone(),
        (None, false) => format!("{} · {event}", thread.name),
    };
    let (end, step) = (end_ns(profile), counter_step(profile));
    let counts = counts(&thread.samples, end, step);
    let times: Vec<Value> = (0..counts.len() as i64).map(|point| json_ms(point * step)).collect();
    let color = COLORS[thread.event.unwrap_or(0) as usize % COLORS.len()];
    line(
        [event, "Event", &format!("How often {event} happened")],
        &profile.processes[thread.process.0].id,
        index,
        json!({"time": times, "count": counts, "length": counts.len()}),
        display(event, &label, color, place),
    )
}

/// The end of the recording, ns.
pub(super) fn end_ns(profile: &Profile) -> i64 {
    i64::try_from(profile.info.end.nanos_since(profile.info.clock.timestamp)).unwrap_or(i64::MAX)
}

/// The distance of a counter's points, ns.
pub(super) fn counter_step(profile: &Profile) -> i64 {
    (end_ns(profile) / POINTS).max(LEAST_STEP_NS)
}

/// True for a further event's track of a main thread.
fn is_of_main_thread(profile: &Profile, index: usize) -> bool {
    let before = profile.threads[..index].iter().rev();
    profile.threads[index].event.is_some()
        && before
            .clone()
            .find(|thread| thread.event.is_none())
            .is_some_and(|of| of.is_main)
}

/// Counts since the previous point. The first point is 0: the front end treats a counter's first value as unreliable.
fn counts(samples: &PackedSamples, end: i64, step: i64) -> Vec<u64> {
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
