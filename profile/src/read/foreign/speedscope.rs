//! Files of speedscope, written by many profilers: <https://www.speedscope.app/file-format-schema.json>. Samples with
//! weights, or the opening and closing of calls.

use serde::Deserialize;

use super::json::{self, LimitedList};
use super::source::ForeignFile;
use super::tables::ForeignTables;
use super::{Foreign, ReadError, choose, others};
use crate::data::NO_STACK_LABEL;
use crate::data::{NONE, Samples, Thread, WeightUnit, Weights};

/// True if these bytes begin an object with the parts of a file of speedscope, in any order.
pub(super) fn is_speedscope(start: &[u8]) -> bool {
    const SCHEMA: &[u8] = b"speedscope.app/file-format-schema.json";
    if start.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    let keys = json::first_keys(start);
    let has = |key: &str| keys.iter().any(|known| known == key);
    let is_named = has("$schema") && start.windows(SCHEMA.len()).any(|part| part == SCHEMA);
    is_named || has("shared") && has("profiles") && !has("meta")
}

#[derive(Deserialize)]
struct SpeedscopeFile {
    shared: SharedFrames,
    profiles: LimitedList<SpeedscopeProfile>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    exporter: Option<String>,
    #[serde(rename = "activeProfileIndex", default)]
    active: Option<usize>,
}

#[derive(Deserialize)]
struct SharedFrames {
    frames: LimitedList<SpeedscopeFrame>,
}

#[derive(Deserialize)]
struct SpeedscopeFrame {
    name: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<f64>,
}

#[derive(Deserialize)]
struct SpeedscopeProfile {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    unit: String,
    #[serde(rename = "startValue", default)]
    start: f64,
    /// Stacks of a `sampled` profile, root first.
    #[serde(default)]
    samples: LimitedList<LimitedList<u32>>,
    #[serde(default)]
    weights: LimitedList<f64>,
    /// Events of an `evented` profile.
    #[serde(default)]
    events: LimitedList<SpeedscopeEvent>,
}

#[derive(Deserialize)]
struct SpeedscopeEvent {
    /// `O` or `C`.
    #[serde(rename = "type")]
    kind: String,
    frame: u32,
    at: f64,
}

/// The unit, and the factor to it.
fn unit(name: &str) -> (WeightUnit, f64) {
    match name {
        "nanoseconds" => (WeightUnit::Milliseconds, 1e-6),
        "microseconds" => (WeightUnit::Milliseconds, 1e-3),
        "milliseconds" => (WeightUnit::Milliseconds, 1.0),
        "seconds" => (WeightUnit::Milliseconds, 1e3),
        "bytes" => (WeightUnit::Bytes, 1.0),
        _ => (WeightUnit::Samples, 1.0),
    }
}

/// Reads the profiles of one unit: each is a thread. `event` names the unit.
pub(super) fn read(source: &mut ForeignFile, event: Option<&str>) -> Result<Foreign, ReadError> {
    let path = source.path.clone();
    let file: SpeedscopeFile = json::parse(source)?;
    let mut units: Vec<String> = Vec::new();
    for profile in &file.profiles.0 {
        if !units.contains(&profile.unit) && units.len() < MAX_UNITS {
            units.push(profile.unit.clone());
        }
    }
    if units.is_empty() {
        return Err(ReadError::Incomplete {
            path,
            expected: "at least one profile in `profiles`",
        });
    }
    let active = file
        .profiles
        .0
        .get(file.active.unwrap_or(0))
        .map(|profile| &profile.unit);
    let default = units.iter().position(|unit| Some(unit) == active).unwrap_or(0);
    let chosen = choose(&path, event, &units, default)?;
    let (unit, scale) = unit(&units[chosen]);
    let mut reading = SpeedscopeReader {
        source,
        tables: ForeignTables::default(),
        frames: Vec::with_capacity(file.shared.frames.0.len()),
        no_stack: None,
        rows: 0,
        unit,
        scale,
    };
    for frame in &file.shared.frames.0 {
        reading.add_frame(frame);
    }
    let shown = || (file.profiles.0.iter().enumerate()).filter(|(_, profile)| profile.unit == units[chosen]);
    let zero = shown().map(|(_, profile)| profile.start).fold(f64::INFINITY, f64::min);
    let mut threads = Vec::new();
    for (at, profile) in shown() {
        let samples = match profile.kind.as_str() {
            "evented" => reading.evented(at, profile, zero)?,
            "sampled" => reading.sampled(at, profile, zero)?,
            other => {
                return Err(reading.wrong(at, format_args!("type {other:?}; expected \"sampled\" or \"evented\"")));
            }
        };
        threads.push(Thread {
            name: profile.name.clone(),
            tid: (at + 1).to_string(),
            is_main: at == 0,
            unit,
            samples,
            ..Thread::default()
        });
    }
    let mut data = reading.tables.into_data();
    data.product = file.name.unwrap_or_default();
    for thread in &mut threads {
        thread.process_name.clone_from(&data.product);
    }
    data.threads = threads;
    data.imported_from = match file.exporter {
        Some(exporter) => format!("speedscope's format, of {exporter}"),
        None => "speedscope's format".to_owned(),
    };
    data.unit = unit;
    data.is_summed = unit != WeightUnit::Milliseconds;
    data.symbolicated = true;
    if unit != WeightUnit::Samples {
        data.weights = Some(Weights {
            name: units[chosen].clone(),
            unit: units[chosen].clone(),
            others: others(&units, chosen),
            is_exact: false,
        });
    }
    let mut notes = Vec::new();
    if units.len() > 1 && event.is_none() {
        notes.push(format!(
            "the file has profiles in other units: --event {} shows those",
            others(&units, chosen)[0]
        ));
    }
    Ok(Foreign { data, notes })
}

/// The schema has six.
const MAX_UNITS: usize = 16;

struct SpeedscopeReader<'a> {
    source: &'a ForeignFile,
    tables: ForeignTables,
    /// By index in the file.
    frames: Vec<u32>,
    /// The index with which sprof's export marks samples without a stack.
    no_stack: Option<u32>,
    rows: u64,
    unit: WeightUnit,
    scale: f64,
}

impl SpeedscopeReader<'_> {
    fn add_frame(&mut self, frame: &SpeedscopeFrame) {
        if frame.name == NO_STACK_LABEL {
            self.no_stack = Some(self.frames.len() as u32);
        }
        let func = self
            .tables
            .func(&frame.name, NONE, frame.file.as_deref().unwrap_or_default());
        let line = frame.line.filter(|line| *line >= 1.0 && *line < f64::from(NONE));
        let frame = self
            .tables
            .frame(func, line.map_or(0, |line| line as u32), NONE, None, false);
        self.frames.push(frame);
    }

    fn wrong(&self, profile: usize, what: impl std::fmt::Display) -> ReadError {
        ReadError::Inconsistent {
            path: self.source.path.clone(),
            what: format!("profiles[{profile}]: {what}"),
        }
    }

    fn frame(&self, profile: usize, index: u32) -> Result<u32, ReadError> {
        let known = self.frames.get(index as usize).copied();
        known.ok_or_else(|| {
            self.wrong(
                profile,
                format_args!(
                    "expected an index of shared.frames, which has {} frames, found {index}",
                    self.frames.len()
                ),
            )
        })
    }

    /// Adds a row, within the limits. Times are in the file's unit, since the start.
    fn add(&mut self, samples: &mut Samples, stack: u32, time: f64, weight: f64) -> Result<(), ReadError> {
        let is_time = self.unit == WeightUnit::Milliseconds;
        samples.stack.push(stack);
        samples.time_ms.push(if is_time { time * self.scale } else { 0.0 });
        samples.weight.get_or_insert_default().push(weight * self.scale);
        self.rows += 1;
        self.source.keeps(self.tables.values() + 4 * self.rows)
    }

    /// The x axis of speedscope is the sum of the weights.
    fn sampled(&mut self, at: usize, profile: &SpeedscopeProfile, zero: f64) -> Result<Samples, ReadError> {
        let (stacks, weights) = (&profile.samples.0, &profile.weights.0);
        if stacks.len() != weights.len() {
            let (stacks, weights) = (stacks.len(), weights.len());
            return Err(self.wrong(
                at,
                format_args!("expected {stacks} weights, one for each sample, found {weights}"),
            ));
        }
        let mut samples = Samples::default();
        let mut time = profile.start - zero;
        for (path, weight) in stacks.iter().zip(weights) {
            let mut stack = NONE;
            if path.0.len() != 1 || self.no_stack != path.0.first().copied() {
                for &index in &path.0 {
                    let frame = self.frame(at, index)?;
                    stack = self.tables.stack(stack, frame);
                }
            }
            self.add(&mut samples, stack, time, *weight)?;
            time += weight.max(0.0);
        }
        Ok(samples)
    }

    /// What lies between two events is a row.
    fn evented(&mut self, at: usize, profile: &SpeedscopeProfile, zero: f64) -> Result<Samples, ReadError> {
        let mut samples = Samples::default();
        // The open calls: the file's frame, and the stack.
        let mut open: Vec<(u32, u32)> = Vec::new();
        let mut last = profile.start;
        for (number, event) in profile.events.0.iter().enumerate() {
            if event.at < last {
                return Err(self.wrong(
                    at,
                    format_args!("events[{number}]: expected a time that is not before the last event's"),
                ));
            }
            if let Some((_, stack)) = open.last()
                && event.at > last
            {
                self.add(&mut samples, *stack, last - zero, event.at - last)?;
            }
            last = event.at;
            match (event.kind.as_str(), open.last()) {
                ("O", around) => {
                    let (prefix, frame) = (around.map_or(NONE, |around| around.1), self.frame(at, event.frame)?);
                    open.push((event.frame, self.tables.stack(prefix, frame)));
                    self.source
                        .keeps(self.tables.values() + 4 * self.rows + open.len() as u64)?;
                }
                ("C", Some((frame, _))) if *frame == event.frame => {
                    open.pop();
                }
                _ => {
                    let expected = "expected the opening of a call, or the closing of the one that was opened last";
                    return Err(self.wrong(at, format_args!("events[{number}]: {expected}")));
                }
            }
        }
        samples.weight.get_or_insert_default();
        Ok(samples)
    }
}
