//! Several profiles as one: the threads of all as tracks of one timeline, over tables that they share.
//!
//! 1. `tables`: texts, functions, frames and stacks of one profile among those of all.
//! 2. `timeline`: what of a profile has a time.
//! 3. `about`: what is said of the whole.

mod about;
mod tables;
mod timeline;

use std::collections::HashSet;

use crate::data::{Data, Saved, Thread, Unit};
use tables::Tables;

/// A profile to merge.
#[derive(Clone, Debug)]
pub struct Input {
    /// What its processes are told apart by, where two inputs have processes of one name.
    pub name: String,
    /// The profile.
    pub data: Saved,
}

/// How the times of profiles relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// By the clock: what happened at one time stands at one place.
    Clock,
    /// All begin at the same place.
    Start,
}

/// Why profiles can't be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Nothing to merge.
    #[error("there is no profile to merge")]
    Nothing,
    /// Sums of different things say nothing.
    #[error(
        "{first} counts {first_unit} and {other} counts {other_unit}: these can't be added up; merge files of one kind"
    )]
    Units {
        /// Name of an input.
        first: String,
        /// What it counts.
        first_unit: String,
        /// Name of the other input.
        other: String,
        /// What it counts.
        other_unit: String,
    },
    /// An index is 32 bits.
    #[error("together they have more than {} stacks", u32::MAX - 1)]
    TooLarge,
}

/// By the clock where each overlaps in time with another one, or begins within a minute of its end; else all begin at one place:
/// between recordings of two days there is nothing to see.
pub fn usual_align(inputs: &[Input]) -> Align {
    const GAP_MS: f64 = 60_000.0;
    let mut spans: Vec<(f64, f64)> = inputs.iter().map(|input| timeline::span_ms(&input.data)).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut last = f64::NEG_INFINITY;
    for (index, (start, end)) in spans.into_iter().enumerate() {
        if index > 0 && start > last + GAP_MS {
            return Align::Start;
        }
        last = last.max(end);
    }
    Align::Clock
}

/// One profile of all. Its processes are those of all, in this order: two with one number stay two.
pub fn merge(inputs: Vec<Input>, align: Align) -> Result<Saved, MergeError> {
    check_units(&inputs)?;
    let common = common_process_names(&inputs);
    let starts: Vec<f64> = inputs.iter().map(|input| timeline::span_ms(&input.data).0).collect();
    let first_start = starts.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let intervals_differ = inputs
        .windows(2)
        .any(|pair| pair[0].data.interval_ms != pair[1].data.interval_ms);
    let mut tables = Tables::default();
    let mut pids = HashSet::new();
    let mut whole: Option<Data> = None;
    for (
        Input {
            name,
            data: Saved(mut data),
        },
        start,
    ) in inputs.into_iter().zip(starts)
    {
        let shift_ms = match align {
            Align::Clock => start - first_start,
            Align::Start => 0.0,
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
    Ok(Saved(whole))
}

/// What the samples of a profile count, by the first thread that has any.
fn unit_of(data: &Data) -> Option<String> {
    let thread = data.threads.iter().find(|thread| !thread.samples.is_empty())?;
    Some(match (thread.unit, &data.weights) {
        (Unit::Bytes, _) => "bytes".to_owned(),
        (Unit::Counts, Some(weights)) => weights.name.clone(),
        (Unit::Counts, None) => thread.event.clone().unwrap_or_else(|| "events".to_owned()),
        // Of folded stacks nobody knows what a sample stands for.
        (Unit::Samples, _) if data.is_summed => "samples".to_owned(),
        (Unit::Samples | Unit::Milliseconds, _) => "time".to_owned(),
    })
}

fn check_units(inputs: &[Input]) -> Result<(), MergeError> {
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
fn common_process_names(inputs: &[Input]) -> HashSet<String> {
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

/// Gives samples that each stand for the interval of their file a weight of that time: another file has another interval.
fn weigh(data: &mut Data) {
    let interval_ms = data.interval_ms;
    let counted = |thread: &&mut Thread| thread.unit == Unit::Samples && thread.event.is_none();
    for thread in data.threads.iter_mut().filter(counted) {
        let weights = thread.samples.iter().map(|(_, _, weight)| weight * interval_ms);
        thread.samples.weight = Some(weights.collect());
        thread.unit = Unit::Milliseconds;
    }
}

/// Gives processes numbers of their own, and names where another input has the same.
fn tell_apart(data: &mut Data, input: &str, common: &HashSet<String>, pids: &mut HashSet<String>) {
    let mut renamed: Vec<(String, String)> = Vec::new();
    for pid in data.threads.iter().map(|thread| &thread.pid) {
        if renamed.iter().any(|(old, _)| old == pid) {
            continue;
        }
        // As a number that is used twice in one recording.
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
