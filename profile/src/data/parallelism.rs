//! How many threads ran at each moment.
//!
//! Exact where all switches were recorded ([`RunningFacts`]). Else an estimate: a sample says that its thread ran for
//! the sample's time before it.

use super::{Data, RunningFacts, Thread, WeightUnit};
use crate::text::numbers::time;

/// A thread ran without a pause if the gap between two samples is longer than their time by less than this part of it:
/// timers jitter. What is lent is taken off later, so that a thread's running time is the time of its samples.
const JITTER: f64 = 0.5;

/// Larger numbers in a file count as this one.
const MOST_THREADS: u32 = 1 << 16;

/// The time from one change of the number to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunningInterval {
    /// Since the start of the recording, ms.
    pub start_ms: f64,
    /// Exclusive.
    pub end_ms: f64,
    /// Threads on a CPU.
    pub running: u32,
    /// Threads that lost their CPU and could go on; not known in an estimate.
    pub ready: u32,
}

/// The profile does not say when threads ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoParallelism {
    /// Its samples have no times.
    #[error("its samples have no times, so nobody knows which threads ran at once")]
    NoTimes,
    /// Its samples are not of CPU time.
    #[error("it has no samples of CPU time, so nobody knows when threads ran; leave out --event and --measure")]
    NotTime,
}

/// How many threads of all processes ran, over the whole time of the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Parallelism {
    /// From 0 to the end, without what the recording was paused. Neighbours differ.
    pub intervals: Vec<RunningInterval>,
    /// From all switches; else an estimate.
    pub is_exact: bool,
    /// Of an estimate, the part of the threads' running time (0 to 1) that came after a pause: the thread may have run
    /// at any time between two samples.
    pub guessed: f64,
    /// For each thread and sample, the start of the time that the sample stands for. Its end is the sample's time.
    /// Empty for threads whose samples are not of CPU time.
    pub(crate) starts_ms: Vec<Vec<f64>>,
    /// Where the numbers are exact, the order of intervals within a cell is not known.
    cell_ms: f64,
}

impl Parallelism {
    /// Wall time by number of running threads between these times, and its part in which others were ready, ms.
    pub fn wall_ms(&self, from_ms: f64, to_ms: f64) -> Vec<[f64; 2]> {
        let mut sums = Vec::new();
        for interval in &self.intervals {
            let ms = interval.end_ms.min(to_ms) - interval.start_ms.max(from_ms);
            if ms > 0.0 {
                let number = interval.running.min(MOST_THREADS) as usize;
                sums.resize(sums.len().max(number + 1), [0.0; 2]);
                sums[number][0] += ms;
                sums[number][1] += if interval.ready > 0 { ms } else { 0.0 };
            }
        }
        sums
    }

    /// How sure an estimate is, in words.
    pub fn doubt(&self, data: &Data) -> Option<String> {
        let interval = Some(data.interval_ms).filter(|ms| *ms > 0.0).map(time);
        (!self.is_exact).then(|| format!(
            "running threads are estimated: a sample says that its thread ran for {} before it; {:.0} % of that time came after a \
             pause and may have been earlier; shorter runs, and those of lost samples, count as pauses. `sprof record --parallelism` has each switch",
            interval.as_deref().unwrap_or("its time"),
            100.0 * self.guessed
        ))
    }

    /// Calls `each` with the numbers of running threads during the time of a sample, and the sample's part of the wall
    /// time with this number, ms: all running threads have equal parts.
    pub(crate) fn wall_of(&self, thread: usize, sample: usize, time_ms: f64, mut each: impl FnMut(u32, f64)) {
        let start_ms = self.starts_ms[thread][sample];
        if self.is_exact {
            return self.wall_at(time_ms, time_ms - start_ms, each);
        }
        let first = (self.intervals).partition_point(|interval| interval.end_ms <= start_ms);
        let during = self.intervals[first..].iter();
        for interval in during.take_while(|interval| interval.start_ms < time_ms) {
            let ms = interval.end_ms.min(time_ms) - interval.start_ms.max(start_ms);
            each(interval.running, ms / f64::from(interval.running.max(1)));
        }
    }
}

impl Parallelism {
    /// The same for `ms` of running at a moment, or in its cell: the more threads run, the more samples come.
    fn wall_at(&self, time_ms: f64, ms: f64, mut each: impl FnMut(u32, f64)) {
        let cell_start_ms = (time_ms / self.cell_ms).floor() * self.cell_ms;
        let cell_end_ms = cell_start_ms + self.cell_ms;
        let first = (self.intervals).partition_point(|interval| interval.end_ms <= cell_start_ms);
        let parts = self.intervals[first..].iter();
        let parts = parts
            .take_while(|interval| interval.start_ms < cell_end_ms)
            .map(|interval| {
                let ms = interval.end_ms.min(cell_end_ms) - interval.start_ms.max(cell_start_ms);
                (interval.running, ms)
            });
        let cpu_ms: f64 = parts.clone().map(|(running, ms)| f64::from(running) * ms).sum();
        if cpu_ms > 0.0 {
            parts
                .filter(|(running, _)| *running > 0)
                .for_each(|(running, wall_ms)| each(running, ms * wall_ms / cpu_ms));
            return;
        }
        // An NMI may sample a thread in the microseconds between its switch record and the end of its time.
        let before = first
            .checked_sub(1)
            .map_or(1, |before| self.intervals[before].running.max(1));
        each(before, ms / f64::from(before));
    }
}

/// Estimates when threads ran by their samples and waits, thread after thread.
#[derive(Default)]
pub(crate) struct RunningEstimate {
    /// Where threads begin and end to run: (time, difference).
    changes: Vec<(f64, i32)>,
    last_ms: f64,
    running_ms: f64,
    guessed_ms: f64,
    /// The end of the thread's last sample or wait.
    before_ms: f64,
    /// Time of the thread's samples that has no place yet; negative if time was lent.
    rest_ms: f64,
}

impl RunningEstimate {
    pub(crate) fn begin_thread(&mut self) {
        (self.before_ms, self.rest_ms) = (0.0, 0.0);
    }

    pub(crate) fn add_wait(&mut self, time_ms: f64, ms: f64) {
        self.before_ms = self.before_ms.max(time_ms + ms);
        self.last_ms = self.last_ms.max(self.before_ms);
    }

    /// Adds a sample after `ms` of running. Returns the start of that time.
    pub(crate) fn add_sample(&mut self, time_ms: f64, ms: f64) -> f64 {
        let gap_ms = (time_ms - self.before_ms).max(0.0);
        let known_ms = self.rest_ms + ms;
        let is_whole = gap_ms <= known_ms + JITTER * ms;
        let run_ms = if is_whole { gap_ms } else { known_ms.max(0.0) };
        // The same number as the end of the sample before.
        let start_ms = if is_whole {
            time_ms.min(self.before_ms)
        } else {
            time_ms - run_ms
        };
        self.rest_ms = (known_ms - run_ms).min(ms);
        self.before_ms = self.before_ms.max(time_ms);
        self.last_ms = self.last_ms.max(self.before_ms);
        self.running_ms += run_ms;
        self.guessed_ms += if is_whole { 0.0 } else { run_ms };
        match self.changes.last_mut() {
            Some((end_ms, -1)) if *end_ms == start_ms => *end_ms = time_ms,
            _ => self.changes.extend([(start_ms, 1), (time_ms, -1)]),
        }
        start_ms
    }

    /// The intervals from 0 to the end, or to the last sample if that is later.
    pub(crate) fn intervals(mut self, end_ms: f64) -> Vec<RunningInterval> {
        self.changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let end = (self.last_ms.max(end_ms), 0);
        let mut intervals: Vec<RunningInterval> = Vec::new();
        let (mut start_ms, mut running) = (0.0, 0u32);
        for (time_ms, change) in self.changes.into_iter().chain([end]) {
            if time_ms > start_ms {
                match intervals.last_mut() {
                    Some(last) if last.running == running => last.end_ms = time_ms,
                    _ => intervals.push(RunningInterval {
                        start_ms,
                        end_ms: time_ms,
                        running,
                        ready: 0,
                    }),
                }
                start_ms = time_ms;
            }
            running = running.saturating_add_signed(change);
        }
        intervals
    }
}

impl RunningFacts {
    fn is_usable(&self) -> bool {
        let length = self.lasted_ns.len();
        length > 0 && self.cell_ns > 0 && self.running.len() == length && self.ready.len() == length
    }

    pub(crate) fn intervals(&self) -> Vec<RunningInterval> {
        let mut end_ns = 0u64;
        let steps = self.lasted_ns.iter().zip(self.running.iter().zip(&self.ready));
        let intervals = steps.map(|(lasted_ns, (running, ready))| {
            let start_ns = end_ns;
            end_ns = end_ns.saturating_add(*lasted_ns);
            RunningInterval {
                start_ms: start_ns as f64 / 1e6,
                end_ms: end_ns as f64 / 1e6,
                running: *running,
                ready: *ready,
            }
        });
        intervals.collect()
    }
}

impl Data {
    /// How many threads ran at each moment.
    ///
    /// # Errors
    ///
    /// The profile's samples do not say when threads ran.
    pub fn parallelism(&self) -> Result<Parallelism, NoParallelism> {
        let sampled = || self.threads.iter().filter(|thread| !thread.samples.is_empty());
        let of_time = sampled().find(|thread| self.ms_per_weight(thread).is_some());
        let recorded = self.recorded.as_ref();
        let exact = recorded
            .and_then(|recorded| recorded.running.as_ref())
            .filter(|facts| facts.is_usable());
        if of_time.is_none() && sampled().next().is_some() && exact.is_none() {
            return Err(NoParallelism::NotTime);
        }
        let event = of_time.map(|thread| &thread.event);
        let mut estimate = RunningEstimate::default();
        let starts = self.threads.iter().map(|thread| {
            let is_of_event = Some(&thread.event) == event;
            let Some(each_ms) = self.ms_per_weight(thread).filter(|_| is_of_event) else {
                return Vec::new();
            };
            estimate.begin_thread();
            let samples = thread.samples.iter().map(|(time_ms, stack, weight)| {
                let [time_ms, ms] =
                    [time_ms, weight * each_ms].map(|ms| if ms.is_finite() { ms.max(0.0) } else { 0.0 });
                match self.is_wait(stack) {
                    true => {
                        estimate.add_wait(time_ms, ms);
                        time_ms
                    }
                    false if exact.is_some() => time_ms - ms,
                    false => estimate.add_sample(time_ms, ms),
                }
            });
            samples.collect()
        });
        let starts_ms = starts.collect();
        if let Some(exact) = exact {
            return Ok(Parallelism {
                intervals: self.sampled_intervals(exact.intervals()),
                is_exact: true,
                guessed: 0.0,
                starts_ms,
                cell_ms: exact.cell_ns as f64 / 1e6,
            });
        }
        if self.is_summed || (of_time.is_some() && estimate.last_ms == 0.0) {
            return Err(NoParallelism::NoTimes);
        }
        let (running_ms, guessed_ms) = (estimate.running_ms, estimate.guessed_ms);
        Ok(Parallelism {
            intervals: self.sampled_intervals(estimate.intervals(self.length_ms().unwrap_or(0.0))),
            is_exact: false,
            cell_ms: 0.0,
            guessed: if running_ms > 0.0 { guessed_ms / running_ms } else { 0.0 },
            starts_ms,
        })
    }

    /// The time of a weight of 1 of a thread's samples, ms; `None` if they are not of CPU time.
    pub(crate) fn ms_per_weight(&self, thread: &Thread) -> Option<f64> {
        let is_time = |unit| matches!(unit, WeightUnit::Samples | WeightUnit::Milliseconds);
        // Threads in a file of another profiler have no unit of their own.
        match if is_time(self.unit) { self.unit } else { thread.unit } {
            _ if !is_time(thread.unit) => None,
            WeightUnit::Milliseconds => Some(1.0),
            WeightUnit::Samples => Some(self.interval_ms).filter(|ms| *ms > 0.0 && ms.is_finite()),
            WeightUnit::Bytes | WeightUnit::Counts => None,
        }
    }
}
