//! The parts of a recording in which samples were taken.

use super::parallelism::RunningInterval;
use super::{Data, SampledFacts};

impl SampledFacts {
    /// Their starts and ends, ms, ascending.
    fn parts_ms(&self) -> Vec<(f64, f64)> {
        let mut end_ns = 0u64;
        let ends = self.lasted_ns.iter().map(|ns| {
            end_ns = end_ns.saturating_add(*ns);
            end_ns as f64 / 1e6
        });
        let ends: Vec<f64> = ends.collect();
        let (parts, _) = ends.as_chunks();
        let is_part = |part: &(f64, f64)| part.1 > part.0;
        parts
            .iter()
            .map(|[start, end]| (*start, *end))
            .filter(is_part)
            .collect()
    }
}

impl Data {
    /// The parts in which samples were taken: starts and ends, ms, ascending. `None`: all the time, or not known.
    pub fn sampled_parts_ms(&self) -> Option<Vec<(f64, f64)>> {
        let facts = self.recorded.as_ref()?.sampled.as_ref();
        Some(facts.filter(|facts| !facts.lasted_ns.is_empty())?.parts_ms())
    }

    /// What of these intervals, which are ascending, is in the parts in which samples were taken.
    pub(super) fn sampled_intervals(&self, intervals: Vec<RunningInterval>) -> Vec<RunningInterval> {
        let Some(parts) = self.sampled_parts_ms() else {
            return intervals;
        };
        let in_parts = intervals.into_iter().flat_map(|interval| {
            let first = parts.partition_point(|(_, end)| *end <= interval.start_ms);
            let parts = parts[first..]
                .iter()
                .take_while(move |(start, _)| *start < interval.end_ms);
            parts.map(move |(start, end)| RunningInterval {
                start_ms: interval.start_ms.max(*start),
                end_ms: interval.end_ms.min(*end),
                ..interval
            })
        });
        in_parts.collect()
    }
}
