//! Opens the events beside the first one, each on every CPU, for the same tasks.
//!
//! They share two rings per CPU beside the ring of the samples: one for events that count, one for points. So a
//! flood of tracepoints pushes out neither, and each further event costs a descriptor only.

use std::collections::HashMap;
use std::io;

use recording::event::Role;
use recording::info::{EventCounts, SampleBy};

use super::choice::{Common, core_type};
use super::scope::{FLOOD_STACK_BYTES, OpenError};
use super::trouble;
use crate::open::events::{Counter, Events, Point};
use crate::sys::perf_event::{Attr, EventFd, flag};
use perf_data::decode::{self, Layout, RegisterSet, SAMPLE_CALLCHAIN, SAMPLE_PERIOD, SAMPLE_RAW};
use perf_data::events::names;
use perf_data::translate::FurtherEvent;

/// The further events of a recording.
#[derive(Debug)]
pub(crate) struct FurtherEvents {
    common: Common,
    kinds: Vec<Kind>,
    cpus: Vec<u32>,
    fds: Vec<Fd>,
    /// PERF_SAMPLE_ID to the place in `kinds`.
    ids: HashMap<u64, usize>,
}

/// One of the named events.
#[derive(Debug)]
struct Kind {
    /// Index in [`Events::infos`].
    index: u32,
    what: What,
    layout: Layout,
}

#[derive(Debug)]
enum What {
    Counted(Counter),
    Point(Point),
}

#[derive(Debug)]
struct Fd {
    kind: usize,
    cpu: usize,
    event: EventFd,
    /// This event has a ring. The others of its CPU and sort write to it.
    has_ring: bool,
}

impl FurtherEvents {
    /// What the events have in common with the first event.
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// Opens all events for the task, in the order of `cpus`, without rings.
    pub(crate) fn open(events: &Events, common: Common, pid: i32, cpus: &[u32]) -> Result<FurtherEvents, OpenError> {
        let counted = (events.counted.iter()).map(|(index, counter)| (*index, What::Counted(counter.clone())));
        let points = (events.points.iter()).map(|(index, point)| (*index, What::Point(point.clone())));
        let kinds = counted
            .chain(points)
            .map(|(index, what)| Kind {
                index,
                layout: what.layout(&common),
                what,
            })
            .collect();
        let mut opened = FurtherEvents {
            common,
            kinds,
            cpus: cpus.to_vec(),
            fds: Vec::new(),
            ids: HashMap::new(),
        };
        for kind in &opened.kinds {
            kind.what.check(&opened.common)?;
        }
        opened
            .open_for(pid)
            .map_err(|(kind, cpu, error)| opened.failed(kind, cpu, &error))?;
        opened.choose_owners();
        Ok(opened)
    }

    fn open_for(&mut self, pid: i32) -> Result<(), (usize, u32, io::Error)> {
        for (kind, of) in self.kinds.iter().enumerate() {
            for (at, cpu) in self.cpus.iter().enumerate() {
                if of.what.is_missing_on(*cpu) {
                    continue;
                }
                let attr = of.attr(&self.common, *cpu);
                let opened = EventFd::open(&attr, pid, *cpu).and_then(|event| Ok((event.id()?, event)));
                let (id, event) = opened.map_err(|error| (kind, *cpu, error))?;
                self.ids.insert(id, kind);
                self.fds.push(Fd {
                    kind,
                    cpu: at,
                    event,
                    has_ring: false,
                });
            }
        }
        Ok(())
    }

    /// The first one of each CPU and sort gets the ring.
    fn choose_owners(&mut self) {
        let mut seen = std::collections::HashSet::new();
        for fd in &mut self.fds {
            let is_point = matches!(self.kinds[fd.kind].what, What::Point(_));
            fd.has_ring = seen.insert((is_point, fd.cpu));
        }
    }

    fn failed(&self, kind: usize, cpu: u32, error: &io::Error) -> OpenError {
        match &self.kinds[kind].what {
            What::Counted(counter) => trouble::counter(counter, &self.common, cpu, error),
            What::Point(point) => trouble::point(&point.tracepoint.name, &self.common, cpu, error),
        }
    }

    /// The events with a ring of their own.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &EventFd> {
        (self.fds.iter()).filter(|fd| fd.has_ring).map(|fd| &fd.event)
    }

    /// The role of the records in each ring, in the order of [`FurtherEvents::owners`].
    pub(crate) fn ring_roles(&self) -> impl Iterator<Item = Role> {
        (self.fds.iter())
            .filter(|fd| fd.has_ring)
            .map(|fd| self.kinds[fd.kind].what.role())
    }

    /// Sends the records of all other events to the mapped rings.
    pub(crate) fn share_rings(&self) -> io::Result<()> {
        self.redirect(&self.fds)
    }

    fn redirect(&self, fds: &[Fd]) -> io::Result<()> {
        let sort = |fd: &Fd| (self.kinds[fd.kind].what.role(), fd.cpu);
        let owners: HashMap<_, &EventFd> = (self.fds.iter())
            .filter(|fd| fd.has_ring)
            .map(|fd| (sort(fd), &fd.event))
            .collect();
        for fd in fds.iter().filter(|fd| !fd.has_ring) {
            if let Some(owner) = owners.get(&sort(fd)) {
                fd.event.redirect_to(owner)?;
            }
        }
        Ok(())
    }

    /// Opens the events for one more task, into the rings that are there. All of them, or none.
    pub(crate) fn add(&mut self, tid: i32) -> io::Result<()> {
        let before = self.fds.len();
        let opened =
            (self.open_for(tid).map_err(|(_, _, error)| error)).and_then(|()| self.redirect(&self.fds[before..]));
        if opened.is_err() {
            self.fds.truncate(before);
        }
        opened
    }

    /// How many descriptors there are: a mark for [`FurtherEvents::since`].
    pub(crate) fn len(&self) -> usize {
        self.fds.len()
    }

    /// The events opened since the mark.
    pub(crate) fn since(&self, mark: usize) -> impl Iterator<Item = &EventFd> {
        self.fds.iter().skip(mark).map(|fd| &fd.event)
    }

    /// The event of a record from a ring of this role; `None` if it is not known.
    pub(crate) fn event_of(&self, role: Role, record: &[u8]) -> Option<FurtherEvent<'_>> {
        let kind = decode::event_id(record).and_then(|id| self.ids.get(&id));
        // Any event of the role serves for records about the ring itself.
        let first = || self.kinds.iter().position(|kind| kind.what.role() == role);
        let kind = &self.kinds[kind.copied().or_else(first)?];
        Some(FurtherEvent {
            role: kind.what.role(),
            index: kind.index,
            layout: &kind.layout,
            format: match &kind.what {
                What::Counted(_) => None,
                What::Point(point) => Some(&point.tracepoint.format),
            },
        })
    }

    /// What the kernel counted for each event, by index.
    pub(crate) fn counts(&self) -> HashMap<u32, EventCounts> {
        let mut counts: HashMap<u32, EventCounts> = HashMap::new();
        for fd in &self.fds {
            let Ok(of_cpu) = fd.event.counts() else { continue };
            of_cpu.add_to(counts.entry(self.kinds[fd.kind].index).or_default());
        }
        counts
            .values_mut()
            .for_each(|counts| *counts = self.common.of_tasks(*counts, self.cpus.len()));
        counts
    }

    /// Lost records: of events that count, and of points.
    pub(crate) fn lost(&self) -> (u64, u64) {
        let mut lost = (0, 0);
        for fd in &self.fds {
            let Ok(of_cpu) = fd.event.counts() else { continue };
            match self.kinds[fd.kind].what {
                What::Counted(_) => lost.0 += of_cpu.lost,
                What::Point(_) => lost.1 += of_cpu.lost,
            }
        }
        lost
    }

    pub(crate) fn has_points(&self) -> bool {
        self.kinds.iter().any(|kind| matches!(kind.what, What::Point(_)))
    }
}

impl What {
    fn role(&self) -> Role {
        match self {
            What::Counted(_) => Role::Counted,
            What::Point(_) => Role::Point,
        }
    }

    fn layout(&self, common: &Common) -> Layout {
        Layout {
            registers: RegisterSet::NATIVE,
            call_chain: common.choice.may_sample_kernel,
            stack_bytes: self.stack_bytes(common),
            period: self.period_unsaid(),
            raw: matches!(self, What::Point(_)),
        }
    }

    fn stack_bytes(&self, common: &Common) -> u32 {
        match self {
            What::Counted(counter) if !counter.may_flood() => common.stack_bytes,
            What::Counted(_) | What::Point(_) => common.stack_bytes.min(FLOOD_STACK_BYTES),
        }
    }

    /// See [`Counter::period_unsaid`].
    fn period_unsaid(&self) -> Option<u64> {
        match self {
            What::Counted(counter) => counter.period_unsaid(),
            What::Point(point) => match point.sample_by {
                SampleBy::Period(period @ 2..) => Some(period),
                _ => None,
            },
        }
    }

    fn is_missing_on(&self, cpu: u32) -> bool {
        matches!(self, What::Counted(Counter { cpus: Some(cpus), .. }) if !cpus.contains(&cpu))
    }

    /// Without permission to sample the kernel, what happens only there opens and never fires.
    fn check(&self, common: &Common) -> Result<(), OpenError> {
        match self {
            What::Counted(counter) => trouble::check(counter, common.choice.may_sample_kernel),
            What::Point(_) => Ok(()),
        }
    }
}

impl Kind {
    fn attr(&self, common: &Common, cpu: u32) -> Attr {
        let base = common.choice.common_attr(common.scope, self.layout.stack_bytes);
        let (mut flags, mut sample_type) = (base.flags, base.sample_type);
        let (kind, configs, sides, sample_by) = match &self.what {
            What::Counted(counter) => {
                let core_type = match counter.wants_core_type() {
                    true => core_type(&common.core_types, cpu),
                    false => 0,
                };
                let [config, one, two] = counter.configs;
                (
                    counter.kind,
                    [config | core_type, one, two],
                    counter.sides,
                    counter.sample_by,
                )
            }
            What::Point(point) => {
                sample_type |= SAMPLE_RAW;
                (
                    names::TRACEPOINT,
                    [point.tracepoint.id, 0, 0],
                    point.sides,
                    point.sample_by,
                )
            }
        };
        if common.choice.may_sample_kernel {
            flags |= flag::EXCLUDE_CALLCHAIN_USER;
            sample_type |= SAMPLE_CALLCHAIN;
        }
        if !sides.kernel || !common.choice.may_sample_kernel && matches!(self.what, What::Counted(_)) {
            flags |= flag::EXCLUDE_KERNEL;
        }
        if !sides.user {
            flags |= flag::EXCLUDE_USER;
        }
        if self.layout.period.is_some() {
            sample_type &= !SAMPLE_PERIOD;
        }
        Attr {
            kind,
            config: configs[0],
            config1: configs[1],
            config2: configs[2],
            sample_period_or_freq: match sample_by {
                SampleBy::Period(period) => period,
                SampleBy::Frequency(rate_hz) => {
                    flags |= flag::FREQ;
                    rate_hz
                }
            },
            sample_type,
            flags,
            ..base
        }
    }
}
