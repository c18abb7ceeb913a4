//! Sides, amounts and changes in words. Figures of other profilers are compared without chance, in the unit of their
//! files.

use std::fmt::Write as _;

use names::source_path::SourcePath;

use super::estimate::VARYING_MEMORY;
use super::{Change, Compared, Increase, KeyAmount, Renamed, SideTotal, Sides, VARYING};
use crate::data::WeightUnit;
use crate::text::numbers::{bytes, count, counts, time};
use crate::view::names::written;

/// A line for each renamed library.
pub fn renamed_libs(renamed: &[Renamed]) -> impl Iterator<Item = String> {
    let line = |Renamed { base, new }: &Renamed| format!("{base} before is {new} after");
    renamed.iter().map(line)
}

/// Name of the compared time in a list, to follow `slower`.
pub fn which(what: Compared) -> &'static str {
    match what {
        Compared::Inlined => ", by self: inlined functions each on their own",
        Compared::Own => ", by self with what is inlined",
        Compared::Total => ", with all that it calls",
        Compared::Lines | Compared::Paths => "",
    }
}

/// What the confidence intervals of sampled sides rest on, a sentence each.
pub fn basis(sides: &Sides) -> Vec<String> {
    if sides.weights.is_some() {
        return Vec::new();
    }
    let least = |of: fn(&SideTotal) -> usize| of(&sides.base).min(of(&sides.new));
    let sum = |of: fn(&SideTotal) -> usize| of(&sides.base) + of(&sides.new);
    let (windows, unstated) = (sum(|total| total.windows), sum(|total| total.unstated));
    let mut notes = Vec::new();
    if windows > unstated {
        notes.push(format!(
            "{} of time, not whole runs of the program: chance is estimated from blocks of time",
            count(
                (windows - unstated) as u64,
                "recording is a window",
                "recordings are windows"
            ),
        ));
    }
    if unstated > 0 {
        notes.push(format!(
            "{} not say whether the program ran to its end, so chance is estimated from blocks of time",
            count(unstated as u64, "recording does", "recordings do"),
        ));
    }
    let untimed = sum(|total| total.untimed);
    if untimed > 0 {
        notes.push(format!(
            "the samples of {} have no times, so only the chance of counting them is known",
            count(untimed as u64, "file", "files"),
        ));
    }
    for (side, total) in [("before", &sides.base), ("after", &sides.new)] {
        let (seen, grown) = total.seen_of_growth;
        // The rest is not of the heap, or nobody saw it.
        if grown >= 1 << 20 && seen < grown / 4 * 3 {
            let [seen, grown] = [seen, grown].map(|of| bytes(of as f64));
            notes.push(format!(
                "the heap {side} is {seen} of the {grown} that memory grew by: the rest is not compared"
            ));
        }
        if total.lost > 0.0 {
            notes.push(format!(
                "blocks that were lost stand for {} a run {side}: sums may be as much larger; a longer interval between sampled blocks loses less",
                amount_and_unit(sides, total.lost)
            ));
        }
    }
    let assumed = 100.0 * if sides.is_heap { VARYING_MEMORY } else { VARYING };
    if least(|total| total.runs) < 2 {
        notes.push(format!(
            "one run does not show how much runs differ: a standard deviation of {assumed} % is assumed"
        ));
    } else if least(|total| total.recordings) < 2 {
        notes.push(format!(
            "one recording does not show how much {} differs: a standard deviation of {assumed} % is assumed",
            if sides.is_heap {
                "memory"
            } else {
                "the speed of the machine"
            }
        ));
    }
    notes
}

/// `10 runs in 1 recording, 10,342 samples, 1034 ms a run`; of figures `1 file, 138,205 Ir a file`.
pub fn describe(sides: &Sides, total: &SideTotal) -> String {
    if let Some(weights) = &sides.weights {
        let files = count(total.recordings as u64, "file", "files");
        return format!("{files}, {} {weights} a file", amount(sides, total.per_run));
    }
    let recordings = count(total.recordings as u64, "recording", "recordings");
    let mut text = format!(
        "{}, {}, {} a run",
        match total.runs == total.recordings {
            true => recordings,
            false => format!("{} in {recordings}", count(total.runs as u64, "run", "runs")),
        },
        count(total.samples, "sample", "samples"),
        amount_and_unit(sides, total.per_run),
    );
    if total.empty_runs > 0 {
        let empty = count(total.empty_runs as u64, "run has", "runs have");
        let _ = write!(text, "; {empty} no sample and is left out");
    }
    text
}

/// `+20.1 % time (95 % sure: +14.9 to +25.6 %)`; of exact counts `+20,000 Ir (+1.0 %)`
pub fn describe_increase(sides: &Sides, increase: &Increase) -> String {
    let by = signed_percent(increase.by);
    match (&sides.weights, sides.unit) {
        (Some(weights), _) if sides.is_exact => {
            let change = increase.new - increase.base;
            let sign = if change < 0.0 { '-' } else { '+' };
            format!("{sign}{} {weights} ({by})", amount(sides, change.abs()))
        }
        (Some(weights), _) => format!("{by} {weights}"),
        (None, WeightUnit::Milliseconds) => format!("{by} time ({})", range(sides.confidence, increase.range)),
        (None, _) => format!("{by} {} ({})", counted(sides), range(sides.confidence, increase.range)),
    }
}

/// `95 % sure: +14.9 to +25.6 %`; a confidence of 0 to 1.
pub fn range(confidence: f64, (low, high): (f64, f64)) -> String {
    let sure = 100.0 * confidence;
    match high.is_finite() {
        true => format!("{sure} % sure: {:+.1} to {}", low * 100.0, signed_percent(high)),
        false => format!("{sure} % sure: {} or more", signed_percent(low)),
    }
}

/// `+3.1 %`
pub fn signed_percent(part: f64) -> String {
    match part.is_finite() {
        true => format!("{:+.1} %", part * 100.0),
        false => "new".to_owned(),
    }
}

/// `None` for infinity, which JSON lacks.
pub fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

/// A figure in the unit of its file.
pub fn amount(sides: &Sides, amount: f64) -> String {
    match sides.unit {
        WeightUnit::Milliseconds => time(amount),
        WeightUnit::Bytes if amount >= 1e6 || sides.is_heap => bytes(amount),
        WeightUnit::Bytes | WeightUnit::Counts | WeightUnit::Samples => counts(amount),
    }
}

/// `1034 ms`, `12 page-faults`, `557.2 MB allocated`
pub fn amount_and_unit(sides: &Sides, of_run: f64) -> String {
    match sides.is_heap {
        true => format!("{} {}", amount(sides, of_run), counted(sides)),
        false => format!("{of_run:.0} {}", unit(sides)),
    }
}

/// What is counted: the measure of a heap, or the unit.
pub fn counted(sides: &Sides) -> &str {
    match &sides.event {
        Some(measure) if sides.is_heap => measure,
        _ => unit(sides),
    }
}

/// The unit of amounts.
pub fn unit(sides: &Sides) -> &str {
    match sides.unit {
        WeightUnit::Milliseconds => "ms",
        WeightUnit::Samples => "samples",
        WeightUnit::Bytes => "bytes",
        WeightUnit::Counts => sides.event.as_deref().unwrap_or("count"),
    }
}

/// `12 functions`
pub fn things(what: Compared, number: usize) -> String {
    let (one, many) = match what {
        Compared::Own | Compared::Inlined | Compared::Total => ("function", "functions"),
        Compared::Lines => ("line", "lines"),
        Compared::Paths => ("call path", "call paths"),
    };
    count(number as u64, one, many)
}

/// The function as people write it, with its caller, line or library. Marked if one side has no sample of it.
pub fn name(change: &Change) -> String {
    let mut name = written(&change.function);
    if let Some(caller) = change.callers.last().map(|caller| written(caller)) {
        // The JSON has the whole path.
        let above = change.callers.len() - 1;
        name = match above {
            0 => format!("{caller} > {name}"),
            _ => format!("({above} more) > {caller} > {name}"),
        };
    }
    if let Some((file, line)) = &change.line {
        let path = SourcePath::parse(file).short();
        let file = path.rsplit('/').next().unwrap_or(&path);
        let _ = write!(name, "  {file}:{line}");
    } else if let Some(lib) = &change.lib {
        let _ = write!(name, "  [{lib}]");
    }
    let is_nothing = |amount: &KeyAmount| amount.samples == 0 && amount.per_run == 0.0;
    match (is_nothing(&change.base), is_nothing(&change.new)) {
        (true, _) => name + "  (new)",
        (_, true) => name + "  (gone)",
        _ => name,
    }
}
