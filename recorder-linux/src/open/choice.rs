//! Which event samples: the best that this machine and this user may have, every step down said.

use std::io;

use recording::command::own;
use recording::info::{PeriodUnit, SampleBy};

use super::{OpenError, Scope, Wanted};
use crate::events::{self, Counter};
use crate::ladder::{Refusal, paranoid};
use crate::sys::perf_event::{
    Attr, EventFd, HW_CPU_CYCLES, SW_CPU_CLOCK, THIS_THREAD, TYPE_HARDWARE, TYPE_SOFTWARE, flag, read_format,
};
use perf_data::decode::{Layout, RegisterSet, SAMPLE_CALLCHAIN, SAMPLE_TYPE};

const NANOS_PER_SECOND: f64 = 1e9;
/// PERF_PMU_TYPE_SHIFT.
const PMU_TYPE_SHIFT: u32 = 32;
/// PERF_SAMPLE_PERIOD.
const SAMPLE_PERIOD: u64 = 1 << 8;

/// The event that samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The one that the user named, in the place of CPU time.
    pub(crate) named: Option<Counter>,
    pub(crate) hardware: bool,
    /// Why the CPU clock samples in the place of the processor's counter of cycles; `None` where it does not.
    pub(crate) no_cycles: Option<NoCycles>,
    /// The user's permission. A named event can leave the kernel out all the same: see [`Choice::counts_kernel`].
    pub(crate) may_sample_kernel: bool,
    has_build_ids: bool,
    pub(crate) has_lost_counts: bool,
}

/// Why cycles do not sample. The same for every recording on a machine, and no loss: the clock measures time as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCycles {
    /// As in most virtual machines.
    NoCounter,
    /// Some hypervisors offer a PMU without interrupts: it counts but can't sample.
    NoInterrupts,
}

impl NoCycles {
    /// For those who ask for more.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            NoCycles::NoCounter => "no hardware counter for cycles here: sampling by the cpu-clock timer",
            NoCycles::NoInterrupts => "the cycles counter can't sample here: sampling by the cpu-clock timer",
        }
    }
}

impl Choice {
    pub(crate) fn name(&self) -> &str {
        match (&self.named, self.hardware, self.may_sample_kernel) {
            (Some(counter), _, _) => &counter.name,
            (None, true, true) => "cycles",
            (None, true, false) => "cycles:u",
            (None, false, true) => "cpu-clock",
            (None, false, false) => "cpu-clock:u",
        }
    }

    /// True if this event's samples come from the kernel, too. Of those beside it, each has its own answer.
    pub(crate) fn counts_kernel(&self) -> bool {
        self.may_sample_kernel && self.named.as_ref().is_none_or(|counter| counter.sides.kernel)
    }

    /// The same event of user code only.
    pub(super) fn without_kernel(&self) -> Choice {
        Choice {
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

    pub(crate) fn layout(&self, stack_bytes: u32) -> Layout {
        Layout {
            registers: RegisterSet::NATIVE,
            call_chain: self.counts_kernel(),
            stack_bytes,
            period: self.named.as_ref().and_then(Counter::period_unsaid),
            raw: false,
        }
    }

    pub(super) fn attr(&self, scope: Scope, rate_hz: f64, stack_bytes: u32, core_type: u64) -> Attr {
        let mut flags = flag::DISABLED
            | scope.flags()
            | flag::EXCLUDE_HV
            | flag::EXCLUDE_GUEST
            | flag::MMAP
            | flag::MMAP2
            | flag::COMM
            | flag::COMM_EXEC
            | flag::TASK
            | flag::WATERMARK
            | flag::SAMPLE_ID_ALL
            | flag::USE_CLOCKID;
        let mut sample_type = SAMPLE_TYPE;
        if self.counts_kernel() {
            flags |= flag::EXCLUDE_CALLCHAIN_USER;
            sample_type |= SAMPLE_CALLCHAIN;
        } else {
            flags |= flag::EXCLUDE_KERNEL;
        }
        if self.has_build_ids {
            flags |= flag::BUILD_ID;
        }
        let mut counts = read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING;
        if self.has_lost_counts {
            counts |= read_format::LOST;
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
            // A period and not a frequency: the kernel turns the frequency of a clock into this period. A new task gets its
            // first sample after a whole period on each CPU, so short tasks lack half a period per CPU on average. The
            // kernel's count of CPU time, which lacks nothing, is shown beside the sum of the samples.
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
            read_format: counts,
            flags,
            // Never wake the reader: it looks by itself every few milliseconds. A wake-up per sample costs the program
            // 2 us. The kernel cuts this to the ring's size.
            wakeup_watermark: u32::MAX,
            sample_regs_user: RegisterSet::NATIVE.mask(),
            sample_stack_user: stack_bytes,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        }
    }
}

/// Finds the best event that opens, on one CPU.
pub(super) fn choose(
    scope: Scope,
    pid: i32,
    wanted: &Wanted<'_>,
    cpu: u32,
    core_types: &[(u32, Vec<u32>)],
    common: &dyn Fn(&Choice) -> events::Common,
) -> Result<(Choice, Vec<String>), OpenError> {
    let named = &wanted.events.weight;
    let mut choice = Choice {
        named: named.clone(),
        hardware: named.is_none(),
        no_cycles: None,
        may_sample_kernel: true,
        has_build_ids: true,
        has_lost_counts: true,
    };
    let mut announcements = Vec::new();
    loop {
        let attr = choice.attr(scope, wanted.rate_hz, wanted.stack_bytes, core_type(core_types, cpu));
        let error = match EventFd::open(&attr, pid, cpu) {
            Ok(_) => {
                if let Some(counter) = named {
                    events::check(counter, choice.may_sample_kernel)?;
                }
                // An event of user code opens without the permission that those beside it may need.
                if !choice.counts_kernel() && choice.may_sample_kernel {
                    choice.may_sample_kernel = !refuses_kernel(scope, pid, &choice, cpu);
                    let others = &wanted.events.counted;
                    if !choice.may_sample_kernel && others.iter().any(|(_, counter)| counter.sides.kernel) {
                        announcements.push(user_code_only());
                    }
                }
                return Ok((choice, announcements));
            }
            Err(error) => error,
        };
        match error.raw_os_error() {
            // Order matters: a virtual machine without PMU answers ENOENT also where permission is lacking.
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) if choice.hardware => {
                choice.hardware = false;
                choice.no_cycles = Some(NoCycles::NoCounter);
            }
            // Where all tasks are refused, it is not for the kernel's part.
            Some(libc::EACCES | libc::EPERM)
                if choice.counts_kernel()
                    && scope != Scope::Machine
                    && named.as_ref().is_none_or(|counter| counter.sides.user) =>
            {
                choice.may_sample_kernel = false;
                announcements.push(user_code_only());
            }
            // What older kernels do not know: counts of lost records (Linux 6.0), build ids in mappings (5.12).
            Some(libc::EINVAL) if choice.has_lost_counts => choice.has_lost_counts = false,
            Some(libc::EINVAL) if choice.has_build_ids => choice.has_build_ids = false,
            Some(libc::EINVAL) if choice.hardware => {
                choice = Choice {
                    hardware: false,
                    no_cycles: Some(NoCycles::NoInterrupts),
                    has_build_ids: true,
                    has_lost_counts: true,
                    ..choice
                };
            }
            _ => {
                return Err(match Refusal::of(&error) {
                    _ if let Some(counter) = named
                        && (!counter.sides.user || Refusal::of(&error).is_none()) =>
                    {
                        events::counter_trouble(counter, &common(&choice), cpu, &error)
                    }
                    // A launched program has another way.
                    Some(refusal) if scope == Scope::OnExec => OpenError::NoPerfEvents(refusal),
                    _ => open_failed(scope, &choice, cpu, &error),
                });
            }
        }
    }
}

fn user_code_only() -> String {
    format!(
        "user code only: kernel time and kernel functions are not recorded{}",
        paranoid().map_or_else(String::new, |level| format!(
            " (perf_event_paranoid is {level}; `sudo sysctl kernel.perf_event_paranoid=1` allows them)"
        ))
    )
}

/// Opens the timer with the kernel, for a moment: every machine has it, and it needs the permission only.
fn refuses_kernel(scope: Scope, pid: i32, choice: &Choice, cpu: u32) -> bool {
    let timer = Choice {
        named: None,
        hardware: false,
        ..choice.clone()
    };
    let opened = EventFd::open(&timer.attr(scope, 1.0, 0, 0), pid, cpu);
    opened.is_err_and(|error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)))
}

pub(super) fn open_failed(scope: Scope, choice: &Choice, cpu: u32, error: &io::Error) -> OpenError {
    let what = format!("cannot open the perf event {} on CPU {cpu}: {error}", choice.name());
    OpenError::Refused(match error.raw_os_error() {
        Some(libc::ESRCH) => return OpenError::NoSuchTask,
        Some(libc::EACCES | libc::EPERM) if scope == Scope::Running && may_record_ourselves(choice) => {
            return OpenError::NotThisTask;
        }
        Some(libc::EACCES | libc::EPERM) if scope == Scope::Machine => format!(
            "cannot record the whole machine: {error}; ordinary users may where perf_event_paranoid is 0 or less{}: \
             `sudo sysctl kernel.perf_event_paranoid=0`, or run sprof as root",
            paranoid().map_or_else(String::new, |level| format!(" (it is {level})"))
        ),
        Some(libc::EACCES | libc::EPERM) => match paranoid() {
            Some(level) if level > 2 => format!(
                "{what}; perf_event_paranoid is {level}, which refuses ordinary users: `sudo sysctl kernel.perf_event_paranoid=2`, or run sprof as root"
            ),
            _ => format!(
                "{what}; a container's seccomp profile refuses perf_event_open: start the container with `--security-opt seccomp=unconfined` or `--cap-add PERFMON`"
            ),
        },
        Some(libc::EMFILE) => format!("{what}; one file per CPU is needed: raise `ulimit -n`"),
        Some(libc::ENOSYS) => format!("{what}; this kernel was built without CONFIG_PERF_EVENTS"),
        _ => format!("{what}; `{} doctor` tells what this machine allows", own()),
    })
}

/// True if it is not perf events that are refused, but the target.
pub(crate) fn may_record_ourselves(choice: &Choice) -> bool {
    let attr = choice.attr(Scope::OnExec, 1.0, 8, 0);
    EventFd::open(&attr, THIS_THREAD, 0).is_ok()
}

/// What `config` needs on a CPU of a machine with several types of cores.
pub(crate) fn core_type(core_types: &[(u32, Vec<u32>)], cpu: u32) -> u64 {
    core_types
        .iter()
        .find(|(_, cpus)| cpus.contains(&cpu))
        .map_or(0, |(kind, _)| u64::from(*kind) << PMU_TYPE_SHIFT)
}
