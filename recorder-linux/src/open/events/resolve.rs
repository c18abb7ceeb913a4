//! Resolves named events for this machine.

use std::path::Path;

use recording::event::Role;
use recording::info::{EventInfo, PeriodUnit, SampleBy};
use recording::probe::{CallMoment, FilePlace, Probe, ProbePlace, SpanFunction};

use super::counter::Counter;
use super::pmu;
use super::tracefs::{Tracepoint, Tracepoints};
use crate::probes::{DefinedCalls, DefinedProbe};
use perf_data::events::names;
use perf_data::events::{CountedCode, EventSelector, EventSpec, ONLY_USER_CODE};

/// What makes a point event.
#[derive(Clone, Debug)]
pub(crate) enum PointSource {
    Tracepoint(Tracepoint),
    /// A breakpoint in each process that runs the file as its program.
    Breakpoint(FilePlace),
}

/// Breakpoints and uprobes are in code of programs.
const USER_CODE: CountedCode = CountedCode {
    user: true,
    kernel: false,
};

/// A point event.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) source: PointSource,
    pub(crate) sides: CountedCode,
    pub(crate) sample_by: SampleBy,
}

/// What a hit of a point says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallPoint {
    /// Index of the function.
    pub(crate) function: u32,
    pub(crate) moment: CallMoment,
}

/// The events of a recording, ready to be opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    /// The event that gives samples their weight instead of CPU time.
    pub(crate) weight: Option<Counter>,
    /// Further counting events, each with its index in `infos`.
    pub(crate) counted: Vec<(u32, Counter)>,
    /// Point events, each with its index in `infos`.
    pub(crate) points: Vec<(u32, Point)>,
    /// Where calls of functions begin and end, which are to be spans.
    pub(crate) calls: Vec<(CallPoint, Point)>,
    /// All events, in the order in which the user named them.
    pub(crate) infos: Vec<EventInfo>,
    /// Announcements for the user, a line each.
    pub(crate) announcements: Vec<String>,
}

impl Events {
    /// Finds the events. `sampling` applies to events that do not state themselves when to sample; a frequency applies
    /// only to events that count. Without `sampling`, events that count are sampled by [`usual`], and each point is
    /// taken. With `keep_time`, samples weigh CPU time whatever is named.
    pub(crate) fn resolve(
        root: &Path,
        specs: &[EventSpec],
        rate_hz: f64,
        sampling: Option<SampleBy>,
        keep_time: bool,
        probes: &[Probe],
        defined: &[DefinedProbe],
    ) -> Result<Events, String> {
        let mut events = Events::default();
        for (index, spec) in specs.iter().enumerate() {
            match &spec.selector {
                EventSelector::Probe { .. } if specs[..index].iter().any(|earlier| earlier.text == spec.text) => {}
                EventSelector::Tracepoints { subsystem, name } => {
                    let tracefs =
                        Tracepoints::find(root).map_err(|error| format!("cannot record {}: {error}", spec.text))?;
                    for tracepoint in tracefs.matching(subsystem, name)? {
                        events.add_point(tracepoint, spec, of_point(spec, sampling));
                    }
                }
                EventSelector::Probe { .. }
                    if let Some(probe) = probes.iter().find(|probe| probe.by_register && probe.text == spec.text) =>
                {
                    events.add_breakpoints(probe, spec, of_point(spec, sampling));
                }
                EventSelector::Probe { .. } => {
                    let probe = defined.iter().find(|probe| probe.text == spec.text);
                    let probe =
                        probe.ok_or_else(|| format!("cannot record {}: nothing is known of its place", spec.text))?;
                    events.add_probe(root, probe, spec, of_point(spec, sampling))?;
                }
                _ => {
                    let asked = spec.sample_by.or(sampling);
                    let counter = counter(root, spec, asked.unwrap_or(usual(&spec.selector, rate_hz)))?;
                    events.add_counter(counter, keep_time);
                }
            }
        }
        if keep_time && let [(_, first), ..] = &events.counted[..] {
            events.announcements.push(format!(
                "with --off-cpu samples weigh time: {} has tracks of its own",
                first.name
            ));
        }
        Ok(events)
    }

    /// Adds the calls of functions: by probes that are defined, else by breakpoints.
    pub(crate) fn add_calls(
        &mut self,
        root: &Path,
        spans: &[SpanFunction],
        defined: Option<&[DefinedCalls]>,
    ) -> Result<(), String> {
        for (function, span) in (0..).zip(spans) {
            let failed = |error: &dyn std::fmt::Display| format!("cannot record --span {}: {error}", span.name);
            let sources: Vec<(CallMoment, PointSource)> = match defined.and_then(|all| all.get(function as usize)) {
                None => {
                    let places = span.places.iter();
                    let sources = places.filter_map(|place| Some((place.moment, breakpoint_at(&place.place)?)));
                    sources.collect()
                }
                Some(defined) => {
                    let tracefs = Tracepoints::find(root).map_err(|error| failed(&error))?;
                    let tracepoints = defined.iter().map(|(moment, group, event)| {
                        let found = tracefs.tracepoint(group, event).map_err(|error| failed(&error));
                        Ok((*moment, PointSource::Tracepoint(found?)))
                    });
                    tracepoints.collect::<Result<_, String>>()?
                }
            };
            self.calls.extend(sources.into_iter().map(|(moment, source)| {
                let point = Point {
                    source,
                    sides: USER_CODE,
                    sample_by: SampleBy::Period(1),
                };
                (CallPoint { function, moment }, point)
            }));
            self.announcements.extend(span.notes.iter().cloned());
        }
        Ok(())
    }

    /// Adds a point event: a tracepoint, or a probe defined as one.
    pub(crate) fn add_point(&mut self, tracepoint: Tracepoint, spec: &EventSpec, sample_by: SampleBy) {
        if self.infos.iter().any(|info| info.name == tracepoint.name) {
            return;
        }
        let fields = tracepoint.format.names().map(str::to_owned).collect();
        let index = self.add_info(tracepoint.name.clone(), fields, spec, sample_by);
        let point = Point {
            source: PointSource::Tracepoint(tracepoint),
            sides: spec.sides,
            sample_by,
        };
        self.points.push((index, point));
    }

    fn add_info(&mut self, name: String, fields: Vec<String>, spec: &EventSpec, sample_by: SampleBy) -> u32 {
        self.infos.push(EventInfo {
            name,
            asked: spec.text.clone(),
            role: Role::Point,
            unit: PeriodUnit::Counts,
            sample_by,
            without_kernel: None,
            fields,
            counts: None,
        });
        self.infos.len() as u32 - 1
    }

    /// Adds a breakpoint at each place of a probe, as one event.
    fn add_breakpoints(&mut self, probe: &Probe, spec: &EventSpec, sample_by: SampleBy) {
        let index = self.add_info(probe.name.clone(), Vec::new(), spec, sample_by);
        self.points
            .extend(probe.places.iter().filter_map(breakpoint_at).map(|source| {
                let point = Point {
                    source,
                    sides: USER_CODE,
                    sample_by,
                };
                (index, point)
            }));
        self.announcements.extend(probe.notes.iter().cloned());
    }

    /// Adds a probe: tracepoints that sprof defined, as one event.
    fn add_probe(
        &mut self,
        root: &Path,
        probe: &DefinedProbe,
        spec: &EventSpec,
        sample_by: SampleBy,
    ) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot record {}: {error}", spec.text);
        let tracefs = Tracepoints::find(root).map_err(|error| failed(&error))?;
        // Two files may have a function of one name.
        let is_taken = self.infos.iter().any(|info| info.name == probe.name);
        let name = if is_taken { &probe.text } else { &probe.name };
        for (group, event) in &probe.tracepoints {
            let tracepoint = tracefs.tracepoint(group, event).map_err(|error| failed(&error))?;
            let fields: Vec<&str> = tracepoint.format.names().collect();
            // Copies of a USDT mark may differ in the arguments that can be read.
            let same = |info: &EventInfo| info.name == *name && info.fields == fields;
            match self.infos.iter().position(same) {
                Some(index) => self.points.push((
                    index as u32,
                    Point {
                        source: PointSource::Tracepoint(tracepoint),
                        sides: spec.sides,
                        sample_by,
                    },
                )),
                None => {
                    let numbered = format!("{name} (");
                    let of_same = |info: &&EventInfo| info.name == *name || info.name.starts_with(&numbered);
                    let others = self.infos.iter().filter(of_same).count();
                    let name = match others {
                        0 => name.clone(),
                        others => format!("{name} ({})", others + 1),
                    };
                    self.add_point(Tracepoint { name, ..tracepoint }, spec, sample_by);
                }
            }
        }
        self.announcements.extend(probe.notes.iter().cloned());
        Ok(())
    }

    fn add_counter(&mut self, counter: Counter, keep_time: bool) {
        if self.infos.iter().any(|info| info.name == counter.name) {
            return;
        }
        let is_weight = self.weight.is_none() && !keep_time;
        self.infos.push(EventInfo {
            name: counter.name.clone(),
            asked: counter.name.clone(),
            role: if is_weight { Role::Running } else { Role::Counted },
            unit: counter.unit(),
            sample_by: counter.sample_by,
            without_kernel: (!counter.sides.kernel).then_some(ONLY_USER_CODE),
            fields: Vec::new(),
            counts: None,
        });
        match is_weight {
            true => self.weight = Some(counter),
            false => self.counted.push((self.infos.len() as u32 - 1, counter)),
        }
    }

    /// True if breakpoints are to be set.
    pub(crate) fn has_breakpoints(&self) -> bool {
        let of_calls = self.calls.iter().map(|(_, point)| &point.source);
        let mut sources = self.points.iter().map(|(_, point)| &point.source).chain(of_calls);
        sources.any(|source| matches!(source, PointSource::Breakpoint(_)))
    }

    /// True if no named event needs more than a recording without `-e`.
    pub(crate) fn is_empty(&self) -> bool {
        self.infos.is_empty() && self.calls.is_empty()
    }
}

fn breakpoint_at(place: &ProbePlace) -> Option<PointSource> {
    match place {
        ProbePlace::File(place) => Some(PointSource::Breakpoint(place.clone())),
        ProbePlace::Kernel(_) => None,
    }
}

/// How often a point is taken. The rate `-r` is for samples of CPU time only.
fn of_point(spec: &EventSpec, sampling: Option<SampleBy>) -> SampleBy {
    let period = sampling.filter(|by| matches!(by, SampleBy::Period(_)));
    spec.sample_by.or(period).unwrap_or(SampleBy::Period(1))
}

/// A core that only faults has some 160,000 page faults a second. A sample for each took more than half of its time,
/// and 9 of 10 samples found no room in the ring. A sample for every 16 takes 5 %.
const SOFTWARE_PERIOD: u64 = 16;

/// How often an event is sampled if the user does not say.
///
/// Hardware events come at a steady pace, so the kernel finds the period for a frequency. Software events do not: a
/// burst raises the period without bound. With 10,000 page faults in one function and 30,000 in the next, the kernel's
/// frequency gave from 26 to 99.9 % of the samples to the first function. So software events have a fixed period, which
/// is right for any pace. With a period of 16 the first function gets 25.0 % each time.
fn usual(selector: &EventSelector, rate_hz: f64) -> SampleBy {
    match selector {
        // Sampled by the timer, as for CPU time: see `EventChoice::attr`.
        EventSelector::Generic(generic) if generic.counts_cpu_time() => {
            SampleBy::Period((1e9 / rate_hz).round().max(1.0) as u64)
        }
        EventSelector::Generic(generic) if generic.is_rare() => SampleBy::Period(1),
        EventSelector::Generic(generic) if generic.kind == names::SOFTWARE => SampleBy::Period(SOFTWARE_PERIOD),
        _ => SampleBy::Frequency(rate_hz.round().max(1.0) as u64),
    }
}

fn counter(root: &Path, spec: &EventSpec, sample_by: SampleBy) -> Result<Counter, String> {
    let (kind, configs, is_in_kernel, cpus) = match &spec.selector {
        EventSelector::Generic(generic) => (generic.kind, [generic.config, 0, 0], generic.is_in_kernel(), None),
        EventSelector::Raw(config) => (names::RAW, [*config, 0, 0], false, None),
        EventSelector::Pmu { pmu, terms } => {
            let event =
                pmu::resolve(root, pmu, terms).map_err(|error| format!("cannot record {}: {error}", spec.text))?;
            (event.kind, event.configs, false, event.cpus)
        }
        EventSelector::Tracepoints { .. } | EventSelector::Probe { .. } => {
            return Err(format!("{} does not count", spec.text));
        }
    };
    Ok(Counter {
        name: spec.text.clone(),
        kind,
        configs,
        sides: spec.sides,
        sample_by,
        is_in_kernel,
        cpus,
    })
}
