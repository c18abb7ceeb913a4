//! The cost of selected samples by time.

use super::breakdown::by_thread;
use super::cost::Cost;
use super::select::Selection;

/// Selected samples by time.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// All of them, in each part of the time.
    pub total: Vec<Cost>,
    /// Those of each thread, in the order of [`threads`](super::breakdown::threads).
    pub threads: Vec<Vec<Cost>>,
}

/// The selected samples in the parts of time that these edges bound: ms since the recording started, ascending. A part
/// has its start and not its end. Samples before the first or after the last edge count in the part beside it.
pub fn timeline(selection: &Selection<'_>, edges_ms: &[f64]) -> Timeline {
    let inner = edges_ms.get(1..edges_ms.len().saturating_sub(1)).unwrap_or_default();
    let mut total = vec![Cost::default(); inner.len() + 1];
    let data = selection.data;
    let threads = by_thread(selection).into_iter().map(|(index, _)| {
        let thread = &data.threads[index];
        let mut parts = vec![Cost::default(); inner.len() + 1];
        for (at, (time_ms, stack, weight)) in thread.samples.iter().enumerate() {
            if selection.conditions.select_sample(index, &thread.pid, time_ms, stack) {
                let cost = Cost::of_samples(data.count_of(&thread.samples, at, weight), weight);
                let part = inner.partition_point(|edge| *edge <= time_ms);
                parts[part] += cost;
                total[part] += cost;
            }
        }
        parts
    });
    let threads = threads.collect();
    Timeline { total, threads }
}
