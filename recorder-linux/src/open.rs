//! What to open: the best event and the largest rings that this machine and this user may have, every step down said.

use std::io;
use std::path::Path;

use recording::info::{PeriodUnit, SampleBy};

use crate::RecordOptions;
use crate::cpus;
use crate::decode::{Layout, RegisterSet, SAMPLE_CALLCHAIN, SAMPLE_TYPE};
use crate::events::{self, Counter, Events, FurtherEvents};
use crate::ladder::{Refusal, paranoid};
use crate::offcpu::{self, WaitEvents};
use crate::origins::Origins;
use crate::sys::perf_event::{
    Attr, EventFd, HW_CPU_CYCLES, SW_CPU_CLOCK, THIS_THREAD, TYPE_HARDWARE, TYPE_SOFTWARE, flag, read_format,
};
use crate::sys::ring::{Ring, page_bytes};

const NANOS_PER_SECOND: f64 = 1e9;
/// PERF_PMU_TYPE_SHIFT.
const PMU_TYPE_SHIFT: u32 = 32;
/// PERF_SAMPLE_PERIOD.
const SAMPLE_PERIOD: u64 = 1 << 8;
/// Bytes of a sample besides its stack and its kernel call chain, rounded up.
const SAMPLE_HEADER_BYTES: usize = 256;
const SMALLEST_RING_BYTES: usize = 64 << 10;
const USUAL_RING_BYTES: usize = 2 << 20;
const LARGEST_RING_BYTES: usize = 8 << 20;
/// Rings of points are larger by this: a burst of 2000, with their stacks, should find room between two rounds.
const POINTS_RING_FACTOR: usize = 2;
/// The stack of an event that may happen a hundred thousand times a second is copied up to here. Deeper ones are completed.
pub(crate) const FLOOD_STACK_BYTES: u32 = 8 << 10;
/// On machines with many CPUs rings stay at their usual size.
const ALL_RINGS_BYTES: usize = 64 << 20;
/// How long a ring should be able to hold a busy CPU's samples, where memory allows: the recorder competes with the
/// program for CPU time, and was seen to wait 160 ms for its turn (ordinary user, 200 busy threads on 2 CPUs).
const RING_SECONDS: f64 = 0.26;

/// Which tasks an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A task that has not yet called exec, and all that come from it. Enabled by its exec.
    OnExec,
    /// A running task, and all that come from it. Enabled by hand.
    Running,
    /// All tasks on the machine but the idle ones. Enabled by hand.
    Machine,
}

impl Scope {
    /// The flags of an event that depend on it.
    pub(crate) fn flags(self) -> u64 {
        match self {
            Scope::OnExec => flag::INHERIT | flag::ENABLE_ON_EXEC,
            Scope::Running => flag::INHERIT,
            Scope::Machine => flag::EXCLUDE_IDLE,
        }
    }
}

/// Why events could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The task has ended.
    #[error("cannot open perf events: the process ended before they could be opened")]
    NoSuchTask,
    /// Events may be opened, but not of this task.
    #[error("cannot open perf events: this process may not be looked into")]
    NotThisTask,
    /// No task of this kind may be recorded with perf events here, or there are none.
    #[error("{0}")]
    NoPerfEvents(Refusal),
    /// What failed, and the next step.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for OpenError {
    fn from(message: String) -> OpenError {
        OpenError::Refused(message)
    }
}

/// What the user wants to have recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) rate_hz: f64,
    pub(crate) stack_bytes: u32,
    pub(crate) off_cpu: bool,
    pub(crate) events: &'a Events,
}

impl<'a> Wanted<'a> {
    pub(crate) fn of(options: &RecordOptions, events: &'a Events) -> Wanted<'a> {
        Wanted {
            rate_hz: options.rate_hz,
            stack_bytes: options.stack_bytes,
            off_cpu: options.off_cpu,
            events,
        }
    }
}

/// What is in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingOf {
    Running,
    Switches,
    WaitStacks,
    Counted,
    Points,
}

/// All events of a recording, with their rings.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The first ones have a ring each, in the order of `cpus`; further ones write to the ring of their CPU.
    pub(crate) events: Vec<EventFd>,
    cpus: Vec<u32>,
    attr_of: AttrOf,
    /// Those of `events`, of `waits`, of `further`.
    pub(crate) rings: Vec<Ring>,
    /// What is in each.
    pub(crate) rings_of: Vec<RingOf>,
    pub(crate) waits: WaitEvents,
    pub(crate) further: FurtherEvents,
    pub(crate) ring_bytes: usize,
    pub(crate) layout: Layout,
    pub(crate) choice: Choice,
    /// Which event counts, where threads may have two.
    pub(crate) origins: Option<Origins>,
    /// A line each: what was stepped down from, and how to get it.
    pub(crate) announcements: Vec<String>,
    /// A line each, for the profile: see [`RecordingInfo::notes`](recording::info::RecordingInfo::notes).
    pub(crate) notes: Vec<String>,
}

/// The event that samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The one that the user named, in the place of CPU time.
    pub(crate) named: Option<Counter>,
    pub(crate) hardware: bool,
    /// The user's permission. A named event can leave the kernel out all the same: see [`Choice::counts_kernel`].
    pub(crate) may_sample_kernel: bool,
    has_build_ids: bool,
    pub(crate) has_lost_counts: bool,
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

    /// True if samples may come at any rate.
    fn may_flood(&self) -> bool {
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

    fn attr(&self, scope: Scope, rate_hz: f64, stack_bytes: u32, core_type: u64) -> Attr {
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

/// What every further event of a recording needs to be like the first ones.
#[derive(Debug)]
struct AttrOf {
    choice: Choice,
    scope: Scope,
    rate_hz: f64,
    stack_bytes: u32,
    core_types: Vec<(u32, Vec<u32>)>,
}

impl AttrOf {
    fn cpu(&self, cpu: u32) -> Attr {
        let core_type = core_type(&self.core_types, cpu);
        self.choice.attr(self.scope, self.rate_hz, self.stack_bytes, core_type)
    }
}

/// Opens one event per online CPU for the task ([`EVERY_TASK`] for the scope `Machine`), with a ring each; three if waits are to be
/// recorded, too.
///
/// [`EVERY_TASK`]: crate::sys::perf_event::EVERY_TASK
pub(crate) fn open(scope: Scope, pid: i32, wanted: &Wanted<'_>) -> Result<Opened, OpenError> {
    let Wanted {
        rate_hz,
        stack_bytes,
        off_cpu,
        events: named,
    } = *wanted;
    let stack_bytes = match named.weight.as_ref().is_some_and(Counter::may_flood) {
        true => stack_bytes.min(FLOOD_STACK_BYTES),
        false => stack_bytes,
    };
    let mut cpus = cpus::online(Path::new("/"))?;
    if let Some(only) = named.weight.as_ref().and_then(|counter| counter.cpus.as_ref()) {
        cpus.retain(|cpu| only.contains(cpu));
    }
    let first = *cpus
        .first()
        .ok_or_else(|| "none of the CPUs that have the event is online".to_owned())?;
    let core_types = cpus::core_types(Path::new("/"));
    let common = |choice: &Choice| events::Common {
        scope,
        choice: choice.clone(),
        stack_bytes,
        core_types: core_types.clone(),
    };
    let (choice, mut announcements) = choose(scope, pid, wanted, first, &core_types, &common)?;
    announcements.extend(named.announcements.iter().cloned());
    let attr_of = AttrOf {
        choice: choice.clone(),
        scope,
        rate_hz,
        stack_bytes,
        core_types: core_types.clone(),
    };
    let mut events = Vec::with_capacity(cpus.len());
    let mut opened_cpus = Vec::with_capacity(cpus.len());
    for cpu in cpus {
        match EventFd::open(&attr_of.cpu(cpu), pid, cpu) {
            Ok(event) => {
                events.push(event);
                opened_cpus.push(cpu);
            }
            // The CPU went offline after the list was read.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) && !events.is_empty() => {}
            Err(error) => return Err(open_failed(scope, &choice, cpu, &error)),
        }
    }
    let waits = match off_cpu {
        true => offcpu::open(scope, pid, &opened_cpus, &choice, stack_bytes, &mut announcements)?,
        false => WaitEvents::default(),
    };
    let further = FurtherEvents::open(named, common(&choice), pid, &opened_cpus)?;
    let wanted_bytes = match choice.may_flood() {
        true => largest_ring_bytes(events.len()),
        false => wanted_ring_bytes(rate_hz, stack_bytes, events.len()),
    };
    let mut wanted_rings: Vec<(&EventFd, usize)> = (events.iter().chain(waits.iter()))
        .map(|event| (event, wanted_bytes))
        .collect();
    wanted_rings.extend(
        further
            .owners()
            .zip(further.rings_of_points())
            .map(|(event, of_points)| {
                let most = largest_ring_bytes(events.len());
                (event, if of_points { most * POINTS_RING_FACTOR } else { most })
            }),
    );
    let (rings, ring_bytes) = map_rings(&wanted_rings, wanted_bytes, &mut announcements)?;
    further
        .share_rings()
        .map_err(|error| format!("cannot send events to one ring: {error}"))?;
    let mut rings_of = vec![RingOf::Running; events.len()];
    rings_of.extend(waits.switches.iter().map(|_| RingOf::Switches));
    rings_of.extend(waits.stacks.iter().map(|_| RingOf::WaitStacks));
    rings_of.extend(further.rings_of_points().map(|of_points| match of_points {
        true => RingOf::Points,
        false => RingOf::Counted,
    }));
    Ok(Opened {
        events,
        cpus: opened_cpus,
        attr_of,
        rings,
        rings_of,
        waits,
        further,
        ring_bytes,
        layout: choice.layout(stack_bytes),
        choice,
        origins: None,
        announcements,
        notes: Vec::new(),
    })
}

impl Opened {
    /// All events: of samples, of waits, and those that the user named beside.
    pub(crate) fn all_events(&self) -> impl Iterator<Item = &EventFd> {
        self.added_since([0; 4])
    }

    /// How many events there are, for [`Opened::added_since`].
    pub(crate) fn mark(&self) -> [usize; 4] {
        let of_waits = &self.waits;
        [
            self.events.len(),
            of_waits.switches.len(),
            of_waits.stacks.len(),
            self.further.len(),
        ]
    }

    /// All events that were opened since the mark.
    pub(crate) fn added_since(
        &self,
        [events, switches, stacks, further]: [usize; 4],
    ) -> impl Iterator<Item = &EventFd> {
        let of_waits = self.waits.switches.iter().skip(switches);
        (self.events.iter().skip(events))
            .chain(of_waits)
            .chain(self.waits.stacks.iter().skip(stacks))
            .chain(self.further.since(further))
    }

    /// How many CPUs are recorded.
    pub(crate) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Opens the same events for one more task, into the rings that are there. All of them, or none.
    pub(crate) fn add(&mut self, tid: i32) -> io::Result<()> {
        let before = self.events.len();
        for (at, cpu) in self.cpus.iter().enumerate() {
            let event = EventFd::open(&self.attr_of.cpu(*cpu), tid, *cpu)
                .and_then(|event| event.redirect_to(&self.events[at]).map(|()| event));
            match event {
                Ok(event) => self.events.push(event),
                Err(error) => {
                    self.events.truncate(before);
                    return Err(error);
                }
            }
        }
        let before_waits = (self.waits.switches.len(), self.waits.stacks.len());
        let added = (self.waits.add(tid, &self.cpus)).and_then(|()| self.further.add(tid));
        added.inspect_err(|_| {
            self.events.truncate(before);
            self.waits.switches.truncate(before_waits.0);
            self.waits.stacks.truncate(before_waits.1);
        })
    }
}

/// Opens the same event without the kernel, for a moment.
pub(crate) fn try_without_kernel(opened: &Opened, pid: i32) -> Result<(), OpenError> {
    let (scope, cpu) = (opened.attr_of.scope, opened.cpus[0]);
    let choice = Choice {
        may_sample_kernel: false,
        ..opened.choice.clone()
    };
    let attr = choice.attr(scope, 1.0, 0, core_type(&opened.attr_of.core_types, cpu));
    EventFd::open(&attr, pid, cpu)
        .map(|_| ())
        .map_err(|error| open_failed(scope, &choice, cpu, &error))
}

/// What `config` needs on a CPU of a machine with several types of cores.
pub(crate) fn core_type(core_types: &[(u32, Vec<u32>)], cpu: u32) -> u64 {
    core_types
        .iter()
        .find(|(_, cpus)| cpus.contains(&cpu))
        .map_or(0, |(kind, _)| u64::from(*kind) << PMU_TYPE_SHIFT)
}

/// Finds the best event that opens, on one CPU.
fn choose(
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
                announcements.push("no hardware counter for cycles here: sampling by the cpu-clock timer".to_owned());
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
            // Some hypervisors offer a PMU without interrupts: it counts but can't sample.
            Some(libc::EINVAL) if choice.hardware => {
                choice = Choice {
                    hardware: false,
                    has_build_ids: true,
                    has_lost_counts: true,
                    ..choice
                };
                announcements.push("the cycles counter can't sample here: sampling by the cpu-clock timer".to_owned());
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

fn open_failed(scope: Scope, choice: &Choice, cpu: u32, error: &io::Error) -> OpenError {
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
        _ => format!("{what}; `sprof doctor` tells what this machine allows"),
    })
}

/// True if it is not perf events that are refused, but the target.
pub(crate) fn may_record_ourselves(choice: &Choice) -> bool {
    let attr = choice.attr(Scope::OnExec, 1.0, 8, 0);
    EventFd::open(&attr, THIS_THREAD, 0).is_ok()
}

/// For events that come at any rate.
fn largest_ring_bytes(cpus: usize) -> usize {
    wanted_ring_bytes(f64::INFINITY, 0, cpus)
}

fn wanted_ring_bytes(rate_hz: f64, stack_bytes: u32, cpus: usize) -> usize {
    let bytes_a_second = rate_hz * (stack_bytes as usize + SAMPLE_HEADER_BYTES) as f64;
    let affordable = (ALL_RINGS_BYTES / cpus.max(1)).clamp(USUAL_RING_BYTES, LARGEST_RING_BYTES);
    let bytes = ((bytes_a_second * RING_SECONDS) as usize).clamp(USUAL_RING_BYTES, affordable);
    if bytes.is_power_of_two() {
        bytes
    } else {
        bytes.next_power_of_two() / 2
    }
    .max(USUAL_RING_BYTES)
}

/// Maps a ring for every event; halves them all where the user's locked memory does not suffice (516 KiB a CPU and
/// RLIMIT_MEMLOCK, `perf_event_mlock_kb`).
fn map_rings(
    wanted: &[(&EventFd, usize)],
    wanted_bytes: usize,
    announcements: &mut Vec<String>,
) -> Result<(Vec<Ring>, usize), String> {
    let mut bytes = wanted_bytes;
    let smallest = SMALLEST_RING_BYTES.max(page_bytes());
    loop {
        let halved = wanted_bytes / bytes;
        let rings: io::Result<Vec<Ring>> = (wanted.iter())
            .map(|(event, wanted)| Ring::map(event, (wanted / halved).max(smallest)))
            .collect();
        match rings {
            Ok(rings) => {
                if bytes < USUAL_RING_BYTES.min(wanted_bytes) {
                    announcements.push(format!(
                        "rings of {} KiB a CPU instead of {}: samples may be lost at high rates; `ulimit -l unlimited` allows more",
                        bytes >> 10,
                        wanted_bytes >> 10
                    ));
                }
                return Ok((rings, bytes));
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) && bytes > smallest => {
                bytes /= 2;
            }
            Err(error) => {
                return Err(format!(
                    "cannot map a perf ring of {} KiB: {error}; allow more locked memory with `ulimit -l unlimited`",
                    bytes >> 10
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_hold_a_quarter_second_within_what_the_machine_affords() {
        let mebibytes = |rate_hz, cpus| wanted_ring_bytes(rate_hz, 16384, cpus) >> 20;
        assert_eq!(mebibytes(100.0, 2), 2);
        assert_eq!(mebibytes(1000.0, 2), 4);
        assert_eq!(mebibytes(10_000.0, 2), 8);
        assert_eq!(mebibytes(10_000.0, 64), 2);
    }
}
