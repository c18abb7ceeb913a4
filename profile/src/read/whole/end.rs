//! What is decided once all threads of a file have been read: what its samples stand for, and when its times begin.

use crate::view::data::{Data, Thread, Unit};

/// Where all samples stand for the same time, they are counted, each of them for that time: sums stay whole numbers.
pub(crate) fn count_equal_weights(data: &mut Data) {
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
pub(crate) fn unit_of_first(data: &Data) -> Unit {
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
pub(super) fn begin_at(data: &mut Data, recorded_ms: Option<f64>) {
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
