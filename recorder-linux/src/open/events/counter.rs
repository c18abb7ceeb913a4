//! An event that counts, as perf_event_open knows it.

use recording::info::{PeriodUnit, SampleBy};

use perf_data::events::CountedCode;
use perf_data::events::names::{self, GenericEvent};

/// A counting event on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// Name as the user typed it.
    pub(crate) name: String,
    /// `perf_event_attr.type`, `config`, `config1`, `config2`.
    pub(crate) kind: u32,
    pub(crate) configs: [u64; 3],
    pub(crate) sides: CountedCode,
    pub(crate) sample_by: SampleBy,
    /// True if the event needs permission to sample the kernel.
    pub(crate) is_in_kernel: bool,
    /// The CPUs that have the event; `None` if all have it.
    pub(crate) cpus: Option<Vec<u32>>,
}

impl Counter {
    pub(crate) fn unit(&self) -> PeriodUnit {
        match self.generic().counts_cpu_time() {
            true => PeriodUnit::CpuNanoseconds,
            false => PeriodUnit::Counts,
        }
    }

    /// True if the event is sampled by its own count, at any rate.
    pub(crate) fn may_flood(&self) -> bool {
        self.kind == names::SOFTWARE
            && !self.generic().counts_cpu_time()
            && matches!(self.sample_by, SampleBy::Period(_))
    }

    /// True if the CPU's counters decide whether the event exists.
    pub(crate) fn is_hardware(&self) -> bool {
        self.kind != names::SOFTWARE
    }

    /// True if the event may belong to the CPU's counters by its type. On machines with several kinds of cores such an
    /// event needs the type of the core.
    pub(crate) fn wants_core_type(&self) -> bool {
        matches!(self.kind, names::HARDWARE | names::HW_CACHE)
    }

    /// The period that a sample stands for, if its record does not have one.
    ///
    /// If asked for PERF_SAMPLE_PERIOD, a software event with a fixed period writes a sample each time that it happens
    /// (`perf_swevent_event` in kernel/events/core.c). The clocks are timers, and do not.
    pub(crate) fn period_unsaid(&self) -> Option<u64> {
        match self.sample_by {
            SampleBy::Period(period @ 2..) if self.kind == names::SOFTWARE && !self.generic().counts_cpu_time() => {
                Some(period)
            }
            _ => None,
        }
    }

    fn generic(&self) -> GenericEvent {
        GenericEvent {
            kind: self.kind,
            config: self.configs[0],
        }
    }
}
