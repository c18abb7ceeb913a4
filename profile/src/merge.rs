//! Merges several profiles: their threads become tracks of one timeline, over shared tables.
//!
//! 1. `tables`: adds one profile's texts, functions, frames and stacks to the shared tables.
//! 2. `timeline`: moves everything that has a time.
//! 3. `about`: combines the facts about whole profiles.

mod about;
mod tables;
mod timeline;

use std::collections::HashSet;

use crate::data::{Data, SavedData, Thread, WeightUnit};
use tables::MergedTables;

/// A profile to merge.
#[derive(Clone, Debug)]
pub struct MergeInput {
    /// Added to the names of its processes if another input has a process of the same name.
    pub name: String,
    /// The profile.
    pub data: SavedData,
}

/// How the times of the profiles are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeAlignment {
    /// By the clock: simultaneous events are at one place.
    Clock,
    /// All profiles start at the same place.
    Start,
}

/// Why profiles can't be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// There is no input.
    #[error("there is no profile to merge")]
    Nothing,
    /// The samples of two inputs have different units, so their sums have no meaning.
    #[error(
        "{first} counts {first_unit} and {other} counts {other_unit}: these can't be added up; merge files of one kind"
    )]
    Units {
        /// Name of an input.
        first: String,
        /// Its unit.
        first_unit: String,
        /// Name of the other input.
        other: String,
        /// Its unit.
        other_unit: String,
    },
    /// The stacks exceed the 32-bit index.
    #[error("together they have more than {} stacks", u32::MAX - 1)]
    TooLarge,
}

/// By the clock if each profile overlaps another one or starts within a minute of another's end. Otherwise at one
/// start: profiles of two days would be too far apart on one timeline.
pub fn usual_align(inputs: &[MergeInput]) -> TimeAlignment {
    const GAP_MS: f64 = 60_000.0;
    let mut spans: Vec<(f64, f64)> = inputs.iter().map(|input| timeline::span_ms(&input.data)).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut last = f64::NEG_INFINITY;
    for (index, (start, end)) in spans.into_iter().enumerate() {
        if index > 0 && start > last + GAP_MS {
            return TimeAlignment::Start;
        }
        last = last.max(end);
    }
    TimeAlignment::Clock
}

/// Merges the profiles. The processes stay in the inputs' order; processes with one number stay separate.
///
/// # Errors
///
/// [`MergeError`]: no inputs, samples of different units, or more stacks than an index can number.
pub fn merge(inputs: Vec<MergeInput>, align: TimeAlignment) -> Result<SavedData, MergeError> {
    check_units(&inputs)?;
    let common = common_process_names(&inputs);
    let starts: Vec<f64> = inputs.iter().map(|input| timeline::span_ms(&input.data).0).collect();
    let first_start = starts.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let intervals_differ = inputs
        .windows(2)
        .any(|pair| pair[0].data.interval_ms != pair[1].data.interval_ms);
    let mut tables = MergedTables::default();
    let mut pids = HashSet::new();
    let mut whole: Option<Data> = None;
    for (
        MergeInput {
            name,
            data: SavedData(mut data),
        },
        start,
    ) in inputs.into_iter().zip(starts)
    {
        let shift_ms = match align {
            TimeAlignment::Clock => start - first_start,
            TimeAlignment::Start => 0.0,
        };
        timeline::shift(&mut data, shift_ms);
        if intervals_differ {
            weigh(&mut data);
        }
        tell_apart(&mut data, &name, &common, &mut pids);
        tables.adopt(&mut data)?;
        match &mut whole {
            None => {
                about::begin(&mut data, &name, first_start.min(start));
                whole = Some(data);
            }
            Some(whole) => about::append(whole, data, &name),
        }
    }
    let mut whole = whole.ok_or(MergeError::Nothing)?;
    tables.give(&mut whole);
    about::finish(&mut whole);
    Ok(SavedData(whole))
}

/// The unit of a profile's samples: the unit of the first thread that has samples.
fn unit_of(data: &Data) -> Option<String> {
    let thread = data.threads.iter().find(|thread| !thread.samples.is_empty())?;
    Some(match (thread.unit, &data.weights) {
        (WeightUnit::Bytes, _) => "bytes".to_owned(),
        (WeightUnit::Counts, Some(weights)) => weights.name.clone(),
        (WeightUnit::Counts, None) => thread.event.clone().unwrap_or_else(|| "events".to_owned()),
        // The unit of folded stacks is unknown.
        (WeightUnit::Samples, _) if data.is_summed => "samples".to_owned(),
        (WeightUnit::Samples | WeightUnit::Milliseconds, _) => "time".to_owned(),
    })
}

fn check_units(inputs: &[MergeInput]) -> Result<(), MergeError> {
    let mut units = inputs
        .iter()
        .filter_map(|input| Some((&input.name, unit_of(&input.data)?)));
    let Some((first, first_unit)) = units.next() else {
        return Ok(());
    };
    match units.find(|(_, unit)| *unit != first_unit) {
        None => Ok(()),
        Some((other, other_unit)) => Err(MergeError::Units {
            first: first.clone(),
            first_unit,
            other: other.clone(),
            other_unit,
        }),
    }
}

/// Names of processes that more than one input has.
fn common_process_names(inputs: &[MergeInput]) -> HashSet<String> {
    let (mut seen, mut common) = (HashSet::new(), HashSet::new());
    for input in inputs {
        let names: HashSet<&str> = (input.data.threads.iter())
            .map(|thread| thread.process_name.as_str())
            .collect();
        for name in names {
            if !seen.insert(name) {
                common.insert(name.to_owned());
            }
        }
    }
    common
}

/// Weighs samples by their file's interval, because each file may have another interval.
fn weigh(data: &mut Data) {
    let interval_ms = data.interval_ms;
    let counted = |thread: &&mut Thread| thread.unit == WeightUnit::Samples && thread.event.is_none();
    for thread in data.threads.iter_mut().filter(counted) {
        let weights = thread.samples.iter().map(|(_, _, weight)| weight * interval_ms);
        thread.samples.weight = Some(weights.collect());
        thread.unit = WeightUnit::Milliseconds;
    }
}

/// Gives processes unique numbers, and distinct names where two inputs have the same name.
fn tell_apart(data: &mut Data, input: &str, common: &HashSet<String>, pids: &mut HashSet<String>) {
    let mut renamed: Vec<(String, String)> = Vec::new();
    for pid in data.threads.iter().map(|thread| &thread.pid) {
        if renamed.iter().any(|(old, _)| old == pid) {
            continue;
        }
        // In the form of a number that one recording uses twice.
        let free = (1..)
            .map(|again| format!("{pid}.{again}"))
            .find(|pid| !pids.contains(pid));
        let new = match pids.contains(pid) {
            true => free.unwrap_or_default(),
            false => pid.clone(),
        };
        renamed.push((pid.clone(), new));
    }
    pids.extend(renamed.iter().map(|(_, new)| new.clone()));
    let new_pid = |pid: &str| {
        let found = renamed.iter().find(|(old, _)| old == pid);
        found.map_or_else(|| pid.to_owned(), |(_, new)| new.clone())
    };
    for thread in &mut data.threads {
        thread.pid = new_pid(&thread.pid);
        if common.contains(&thread.process_name) {
            thread.process_name = format!("{} ({input})", thread.process_name);
        }
    }
    for counter in &mut data.counters {
        if let Some(pid) = counter.fields.get_mut("pid") {
            *pid = new_pid(&pid.as_str().map_or_else(|| pid.to_string(), str::to_owned)).into();
        }
    }
}
