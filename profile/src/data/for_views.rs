//! The last step of reading for views, when all threads are known: the unit of samples and the start of time.

use rustc_hash::FxHashMap;

use super::facts::SprofFacts;
use super::v8_names::readable_names;
use super::{Data, NONE, Samples, Thread, WeightUnit};

/// What only views use, besides the tables.
#[derive(Default)]
pub(crate) struct ForViews {
    pub(crate) facts: SprofFacts,
    /// Events whose markers are samples, and the number of events for each marker.
    pub(crate) periods: FxHashMap<String, f64>,
    /// Start of the recording in the file's times, ms.
    pub(crate) zero_ms: Option<f64>,
}

/// Converts a file's data for views: markers of point events become threads, times count from the recording's start,
/// and samples of equal weight are counted.
pub(crate) fn prepare(data: &mut Data, known: ForViews) {
    if !known.facts.restore(data) {
        count_equal_weights(data);
    }
    let points = (data.threads.iter()).flat_map(|thread| threads_of_points(data, thread, &known.periods));
    // Point events come last: CPU time is the profile's main event, if the profile has it.
    let points: Vec<Thread> = points.collect();
    data.threads.extend(points);
    data.point_events = known.periods.into_keys().collect();
    data.point_events.sort();
    readable_names(data);
    data.unit = unit_of_first(data);
    begin_at(data, known.zero_ms);
}

/// If all samples have the same weight of time, they are counted in units of that time. Sums stay whole numbers.
fn count_equal_weights(data: &mut Data) {
    let Some(each_ms) = equal_weight_ms(&data.threads) else {
        return;
    };
    data.interval_ms = each_ms;
    for thread in data.threads.iter_mut().filter(|thread| is_own_time(thread)) {
        thread.unit = WeightUnit::Samples;
        thread.samples.weight = None;
    }
}

/// The unit of the first thread with samples.
fn unit_of_first(data: &Data) -> WeightUnit {
    let first = data.threads.iter().find(|thread| !thread.samples.is_empty());
    first.map_or(WeightUnit::default(), |thread| thread.unit)
}

/// The weight of each sample, if all are equal.
fn equal_weight_ms(threads: &[Thread]) -> Option<f64> {
    let timed = threads.iter().filter(|thread| is_own_time(thread));
    let mut weights = timed.flat_map(|thread| thread.samples.iter().map(|(_, _, weight)| weight));
    let first = weights.next().filter(|ms| *ms > 0.0)?;
    weights.all(|weight| weight == first).then_some(first)
}

/// Threads of further events hold other samples.
fn is_own_time(thread: &Thread) -> bool {
    thread.unit == WeightUnit::Milliseconds && thread.event.is_none()
}

/// Makes times relative to the recording's start: the file's start time, or else its first sample or marker, as in the
/// front end (`getTimeRangeIncludingAllThreads`).
fn begin_at(data: &mut Data, recorded_ms: Option<f64>) {
    let zero_ms = data.zero_ms(recorded_ms);
    if zero_ms == 0.0 {
        return;
    }
    if !data.starts_with_recording {
        data.start_ms += zero_ms;
    }
    for thread in &mut data.threads {
        thread.samples.time_ms.iter_mut().for_each(|time| *time -= zero_ms);
        if let Some(allocations) = &mut thread.allocations {
            allocations.shift(-zero_ms);
        }
        for marker in &mut thread.markers {
            marker.start_ms -= zero_ms;
            marker.end_ms -= zero_ms;
        }
    }
    data.counters.iter_mut().for_each(|counter| counter.shift(-zero_ms));
}

/// A marker of a point event as a sample of the event.
struct PointSample {
    /// Index of the event's name.
    name: u32,
    time_ms: f64,
    stack: u32,
    /// The number of events that it represents.
    weight: f64,
}

/// Makes markers of point events samples, in one thread for each event of a thread. All views, exports and comparisons
/// then include them.
fn threads_of_points(data: &Data, of: &Thread, periods: &FxHashMap<String, f64>) -> Vec<Thread> {
    let points = of.markers.iter().filter_map(|marker| {
        let period = periods.get(data.text(marker.name))?;
        let weight = marker.weight.filter(|_| marker.stack != NONE).unwrap_or(*period);
        Some(PointSample {
            name: marker.name,
            time_ms: marker.start_ms,
            stack: marker.stack,
            weight,
        })
    });
    let mut points: Vec<PointSample> = points.collect();
    points.sort_by(|a, b| a.name.cmp(&b.name).then(a.time_ms.total_cmp(&b.time_ms)));
    let by_event = points.chunk_by(|a, b| a.name == b.name);
    let threads = by_event.map(|points| {
        let event = data.text(points[0].name).to_owned();
        Thread {
            name: format!("{} · {event}", of.name),
            process_name: of.process_name.clone(),
            pid: of.pid.clone(),
            tid: of.tid.clone(),
            is_main: false,
            event: Some(event),
            event_of: Some(of.name.clone()),
            unit: WeightUnit::Counts,
            samples: Samples {
                time_ms: points.iter().map(|point| point.time_ms).collect(),
                stack: points.iter().map(|point| point.stack).collect(),
                weight: Some(points.iter().map(|point| point.weight).collect()),
                ..Samples::default()
            },
            ..Thread::default()
        }
    });
    threads.collect()
}
