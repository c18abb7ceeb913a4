//! The unit of `samples.threadCPUDelta`. The front end draws a thread's CPU usage from it.

use recording::counter::Counter;
use recording::info::PeriodUnit;

use crate::recorded::Profile;
use crate::recorded::samples::RecordedSample;
use crate::recorded::thread::{RecordedProcess, RecordedThread};

/// The conversion of a sample's period to its CPU delta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CpuDelta {
    /// Periods are nanoseconds.
    Nanoseconds,
    /// Periods are cycles, scaled so that they sum up to the kernel's CPU time.
    ///
    /// The front end also takes cycles, but then 100 % is the densest pair of samples in the profile. A thread that
    /// moves to another CPU can have two samples a microsecond apart, because each CPU counts separately. All graphs
    /// would be flat.
    ScaledCycles { ns_per_cycle: f64 },
    /// Periods are cycles, and the kernel's CPU time is not known.
    Cycles { mean: f64 },
    /// Periods are cycles, with waits recorded. Thread switches give the CPU time between samples in ns; without one, a
    /// sample represents the interval.
    CyclesBesideWaits { ns_per_cycle: f64 },
    /// Periods are counts of an event, which give no CPU time.
    None,
}

impl CpuDelta {
    pub(crate) fn new(profile: &Profile) -> Self {
        let cycles: f64 = profile
            .main_threads()
            .map(|thread| thread.samples.period_sum() as f64)
            .sum();
        let on_cpu: f64 = profile
            .main_threads()
            .map(|thread| thread.samples.on_cpu() as f64)
            .sum();
        match (profile.info.unit, profile.quality.cpu_time_ns) {
            (PeriodUnit::Counts, _) => CpuDelta::None,
            (PeriodUnit::CpuNanoseconds, _) => CpuDelta::Nanoseconds,
            (PeriodUnit::Cycles, Some(ns)) if ns > 0 && cycles > 0.0 => CpuDelta::ScaledCycles {
                ns_per_cycle: ns as f64 / cycles,
            },
            (PeriodUnit::Cycles, _) if profile.waits.is_some() => CpuDelta::CyclesBesideWaits {
                ns_per_cycle: profile.info.interval_ns as f64 * on_cpu / cycles.max(1.0),
            },
            (PeriodUnit::Cycles, _) => CpuDelta::Cycles {
                mean: cycles / on_cpu.max(1.0),
            },
        }
    }

    /// `meta.sampleUnits.threadCPUDelta`.
    pub(super) fn unit(self) -> &'static str {
        match self {
            CpuDelta::Cycles { .. } => "variable CPU cycles",
            _ => "ns",
        }
    }

    /// The time that a sample represents, ns: CPU time, or the duration of a wait. If CPU time is not known, the
    /// average sample represents the interval.
    pub(crate) fn time_of(self, sample: &RecordedSample, interval_ns: u64) -> i64 {
        let period = sample.period;
        let ns = match self {
            _ if sample.off_cpu => period,
            CpuDelta::Cycles { mean } if mean > 0.0 => (period as f64 / mean * interval_ns as f64).round() as u64,
            CpuDelta::Cycles { .. } | CpuDelta::None => interval_ns,
            CpuDelta::Nanoseconds | CpuDelta::ScaledCycles { .. } | CpuDelta::CyclesBesideWaits { .. } => {
                self.of_period(period)
            }
        };
        i64::try_from(ns).unwrap_or(i64::MAX)
    }

    /// CPU time since the previous row. The front end limits CPU time to the time between rows, so it would drop a
    /// sample's period directly after a wait.
    ///
    /// With whole periods, graphs showed a third of the CPU time of a program that alternates between work and sleeps
    /// of 0.3 ms.
    pub(super) fn before(self, sample: &RecordedSample) -> u64 {
        match (sample.cpu_before_ns, sample.off_cpu) {
            (Some(ns), _) => ns,
            (None, true) => 0,
            (None, false) => self.of_period(sample.period),
        }
    }

    fn of_period(self, period: u64) -> u64 {
        match self {
            CpuDelta::Nanoseconds | CpuDelta::Cycles { .. } | CpuDelta::None => period,
            // `as` saturates on overflow.
            CpuDelta::ScaledCycles { ns_per_cycle } | CpuDelta::CyclesBesideWaits { ns_per_cycle } => {
                (period as f64 * ns_per_cycle).round() as u64
            }
        }
    }
}

/// CPU time between the samples of a thread whose samples are counts, ns: by the kernel's readings of its process,
/// where the thread is alone in it, and else 0. Without a value, the front end draws a thread that only waits as busy
/// all the time.
pub(super) fn by_readings(process: &RecordedProcess, thread: &RecordedThread) -> Vec<f64> {
    let times = || thread.samples.iter().map(|sample| sample.time);
    let points = process.usage.points(Counter::CpuNanoseconds);
    if thread.event.is_some() || process.threads != 1 || points.is_empty() {
        return times().map(|_| 0.0).collect();
    }
    let mut before = None;
    let deltas = times().map(|time| {
        let used = used_at(points, time);
        let delta = (used - before.unwrap_or(used)).max(0.0);
        before = Some(used);
        delta.round()
    });
    deltas.collect()
}

/// CPU time at an instant: between two readings it is taken to grow evenly.
fn used_at(points: &[(i64, u64)], time: i64) -> f64 {
    let after = points.partition_point(|(reading, _)| *reading <= time);
    match (after.checked_sub(1).map(|at| points[at]), points.get(after)) {
        (Some((from, used)), Some((to, later))) => {
            let share = (time - from) as f64 / (to - from) as f64;
            used as f64 + share * later.saturating_sub(used) as f64
        }
        (Some((_, used)), None) => used as f64,
        (None, Some((_, used))) => *used as f64,
        (None, None) => 0.0,
    }
}
