//! Counters of processes and of the machine over time.

use std::collections::BTreeMap;

use recording::counter::{Counter, DeviceName, UnreadCause};

/// Most points of a series. At 20 readings a second they last seven minutes; then each two points become one.
const MOST_POINTS: usize = 8192;

/// All series of one process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessUsage {
    series: BTreeMap<Counter, UsageSeries>,
    /// Anonymous memory of its program.
    pub(crate) anonymous: AnonymousReadings,
}

/// Readings of [`Counter::AnonymousBytes`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnonymousReadings {
    pub(crate) first: Option<u64>,
    pub(crate) most: Option<u64>,
    /// Time of the last one.
    pub(crate) last: i64,
}

impl ProcessUsage {
    /// Adds a reading. `start`: when the process began, if it did so meanwhile: its sums were 0 then.
    pub(crate) fn push(&mut self, counter: Counter, time: i64, value: u64, start: Option<i64>) {
        if counter == Counter::AnonymousBytes {
            let readings = &mut self.anonymous;
            readings.first = readings.first.or(Some(value));
            readings.most = readings.most.max(Some(value));
            readings.last = time;
            return;
        }
        let series = self.series.entry(counter).or_insert_with(|| {
            let mut series = UsageSeries::default();
            if let Some(start) = start.filter(|_| counter.info().is_sum) {
                series.push(start, 0);
            }
            series
        });
        series.push(time, value);
    }

    /// What the next program of the same process begins with.
    pub(crate) fn of_next_program(&self) -> ProcessUsage {
        let sums = self.series.iter().filter(|(counter, _)| counter.info().is_sum);
        let series = sums.map(|(counter, series)| {
            let mut next = UsageSeries::default();
            series
                .points
                .last()
                .iter()
                .for_each(|(time, value)| next.push(*time, *value));
            (*counter, next)
        });
        ProcessUsage {
            series: series.collect(),
            anonymous: AnonymousReadings::default(),
        }
    }

    /// (ns from time zero, value), in time order.
    pub(crate) fn points(&self, counter: Counter) -> &[(i64, u64)] {
        self.series.get(&counter).map_or(&[], |series| &series.points)
    }

    /// All counters that make a line: a single point is not drawn.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (Counter, &[(i64, u64)])> {
        let lines = self.series.iter().filter(|(_, series)| series.points.len() > 1);
        lines.map(|(counter, series)| (*counter, &series.points[..]))
    }
}

/// What was read of the machine, and what could not be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineUsage {
    pub(crate) series: BTreeMap<(Counter, DeviceName), UsageSeries>,
    /// How often: of processes once for each.
    pub(crate) unread: BTreeMap<(Counter, UnreadCause), u64>,
}

impl MachineUsage {
    /// False if nobody tried to read it.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.series.is_empty() || !self.unread.is_empty()
    }
}

/// One value over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageSeries {
    points: Vec<(i64, u64)>,
    /// Readings in every point except the last, as a power of two.
    log2_readings: u32,
    /// Readings in the last point.
    in_last: u64,
}

impl UsageSeries {
    /// (ns from time zero, value), in time order.
    pub(crate) fn points(&self) -> &[(i64, u64)] {
        &self.points
    }

    pub(crate) fn push(&mut self, time: i64, value: u64) {
        let reading = (self.points.last().map_or(time, |(last, _)| time.max(*last)), value);
        match self.points.last_mut() {
            Some(last) if self.in_last < 1 << self.log2_readings => {
                *last = larger(*last, reading);
                self.in_last += 1;
            }
            _ => {
                if self.points.len() == MOST_POINTS {
                    self.points = (self.points.chunks(2))
                        .filter_map(|pair| pair.iter().copied().reduce(larger))
                        .collect();
                    self.log2_readings += 1;
                }
                self.points.push(reading);
                self.in_last = 1;
            }
        }
    }
}

/// The point that remains of two: of a gauge the peak; sums never decrease.
fn larger(earlier: (i64, u64), later: (i64, u64)) -> (i64, u64) {
    match later.1 >= earlier.1 {
        true => later,
        false => earlier,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_has_fewer_points_and_its_peak() {
        let mut series = UsageSeries::default();
        let peak = 30_001;
        for time in 0..100_000 {
            series.push(time, if time == peak { 1000 } else { time as u64 % 10 });
        }
        let points = series.points();
        assert!(
            (MOST_POINTS / 2..=MOST_POINTS).contains(&points.len()),
            "{}",
            points.len()
        );
        assert!(points.contains(&(peak, 1000)));
        assert!(points.is_sorted_by_key(|(time, _)| *time));
        // Every point is of 16 readings.
        assert!(points.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 32));
        assert!(points[0].0 < 100 && points.last().unwrap().0 == 99_999);
    }
}
