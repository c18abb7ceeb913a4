//! `counters`: the rate of events and the resource usage of processes over time.

use recording::info::PeriodUnit;
use serde_json::{Value, json};

use super::numbers::{json_ms, number};
use super::tracks::InitialTracks;
use crate::data::Counter;
use crate::data::parallelism::{RunningEstimate, RunningInterval};
use crate::recorded::Profile;
use crate::recorded::samples::{PackedSamples, RecordedSample};

/// Points of a counter: about the columns of a screen.
const POINTS: i64 = 2000;
/// Least distance of points. A software event has a weight of 16, so rates over shorter times would be spikes.
const LEAST_STEP_NS: i64 = 1_000_000;

/// Below the lines of processes: see `usage`.
const RUNNING_SORT_WEIGHT: usize = 2000;

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

/// The name of [`running`].
pub(crate) const RUNNING: &str = "running";

/// Threads of all processes that ran. Counts are ms of running time since the previous point: their rate is the mean
/// number.
pub(crate) fn running(intervals: &[RunningInterval], is_exact: bool, pid: &str, thread: usize) -> Counter {
    let end_ms = intervals.last().map_or(0.0, |interval| interval.end_ms);
    let step_ms = (end_ms / POINTS as f64).max(LEAST_STEP_NS as f64 / 1e6);
    let mut counts = vec![0.0; (end_ms / step_ms) as usize + 2];
    for interval in intervals.iter().filter(|interval| interval.running > 0) {
        let (first, last) = (interval.start_ms / step_ms, interval.end_ms / step_ms);
        for (at, count) in counts
            .iter_mut()
            .enumerate()
            .take(last as usize + 2)
            .skip(first as usize + 1)
        {
            let part = last.min(at as f64) - first.max(at as f64 - 1.0);
            *count += part.max(0.0) * step_ms * f64::from(interval.running);
        }
    }
    let micros = |ms: f64| number((ms * 1000.0).round() / 1000.0);
    let times: Vec<Value> = (0..counts.len()).map(|at| micros(at as f64 * step_ms)).collect();
    let counts: Vec<Value> = counts.into_iter().map(micros).collect();
    let format = json!({"unit": "number"});
    line(
        [RUNNING, "Threads", "Threads of all processes that ran"],
        pid,
        thread,
        json!({"time": times, "count": counts, "length": counts.len()}),
        json!({
            "graphType": "line-rate",
            "unit": "threads",
            "color": "teal",
            "markerSchemaLocation": null,
            "sortWeight": RUNNING_SORT_WEIGHT,
            "label": if is_exact { "Running threads" } else { "Running threads (estimate)" },
            "tooltipRows": [{"type": "value", "source": "rate", "format": format, "label": "running threads, of all processes"}],
        }),
    )
}

/// The same for a recording.
pub(super) fn of_running(profile: &Profile, time_of: impl Fn(&RecordedSample) -> i64) -> Option<Counter> {
    let intervals = match &profile.running {
        Some(facts) => facts.intervals(),
        None => estimated(profile, time_of).intervals(end_ns(profile) as f64 / 1e6),
    };
    let thread = profile.threads.iter().position(|thread| thread.event.is_none())?;
    let pid = &profile.processes[profile.threads[thread].process.0].id;
    let is_line = intervals.iter().any(|interval| interval.running > 1);
    is_line.then(|| running(&intervals, profile.running.is_some(), pid, thread))
}

fn estimated(profile: &Profile, time_of: impl Fn(&RecordedSample) -> i64) -> RunningEstimate {
    let mut estimate = RunningEstimate::default();
    let threads = profile.threads.iter().filter(|thread| thread.event.is_none());
    for thread in threads.filter(|thread| profile.unit_of(thread) != PeriodUnit::Counts) {
        estimate.begin_thread();
        for sample in thread.samples.iter() {
            let [time_ms, length_ms] = [sample.time, time_of(&sample)].map(|ns| ns.max(0) as f64 / 1e6);
            match sample.off_cpu {
                true => estimate.add_wait(time_ms, length_ms),
                false => _ = estimate.add_sample(time_ms, length_ms),
            }
        }
    }
    estimate
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
