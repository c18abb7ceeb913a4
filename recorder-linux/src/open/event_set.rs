//! All perf events of a recording: each on every CPU, for the same tasks.
//!
//! The events of one role share one ring per CPU: the first event owns the ring, and all others write to it. So records
//! of one role cannot push out records of another, and each further event or thread costs only a descriptor. Events
//! with larger dumps also write there, until they have rings of their own.

use std::collections::{HashMap, HashSet};
use std::io;

use recording::event::Role;
use recording::info::EventCounts;
use recording::probe::{CallMoment, FilePlace};

use super::attempts::open_failed;
use super::breakpoints;
use super::further;
use super::sampling_event::{SharedSettings, core_type};
use super::scope::{OpenError, Scope};
use super::trouble;
use super::waits;
use crate::open::events::{CallPoint, Counter, Events, Point, PointSource};
use crate::sys::perf_event::{Attr, EventFd, THIS_THREAD, flag};
use perf_data::decode::{self, CallHit, SampleLayout};
use perf_data::translate::FurtherEvent;

/// All events of a recording. The only owner of perf descriptors.
#[derive(Debug)]
pub(crate) struct EventSet {
    common: SharedSettings,
    specs: Vec<Spec>,
    cpus: Vec<u32>,
    fds: Vec<Fd>,
    /// The index in `fds` of each ring's owner, by role and index in `cpus`.
    owners: HashMap<(Role, usize), usize>,
    /// Roles whose samples have larger dumps.
    larger: HashSet<Role>,
    /// Roles whose events are disabled for a while.
    paused: HashSet<Role>,
    /// Events that own the rings for larger dumps of samples, by index in `cpus`. They record nothing.
    larger_owners: Vec<(usize, EventFd)>,
    /// Index in `specs` by PERF_SAMPLE_ID, for the named events except the first.
    ids: HashMap<u64, usize>,
}

/// An event that is not open yet.
#[derive(Debug)]
struct Spec {
    what: What,
    layout: SampleLayout,
}

#[derive(Debug)]
enum What {
    /// The first event, which samples.
    Samples(Dumps),
    Switches,
    WaitStacks(Dumps),
    /// A named event that counts, except the first; with its index in [`Events::infos`].
    Counted(u32, Counter),
    Point(u32, Point),
    /// Where calls of a function begin or end.
    Call(CallPoint, Point),
    /// Records nothing: it owns rings for breakpoints, which are opened when the program has executed, and for calls,
    /// which may be closed early.
    PointRings,
}

/// How many bytes of the stack an event copies.
#[derive(Clone, Copy, Debug)]
enum Dumps {
    Usual(u32),
    /// The event is off at first, and replaces the usual one later.
    Larger(u32),
}

#[derive(Debug)]
struct Fd {
    spec: usize,
    /// Index in `cpus`.
    cpu: usize,
    event: EventFd,
}

impl EventSet {
    /// Opens all events for a task, on these CPUs, without rings. `larger`: size of the larger dumps of samples.
    /// `switches`: record those. `wait_stacks`: sizes of the dumps of waits, usual and larger; `None` if none are
    /// recorded.
    pub(super) fn open(
        common: SharedSettings,
        events: &Events,
        larger: Option<u32>,
        switches: bool,
        wait_stacks: Option<(u32, Option<u32>)>,
        pid: i32,
        cpus: &[u32],
    ) -> Result<EventSet, OpenError> {
        let mut whats = vec![What::Samples(Dumps::Usual(common.stack_bytes))];
        // A context switch happens in the kernel. Without permission to sample the kernel (perf_event_paranoid 2), the
        // event for stacks opens but never fires. Switch records still come.
        let fired = wait_stacks.filter(|_| common.choice.may_sample_kernel);
        whats.extend(switches.then_some(What::Switches));
        whats.extend(fired.map(|(usual, _)| What::WaitStacks(Dumps::Usual(usual))));
        for (index, counter) in &events.counted {
            // Without permission to sample the kernel, an event that happens only there opens and never fires.
            trouble::check(counter, common.choice.may_sample_kernel)?;
            whats.push(What::Counted(*index, counter.clone()));
        }
        whats.extend((events.points.iter()).map(|(index, point)| What::Point(*index, point.clone())));
        let needs_rings = events.has_breakpoints() || !events.calls.is_empty();
        whats.extend(needs_rings.then_some(What::PointRings));
        whats.extend((events.calls.iter()).map(|(call, point)| What::Call(*call, point.clone())));
        // Opened last: where descriptors are scarce, the recording can do without larger dumps.
        whats.extend(larger.map(|bytes| What::Samples(Dumps::Larger(bytes))));
        let larger_wait_stacks = fired.and_then(|(_, larger)| larger);
        whats.extend(larger_wait_stacks.map(|bytes| What::WaitStacks(Dumps::Larger(bytes))));
        let specs = whats.into_iter().map(|what| Spec {
            layout: what.layout(&common),
            what,
        });
        let mut set = EventSet {
            specs: specs.collect(),
            common,
            cpus: cpus.to_vec(),
            fds: Vec::new(),
            owners: HashMap::new(),
            larger: HashSet::new(),
            paused: HashSet::new(),
            larger_owners: Vec::new(),
            ids: HashMap::new(),
        };
        set.open_for(pid)
            .map_err(|(spec, cpu, error)| set.failed(spec, cpu, &error))?;
        if set.lacks_larger_stacks() {
            set.forget_larger_stacks();
        }
        for (index, fd) in set.fds.iter().enumerate() {
            let ring = (set.specs[fd.spec].what.role(), fd.cpu);
            set.owners.entry(ring).or_insert(index);
        }
        Ok(set)
    }

    fn open_for(&mut self, pid: i32) -> Result<(), (usize, u32, io::Error)> {
        let before = self.fds.len();
        let is_to_execute = self.common.scope == Scope::OnExec;
        self.open_those(
            pid,
            before,
            |what| is_to_execute && what.breakpoint().is_some(),
            breakpoints::address,
        )?;
        if is_to_execute {
            // A program has no addresses before its exec. Any will do to find out whether there are enough registers.
            let usual = self.fds.len();
            self.open_those(
                pid,
                before,
                |what| what.breakpoint().is_none(),
                |_, _| Some(breakpoints::ANY_ADDRESS),
            )?;
            self.fds.truncate(usual);
        }
        Ok(())
    }

    /// True if a launched program, which is stopped at its exec, has to load libraries before breakpoints can be set.
    pub(crate) fn waits_for_libraries(&self, pid: i32) -> bool {
        let mut places = self.breakpoints().filter_map(|spec| spec.what.breakpoint());
        places.any(|place| !breakpoints::is_program(pid, place))
    }

    /// Sets the breakpoints of a launched program, which is stopped.
    pub(crate) fn set_breakpoints(&mut self, pid: i32) -> Result<(), OpenError> {
        let before = self.fds.len();
        self.open_those(pid, 0, |what| what.breakpoint().is_none(), breakpoints::address)
            .map_err(|(spec, cpu, error)| self.failed(spec, cpu, &error))?;
        let is_open = |index| self.fds[before..].iter().any(|fd| fd.spec == index);
        let all = (self.specs.iter().enumerate()).filter(|(_, spec)| spec.what.breakpoint().is_some());
        if { all }.any(|(index, _)| !is_open(index)) {
            return Err(breakpoints::other_program());
        }
        self.redirect(before)
            .and_then(|()| self.since(before).try_for_each(EventFd::enable))
            .map_err(|error| format!("cannot enable the breakpoints: {error}").into())
    }

    /// True if [`EventSet::set_breakpoints`] is to be called.
    pub(crate) fn waits_for_exec(&self) -> bool {
        self.common.scope == Scope::OnExec && self.breakpoints().next().is_some()
    }

    fn breakpoints(&self) -> impl Iterator<Item = &Spec> {
        self.specs.iter().filter(|spec| spec.what.breakpoint().is_some())
    }

    /// Opens events for a task. `own`: from here on descriptors are of this task.
    fn open_those(
        &mut self,
        pid: i32,
        own: usize,
        is_left_out: impl Fn(&What) -> bool,
        address: impl Fn(i32, &FilePlace) -> Option<u64>,
    ) -> Result<(), (usize, u32, io::Error)> {
        for (index, spec) in self.specs.iter().enumerate() {
            if is_left_out(&spec.what) {
                continue;
            }
            let address = match spec.what.breakpoint() {
                None => 0,
                Some(place) => match address(pid, place) {
                    Some(address) => address,
                    None => continue,
                },
            };
            for (at, cpu) in self.cpus.iter().enumerate() {
                let is_sampled = |fd: &Fd| (fd.spec, fd.cpu) == (0, at);
                if index > 0 && !self.fds[own..].iter().any(is_sampled) {
                    continue;
                }
                let Some(attr) = spec.attr(&self.common, *cpu, address) else {
                    continue;
                };
                let is_named = spec.what.index().is_some() || spec.what.call().is_some();
                let opened = EventFd::open(&attr, pid, *cpu).and_then(|event| {
                    if is_named {
                        self.ids.insert(event.id()?, index);
                    }
                    Ok(event)
                });
                match opened {
                    Ok(event) => self.fds.push(Fd {
                        spec: index,
                        cpu: at,
                        event,
                    }),
                    // The CPU went offline after the list was read.
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) && !is_named && self.fds.len() > own => {}
                    // The recording continues without this event, unless the task has ended.
                    Err(error) if spec.what.is_larger() && error.raw_os_error() != Some(libc::ESRCH) => {}
                    Err(error) => return Err((index, *cpu, error)),
                }
            }
        }
        Ok(())
    }

    fn failed(&self, spec: usize, cpu: u32, error: &io::Error) -> OpenError {
        if error.raw_os_error() == Some(libc::ESRCH) {
            return OpenError::NoSuchTask;
        }
        match &self.specs[spec].what {
            What::Samples(_) => open_failed(self.common.scope, &self.common.choice, cpu, error),
            What::Switches => waits::failed("dummy", cpu, error).into(),
            What::WaitStacks(_) => waits::failed("context-switches", cpu, error).into(),
            What::Counted(_, counter) => trouble::counter(counter, &self.common, cpu, error),
            What::Point(_, point) | What::Call(_, point) => match &point.source {
                PointSource::Tracepoint(tracepoint) => trouble::point(&tracepoint.name, &self.common, cpu, error),
                PointSource::Breakpoint(_) => breakpoints::failed(self.breakpoints().count(), error),
            },
            What::PointRings => waits::failed("dummy", cpu, error).into(),
        }
    }

    /// Opens the events for one more task, with the existing rings: all of them, or none. Returns the position of the
    /// first, for [`EventSet::since`].
    pub(crate) fn add(&mut self, tid: i32) -> io::Result<usize> {
        let before = self.fds.len();
        let opened = (self.open_for(tid).map_err(|(_, _, error)| error)).and_then(|()| self.redirect(before));
        let needs_less = match &opened {
            Ok(()) => self.lacks_larger_stacks(),
            Err(error) => matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)),
        };
        if needs_less && self.specs.iter().any(|spec| spec.what.is_larger()) {
            // Where descriptors are scarce, the recording can do without larger dumps, but not without a thread.
            self.fds.truncate(before);
            self.forget_larger_stacks();
            return self.add(tid);
        }
        match opened {
            Ok(()) => Ok(before),
            Err(error) => {
                self.fds.truncate(before);
                Err(error)
            }
        }
    }

    /// True where an event with larger dumps could not be opened.
    fn lacks_larger_stacks(&self) -> bool {
        let larger = self.specs.iter().filter(|spec| spec.what.is_larger());
        let mut roles = larger.map(|spec| spec.what.role());
        roles.any(|role| self.copying(role, true).count() < self.copying(role, false).count())
    }

    /// The events with larger dumps come after the events that own rings, whose indices stay the same.
    fn forget_larger_stacks(&mut self) {
        let (fds, specs) = (&mut self.fds, &self.specs);
        fds.retain(|fd| !specs[fd.spec].what.is_larger());
        self.specs.retain(|spec| !spec.what.is_larger());
    }

    /// Sends the records of all events to the owners of the rings, once these are mapped.
    pub(super) fn share_rings(&self) -> io::Result<()> {
        self.redirect(0)
    }

    fn redirect(&self, from: usize) -> io::Result<()> {
        (from..self.fds.len()).try_for_each(|index| {
            let fd = &self.fds[index];
            let owner = self.owners.get(&(self.specs[fd.spec].what.role(), fd.cpu));
            match owner.filter(|owner| **owner != index) {
                Some(owner) => fd.event.redirect_to(&self.fds[*owner].event),
                None => Ok(()),
            }
        })
    }

    /// The events that own a ring, with the role of its records.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&EventFd, Role)> {
        let mut owners: Vec<usize> = self.owners.values().copied().collect();
        owners.sort_unstable();
        owners.into_iter().map(|index| {
            let fd = &self.fds[index];
            (&fd.event, self.specs[fd.spec].what.role())
        })
    }

    pub(super) fn common(&self) -> &SharedSettings {
        &self.common
    }

    /// The recorded CPUs.
    pub(crate) fn cpus(&self) -> Vec<u32> {
        let is_open = |(at, cpu): (usize, &u32)| self.owners.contains_key(&(Role::Running, at)).then_some(*cpu);
        self.cpus.iter().enumerate().filter_map(is_open).collect()
    }

    /// The events from position `mark` on.
    pub(crate) fn since(&self, mark: usize) -> impl Iterator<Item = &EventFd> {
        self.fds.iter().skip(mark).map(|fd| &fd.event)
    }

    /// The events from position `mark` on that have usual dumps. Events with larger dumps are off at first.
    pub(crate) fn usual_since(&self, mark: usize) -> impl Iterator<Item = &EventFd> {
        let is_usual = |fd: &&Fd| !self.specs[fd.spec].what.is_larger();
        self.fds.iter().skip(mark).filter(is_usual).map(|fd| &fd.event)
    }

    /// True if each event of the role that copies stacks has an event with larger dumps beside it.
    pub(crate) fn has_larger_stacks(&self, role: Role) -> bool {
        self.copying(role, true).next().is_some()
    }

    /// Opens the events that will own rings for larger dumps. An event that writes to the ring of another can own none.
    pub(crate) fn open_larger_owners(&mut self) -> io::Result<()> {
        let attr = waits::owner(&self.common);
        let recorded = (self.cpus.iter().enumerate()).filter(|(at, _)| self.owners.contains_key(&(Role::Running, *at)));
        let owners = recorded.map(|(at, cpu)| Ok((at, EventFd::open(&attr, THIS_THREAD, *cpu)?)));
        self.larger_owners = owners.collect::<io::Result<_>>()?;
        Ok(())
    }

    pub(crate) fn larger_owners(&self) -> Vec<&EventFd> {
        self.larger_owners.iter().map(|(_, event)| event).collect()
    }

    /// Sends the larger dumps of samples to their own rings, once those are mapped.
    pub(crate) fn share_larger_rings(&self) -> io::Result<()> {
        let is_larger = |fd: &&Fd| matches!(self.specs[fd.spec].what, What::Samples(Dumps::Larger(_)));
        self.fds.iter().filter(is_larger).try_for_each(|fd| {
            let owner = self.larger_owners.iter().find(|(cpu, _)| *cpu == fd.cpu);
            owner.map_or(Ok(()), |(_, owner)| fd.event.redirect_to(owner))
        })
    }

    /// Samples a second of CPU time.
    pub(crate) fn rate_hz(&self) -> f64 {
        self.common.rate_hz
    }

    /// From now on, copies the stacks of this role with larger dumps, or with usual ones. For a moment both events are
    /// on: a file that is mapped then is reported twice, but not missed.
    pub(crate) fn switch_to_larger_stacks(&mut self, role: Role, larger: bool) -> io::Result<()> {
        match larger {
            true => self.larger.insert(role),
            false => self.larger.remove(&role),
        };
        if self.paused.contains(&role) {
            return Ok(());
        }
        // One pair after the other. 64 threads on 16 CPUs have 1024 events: if all larger events came on first, each
        // thread would have two samples meanwhile.
        let pairs = self.copying(role, larger).zip(self.copying(role, !larger));
        { pairs }.try_for_each(|(on, off)| on.enable().and_then(|()| off.disable()))
    }

    /// The events of a role that copy stacks, with larger dumps or with the usual ones.
    fn copying(&self, role: Role, larger: bool) -> impl Iterator<Item = &EventFd> {
        let has_dumps = move |fd: &&Fd| self.specs[fd.spec].what.is_larger() == larger;
        self.of_role(role).filter(has_dumps).map(|fd| &fd.event)
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &Fd> {
        let has_role = move |fd: &&Fd| self.specs[fd.spec].what.role() == role;
        self.fds.iter().filter(has_role)
    }

    /// Number of events that sample. It grows with each added task.
    pub(crate) fn sampling_events(&self) -> usize {
        self.copying(Role::Running, false).count()
    }

    /// Number of tasks with events of their own.
    pub(crate) fn tasks(&self) -> usize {
        self.sampling_events() / self.cpus().len().max(1)
    }

    /// Enables or disables the events of a role. Of the events that copy stacks, only those in use are switched.
    pub(crate) fn switch(&mut self, role: Role, on: bool) -> io::Result<()> {
        match on {
            true => self.paused.remove(&role),
            false => self.paused.insert(role),
        };
        let mut events = self.copying(role, self.larger.contains(&role));
        events.try_for_each(|event| if on { event.enable() } else { event.disable() })
    }

    /// True if there are point events.
    pub(crate) fn has_points(&self) -> bool {
        self.of_role(Role::Point).next().is_some()
    }

    /// The named event of a record from a ring of this role; `None` if the event is not known.
    pub(crate) fn event_of(&self, role: Role, record: &[u8]) -> Option<FurtherEvent<'_>> {
        let spec = decode::event_id(record).and_then(|id| self.ids.get(&id));
        // For records about the ring itself, any event of the role serves.
        let is_any = |spec: &Spec| spec.what.role() == role && spec.what.index().is_some();
        let first = || self.specs.iter().position(is_any);
        let spec = &self.specs[spec.copied().or_else(first)?];
        Some(FurtherEvent {
            role: spec.what.role(),
            index: spec.what.index()?,
            layout: &spec.layout,
            format: match &spec.what {
                What::Point(
                    _,
                    Point {
                        source: PointSource::Tracepoint(tracepoint),
                        ..
                    },
                ) => Some(&tracepoint.format),
                _ => None,
            },
        })
    }

    /// The beginning or end of a call that a record is of.
    pub(crate) fn call_of(&self, record: &[u8]) -> Option<(CallPoint, CallHit)> {
        let spec = &self.specs[*decode::event_id(record).and_then(|id| self.ids.get(&id))?];
        Some((spec.what.call()?, CallHit::decode(record, &spec.layout)?))
    }

    /// Calls of a function whose beginning found no room in the ring. 0 before Linux 6.0.
    pub(crate) fn lost_calls(&self, function: u32) -> u64 {
        let entry = Some(CallPoint {
            function,
            moment: CallMoment::Begins,
        });
        let entries = self.fds.iter().filter(|fd| self.specs[fd.spec].what.call() == entry);
        let counts = entries.filter_map(|fd| fd.event.counts().ok());
        counts.map(|counts| counts.lost).sum()
    }

    /// Calls of a function are no longer recorded, and cost nothing any more: an event that is only disabled keeps its
    /// uprobe. Events that own rings come before those of calls, and keep their indices.
    pub(crate) fn stop_calls(&mut self, function: u32) {
        let is_meant = |spec: &Spec| spec.what.call().is_some_and(|call| call.function == function);
        let specs = &self.specs;
        let closed: Vec<Fd> = self.fds.extract_if(.., |fd| is_meant(&specs[fd.spec])).collect();
        // The kernel waits for a grace period with each uprobe.
        let _ = std::thread::Builder::new()
            .name("sprof-close".to_owned())
            .spawn(move || drop(closed));
        // Threads that are found later get no new ones.
        for spec in self.specs.iter_mut().filter(|spec| is_meant(spec)) {
            spec.what = What::PointRings;
        }
    }

    /// The kernel's counts, summed over all events of a role, without those of calls.
    pub(crate) fn totals(&self, role: Role) -> EventCounts {
        let mut totals = EventCounts::default();
        let of_role = self
            .of_role(role)
            .filter(|fd| self.specs[fd.spec].what.call().is_none());
        for counts in of_role.filter_map(|fd| fd.event.counts().ok()) {
            counts.add_to(&mut totals);
        }
        totals
    }

    /// The kernel's counts of each named event, by its index in [`Events::infos`].
    pub(crate) fn counts(&self) -> HashMap<u32, EventCounts> {
        let mut counts: HashMap<u32, EventCounts> = HashMap::new();
        for fd in &self.fds {
            if let Some(index) = self.specs[fd.spec].what.index()
                && let Ok(of_cpu) = fd.event.counts()
            {
                of_cpu.add_to(counts.entry(index).or_default());
            }
        }
        counts.values_mut().for_each(|counts| *counts = self.of_tasks(*counts));
        counts
    }

    /// Turns sums over all CPUs into counts of tasks.
    pub(crate) fn of_tasks(&self, counts: EventCounts) -> EventCounts {
        self.common.of_tasks(counts, self.cpus().len())
    }
}

impl What {
    fn role(&self) -> Role {
        match self {
            What::Samples(_) => Role::Running,
            What::Switches => Role::Switch,
            What::WaitStacks(_) => Role::WaitStack,
            What::Counted(..) => Role::Counted,
            What::Point(..) | What::Call(..) | What::PointRings => Role::Point,
        }
    }

    fn is_larger(&self) -> bool {
        matches!(
            self,
            What::Samples(Dumps::Larger(_)) | What::WaitStacks(Dumps::Larger(_))
        )
    }

    fn index(&self) -> Option<u32> {
        match self {
            What::Counted(index, _) | What::Point(index, _) => Some(*index),
            What::Samples(_) | What::Switches | What::WaitStacks(_) | What::Call(..) | What::PointRings => None,
        }
    }

    fn breakpoint(&self) -> Option<&FilePlace> {
        match self {
            What::Point(_, point) | What::Call(_, point) => match &point.source {
                PointSource::Breakpoint(place) => Some(place),
                PointSource::Tracepoint(_) => None,
            },
            _ => None,
        }
    }

    fn call(&self) -> Option<CallPoint> {
        match self {
            What::Call(call, _) => Some(*call),
            _ => None,
        }
    }

    fn layout(&self, common: &SharedSettings) -> SampleLayout {
        match self {
            What::Counted(_, counter) => further::counter_layout(counter, common),
            What::Point(_, point) => further::point_layout(point, common),
            What::Call(..) => further::CALL_LAYOUT,
            What::Samples(_) | What::Switches | What::WaitStacks(_) | What::PointRings => {
                common.choice.layout(common.stack_bytes)
            }
        }
    }
}

impl Spec {
    /// The attributes on a CPU; `None` if that CPU lacks the event. `address`: of a breakpoint.
    fn attr(&self, common: &SharedSettings, cpu: u32, address: u64) -> Option<Attr> {
        let core_type = core_type(&common.core_types, cpu);
        let attr = match &self.what {
            What::Samples(Dumps::Usual(bytes) | Dumps::Larger(bytes)) => {
                (common.choice).attr(common.scope, common.rate_hz, *bytes, core_type)
            }
            What::Switches => waits::switches(common),
            What::WaitStacks(Dumps::Usual(bytes) | Dumps::Larger(bytes)) => waits::stacks(common, *bytes),
            What::Counted(_, counter) => return further::counter_attr(counter, &self.layout, common, cpu),
            What::Point(_, point) | What::Call(_, point) => further::point_attr(point, &self.layout, common, address),
            What::PointRings => waits::owner(common),
        };
        Some(match self.what.is_larger() {
            true => Attr {
                flags: attr.flags & !flag::ENABLE_ON_EXEC,
                ..attr
            },
            false => attr,
        })
    }
}
