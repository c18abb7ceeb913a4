//! Opens the best event and the largest rings that this machine and this user may have. Announces every step down.

mod attempts;
pub(crate) mod breakpoints;
mod event_set;
pub(crate) mod events;
mod further;
pub(crate) mod rings;
mod sampling_event;
mod scope;
mod trouble;
mod waits;

use std::fs;
use std::path::Path;

use attempts::{choose, open_failed};
pub(crate) use event_set::EventSet;
pub(crate) use rings::RingBytes;
pub(crate) use rings::StackCopies;
use rings::{larger_stack_bytes, largest_ring_bytes, map_rings, wanted_ring_bytes};
pub(crate) use sampling_event::{EventChoice, NoCycles};
use sampling_event::{SharedSettings, core_type};
pub(crate) use scope::{OpenError, Scope, WantedEvents};
pub(crate) use trouble::has_hardware;
pub(crate) use waits::StackLimit;

use crate::machine::cpus;
use crate::open::events::Counter;
use crate::sys::perf_event::EventFd;
use crate::sys::ring::Ring;
use perf_data::decode::SampleLayout;
use perf_data::origins::Origins;
use recording::event::Role;

/// Rings of points are larger by this factor: a burst of 2000 points with their stacks should fit between two rounds.
const POINTS_RING_FACTOR: usize = 2;

/// All events of a recording, with their rings.
#[derive(Debug)]
pub(crate) struct OpenedEvents {
    pub(crate) events: EventSet,
    /// The rings, each with the role of its records.
    pub(crate) rings: Vec<Ring>,
    pub(crate) roles: Vec<Role>,
    /// How stacks of samples are copied.
    pub(crate) samples: StackCopies,
    /// How stacks of waits are copied.
    pub(crate) waits: StackCopies,
    pub(crate) layout: SampleLayout,
    pub(crate) choice: EventChoice,
    /// Decides which event counts, where threads may have two.
    pub(crate) origins: Option<Origins>,
    /// A line for each step down, with the command that avoids it.
    pub(crate) announcements: Vec<String>,
    /// Notes for the profile, a line each: see [`RecordingInfo::notes`](recording::info::RecordingInfo::notes).
    pub(crate) notes: Vec<String>,
}

impl OpenedEvents {
    /// How stacks of samples ([`Role::Running`]) or of waits ([`Role::WaitStack`]) are copied.
    pub(crate) fn copies(&self, role: Role) -> StackCopies {
        match role {
            Role::WaitStack => self.waits,
            _ => self.samples,
        }
    }
}

/// Opens one event per online CPU for the task ([`EVERY_TASK`] for the scope `Machine`), with a ring each; two events
/// with `--parallelism`, three with `--off-cpu`. One more event for larger copies of samples and one for larger copies
/// of waits: both are off, and have no rings.
///
/// [`EVERY_TASK`]: crate::sys::perf_event::EVERY_TASK
pub(crate) fn open(scope: Scope, pid: i32, wanted: &WantedEvents<'_>) -> Result<OpenedEvents, OpenError> {
    let WantedEvents {
        rate_hz,
        stack_bytes,
        larger_stacks,
        off_cpu,
        switches,
        events: named,
        ..
    } = *wanted;
    let stack_bytes = match named.weight.as_ref().is_some_and(Counter::may_flood) {
        true => stack_bytes.min(scope::FLOOD_STACK_BYTES),
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
    let may_be_larger = larger_stacks && named.weight.is_none();
    let larger = larger_stack_bytes(stack_bytes, rate_hz, cpus.len()).filter(|_| may_be_larger);
    let wait_stacks = waits::stack_bytes(wanted, cpus.len());
    let common = |choice: &EventChoice| SharedSettings {
        scope,
        choice: choice.clone(),
        rate_hz,
        stack_bytes,
        core_types: core_types.clone(),
    };
    let (choice, mut announcements) = choose(scope, pid, wanted, first, &core_types, &common)?;
    announcements.extend(named.announcements.iter().cloned());
    let opened_wait_stacks = off_cpu.then_some(wait_stacks);
    let events = EventSet::open(common(&choice), named, larger, switches, opened_wait_stacks, pid, &cpus)?;
    if fs::symlink_metadata("/proc/self").is_err() {
        announcements.push(
            "/proc is not mounted: names of kernel functions, functions of the vDSO and memory over time are missing; \
             `mount -t proc proc /proc`"
                .to_owned(),
        );
    }
    if named.has_breakpoints() {
        announcements.extend(breakpoints::danger());
    }
    if off_cpu && !choice.may_sample_kernel {
        announcements.push(
            "waits are timed, but their stacks are guesses, and their reasons are not known: these are in the kernel"
                .to_owned(),
        );
    }
    let cpu_count = events.cpus().len();
    let largest_bytes = largest_ring_bytes(cpu_count);
    let wanted_bytes = match choice.may_flood() {
        true => largest_bytes,
        false => wanted_ring_bytes(rate_hz, stack_bytes, cpu_count),
    };
    let (wanted_rings, roles): (Vec<(&EventFd, usize)>, Vec<Role>) = (events.owners())
        .map(|(event, role)| {
            let bytes = match role {
                Role::Counted => largest_bytes,
                Role::Point => largest_bytes * POINTS_RING_FACTOR,
                _ => wanted_bytes,
            };
            ((event, bytes), role)
        })
        .unzip();
    let (rings, ring_bytes) = map_rings(&wanted_rings, wanted_bytes, &mut announcements)?;
    events
        .share_rings()
        .map_err(|error| format!("cannot send events to one ring: {error}"))?;
    Ok(OpenedEvents {
        events,
        rings,
        roles,
        // The rings may be smaller than was asked for.
        samples: StackCopies::new(ring_bytes, stack_bytes, larger),
        waits: StackCopies::new(ring_bytes, wait_stacks.0, wait_stacks.1),
        layout: choice.layout(stack_bytes),
        choice,
        origins: None,
        announcements,
        notes: Vec::new(),
    })
}

/// Opens the same event without the kernel, for a moment.
pub(crate) fn try_without_kernel(opened: &OpenedEvents, pid: i32) -> Result<(), OpenError> {
    let (common, cpu) = (opened.events.common(), opened.events.cpus()[0]);
    let choice = opened.choice.without_kernel();
    let attr = choice.attr(common.scope, 1.0, 0, core_type(&common.core_types, cpu));
    EventFd::open(&attr, pid, cpu)
        .map(|_| ())
        .map_err(|error| open_failed(common.scope, &choice, cpu, &error))
}
