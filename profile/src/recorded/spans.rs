//! Spans that the program named, as markers, and values of its counters.

use std::collections::BTreeMap;

use crate::data::SpanFacts;

/// What is known of the spans of all threads.
#[derive(Clone, Default)]
pub(crate) struct RecordedSpans {
    /// Names whose spans do not all have a marker.
    pub(crate) thinned: Vec<SpanFacts>,
    /// The keys of their fields.
    pub(crate) keys: Vec<SpanKey>,
}

/// The key of a field.
#[derive(Clone, Debug)]
pub(crate) struct SpanKey {
    pub(crate) key: String,
    pub(crate) kind: SpanKeyKind,
}

/// How values are shown: in the form that suits all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpanKeyKind {
    Integer,
    Decimal,
    Text,
}

/// Most points of a counter.
const MOST_POINTS: usize = 8192;

/// Values of a counter of the program. Of many in a short time, the largest is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlotSeries {
    /// Time and value, by the time without this many bits.
    points: BTreeMap<i64, (i64, f64)>,
    bits: u32,
}

impl PlotSeries {
    /// Adds a value, in any order.
    pub(crate) fn push(&mut self, time: i64, value: f64) {
        let known = self.points.entry(time >> self.bits).or_insert((time, value));
        if value > known.1 {
            *known = (time, value);
        }
        if self.points.len() > MOST_POINTS {
            self.bits += 1;
            for (time, value) in std::mem::take(&mut self.points).into_values() {
                self.push(time, value);
            }
        }
    }

    /// (ns from time zero, value), in time order.
    pub(crate) fn points(&self) -> impl Iterator<Item = (i64, f64)> {
        self.points.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_values_in_any_order_the_peak_stays_and_all_of_the_time() {
        let mut series = PlotSeries::default();
        let peak = 30_001;
        for at in 0..100_000i64 {
            // Each thread for itself: every other value comes later.
            let time = at * 2 % 100_000 + at / 50_000;
            series.push(time, if time == peak { 1000.0 } else { -(time as f64) });
        }
        let points: Vec<_> = series.points().collect();
        assert!(
            (MOST_POINTS / 2..=MOST_POINTS).contains(&points.len()),
            "{}",
            points.len()
        );
        assert!(points.contains(&(peak, 1000.0)));
        assert!(points.is_sorted_by_key(|(time, _)| *time));
        assert!(points.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 32));
    }
}
