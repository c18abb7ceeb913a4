//! The machine's resources and those of processes by the USE method: utilization, saturation and errors of each.

mod rules;

use std::collections::BTreeMap;

use recording::counter::{Counter, CounterOwner, CounterUnit};
use serde_json::Value;

use self::rules::{
    BUSY, DISK, DROPPED, FigureRule, Formula, MEMORY, NETWORK, PRESSURE, PROCESS_CPU, REQUEST_TIME, RULES, ResourceRule,
};
use super::select::Selection;
use crate::data::{Counter as SavedCounter, Data, ResourceFacts};
use crate::text::numbers::{grouped, time};

/// A resource of the machine or of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRow {
    /// Its name: `cpus`, `disk`, `process-cpu`.
    pub resource: &'static str,
    /// In words.
    pub label: &'static str,
    /// The disk or interface; empty for others.
    pub device: String,
    /// Name and pid of the process, if it is of one; of a merged profile, if several recordings have the machine's.
    pub process: Option<(String, String)>,
    /// How much of it was used.
    pub utilization: Vec<ResourceFigure>,
    /// How much waited for it.
    pub saturation: Vec<ResourceFigure>,
    /// What it failed to do.
    pub errors: Vec<ResourceFigure>,
    /// When it was worst, ms since the recording began.
    pub worst: Option<WorstSpan>,
    /// How short it was, 0 to 1: see [`ResourceRule::shortage`].
    shortage: f64,
}

/// A figure of a resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceFigure {
    /// Its name.
    pub name: &'static str,
    /// Its value, over the selected time.
    pub value: f64,
    /// Its unit.
    pub unit: FigureUnit,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    /// A part of all, 0 to 1.
    Share,
    /// CPUs, requests or threads on average.
    Number,
    /// Occurrences.
    Count,
    /// Occurrences a second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Milliseconds.
    Milliseconds,
    /// Hertz.
    Hertz,
}

/// The part of the time in which a resource was worst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorstSpan {
    /// Its start, ms since the recording began.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
    /// The figure that is worst then.
    pub figure: ResourceFigure,
}

/// Parts of the selected time that are compared to find the worst.
const SPANS: f64 = 20.0;
/// The shortest of such parts, ms: several readings.
const LEAST_SPAN_MS: f64 = 500.0;
/// Neighbours of the worst part with this share of its figure belong to it.
const NEARLY_WORST: f64 = 0.8;

/// Rows of the selected time, the shortest resource first. Empty if nothing was read. The machine's are there whatever
/// is selected, those of processes if a thread of them is.
pub fn resources(selection: &Selection<'_>) -> Vec<ResourceRow> {
    let found = Found::new(selection);
    let mut rows: Vec<ResourceRow> = RULES.iter().flat_map(|rule| found.rows(rule)).collect();
    rows.sort_by(|a, b| b.shortage.total_cmp(&a.shortage));
    rows
}

/// What was short enough to matter, and how short.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortage {
    /// The resource's name, as in [`ResourceRow::resource`].
    pub resource: &'static str,
    /// A sentence without its subject, for people.
    pub text: String,
    /// 0 to 1.
    pub share: f64,
}

/// Waits that are shorter matter to nobody, ms.
const LEAST_WAIT_MS: f64 = 100.0;
/// A smaller share of the time is within what a quiet machine has.
const LEAST_WAIT: f64 = 0.1;
/// A disk that is less busy is not what its users wait for.
const LEAST_BUSY: f64 = 0.8;
/// Interfaces drop some packets that nobody wants.
const LEAST_DROPPED: (f64, f64) = (0.01, 100.0);

/// What was shortest in the selected time; `None` if nothing was short.
pub fn shortage(selection: &Selection<'_>) -> Option<Shortage> {
    let found = Found::new(selection);
    let span = found.span;
    // The time of all processes together.
    let grown = |counter: Counter| {
        let of_processes = found
            .groups
            .iter()
            .filter(|(group, _)| group.owner == CounterOwner::Process);
        of_processes
            .map(|(_, lines)| lines.get(&counter).map_or(0.0, |line| line.growth(span)))
            .sum::<f64>()
    };
    let [waited, ran] = [grown(Counter::CpuWait), grown(Counter::CpuNanoseconds)];
    let waits = waited / (waited + ran);
    let of_cpus = (waits >= LEAST_WAIT && waited >= LEAST_WAIT_MS * 1e6).then(|| Shortage {
        resource: PROCESS_CPU,
        text: match waits {
            // It ran, so it is not 100 %.
            0.99.. => "waited for a CPU more than 99 % of the time that it wanted one".to_owned(),
            _ => format!("waited for a CPU {:.0} % of the time that it wanted one", 100.0 * waits),
        },
        share: waits,
    });
    let uses_disks = [Counter::ReadBytes, Counter::WrittenBytes, Counter::MajorFaults]
        .into_iter()
        .map(grown)
        .sum::<f64>()
        > 0.0;
    let rows = RULES.iter().flat_map(|rule| found.rows(rule));
    let of_machine = rows.filter_map(|row| {
        let figure = |name| {
            row.figures()
                .find(|figure| figure.name == name)
                .map(|figure| figure.value)
        };
        let (text, share) = match row.resource {
            DISK if uses_disks => {
                let busy = figure(BUSY).filter(|busy| *busy >= LEAST_BUSY)?.min(1.0);
                let took = figure(REQUEST_TIME).map_or_else(String::new, |ms| format!(", a request took {}", time(ms)));
                (
                    format!("disk {} was busy {:.0} %{took}", row.device, 100.0 * busy),
                    busy,
                )
            }
            MEMORY => {
                let share = figure(PRESSURE).filter(|share| *share >= LEAST_WAIT)?;
                (
                    format!(
                        "memory was short: something waited for it {:.0} % of the time",
                        100.0 * share
                    ),
                    share,
                )
            }
            NETWORK => {
                let (share, dropped) = (row.shortage, figure(DROPPED)?);
                if share < LEAST_DROPPED.0 || dropped < LEAST_DROPPED.1 {
                    return None;
                }
                let text = format!(
                    "network: {} dropped {} packets, {:.0} %",
                    row.device,
                    grouped(dropped as u64),
                    100.0 * share
                );
                (text, share)
            }
            _ => return None,
        };
        Some(Shortage {
            resource: row.resource,
            text,
            share,
        })
    });
    // What the recorded processes waited for, before what the machine was short of, which may be due to others.
    of_cpus.or_else(|| of_machine.max_by(|a, b| a.share.total_cmp(&b.share)))
}

impl ResourceRow {
    fn figures(&self) -> impl Iterator<Item = &ResourceFigure> {
        self.utilization.iter().chain(&self.saturation).chain(&self.errors)
    }
}

/// What counters are of: a process, or the machine or a device of it, as one recording saw it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group<'a> {
    owner: CounterOwner,
    pid: &'a str,
    device: &'a str,
    /// A thread of the process.
    thread: u32,
}

/// A counter over time: ms since the recording began, and the value; of a sum, from its first reading on.
#[derive(Default)]
struct Line(Vec<(f64, f64)>);

impl Line {
    fn new(counter: Counter, saved: &SavedCounter) -> Option<Line> {
        let samples = saved.fields.get("samples")?;
        let column = |key: &str| samples.get(key)?.as_array();
        let numbers =
            |list: &'_ Vec<Value>| -> Vec<f64> { list.iter().map(|number| number.as_f64().unwrap_or(0.0)).collect() };
        let times = numbers(column("time")?);
        let values = match counter.info().is_sum {
            false => numbers(column("number")?),
            true => {
                let each = if counter.info().unit == CounterUnit::Nanoseconds {
                    1e6
                } else {
                    1.0
                };
                let sums = numbers(column("count")?).into_iter().scan(0.0, |sum, count| {
                    *sum += count * each;
                    Some(*sum)
                });
                sums.collect()
            }
        };
        Some(Line(times.into_iter().zip(values).collect()))
    }

    /// The value at a time: between two readings a straight line, outside of them the nearest.
    fn at(&self, time_ms: f64) -> f64 {
        let after = self.0.partition_point(|(time, _)| *time <= time_ms);
        match (after.checked_sub(1).and_then(|at| self.0.get(at)), self.0.get(after)) {
            (Some((from, value)), Some((to, next))) if to > from => {
                value + (next - value) * (time_ms - from) / (to - from)
            }
            (Some((_, value)), _) | (None, Some((_, value))) => *value,
            (None, None) => 0.0,
        }
    }

    fn growth(&self, (from, to): (f64, f64)) -> f64 {
        self.at(to) - self.at(from)
    }

    /// The values in a span, with those at its ends. None before the first reading and after the last one: a process
    /// may not have begun, or have ended.
    fn within(&self, (from, to): (f64, f64)) -> Vec<(f64, f64)> {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else {
            return Vec::new();
        };
        let (from, to) = (from.max(first.0), to.min(last.0));
        if from > to {
            return Vec::new();
        }
        let inner = self.0.iter().copied().filter(|(time, _)| *time > from && *time < to);
        let ends = |at| (at, self.at(at));
        [ends(from)].into_iter().chain(inner).chain([ends(to)]).collect()
    }

    fn mean(&self, span: (f64, f64)) -> Option<f64> {
        let points = self.within(span);
        let (from, to) = (points.first()?, points.last()?);
        let area = points
            .windows(2)
            .map(|pair| (pair[0].1 + pair[1].1) / 2.0 * (pair[1].0 - pair[0].0));
        Some(if to.0 > from.0 {
            area.sum::<f64>() / (to.0 - from.0)
        } else {
            from.1
        })
    }
}

/// All counters of a selection.
struct Found<'a> {
    data: &'a Data,
    facts: ResourceFacts,
    groups: BTreeMap<Group<'a>, BTreeMap<Counter, Line>>,
    /// The selected time.
    span: (f64, f64),
}

impl<'a> Found<'a> {
    fn new(selection: &Selection<'a>) -> Found<'a> {
        let data = selection.data;
        let conditions = &selection.conditions;
        let end = data.length_ms().unwrap_or(0.0);
        let span = (
            conditions.from_ms.unwrap_or(0.0).clamp(0.0, end),
            conditions.to_ms.unwrap_or(end).clamp(0.0, end),
        );
        let facts = data.recorded.as_ref().and_then(|recorded| recorded.resources.clone());
        let mut groups: BTreeMap<Group<'a>, BTreeMap<Counter, Line>> = BTreeMap::new();
        let is_selected = |pid: &str| {
            let mut threads = (0..).zip(&data.threads).filter(|(_, thread)| thread.pid == pid);
            threads.any(|(at, _)| selection.has_thread(at))
        };
        for saved in &data.counters {
            let text = |key: &str| saved.fields.get("sprof")?.get(key)?.as_str();
            let Some(thread) = data.threads.get(saved.thread as usize) else {
                continue;
            };
            let Some(counter) = text("counter").and_then(Counter::from_name) else {
                continue;
            };
            let owner = counter.info().owner;
            if owner == CounterOwner::Process && !is_selected(&thread.pid) {
                continue;
            }
            let group = Group {
                owner,
                pid: &thread.pid,
                device: text("device").unwrap_or_default(),
                thread: saved.thread,
            };
            if let Some(line) = Line::new(counter, saved) {
                groups.entry(group).or_default().insert(counter, line);
            }
        }
        Found {
            data,
            facts: facts.unwrap_or_default(),
            groups,
            span,
        }
    }

    fn rows(&self, rule: &'static ResourceRule) -> impl Iterator<Item = ResourceRow> {
        let of_rule = || self.groups.iter().filter(|(group, _)| group.owner == rule.owner);
        let of_machine = self.groups.keys().filter(|group| group.owner == CounterOwner::Machine);
        let is_merged = of_machine.count() > 1;
        of_rule().filter_map(move |(group, lines)| {
            let made = |rules: &[FigureRule]| -> Vec<ResourceFigure> {
                rules
                    .iter()
                    .filter_map(|rule| self.figure(rule, lines, self.span))
                    .collect()
            };
            let (utilization, saturation) = (made(rule.utilization), made(rule.saturation));
            let is_of_process = group.owner == CounterOwner::Process;
            let thread = &self.data.threads[group.thread as usize];
            let row = ResourceRow {
                resource: rule.name,
                label: rule.label,
                device: group.device.to_owned(),
                process: (is_of_process || is_merged).then(|| (thread.process_name.clone(), thread.pid.clone())),
                shortage: self
                    .shortage(rule, lines, self.span)
                    .map_or(0.0, |shortage| shortage.min(1.0)),
                worst: self.worst(rule, lines),
                errors: made(rule.errors),
                utilization,
                saturation,
            };
            let does_something = row.figures().any(|figure| figure.value > 0.0);
            does_something.then_some(row)
        })
    }

    /// How short a resource was in a span; `None` for one that has nothing of the kind.
    fn shortage(&self, rule: &ResourceRule, lines: &BTreeMap<Counter, Line>, span: (f64, f64)) -> Option<f64> {
        let used = || rule.utilization.first().filter(|used| used.2 == FigureUnit::Share);
        let waited = rule.shortage.and_then(|formula| self.value(formula, lines, span));
        waited.or_else(|| self.value(used()?.1, lines, span))
    }

    /// When a resource was shortest, or else most used.
    fn worst(&self, rule: &ResourceRule, lines: &BTreeMap<Counter, Line>) -> Option<WorstSpan> {
        let share = |rules: &'static [FigureRule]| rules.iter().find(|rule| rule.2 == FigureUnit::Share);
        let shown = share(rule.saturation).or(rule.utilization.first())?;
        let amount = |span| {
            self.shortage(rule, lines, span)
                .or_else(|| self.value(shown.1, lines, span))
        };
        let (from, to) = self.span;
        let count = ((to - from) / LEAST_SPAN_MS).floor().clamp(1.0, SPANS);
        let each = (to - from) / count;
        let at = |part: usize| (from + each * part as f64, from + each * (part + 1) as f64);
        let parts: Vec<f64> = (0..count as usize)
            .map(|part| amount(at(part)).unwrap_or(0.0))
            .collect();
        let (worst, most) = parts.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
        let is_near = |part: &&f64| **part >= NEARLY_WORST * most;
        let before = parts[..worst].iter().rev().take_while(is_near).count();
        let after = parts[worst..].iter().take_while(is_near).count();
        let span = (at(worst - before).0, at(worst + after - 1).1);
        let figure = self.figure(shown, lines, span).filter(|_| *most > 0.0);
        figure.map(|figure| WorstSpan {
            from_ms: span.0,
            to_ms: span.1,
            figure,
        })
    }

    fn figure(
        &self,
        FigureRule(name, formula, unit): &FigureRule,
        lines: &BTreeMap<Counter, Line>,
        span: (f64, f64),
    ) -> Option<ResourceFigure> {
        let value = self.value(*formula, lines, span)?;
        let value = match *unit {
            FigureUnit::Milliseconds => value / 1e6,
            // The kernel counts in ticks.
            FigureUnit::Share => value.min(1.0),
            _ => value,
        };
        Some(ResourceFigure {
            name,
            value,
            unit: *unit,
        })
    }

    fn value(&self, formula: Formula, lines: &BTreeMap<Counter, Line>, span: (f64, f64)) -> Option<f64> {
        let nothing = Line::default();
        // A sum that is neither in the file nor among what could not be read did not grow.
        let line = |counter: Counter| {
            let is_known = || {
                counter.info().is_sum
                    && self
                        .facts
                        .unread
                        .iter()
                        .all(|unread| unread.counter != counter.info().name)
            };
            lines.get(&counter).or_else(|| is_known().then_some(&nothing))
        };
        let length_ms = span.1 - span.0;
        // Of times: ns in a ms.
        let per_second = |counter: Counter| {
            let each = if counter.info().unit == CounterUnit::Nanoseconds {
                1e6
            } else {
                1e-3
            };
            Some(line(counter)?.growth(span) / each / length_ms)
        };
        let most = |counter| {
            let values = line(counter)?.within(span).into_iter().map(|(_, value)| value);
            values.reduce(f64::max)
        };
        let value = match formula {
            Formula::Rate(counter) => per_second(counter)?,
            Formula::RateOfCpus(counter) => per_second(counter)? / f64::from(self.facts.cpus.filter(|cpus| *cpus > 0)?),
            Formula::Growth(counter) => line(counter)?.growth(span),
            Formula::Mean(counter) => line(counter)?.mean(span)?,
            Formula::Most(counter) => most(counter)?,
            Formula::MostOfMemory(counter) => {
                most(counter)? / self.facts.memory_bytes.filter(|bytes| *bytes > 0)? as f64
            }
            Formula::Ratio(counter, all) => {
                let mut sum = 0.0;
                for part in all {
                    sum += line(*part)?.growth(span);
                }
                if sum > 0.0 {
                    line(counter)?.growth(span) / sum
                } else {
                    0.0
                }
            }
        };
        value.is_finite().then_some(value)
    }
}
