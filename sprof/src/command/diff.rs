//! `sprof diff`: what got slower and faster between two sides of recordings.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use profile::data::Calls;
use profile::export::PickedTime;
use profile::export::html::{self, DiffOptions};
use profile::text::numbers::count;
use profile::text::one_line;
use profile::view::diff::describe::{basis, describe, describe_increase, finite, unit, which};
use profile::view::diff::list::{ChangeList, ListOptions};
use profile::view::diff::sides::{ReadSides, check_sides};
use profile::view::diff::{Change, Compared, Comparison, DiffLimits, KeyAmount, Renamed, SideTotal, Sides, diff};
use recording::command::own;
use serde_json::{Value, json};
use server::Listener;

use super::check::new_and_base;
use super::target::ResultTarget;
use super::{compare, differential, export, show};
use crate::args::{self, By, DiffArgs, DiffFormat, WantedSamples};
use crate::diff::read::ReadOptions;
use crate::diff::server_queries::{self, SideFiles};
use crate::exit::{Failure, Outcome, Status};
use crate::output::file_kind::FileKind;
use crate::output::json;
use crate::terminal::Term;

/// Version of the JSON form. A changed field increases it, a new field does not.
const SCHEMA_VERSION: u32 = 1;

pub(crate) fn run(args: &DiffArgs) -> Outcome {
    let term = Term::stderr(args.serve.input.verbosity());
    let (base_files, new_files) = sides(args)?;
    check_svg(args)?;
    // Checked before anything is read, so that a missing folder is not reported after minutes.
    let picture = args.flamegraph.as_deref();
    let target = picture
        .map(|path| ResultTarget::prepare(Some(path), FileKind::FlameGraph))
        .transpose()?;
    let html = args.html.as_deref();
    let page_target = html
        .map(|path| ResultTarget::prepare(Some(path), FileKind::Page))
        .transpose()?;
    let kind = match args.format() {
        DiffFormat::Text => FileKind::ReportText,
        DiffFormat::Md => FileKind::ReportMarkdown,
        DiffFormat::Json => FileKind::ReportJson,
    };
    let list_target = ResultTarget::for_text(args.output.as_deref(), kind)?;
    let listener = listener(args, base_files, new_files, &term)?;
    let files = |words| SideFiles::of(words, args.plain_http, &term);
    let (base_files, new_files) = (files(base_files)?, files(new_files)?);
    let reading = ReadOptions {
        wanted: WantedSamples::new(args.event.name(), &args.heap, args.part.filter()),
        symbols: &args.serve.input.symbols,
        filter: args.part.filter(),
        by: args.by,
        adds_up: true,
        warns: true,
        term: &term,
    };
    let (mut read, slowest) = match &args.files[..] {
        [file] if is_of_slowest(args) => {
            let (read, line) = reading.slowest(file)?;
            (read, Some(line))
        }
        _ => (reading.sides(&base_files.paths, &new_files.paths)?, None),
    };
    let scaled = server_queries::scale(
        &mut read.base,
        &mut read.new,
        [base_files.are_asked, new_files.are_asked],
    );
    let (base, new, limits) = (&read.base, &read.new, DiffLimits::from(args.limits));
    if let Some(target) = target {
        let options = export::svg_options(&args.svg, false);
        let status = differential::write(target, base, new, PickedTime::Cpu, &options, limits, &term)?;
        if picture == Some(Path::new("-")) {
            return Ok(status);
        }
    }
    let by = args.by.resolve(base, new);
    let compared = compared(&read, by, limits)?;
    let mut notes = args.part.about(&read.renamed);
    notes.extend(slowest);
    notes.extend(scaled.clone());
    notes.extend(basis(&compared.sides));
    let (base_files, new_files) = (&base_files.paths, &new_files.paths);
    let options = ListOptions {
        what: by.into(),
        false_discoveries_percent: args.limits.false_discoveries,
        min_change_percent: args.limits.min_change,
        limit: args.limit,
        names_options: true,
    };
    let for_page = ChangeList {
        options: ListOptions {
            names_options: false,
            ..options
        },
        compared: &compared,
    };
    let page_notes = [&notes[..], &[for_page.conclusion()]].concat();
    let page = ViewerHeading::of(args, base_files, new_files, &compared.sides, &page_notes);
    if let Some(target) = page_target {
        let status = target.write(&term, |out| html::write_diff(base, new, limits, &page.options(), out))?;
        if html == Some(Path::new("-")) {
            return Ok(status);
        }
    }
    let list = ChangeList {
        options,
        compared: &compared,
    };
    let knows_calls = base.iter().all(|data| data.calls != Calls::Unknown);
    let totals = match (args.format(), args.by, knows_calls) {
        // A helper that is called more often changes its callers' totals and not their own time, so this list has the
        // totals.
        (DiffFormat::Text, By::Functions, true) => Some(self::compared(&read, By::Total, limits)?),
        _ => None,
    };
    list_target.write(&term, |out| match args.format() {
        DiffFormat::Text => {
            let mut text = head(&compared.sides, &notes) + &list.text(which(by.into()));
            if let Some(compared) = &totals {
                let options = ListOptions {
                    what: Compared::Total,
                    ..options
                };
                text += &ChangeList { options, compared }.text(which(Compared::Total));
            }
            out.write_all(text.as_bytes())
        }
        DiffFormat::Md => out.write_all(list.markdown(&notes).as_bytes()),
        DiffFormat::Json => {
            let fields = as_json(args, by, &list, &read.renamed, scaled.as_deref());
            json::write("sprof-diff", SCHEMA_VERSION, fields, out)
        }
    })?;
    match listener {
        Some(listener) => {
            // The UI also shows counts of other profilers.
            let comparison = match html::diff_data(base, new, limits, &page.options()) {
                Err(error) if args.serve.viewer => return Err(Failure::failed(error)),
                comparison => comparison.ok(),
            };
            compare::serve(
                listener,
                &args.serve,
                (&base_files[0], &base[0]),
                (&new_files[0], &new[0]),
                comparison,
                &term,
            )
        }
        None => Ok(Status::SUCCESS),
    }
}

/// Heading of the viewer: both sides.
struct ViewerHeading {
    title: String,
    notes: Vec<String>,
}

impl ViewerHeading {
    fn of(args: &DiffArgs, base: &[PathBuf], new: &[PathBuf], sides: &Sides, notes: &[String]) -> ViewerHeading {
        let name = |files: &[PathBuf]| match files {
            [file] => file.file_name().unwrap_or(file.as_os_str()).display().to_string(),
            files => count(files.len() as u64, "profile", "profiles"),
        };
        let own = [
            format!("before: {}", describe(sides, &sides.base)),
            format!("after: {}", describe(sides, &sides.new)),
            format!("total: {}", describe_increase(sides, &sides.increase)),
        ];
        let event = args.event.name().map(|event| format!("event {event}"));
        let measure = args.heap.measure.map(|measure| format!("heap: {}", measure.name()));
        ViewerHeading {
            title: one_line(&format!("{} against {}", name(new), name(base))).to_string(),
            notes: own
                .into_iter()
                .chain(event)
                .chain(measure)
                .chain(notes.iter().cloned())
                .collect(),
        }
    }

    fn options(&self) -> DiffOptions<'_> {
        DiffOptions {
            title: &self.title,
            notes: &self.notes,
        }
    }
}

/// Opens a port for the UI, before anything is read.
fn listener(args: &DiffArgs, base: &[PathBuf], new: &[PathBuf], term: &Term) -> Result<Option<Listener>, Failure> {
    if !args.open && !args.serve.viewer {
        return Ok(None);
    }
    if !args.part.is_all() {
        return args::refuse(
            "diff",
            format_args!(
                "{} shows whole profiles, not {}: leave one away",
                if args.open { "--open" } else { "--viewer" },
                args.part.describe().join(", ")
            ),
        );
    }
    if base.len() != 1 || new.len() != 1 {
        return args::refuse(
            "diff",
            "the UI compares two profiles, not several a side: with --open, give two files",
        );
    }
    show::listen(&args.serve, term).map(Some)
}

/// Refuses options of flame graphs that a comparison does not support.
fn check_svg(args: &DiffArgs) -> Result<(), Failure> {
    let problem = match (export::svg_option(&args.svg), &args.flamegraph) {
        (Some(option), None) => format!("{option} is for the flame graph: also give --flamegraph FILE"),
        _ if args.svg.flame_chart => "two recordings cannot be compared in time order: leave --flame-chart away".into(),
        _ => return Ok(()),
    };
    args::refuse("diff", problem)
}

/// Compares both sides.
fn compared(read: &ReadSides, by: By, limits: DiffLimits) -> Result<Comparison, Failure> {
    let compared = diff(&read.base, &read.new, by.into(), limits);
    check_sides(&compared.sides)?;
    Ok(compared)
}

/// True if the slowest spans of one file are compared with its others.
fn is_of_slowest(args: &DiffArgs) -> bool {
    args.part.slowest.is_some() && args.files.len() == 1 && args.base.is_empty() && args.new.is_empty()
}

/// The files from before and from after.
fn sides(args: &DiffArgs) -> Result<(&[PathBuf], &[PathBuf]), Failure> {
    let files = &args.files[..];
    let sides = match (files, &args.base[..], &args.new[..]) {
        ([base, new], [], []) => Some((std::slice::from_ref(base), std::slice::from_ref(new))),
        (file @ [_], [], []) if is_of_slowest(args) => Some((file, file)),
        (base, [], new) | ([], base, new) if !new.is_empty() => Some((base, new)),
        (new, base, []) => new_and_base(new, base).filter(|(base, _)| !base.is_empty()),
        _ => None,
    };
    match sides {
        Some((base, new)) if !base.is_empty() => Ok((base, new)),
        _ => args::refuse(
            "diff",
            format_args!(
                "{} given: give two profiles, or several a side: {} diff NEW NEW --base OLD OLD",
                count(
                    (files.len() + args.base.len() + args.new.len()) as u64,
                    "file is",
                    "files are"
                ),
                own()
            ),
        ),
    }
}

/// The lines above the lists.
fn head(sides: &Sides, notes: &[String]) -> String {
    let mut out = String::new();
    for (name, total) in [("before", &sides.base), ("after", &sides.new)] {
        let _ = writeln!(out, "{name:>7}: {}", describe(sides, total));
    }
    let _ = writeln!(out, "  total: {}", describe_increase(sides, &sides.increase));
    for line in notes {
        let _ = writeln!(out, "         {line}");
    }
    out
}

fn as_json(args: &DiffArgs, by: By, list: &ChangeList<'_>, renamed: &[Renamed], scaled: Option<&str>) -> Value {
    let compared = list.compared;
    let sides = &compared.sides;
    // Counted figures have no samples, so chance plays no part.
    let sampled = |value: Value| if sides.weights.is_none() { value } else { Value::Null };
    let total = |total: &SideTotal| json!({"recordings": total.recordings, "runs": total.runs, "windows": total.windows, "empty_runs": total.empty_runs, "samples": sampled(total.samples.into()), "per_run": total.per_run});
    let amount = |amount: &KeyAmount| json!({"samples": sampled(amount.samples.into()), "share": amount.share, "per_run": amount.per_run});
    let json_of = |change: &Change| {
        json!({
            "function": change.function,
            "library": change.lib,
            "file": change.line.as_ref().map(|(file, _)| file),
            "line": change.line.as_ref().map(|(_, line)| line),
            "callers": change.callers,
            "base": amount(&change.base),
            "new": amount(&change.new),
            "share_change": change.new.share - change.base.share,
            "share_change_95": if sides.by_amount { Value::Null } else { json!([change.range.0, change.range.1]) },
            "amount_change": sides.by_amount.then(|| sides.delta_of(change)),
            "amount_change_95": if sides.by_amount { sampled(json!([change.range.0, change.range.1])) } else { Value::Null },
            "p": sampled(change.p.into()),
        })
    };
    let changes: Vec<Value> = list.shown().map(json_of).collect();
    json!({
        "by": by.word(),
        "base": total(&sides.base),
        "new": total(&sides.new),
        "increase": finite(sides.increase.by),
        "increase_95": sampled(json!([finite(sides.increase.range.0), finite(sides.increase.range.1)])),
        "only": args.part.describe(),
        "renamed": renamed.iter().map(|Renamed { base, new }| json!({"base": base, "new": new})).collect::<Vec<_>>(),
        "scaled": scaled,
        "unit": unit(sides),
        "weights": sides.weights,
        "tested": compared.tested,
        "false_discoveries": DiffLimits::from(args.limits).false_discoveries,
        "least_change": DiffLimits::from(args.limits).least_change,
        "changed": compared.changes.len(),
        "undecided": compared.undecided.as_ref().map(|undecided| json!({
            "number": undecided.number,
            "runs": undecided.runs,
            "widest": json_of(&undecided.widest),
        })),
        "changes": changes,
    })
}
