//! What is decided once all threads of a file have been read: what its samples stand for, and when its times begin.

use rustc_hash::FxHashMap;

use crate::data::{Data, NONE, Samples, Thread, Unit};
use crate::facts::Facts;

/// What [`Data`] has no room for, and how much of it a file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotKept {
    /// Source files with an id, a start position, a source map or their text.
    pub source_details: u64,
    /// Frames with a position that a source map gave.
    pub original_positions: u64,
}

/// What a file says of its samples that only views take into account.
#[derive(Default)]
pub(crate) struct Loose {
    pub(crate) facts: Facts,
    /// Events whose markers are samples, and what each of these stands for.
    pub(crate) periods: FxHashMap<String, f64>,
    pub(crate) not_kept: NotKept,
    /// When recording began, in the times of the file, ms.
    pub(crate) zero_ms: Option<f64>,
}

/// Makes data as a file has it what views are of: with threads of point events, times since recording began, and samples that are
/// counted where they all stand for the same.
pub(crate) fn prepare(data: &mut Data, loose: Loose) {
    if !loose.facts.restore(data) {
        count_equal_weights(data);
    }
    let points = (data.threads.iter()).flat_map(|thread| threads_of_points(data, thread, &loose.periods));
    // Behind all others: CPU time is what a file is of, unless it has none.
    let points: Vec<Thread> = points.collect();
    data.threads.extend(points);
    data.point_events = loose.periods.into_keys().collect();
    data.point_events.sort();
    begin_at(data, loose.zero_ms);
    data.unit = unit_of_first(data);
}

/// Where all samples stand for the same time, they are counted, each of them for that time: sums stay whole numbers.
fn count_equal_weights(data: &mut Data) {
    let Some(each_ms) = equal_weight_ms(&data.threads) else {
        return;
    };
    data.interval_ms = each_ms;
    for thread in data.threads.iter_mut().filter(|thread| is_own_time(thread)) {
        thread.unit = Unit::Samples;
        thread.samples.weight = None;
    }
}

/// What the samples of the first thread with samples count.
fn unit_of_first(data: &Data) -> Unit {
    let first = data.threads.iter().find(|thread| !thread.samples.is_empty());
    first.map_or(Unit::default(), |thread| thread.unit)
}

/// What each sample stands for, if it is the same for all.
fn equal_weight_ms(threads: &[Thread]) -> Option<f64> {
    let timed = threads.iter().filter(|thread| is_own_time(thread));
    let mut weights = timed.flat_map(|thread| thread.samples.iter().map(|(_, _, weight)| weight));
    let first = weights.next().filter(|ms| *ms > 0.0)?;
    weights.all(|weight| weight == first).then_some(first)
}

/// The samples of further events have threads of their own.
fn is_own_time(thread: &Thread) -> bool {
    thread.unit == Unit::Milliseconds && thread.event.is_none()
}

/// Makes times those since recording began: since the time that the file gives, or else since the first sample or marker, as the
/// front end has it (`getTimeRangeIncludingAllThreads`). samply's begin when the machine did.
fn begin_at(data: &mut Data, recorded_ms: Option<f64>) {
    let first_ms = || {
        let threads = data.threads.iter();
        let times = threads.flat_map(|thread| {
            let markers = thread.markers.iter().map(|marker| &marker.start_ms);
            thread.samples.time_ms.iter().chain(markers)
        });
        times.copied().filter(|time| time.is_finite()).reduce(f64::min)
    };
    let zero_ms = recorded_ms.filter(|ms| ms.is_finite()).or_else(first_ms).unwrap_or(0.0);
    if zero_ms == 0.0 {
        return;
    }
    data.start_ms += zero_ms;
    for thread in &mut data.threads {
        thread.samples.time_ms.iter_mut().for_each(|time| *time -= zero_ms);
        for marker in &mut thread.markers {
            marker.start_ms -= zero_ms;
            marker.end_ms -= zero_ms;
        }
    }
}

/// A marker of a point event, as a sample of that event.
struct Point {
    /// Index of the text that names the event.
    name: u32,
    time_ms: f64,
    stack: u32,
    /// How many it stands for.
    weight: f64,
}

/// Markers of events that happen at one time are samples of these, too, so that all views, exports and comparisons have them: a
/// thread for each event that a thread has such markers of.
fn threads_of_points(data: &Data, of: &Thread, periods: &FxHashMap<String, f64>) -> Vec<Thread> {
    let points = of.markers.iter().filter_map(|marker| {
        let period = periods.get(data.text(marker.name))?;
        let weight = marker.weight.filter(|_| marker.stack != NONE).unwrap_or(*period);
        Some(Point {
            name: marker.name,
            time_ms: marker.start_ms,
            stack: marker.stack,
            weight,
        })
    });
    let mut points: Vec<Point> = points.collect();
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
            unit: Unit::Counts,
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
