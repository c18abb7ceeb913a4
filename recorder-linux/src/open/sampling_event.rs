//! The sampling event, and its attributes for perf_event_open.

use recording::info::{EventCounts, PeriodUnit, SampleBy};

use super::scope::Scope;
use crate::open::events::Counter;
use crate::sys::perf_event::{
    Attr, EventFd, HW_CPU_CYCLES, SW_CPU_CLOCK, THIS_THREAD, TYPE_HARDWARE, TYPE_SOFTWARE, flag, read_format,
};
use perf_data::decode::{RegisterSet, SAMPLE_CALLCHAIN, SAMPLE_PERIOD, SAMPLE_TYPE, SampleLayout};

const NANOS_PER_SECOND: f64 = 1e9;
/// PERF_PMU_TYPE_SHIFT.
const PMU_TYPE_SHIFT: u32 = 32;

/// The sampling event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventChoice {
    /// The event that the user named instead of CPU time.
    pub(crate) named: Option<Counter>,
    pub(crate) hardware: bool,
    /// Why the CPU clock samples instead of the processor's counter of cycles; `None` if cycles sample.
    pub(crate) no_cycles: Option<NoCycles>,
    /// The user's permission. A named event may still exclude the kernel: see [`EventChoice::counts_kernel`].
    pub(crate) may_sample_kernel: bool,
    pub(super) has_build_ids: bool,
    pub(crate) has_lost_counts: bool,
}

/// Why cycles do not sample. The reason is the same for every recording on a machine. It is not a loss: the clock also
/// measures time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCycles {
    /// The machine has no counter of cycles, like most virtual machines.
    NoCounter,
    /// The PMU has no interrupts, as under some hypervisors: it counts but can't sample.
    NoInterrupts,
}

impl NoCycles {
    /// The reason as a sentence, for verbose output.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            NoCycles::NoCounter => "no hardware counter for cycles here: sampling by the cpu-clock timer",
            NoCycles::NoInterrupts => "the cycles counter can't sample here: sampling by the cpu-clock timer",
        }
    }
}

impl EventChoice {
    pub(crate) fn name(&self) -> &str {
        match (&self.named, self.hardware, self.may_sample_kernel) {
            (Some(counter), _, _) => &counter.name,
            (None, true, true) => "cycles",
            (None, true, false) => "cycles:u",
            (None, false, true) => "cpu-clock",
            (None, false, false) => "cpu-clock:u",
        }
    }

    /// True if this event also samples the kernel. Named events decide for themselves.
    pub(crate) fn counts_kernel(&self) -> bool {
        self.may_sample_kernel && self.named.as_ref().is_none_or(|counter| counter.sides.kernel)
    }

    /// This event for user code only.
    pub(super) fn without_kernel(&self) -> EventChoice {
        EventChoice {
            may_sample_kernel: false,
            ..self.clone()
        }
    }

    /// True if samples may come at any rate.
    pub(super) fn may_flood(&self) -> bool {
        self.named.as_ref().is_some_and(Counter::may_flood)
    }

    /// True if samples stand for CPU time.
    pub(crate) fn is_time(&self) -> bool {
        self.unit() != PeriodUnit::Counts
    }

    pub(crate) fn unit(&self) -> PeriodUnit {
        if let Some(counter) = &self.named {
            counter.unit()
        } else if self.hardware {
            PeriodUnit::Cycles
        } else {
            PeriodUnit::CpuNanoseconds
        }
    }

    pub(crate) fn layout(&self, stack_bytes: u32) -> SampleLayout {
        SampleLayout {
            registers: RegisterSet::NATIVE,
            call_chain: self.counts_kernel(),
            stack_bytes,
            period: self.named.as_ref().and_then(Counter::period_unsaid),
            raw: false,
        }
    }

    /// Attributes that all events of a recording share.
    pub(super) fn common_attr(&self, scope: Scope, stack_bytes: u32) -> Attr {
        let lost = if self.has_lost_counts { read_format::LOST } else { 0 };
        Attr {
            sample_type: SAMPLE_TYPE,
            read_format: read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING | lost,
            flags: scope.flags()
                | flag::DISABLED
                | flag::EXCLUDE_HV
                | flag::EXCLUDE_GUEST
                | flag::WATERMARK
                | flag::SAMPLE_ID_ALL
                | flag::USE_CLOCKID,
            // Never wake the reader: it wakes up by itself, every 1 to 400 ms (`rounds`). A wake-up per sample costs
            // the program 2 us. The kernel cuts this number to the ring's size.
            wakeup_watermark: u32::MAX,
            sample_regs_user: RegisterSet::NATIVE.mask(),
            sample_stack_user: stack_bytes,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        }
    }

    pub(super) fn attr(&self, scope: Scope, rate_hz: f64, stack_bytes: u32, core_type: u64) -> Attr {
        let common = self.common_attr(scope, stack_bytes);
        let mut flags = common.flags | flag::MMAP | flag::MMAP2 | flag::COMM | flag::COMM_EXEC | flag::TASK;
        let mut sample_type = common.sample_type;
        if self.counts_kernel() {
            flags |= flag::EXCLUDE_CALLCHAIN_USER;
            sample_type |= SAMPLE_CALLCHAIN;
            // Reports BPF programs that are loaded while recording. Linux has this since 5.1, and build ids since 5.12.
            if self.has_build_ids {
                flags |= flag::KSYMBOL;
            }
        } else {
            flags |= flag::EXCLUDE_KERNEL;
        }
        if self.has_build_ids {
            flags |= flag::BUILD_ID;
        }
        let (kind, configs, period_or_freq) = if let Some(counter) = &self.named {
            let [mut config, one, two] = counter.configs;
            if counter.wants_core_type() {
                config |= core_type;
            }
            if !counter.sides.user {
                flags |= flag::EXCLUDE_USER;
            }
            if counter.period_unsaid().is_some() {
                sample_type &= !SAMPLE_PERIOD;
            }
            let period_or_freq = match counter.sample_by {
                SampleBy::Period(period) => period,
                SampleBy::Frequency(rate_hz) => {
                    flags |= flag::FREQ;
                    rate_hz
                }
            };
            (counter.kind, [config, one, two], period_or_freq)
        } else if self.hardware {
            flags |= flag::FREQ;
            (
                TYPE_HARDWARE,
                [HW_CPU_CYCLES | core_type, 0, 0],
                rate_hz.round().max(1.0) as u64,
            )
        } else {
            // A period, not a frequency: the kernel turns the frequency of a clock into this period. A new task gets
            // its first sample after a whole period on each CPU, so short tasks lack half a period per CPU on average.
            // The kernel's count of CPU time, which lacks nothing, is shown beside the sum of the samples.
            let period_ns = (NANOS_PER_SECOND / rate_hz).round() as u64;
            (TYPE_SOFTWARE, [SW_CPU_CLOCK, 0, 0], period_ns)
        };
        Attr {
            kind,
            config: configs[0],
            config1: configs[1],
            config2: configs[2],
            sample_period_or_freq: period_or_freq,
            sample_type,
            flags,
            ..common
        }
    }
}

/// True if perf events are allowed for sprof itself. Then the kernel refuses only the target.
pub(crate) fn may_record_ourselves(choice: &EventChoice) -> bool {
    let attr = choice.attr(Scope::OnExec, 1.0, 8, 0);
    EventFd::open(&attr, THIS_THREAD, 0).is_ok()
}

/// The type of the CPU's core for `config`, on machines with several types of cores; else 0.
pub(crate) fn core_type(core_types: &[(u32, Vec<u32>)], cpu: u32) -> u64 {
    core_types
        .iter()
        .find(|(_, cpus)| cpus.contains(&cpu))
        .map_or(0, |(kind, _)| u64::from(*kind) << PMU_TYPE_SHIFT)
}

/// Settings that named events share with the first event.
#[derive(Clone, Debug)]
pub(crate) struct SharedSettings {
    pub(crate) scope: Scope,
    pub(crate) choice: EventChoice,
    pub(crate) rate_hz: f64,
    pub(crate) stack_bytes: u32,
    pub(crate) core_types: Vec<(u32, Vec<u32>)>,
}

impl SharedSettings {
    /// Turns sums over all CPUs into counts of tasks. The event of a task on one CPU is also "enabled" while the task
    /// runs on others.
    ///
    /// The enabled time is the run time of the tasks, or less: Linux 6.18 drops the time of an inherited event whose
    /// thread ends on another CPU (4 threads of 679 ms together: 535 and 335 ms on two CPUs).
    pub(crate) fn of_tasks(&self, counts: EventCounts, cpus: usize) -> EventCounts {
        EventCounts {
            enabled_ns: match self.scope {
                Scope::Machine => counts.enabled_ns,
                Scope::OnExec | Scope::Running => (counts.enabled_ns / cpus.max(1) as u64).max(counts.running_ns),
            },
            ..counts
        }
    }
}
