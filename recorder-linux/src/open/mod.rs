//! Opens the best event and the largest rings that this machine and this user may have. Announces every step down.

mod choice;
mod choose;
pub(crate) mod events;
mod further;
mod rings;
mod scope;
mod trouble;
mod waits;

use std::io;
use std::path::Path;

pub(crate) use choice::{Choice, NoCycles};
use choice::{Common, core_type};
use choose::{choose, open_failed};
use further::FurtherEvents;
use rings::{largest_ring_bytes, map_rings, wanted_ring_bytes};
pub(crate) use scope::{OpenError, Scope, Wanted};
pub(crate) use trouble::has_hardware;
pub(crate) use waits::StackLimit;
use waits::WaitEvents;

use crate::machine::cpus;
use crate::open::events::Counter;
use crate::sys::perf_event::{Attr, EventFd};
use crate::sys::ring::Ring;
use perf_data::decode::Layout;
use perf_data::origins::Origins;
use recording::event::Role;

/// Rings of points are larger by this: a burst of 2000, with their stacks, should find room between two rounds.
const POINTS_RING_FACTOR: usize = 2;
/// All events of a recording, with their rings.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The first ones have a ring each, in the order of `cpus`; further ones write to the ring of their CPU.
    pub(crate) events: Vec<EventFd>,
    cpus: Vec<u32>,
    attr_of: AttrOf,
    /// Those of `events`, of `waits`, of `further`.
    pub(crate) rings: Vec<Ring>,
    /// The role of the records in each.
    pub(crate) roles: Vec<Role>,
    pub(crate) waits: WaitEvents,
    pub(crate) further: FurtherEvents,
    pub(crate) ring_bytes: usize,
    pub(crate) layout: Layout,
    pub(crate) choice: Choice,
    /// Which event counts, where threads may have two.
    pub(crate) origins: Option<Origins>,
    /// A line for each step down, with the command that avoids it.
    pub(crate) announcements: Vec<String>,
    /// A line each, for the profile: see [`RecordingInfo::notes`](recording::info::RecordingInfo::notes).
    pub(crate) notes: Vec<String>,
}

/// The attributes that further events share with the first ones.
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
    let common = |choice: &Choice| Common {
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
        true => waits::open(scope, pid, &opened_cpus, &choice, stack_bytes, &mut announcements)?,
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
    wanted_rings.extend(further.owners().zip(further.ring_roles()).map(|(event, role)| {
        let most = largest_ring_bytes(events.len());
        (
            event,
            if role == Role::Point {
                most * POINTS_RING_FACTOR
            } else {
                most
            },
        )
    }));
    let (rings, ring_bytes) = map_rings(&wanted_rings, wanted_bytes, &mut announcements)?;
    further
        .share_rings()
        .map_err(|error| format!("cannot send events to one ring: {error}"))?;
    let mut roles = vec![Role::Running; events.len()];
    roles.extend(waits.switches.iter().map(|_| Role::Switch));
    roles.extend(waits.stacks.iter().map(|_| Role::WaitStack));
    roles.extend(further.ring_roles());
    Ok(Opened {
        events,
        cpus: opened_cpus,
        attr_of,
        rings,
        roles,
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
    let choice = opened.choice.without_kernel();
    let attr = choice.attr(scope, 1.0, 0, core_type(&opened.attr_of.core_types, cpu));
    EventFd::open(&attr, pid, cpu)
        .map(|_| ())
        .map_err(|error| open_failed(scope, &choice, cpu, &error))
}
