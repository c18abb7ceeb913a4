//! When samples were taken, where a program pauses and resumes the recording.

use crate::data::SampledFacts;
use crate::recorded::SampledTime;
use crate::recorded::thread::{MarkerKind, RecordedMarker};

/// Most parts that the profile has one by one. Beyond that, short pauses are left out; sums are right all the same.
const MOST_PARTS: usize = 100_000;

/// The sampled parts of the recording.
#[derive(Clone, Default)]
pub(super) struct SampledParts {
    /// Ascending: the ends of sampled parts and of pauses, one after the other. It begins sampled.
    changes: Vec<i64>,
}

impl SampledParts {
    /// From this time on samples are taken, or are not.
    pub(super) fn switch(&mut self, at: i64, on: bool) {
        if self.changes.len().is_multiple_of(2) != on {
            let last = self.changes.last().copied().unwrap_or_default();
            self.changes.push(at.max(last));
        }
    }

    /// The sampled parts of this time.
    pub(super) fn within(&self, since: i64, until: i64) -> impl Iterator<Item = (i64, i64)> + Clone {
        let is_wanted = move |(start, end): &(i64, i64)| end > start;
        let first = self.changes.partition_point(|change| *change <= since);
        // Sampled parts end at the changes with even indices.
        let first = first + first % 2;
        let start = move |end_at: usize| end_at.checked_sub(1).map_or(since, |at| self.changes[at].max(since));
        let end = move |end_at: usize| self.changes.get(end_at).map_or(until, |end| until.min(*end));
        (first..=self.changes.len())
            .step_by(2)
            .map(move |end_at| (start(end_at), end(end_at)))
            .take_while(move |(start, _)| *start <= until)
            .filter(is_wanted)
    }

    pub(super) fn ns_within(&self, since: i64, until: i64) -> u64 {
        let lengths = self
            .within(since, until)
            .map(|(start, end)| (end - start).unsigned_abs());
        lengths.sum()
    }

    /// The sum and the number of the sampled parts; `None` if there was no pause.
    pub(super) fn sum(&self, end: i64) -> Option<SampledTime> {
        (!self.changes.is_empty()).then(|| SampledTime {
            ns: self.ns_within(0, end),
            parts: self.within(0, end).count() as u64,
        })
    }

    /// The facts for the profile, and a marker of each pause.
    pub(super) fn finish(&self, end: i64) -> Option<(SampledFacts, Vec<RecordedMarker>)> {
        let sum = self.sum(end)?;
        let mut parts: Vec<(i64, i64)> = self.within(0, end).collect();
        let mut shortest = 1000;
        while parts.len() > MOST_PARTS {
            shortest *= 2;
            parts.dedup_by(|next, before| {
                let is_short = next.0 - before.1 < shortest;
                before.1 = if is_short { next.1 } else { before.1 };
                is_short
            });
        }
        let ends = parts.iter().flat_map(|(start, end)| [*start, *end]).chain([end.max(0)]);
        let mut last = 0;
        let mut lasted_ns: Vec<u64> = ends
            .map(|change| (change - std::mem::replace(&mut last, change)).max(0).unsigned_abs())
            .collect();
        if lasted_ns.len() % 2 == 1 && lasted_ns.last() == Some(&0) {
            lasted_ns.pop();
        }
        let mut pauses = Vec::new();
        let mut start = 0;
        for (at, ns) in lasted_ns.iter().enumerate() {
            let end = start + ns.cast_signed();
            if at % 2 == 0 && end > start {
                pauses.push(RecordedMarker {
                    start,
                    end: Some(end),
                    what: MarkerKind::Paused,
                });
            }
            start = end;
        }
        let facts = SampledFacts {
            sampled_ns: sum.ns,
            parts: sum.parts,
            lasted_ns,
        };
        Some((facts, pauses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_between_the_changes_and_pauses_are_the_rest() {
        let mut parts = SampledParts::default();
        assert_eq!(parts.within(-5, 100).collect::<Vec<_>>(), [(-5, 100)]);
        assert!(parts.finish(100).is_none());
        for (at, on) in [
            (-3, false),
            (10, true),
            (20, false),
            (20, true),
            (25, false),
            (30, true),
            (35, true),
        ] {
            parts.switch(at, on);
        }
        let within = |since, until| parts.within(since, until).collect::<Vec<_>>();
        assert_eq!(within(0, 100), [(10, 20), (20, 25), (30, 100)]);
        assert_eq!(within(12, 13), [(12, 13)]);
        assert_eq!(within(0, 10), []);
        assert_eq!(within(26, 29), []);
        assert_eq!(within(20, 22), [(20, 22)]);
        assert_eq!(within(22, 31), [(22, 25), (30, 31)]);
        let (facts, pauses) = parts.finish(100).unwrap();
        assert_eq!((facts.sampled_ns, facts.parts), (85, 3));
        assert_eq!(facts.lasted_ns, [10, 10, 0, 5, 5, 70]);
        let pauses: Vec<_> = pauses.iter().map(|pause| (pause.start, pause.end.unwrap())).collect();
        assert_eq!(pauses, [(0, 10), (25, 30)]);
    }

    #[test]
    fn of_very_many_parts_the_sum_is_right() {
        let mut parts = SampledParts::default();
        for part in 0..150_000 {
            parts.switch(10_000 * part, false);
            parts.switch(10_000 * part + if part % 2 == 0 { 500 } else { 3000 }, true);
        }
        let (facts, _) = parts.finish(1_500_000_000).unwrap();
        assert_eq!(
            (facts.sampled_ns, facts.parts),
            (1_500_000_000 - 75_000 * 3500, 150_000)
        );
        assert!(facts.lasted_ns.len() <= 2 * MOST_PARTS);
        assert_eq!(facts.lasted_ns.iter().sum::<u64>(), 1_500_000_000);
    }
}
