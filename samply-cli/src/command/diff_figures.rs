//! Comparison of other profilers' figures: amounts, without chance.

use std::fmt::Write as _;
use std::path::Path;

use profile::data::{Calls, Data};
use profile::view::diff::{Comparison, Sides, Total};

use super::diff::{count, describe_increase, name, shown, things};
use crate::args::{By, DiffArgs};
use crate::exit::Failure;
use crate::report::{bytes, counts, time};

/// Refuses files that count different things, and views that the files have no data for.
pub(super) fn check(files: &[(&Path, &Data)], by: By) -> Result<(), Failure> {
    let what = |data: &Data| match &data.weights {
        Some(weights) if weights.unit.is_empty() => weights.name.clone(),
        Some(weights) => format!("{} ({})", weights.name, weights.unit),
        None => data.event.clone().unwrap_or_else(|| "samples in time order".to_owned()),
    };
    let Some((first, rest)) = files.split_first() else {
        return Ok(());
    };
    if let Some(other) = rest.iter().find(|(_, data)| what(data) != what(first.1)) {
        return Err(Failure::failed(format_args!(
            "{} counts {}, {} counts {}: both must count the same; --event NAME chooses the event of a file",
            first.0.display(),
            what(first.1),
            other.0.display(),
            what(other.1)
        )));
    }
    match files
        .iter()
        .find(|(_, data)| by == By::Paths && data.calls != Calls::Paths)
    {
        Some((file, data)) => Err(Failure::failed(format_args!(
            "{}: {} has no call paths to compare; use --by functions, total or lines",
            file.display(),
            data.imported_from
        ))),
        None => Ok(()),
    }
}

/// An amount in the unit of the file.
pub(super) fn amount(sides: &Sides, amount: f64) -> String {
    use profile::data::Unit;
    match sides.unit {
        Unit::Milliseconds => time(amount),
        Unit::Bytes if amount >= 1e6 => bytes(amount),
        Unit::Bytes | Unit::Counts | Unit::Samples => counts(amount),
    }
}

fn weights(sides: &Sides) -> &str {
    sides.weights.as_deref().unwrap_or_default()
}

/// `+12.3 %`
fn change_of(before: f64, after: f64) -> String {
    match before > 0.0 {
        true => format!("{:+.1} %", (after / before - 1.0) * 100.0),
        false => "new".to_owned(),
    }
}

/// The lists of what takes more and less; `which` names the kind of amount in the titles.
pub(super) fn lists(args: &DiffArgs, compared: &Comparison, which: &str) -> String {
    let mut out = String::new();
    let (more, less): (Vec<_>, Vec<_>) = shown(args, compared).partition(|change| compared.delta(change) > 0.0);
    for (title, changes) in [("more", more), ("less", less)] {
        if changes.is_empty() {
            continue;
        }
        let what = weights(&compared.sides);
        let _ = writeln!(
            out,
            "\n{:>15} {:>15} {:>10} {:>9}  {title} {what}{which}",
            "before", "after", "change", "of all"
        );
        for change in changes {
            let _ = writeln!(
                out,
                "{:>15} {:>15} {:>10} {:>9}  {}",
                amount(&compared.sides, change.base.per_run),
                amount(&compared.sides, change.new.per_run),
                change_of(change.base.per_run, change.new.per_run),
                format!("{:+.1} %", compared.delta(change) * 100.0),
                name(change),
            );
        }
    }
    let _ = writeln!(out, "\n{}", conclusion(args, compared));
    out
}

pub(super) fn markdown(args: &DiffArgs, compared: &Comparison) -> String {
    let sides = &compared.sides;
    let mut out = format!("total: {}\n\n", describe_increase(sides, &sides.increase));
    let _ = writeln!(out, "{}\n", conclusion(args, compared));
    if !compared.changes.is_empty() {
        let _ = writeln!(
            out,
            "| | {0} before | after | change | of all |\n|---|---:|---:|---:|---:|",
            weights(&compared.sides)
        );
    }
    for change in shown(args, compared) {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {:+.1} % |",
            name(change).replace('|', "\\|").replace('`', "'"),
            amount(&compared.sides, change.base.per_run),
            amount(&compared.sides, change.new.per_run),
            change_of(change.base.per_run, change.new.per_run),
            compared.delta(change) * 100.0,
        );
    }
    let _ = writeln!(
        out,
        "\nbefore: {}; after: {}",
        describe(sides, &sides.base),
        describe(sides, &sides.new)
    );
    out
}

/// `1 file, 138,205 Ir a file`
pub(super) fn describe(sides: &Sides, total: &Total) -> String {
    format!(
        "{}, {} {} a file",
        count(total.recordings as u64, "file", "files"),
        amount(sides, total.per_run),
        weights(sides)
    )
}

fn conclusion(args: &DiffArgs, compared: &Comparison) -> String {
    let all = things(args, compared.tested);
    let changed = compared.changes.len();
    let cut = match changed > args.limit {
        true => format!(" ({} are shown; --limit {changed} shows all)", args.limit),
        false => String::new(),
    };
    format!(
        "{changed} of {all} changed by {} % of all or more (--min-change){cut}. Figures are compared as they are: what of it is chance \
         can't be told from such files.",
        args.limits.min_change
    )
}
