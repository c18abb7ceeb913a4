//! `sprof diff`: what got slower and faster between two sides of recordings.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use profile::data::{Calls, Data, Unit};
use profile::export::Time;
use profile::view::diff::{Amount, Change, Comparison, Increase, Limits, Renamed, Sides, Total, diff, match_libs};
use profile::view::select::{Filter, keep};
use recording::command::own;
use serde_json::{Value, json};

use super::export::{self, Target};
use super::{compare, diff_figures, differential, show};
use crate::args::{self, By, DiffArgs, DiffFormat, PartArgs};
use crate::exit::{Failure, Outcome, Status};
use crate::file_kind::FileKind;
use crate::input::{self, InputOptions};
use crate::report::calls;
use crate::screen;
use crate::serve::Listener;
use crate::term::Term;

/// Version of the JSON form. A changed field increases it, a new field does not.
const SCHEMA_VERSION: u32 = 1;

/// Runs the command.
pub(crate) fn run(args: &DiffArgs) -> Outcome {
    let term = Term::stderr(show::verbosity(&args.serve));
    let (base_files, new_files) = sides(args)?;
    check_svg(args)?;
    // Before anything is read: else a missing folder would be reported after minutes.
    let picture = args.flamegraph.as_deref();
    let target = picture
        .map(|path| Target::prepare(Some(path), FileKind::FlameGraph))
        .transpose()?;
    let listener = listener(args, base_files, new_files, &term)?;
    let options = InputOptions {
        event: args.event.clone(),
        symbol_dirs: args.serve.symbol_dir.clone(),
    };
    let read = read_sides(base_files, new_files, &options, &args.part.filter(), args.by, &term)?;
    let (base, new) = (&read.base, &read.new);
    if let Some(target) = target {
        let options = export::svg_options(&args.svg, false);
        let status = differential::write(target, base, new, Time::Cpu, &options, args.limits.into(), &term)?;
        if picture == Some(Path::new("-")) {
            return Ok(status);
        }
    }
    let compared = compared(base, new, args.by, args.limits.into())?;
    let text = match args.format {
        DiffFormat::Text => {
            let mut out = text(args, &compared, &read.renamed);
            let knows_calls = base.iter().all(|data| data.calls != Calls::Unknown);
            if args.by == By::Functions && knows_calls {
                // A helper that is called more often changes its callers' totals and not their own time, so this list has the totals.
                let total = self::compared(base, new, By::Total, args.limits.into())?;
                out += &lists(args, &total, ", with all that it calls");
            }
            out
        }
        DiffFormat::Md => markdown(args, &compared, &read.renamed),
        DiffFormat::Json => format!("{:#}\n", as_json(args, &compared, &read.renamed)),
    };
    screen::print("the comparison", |out| out.write_all(text.as_bytes()))?;
    match listener {
        Some(listener) => compare::serve(
            listener,
            &args.serve,
            (&base_files[0], &base[0]),
            (&new_files[0], &new[0]),
            &term,
        ),
        None => Ok(Status::SUCCESS),
    }
}

/// Opens a port for the UI, before anything is read.
fn listener(args: &DiffArgs, base: &[PathBuf], new: &[PathBuf], term: &Term) -> Result<Option<Listener>, Failure> {
    if !args.open {
        return Ok(None);
    }
    if !args.part.is_all() {
        return Err(Failure::from(args::usage_error(
            "diff",
            format_args!(
                "--open shows whole profiles, not {}: leave one away",
                args.part.describe().join(", ")
            ),
        )));
    }
    if base.len() != 1 || new.len() != 1 {
        return Err(Failure::from(args::usage_error(
            "diff",
            "the UI compares two profiles, not several a side: with --open, give two files",
        )));
    }
    show::warn_of_others(term, &args.serve);
    Listener::bind(&args.serve).map(Some).map_err(Failure::failed)
}

/// Refuses options of flame graphs that a comparison does not support.
fn check_svg(args: &DiffArgs) -> Result<(), Failure> {
    let problem = match (export::svg_option(&args.svg), &args.flamegraph) {
        (Some(option), None) => format!("{option} is for the flame graph: give --flamegraph FILE, too"),
        _ if args.svg.flame_chart => "two recordings cannot be compared in time order: leave --flame-chart away".into(),
        _ => return Ok(()),
    };
    Err(Failure::from(args::usage_error("diff", problem)))
}

/// The data of both sides.
pub(super) struct Read {
    pub(super) base: Vec<Data>,
    pub(super) new: Vec<Data>,
    /// Renamed libraries; in `base` they have their names of `new`.
    pub(super) renamed: Vec<Renamed>,
}

/// Reads the files of both sides, and selects samples.
pub(super) fn read_sides(
    base: &[PathBuf],
    new: &[PathBuf],
    options: &InputOptions,
    filter: &Filter,
    by: By,
    term: &Term,
) -> Result<Read, Failure> {
    let read = |files: &[PathBuf]| -> Result<Vec<_>, _> {
        files.iter().map(|file| read(file, options, filter, term)).collect()
    };
    let (mut base_data, new_data): (Vec<Data>, Vec<Data>) = (read(base)?, read(new)?);
    let files = base.iter().zip(&base_data).chain(new.iter().zip(&new_data));
    let files: Vec<(&Path, &Data)> = files.map(|(file, data)| (file.as_path(), data)).collect();
    diff_figures::check(&files, by)?;
    let renamed = match_libs(&mut base_data, &new_data);
    Ok(Read {
        base: base_data,
        new: new_data,
        renamed,
    })
}

/// Compares both sides.
pub(super) fn compared(base: &[Data], new: &[Data], by: By, limits: Limits) -> Result<Comparison, Failure> {
    let compared = diff(base, new, by.into(), limits);
    check_sides(&compared.sides)?;
    Ok(compared)
}

/// Refuses to compare nothing.
pub(super) fn check_sides(sides: &Sides) -> Result<(), Failure> {
    for (side, total) in [("before", &sides.base), ("after", &sides.new)] {
        if total.samples == 0 && (sides.weights.is_none() || total.per_run <= 0.0) {
            return Err(Failure::failed(format_args!(
                "the profiles from {side} hold no samples of running threads: there is nothing to compare; \
                 `{} report FILE` shows what a profile holds",
                own()
            )));
        }
    }
    Ok(())
}

fn read(file: &Path, options: &InputOptions, filter: &Filter, term: &Term) -> Result<Data, Failure> {
    let mut input = input::open(file, options, term)?;
    for note in &input.notes {
        term.warning(format_args!("{}: {note}", file.display()));
    }
    calls::check_conditions(file, &input.data, filter)?;
    keep(&mut input.data, filter).map_err(|error| Failure::failed(format_args!("{}: {error}", file.display())))?;
    Ok(input.data)
}

/// The files from before and from after.
fn sides(args: &DiffArgs) -> Result<(&[PathBuf], &[PathBuf]), Failure> {
    match (&args.files[..], &args.new[..]) {
        ([base, new], []) => Ok((std::slice::from_ref(base), std::slice::from_ref(new))),
        (base, new) if !new.is_empty() => Ok((base, new)),
        (files, _) => Err(Failure::from(args::usage_error(
            "diff",
            format_args!(
                "{} given: give two profiles, or several a side: {} diff OLD OLD --new NEW NEW",
                count(files.len() as u64, "file is", "files are"),
                own()
            ),
        ))),
    }
}

fn text(args: &DiffArgs, compared: &Comparison, renamed: &[Renamed]) -> String {
    let sides = &compared.sides;
    let mut out = String::new();
    for (name, total) in [("before", &sides.base), ("after", &sides.new)] {
        let _ = writeln!(out, "{name:>7}: {}", describe(sides, total));
    }
    let _ = writeln!(out, "  total: {}", describe_increase(sides, &sides.increase));
    for line in about(&args.part, renamed) {
        let _ = writeln!(out, "         {line}");
    }
    out + &lists(args, compared, "")
}

/// Lines on the selected samples and the renamed libraries.
pub(super) fn about(part: &PartArgs, renamed: &[Renamed]) -> Vec<String> {
    let mut lines = Vec::new();
    if !part.is_all() {
        lines.push(format!("only {}", part.describe().join(", ")));
    }
    lines.extend(
        renamed
            .iter()
            .map(|Renamed { base, new }| format!("{base} before is {new} after")),
    );
    lines
}

/// `+20.1 % time (95 % sure: +14.9 to +25.6 %)`
pub(super) fn describe_increase(sides: &Sides, increase: &Increase) -> String {
    let what = match (&sides.weights, sides.unit) {
        (Some(weights), _) => weights,
        (None, Unit::Milliseconds) => "time",
        (None, _) => unit(sides),
    };
    match sides.weights {
        Some(_) => format!("{} {what}", signed_percent(increase.by)),
        None => format!(
            "{} {what} ({})",
            signed_percent(increase.by),
            range(sides, increase.range)
        ),
    }
}

/// `95 % sure: +14.9 to +25.6 %`
pub(super) fn range(sides: &Sides, (low, high): (f64, f64)) -> String {
    let sure = 100.0 * sides.confidence;
    match high.is_finite() {
        true => format!("{sure} % sure: {:+.1} to {}", low * 100.0, signed_percent(high)),
        false => format!("{sure} % sure: {} or more", signed_percent(low)),
    }
}

/// `+3.1 %`
pub(super) fn signed_percent(part: f64) -> String {
    match part.is_finite() {
        true => format!("{:+.1} %", part * 100.0),
        false => "new".to_owned(),
    }
}

/// The lists of what got slower and faster; `which` names the kind of time in the titles.
fn lists(args: &DiffArgs, compared: &Comparison, which: &str) -> String {
    if compared.sides.weights.is_some() {
        return diff_figures::lists(args, compared, which);
    }
    let mut out = String::new();
    let (slower, faster): (Vec<_>, Vec<_>) = shown(args, compared).partition(|change| change.share_delta() > 0.0);
    for (title, changes) in [("slower", slower), ("faster", faster)] {
        if changes.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "\n{:>9} {:>9} {:>9}   {:<17} {:>21}  {title}{which}",
            "before",
            "after",
            "points",
            "95 % sure",
            format!("{} a run", unit(&compared.sides))
        );
        for change in changes {
            let (low, high) = change.share_change;
            let _ = writeln!(
                out,
                "{:>9} {:>9} {:>+9.1}   {:<17} {:>21}  {}",
                percent(change.base.share),
                percent(change.new.share),
                change.share_delta() * 100.0,
                format!("{:+.1} to {:+.1}", low * 100.0, high * 100.0),
                format!("{:.0} -> {:.0}", change.base.per_run, change.new.per_run),
                name(change),
            );
        }
    }
    let _ = writeln!(out, "\n{}", conclusion(args, compared));
    out
}

fn markdown(args: &DiffArgs, compared: &Comparison, renamed: &[Renamed]) -> String {
    let sides = &compared.sides;
    if sides.weights.is_some() {
        return diff_figures::markdown(args, compared);
    }
    let mut out = format!("total: {}\n\n", describe_increase(sides, &sides.increase));
    let _ = writeln!(out, "{}\n", conclusion(args, compared));
    if !compared.changes.is_empty() {
        let _ = writeln!(
            out,
            "| | before | after | points | 95 % sure | ms a run |\n|---|---:|---:|---:|---:|---:|"
        );
    }
    for change in shown(args, compared) {
        let (low, high) = change.share_change;
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {:+.1} | {:+.1} to {:+.1} | {:.0} → {:.0} |",
            name(change).replace('|', "\\|").replace('`', "'"),
            percent(change.base.share),
            percent(change.new.share),
            change.share_delta() * 100.0,
            low * 100.0,
            high * 100.0,
            change.base.per_run,
            change.new.per_run,
        );
    }
    let mut notes = vec![
        format!("before: {}", describe(sides, &sides.base)),
        format!("after: {}", describe(sides, &sides.new)),
    ];
    notes.extend(about(&args.part, renamed));
    let _ = writeln!(out, "\n{}", notes.join("; "));
    out
}

fn as_json(args: &DiffArgs, compared: &Comparison, renamed: &[Renamed]) -> Value {
    let sides = &compared.sides;
    // Counted figures have no samples, and no chance.
    let sampled = |value: Value| if sides.weights.is_none() { value } else { Value::Null };
    let total = |total: &Total| json!({"recordings": total.recordings, "runs": total.runs, "empty_runs": total.empty_runs, "samples": sampled(total.samples.into()), "per_run": total.per_run});
    let amount = |amount: &Amount| json!({"samples": sampled(amount.samples.into()), "share": amount.share, "per_run": amount.per_run});
    let changes: Vec<Value> = shown(args, compared)
        .map(|change| {
            json!({
                "function": change.function,
                "library": change.lib,
                "file": change.line.as_ref().map(|(file, _)| file),
                "line": change.line.as_ref().map(|(_, line)| line),
                "callers": change.callers,
                "base": amount(&change.base),
                "new": amount(&change.new),
                "share_change": change.share_delta(),
                "share_change_95": sampled(json!([change.share_change.0, change.share_change.1])),
                "p": sampled(change.p.into()),
            })
        })
        .collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "by": match args.by {
            By::Functions => "functions",
            By::Inlined => "inlined",
            By::Total => "total",
            By::Lines => "lines",
            By::Paths => "paths",
        },
        "base": total(&sides.base),
        "new": total(&sides.new),
        "increase": finite(sides.increase.by),
        "increase_95": sampled(json!([finite(sides.increase.range.0), finite(sides.increase.range.1)])),
        "only": args.part.describe(),
        "renamed": renamed.iter().map(|Renamed { base, new }| json!({"base": base, "new": new})).collect::<Vec<_>>(),
        "unit": unit(sides),
        "weights": sides.weights,
        "tested": compared.tested,
        "false_discoveries": Limits::from(args.limits).false_discoveries,
        "least_change": Limits::from(args.limits).least_change,
        "changed": compared.changes.len(),
        "changes": changes,
    })
}

/// `None` for infinity, which JSON lacks.
pub(super) fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

pub(super) fn shown<'a>(args: &DiffArgs, compared: &'a Comparison) -> impl Iterator<Item = &'a Change> {
    compared.changes.iter().take(args.limit)
}

/// `12 functions`
pub(super) fn things(args: &DiffArgs, number: usize) -> String {
    let (one, many) = match args.by {
        By::Functions | By::Inlined | By::Total => ("function", "functions"),
        By::Lines => ("line", "lines"),
        By::Paths => ("call path", "call paths"),
    };
    count(number as u64, one, many)
}

fn conclusion(args: &DiffArgs, compared: &Comparison) -> String {
    let tested = things(args, compared.tested);
    let changed = compared.changes.len();
    if changed == 0 {
        return format!(
            "No change: of {tested} with samples enough, none differs by {} % of all samples or more, and by more than chance. \
             Longer recordings, or several a side (--new), find smaller changes; --min-change shows them.",
            args.limits.min_change
        );
    }
    let cut = match changed > args.limit {
        true => format!(" ({} are shown; --limit {changed} shows all)", args.limit),
        false => String::new(),
    };
    format!(
        "{changed} of {tested} changed{cut}; of such lists at most {} % of the entries are chance.",
        args.limits.false_discoveries
    )
}

/// `10 runs in 1 recording, 10342 samples, 1034 ms a run`
pub(super) fn describe(sides: &Sides, total: &Total) -> String {
    if sides.weights.is_some() {
        return diff_figures::describe(sides, total);
    }
    let recordings = count(total.recordings as u64, "recording", "recordings");
    let mut text = format!(
        "{}, {}, {:.0} {} a run",
        match total.runs == total.recordings {
            true => recordings,
            false => format!("{} in {recordings}", count(total.runs as u64, "run", "runs")),
        },
        count(total.samples, "sample", "samples"),
        total.per_run,
        unit(sides),
    );
    if total.empty_runs > 0 {
        let empty = count(total.empty_runs as u64, "run has", "runs have");
        let _ = write!(text, "; {empty} no sample and is left out");
    }
    text
}

/// The unit of amounts.
pub(super) fn unit(sides: &Sides) -> &str {
    match sides.unit {
        Unit::Milliseconds => "ms",
        Unit::Samples => "samples",
        Unit::Bytes => "bytes",
        Unit::Counts => sides.event.as_deref().unwrap_or("count"),
    }
}

pub(super) fn name(change: &Change) -> String {
    let mut name = change.function.clone();
    if let Some(caller) = change.callers.last() {
        // The JSON has the whole path.
        let above = change.callers.len() - 1;
        name = match above {
            0 => format!("{caller} > {name}"),
            _ => format!("({above} more) > {caller} > {name}"),
        };
    }
    if let Some((file, line)) = &change.line {
        let file = file.rsplit('/').next().unwrap_or(file);
        let _ = write!(name, "  {file}:{line}");
    } else if let Some(lib) = &change.lib {
        let _ = write!(name, "  [{lib}]");
    }
    let is_nothing = |amount: &Amount| amount.samples == 0 && amount.per_run == 0.0;
    match (is_nothing(&change.base), is_nothing(&change.new)) {
        (true, _) => name + "  (new)",
        (_, true) => name + "  (gone)",
        _ => name,
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
