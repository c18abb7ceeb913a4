//! Selects samples and their whole-number weights, equal in every format.

use rustc_hash::FxHashMap;

use crate::data::{Data, Thread, WeightUnit};

/// The exported part of the threads' time. Waits are added to CPU time only on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PickedTime {
    /// Samples of running threads.
    #[default]
    Cpu,
    /// Waits.
    Waits,
    /// Both: all of the threads' time.
    All,
}

/// The unit of exported numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportUnit {
    /// Samples.
    Samples,
    /// Nanoseconds, because the profile's milliseconds are not whole numbers.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// The profile's own unit: see [`Picked::named`].
    Named,
}

/// A profile and the selection of its samples.
#[derive(Debug)]
pub struct Picked<'a> {
    pub(super) data: &'a Data,
    time: PickedTime,
}

/// One exported sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PickedSample {
    /// Since the profile's start, ms; 0 without times.
    pub(super) time_ms: f64,
    /// Index of a stack, or [`NONE`](crate::data::NONE).
    pub(super) stack: u32,
    /// In [`ExportUnit`].
    pub(super) weight: u64,
    /// Number of samples that it represents.
    pub(super) count: u64,
    /// See [`Samples::variance`](crate::data::Samples::variance).
    pub(super) variance: f64,
}

/// Sums over a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PickedTotals {
    /// Exported samples; 0 if nothing was sampled.
    pub samples: u64,
    /// Their weight, in [`ExportUnit`].
    pub weight: u64,
    /// Weight of the samples of the other kind: waits, if CPU time is exported.
    pub left_out: u64,
    /// Samples that no format can hold: their weight is negative or missing.
    pub unusable: u64,
    /// Threads with exported samples or counts.
    pub threads: u64,
}

impl<'a> Picked<'a> {
    /// The samples of `data` of this part of the time.
    pub fn new(data: &'a Data, time: PickedTime) -> Picked<'a> {
        Picked { data, time }
    }

    /// The exported part of the time.
    pub fn time(&self) -> PickedTime {
        self.time
    }

    /// The unit of numbers.
    pub fn counted(&self) -> ExportUnit {
        match self.data.unit {
            WeightUnit::Samples => ExportUnit::Samples,
            WeightUnit::Milliseconds => ExportUnit::Nanoseconds,
            WeightUnit::Bytes => ExportUnit::Bytes,
            WeightUnit::Counts => ExportUnit::Named,
        }
    }

    /// The file's own name and unit of the numbers; `None` for time and samples.
    pub fn named(&self) -> Option<(&'a str, &'a str)> {
        let unit = self.data.weights.as_ref().map_or("", |weights| weights.unit.as_str());
        Some((self.data.counted_name()?, unit))
    }

    /// The exported samples of a thread.
    pub(super) fn samples(&self, thread: &'a Thread) -> impl Iterator<Item = PickedSample> + '_ {
        let samples = thread.samples.iter().enumerate();
        let picked = samples.filter(|(_, (_, stack, _))| self.picks(*stack));
        let mut rests = FxHashMap::default();
        picked.filter_map(move |(at, (time_ms, stack, weight))| {
            Some(PickedSample {
                time_ms: if time_ms.is_finite() { time_ms } else { 0.0 },
                stack,
                weight: self.whole(stack, weight, &mut rests)?,
                count: self.data.count_of(&thread.samples, at, weight),
                variance: thread.samples.variance.as_ref().map_or(0.0, |variances| variances[at]),
            })
        })
    }

    /// Sums over all threads.
    pub fn totals(&self) -> PickedTotals {
        let mut totals = PickedTotals::default();
        for thread in &self.data.threads {
            let mut is_exported = false;
            let mut rests = FxHashMap::default();
            for (at, (_, stack, weight)) in thread.samples.iter().enumerate() {
                match self.whole(stack, weight, &mut rests) {
                    None => totals.unusable += 1,
                    Some(whole) if self.picks(stack) => {
                        is_exported = true;
                        totals.samples = totals.samples.saturating_add(match self.data.weights {
                            Some(_) => self.data.count_of(&thread.samples, at, weight),
                            None => 1,
                        });
                        totals.weight = totals.weight.saturating_add(whole);
                    }
                    Some(weight) => totals.left_out = totals.left_out.saturating_add(weight),
                }
            }
            totals.threads += u64::from(is_exported);
        }
        totals
    }

    /// The type and unit of weights: the file's own names, or those of pprof's own profiles.
    pub(super) fn value_type(&self) -> (String, String) {
        let (name, unit) = match (self.counted(), self.named(), self.time) {
            (ExportUnit::Bytes, Some((name, _)), _) => (name, "bytes"),
            (ExportUnit::Nanoseconds, Some((name, _)), _) => (name, "nanoseconds"),
            (ExportUnit::Named, Some((name, unit)), _) if !unit.is_empty() => (name, unit),
            (ExportUnit::Named, Some((name, _)), _) => (name, "count"),
            (ExportUnit::Bytes, ..) => ("space", "bytes"),
            (.., PickedTime::Cpu) => ("cpu", "nanoseconds"),
            (.., PickedTime::Waits) => ("delay", "nanoseconds"),
            (.., PickedTime::All) => ("wall", "nanoseconds"),
        };
        (name.to_owned(), unit.to_owned())
    }

    /// False if samples have no time and no other weight.
    pub(super) fn has_weights(&self) -> bool {
        self.counted() != ExportUnit::Samples || self.interval_ns() > 0
    }

    /// A weight in the unit of [`Picked::value_type`].
    pub(super) fn value(&self, weight: u64) -> u64 {
        match self.counted() {
            ExportUnit::Samples => weight.saturating_mul(self.interval_ns()),
            ExportUnit::Nanoseconds | ExportUnit::Bytes | ExportUnit::Named => weight,
        }
    }

    pub(super) fn interval_ns(&self) -> u64 {
        (self.data.interval_ms * 1e6).round() as u64
    }

    /// Time of the last sample since the profile's start, ms.
    pub(super) fn last_ms(&self) -> f64 {
        let threads = self.data.threads.iter();
        let times = threads.flat_map(|thread| thread.samples.time_ms.iter().copied());
        times.filter(|time| time.is_finite()).fold(0.0, f64::max)
    }

    fn picks(&self, stack: u32) -> bool {
        match self.time {
            PickedTime::All => true,
            PickedTime::Cpu => !self.data.is_wait(stack),
            PickedTime::Waits => self.data.is_wait(stack),
        }
    }

    /// A sampled block of memory may stand for 1.5: what rounding leaves counts with the next one of the stack.
    fn whole(&self, stack: u32, weight: f64, rests: &mut FxHashMap<u32, f64>) -> Option<u64> {
        if self.data.unit == WeightUnit::Counts && weight > 0.0 && weight.fract() > 0.0 {
            let rest = rests.entry(stack).or_default();
            let exact = *rest + weight;
            let whole = exact.round().max(0.0);
            *rest = exact - whole;
            return Some(whole as u64);
        }
        let scale = match self.data.unit {
            WeightUnit::Milliseconds => 1e6,
            WeightUnit::Samples | WeightUnit::Bytes | WeightUnit::Counts => 1.0,
        };
        // Files have up to six decimals of a millisecond.
        (weight >= 0.0).then_some((weight * scale).round() as u64)
    }
}
