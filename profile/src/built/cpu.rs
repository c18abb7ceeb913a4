//! The unit of `samples.threadCPUDelta`, from which the front end draws how busy a thread was.

use recording::info::PeriodUnit;

use crate::model::Profile;
use crate::model::samples::Sample;

/// How a sample's period becomes its CPU delta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CpuDelta {
    /// Periods are nanoseconds already.
    Nanoseconds,
    /// Periods are cycles. As nanoseconds they sum up to the CPU time that the kernel counted.
    ///
    /// The front end would take cycles as they are, but then 100 % is the densest pair of samples of the whole profile. A
    /// thread that moves to another CPU can have two samples a microsecond apart, as each CPU counts for itself; all
    /// graphs would be flat.
    ScaledCycles { ns_per_cycle: f64 },
    /// Cycles, where the kernel's CPU time is not known.
    Cycles { mean: f64 },
    /// The same beside waits: switches tell the CPU time between samples in ns, and a sample elsewhere stands for the interval.
    CyclesBesideWaits { ns_per_cycle: f64 },
    /// Periods are counts of an event, which tell nothing of CPU time.
    None,
}

impl CpuDelta {
    pub(crate) fn of(profile: &Profile) -> Self {
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
    pub(super) fn unit(self) -> Option<&'static str> {
        match self {
            CpuDelta::Nanoseconds | CpuDelta::ScaledCycles { .. } | CpuDelta::CyclesBesideWaits { .. } => Some("ns"),
            CpuDelta::Cycles { .. } => Some("variable CPU cycles"),
            CpuDelta::None => None,
        }
    }

    /// The time that a sample stands for, ns: CPU time, or the length of a wait. Where CPU time is not known, the average sample
    /// stands for the interval.
    pub(crate) fn time_of(self, sample: &Sample, interval_ns: u64) -> i64 {
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

    /// CPU time between the row before and this one. The front end shows at most as much as there was time, so a sample's period
    /// would be lost where a wait stands just before the sample.
    ///
    /// With whole periods there, graphs showed a third of the CPU time of a program that alternates between work and sleeps of 0.3 ms.
    pub(super) fn before(self, sample: &Sample) -> u64 {
        match (sample.cpu_before_ns, sample.off_cpu) {
            (Some(ns), _) => ns,
            (None, true) => 0,
            (None, false) => self.of_period(sample.period),
        }
    }

    fn of_period(self, period: u64) -> u64 {
        match self {
            CpuDelta::Nanoseconds | CpuDelta::Cycles { .. } | CpuDelta::None => period,
            // `as` saturates.
            CpuDelta::ScaledCycles { ns_per_cycle } | CpuDelta::CyclesBesideWaits { ns_per_cycle } => {
                (period as f64 * ns_per_cycle).round() as u64
            }
        }
    }
}
