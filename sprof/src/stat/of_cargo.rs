//! Counts what cargo runs, without cargo and the build: each program has a sprof of its own, which leaves its counts in
//! a file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use recording::counting::{CountedProgram, CountedRun, Measure, Missing, Reading};
use recording::session::ProgramExit;
use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Outcome, Status};
use crate::recorder::RunCounter;

/// How the names of such files begin.
const PREFIX: &str = "counts-";

/// What a program took.
#[derive(Serialize, Deserialize)]
struct LeftCounts {
    /// When it ended, ns after 1970.
    end_ns: u64,
    stolen_ns: u64,
    readings: Vec<LeftReading>,
    /// Names and reasons.
    missing: Vec<(Vec<String>, String)>,
}

#[derive(Serialize, Deserialize)]
struct LeftReading {
    measure: String,
    value: f64,
    counted: f64,
    user_only: bool,
    at_least: bool,
}

/// Runs a program of cargo in the place of cargo, and leaves its counts in this folder. The status is the program's.
pub(crate) fn run(folder: &Path, events: &[String], command: Vec<OsString>) -> Outcome {
    let env = Vec::new();
    let run = RunCounter::new(events)?.run(&CountedProgram { command, env })?;
    let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = LeftCounts {
        end_ns: u64::try_from(end.as_nanos()).unwrap_or(u64::MAX),
        stolen_ns: run.stolen_ns,
        readings: { run.readings.iter() }
            .map(|reading| LeftReading {
                measure: reading.measure.name().to_owned(),
                value: reading.value,
                counted: reading.counted,
                user_only: reading.user_only,
                at_least: reading.at_least,
            })
            .collect(),
        missing: { run.missing.into_iter() }
            .map(|missing| {
                let names = missing.measures.iter().map(|measure| measure.name().to_owned());
                (names.collect(), missing.reason)
            })
            .collect(),
    };
    let path = folder.join(format!("{PREFIX}{}", std::process::id()));
    let bytes = serde_json::to_vec(&left).map_err(Failure::failed)?;
    std::fs::write(&path, bytes)
        .map_err(|error| Failure::failed(format_args!("cannot write {}: {error}", path.display())))?;
    Ok(Status::from(run.exit))
}

/// Takes what was left in the folder since the last time, as one run, and the number of programs. `None`: nothing.
pub(crate) fn take(folder: &Path, exit: ProgramExit, is_interrupted: bool) -> Option<(CountedRun, usize)> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let paths = entries.map(|entry| entry.path());
    let is_left = |path: &std::path::PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
    };
    let take = |path: std::path::PathBuf| -> Option<LeftCounts> {
        let bytes = std::fs::read(&path).ok()?;
        let _ = std::fs::remove_file(&path);
        serde_json::from_slice(&bytes).ok()
    };
    let all: Vec<LeftCounts> = paths.filter(is_left).filter_map(take).collect();
    let mut run = CountedRun {
        exit,
        readings: Vec::new(),
        missing: Vec::new(),
        stolen_ns: all.iter().map(|left| left.stolen_ns).fold(0, u64::saturating_add),
        is_interrupted,
    };
    let names = all
        .iter()
        .flat_map(|left| &left.readings)
        .map(|reading| reading.measure.as_str());
    let names: BTreeSet<&str> = names.collect();
    let measures: BTreeSet<Measure> = names.into_iter().map(Measure::named).collect();
    for measure in measures {
        let found = || {
            all.iter()
                .flat_map(|left| &left.readings)
                .filter(|reading| reading.measure == measure.name())
        };
        let values = found().map(|reading| reading.value);
        run.readings.push(Reading {
            measure,
            value: match measure {
                Measure::Wall => covered_ns(&all),
                Measure::PeakMemory => values.fold(0.0, f64::max),
                _ => values.sum(),
            },
            counted: found().map(|reading| reading.counted).fold(1.0, f64::min),
            user_only: found().any(|reading| reading.user_only),
            at_least: found().any(|reading| reading.at_least)
                || (found().count() < all.len() && measure != Measure::PeakMemory),
        });
    }
    let is_read = |measure: &Measure| run.readings.iter().any(|reading| reading.measure == *measure);
    for (names, reason) in all.iter().flat_map(|left| &left.missing) {
        let measures = names.iter().map(|name| Measure::named(name));
        let missing = Missing {
            measures: measures.filter(|measure| !is_read(measure)).collect(),
            reason: reason.clone(),
        };
        if !missing.measures.is_empty() && !run.missing.contains(&missing) {
            run.missing.push(missing);
        }
    }
    (!all.is_empty()).then_some((run, all.len()))
}

/// Time in which at least one of the programs ran: some runners start several at once.
fn covered_ns(all: &[LeftCounts]) -> f64 {
    let mut times: Vec<(f64, f64)> = { all.iter() }
        .map(|left| {
            let wall = left
                .readings
                .iter()
                .find(|reading| reading.measure == Measure::Wall.name());
            let end = left.end_ns as f64;
            (end - wall.map_or(0.0, |wall| wall.value), end)
        })
        .collect();
    times.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut covered = (0.0, f64::MIN);
    for (start, end) in times {
        covered = (covered.0 + (end - start.max(covered.1)).max(0.0), end.max(covered.1));
    }
    covered.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_run_at_once_take_their_common_time() {
        let left = |start: f64, end: u64| LeftCounts {
            end_ns: end,
            stolen_ns: 0,
            readings: vec![LeftReading {
                measure: "wall".to_owned(),
                value: end as f64 - start,
                counted: 1.0,
                user_only: false,
                at_least: false,
            }],
            missing: Vec::new(),
        };
        assert_eq!(covered_ns(&[left(10.0, 20), left(30.0, 35)]), 15.0);
        assert_eq!(covered_ns(&[left(10.0, 20), left(12.0, 15), left(18.0, 25)]), 15.0);
        assert_eq!(covered_ns(&[]), 0.0);
    }
}
