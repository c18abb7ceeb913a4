//! `sprof report`: from a file to views to text, Markdown or JSON.

use std::io::{self, Write};

use profile::text::numbers::time;
use profile::view::arcs;
use profile::view::cost_scale::CostScale;
use profile::view::select::{Selection, select};
use profile::view::shortfalls::shortfalls;
use recording::command::own;
use symbolicator::Symbolicator;

use super::target::ResultTarget;
use crate::args::{Format, ReportArgs, View};
use crate::exit::{Failure, Outcome};
use crate::input;
use crate::output::file_kind::FileKind;
use crate::report::about::About;
use crate::report::build::{TableExtent, tables};
use crate::report::calls;
use crate::report::text::TextWidth;
use crate::report::{Report, json, markdown, markers, parallelism, spans, text};
use crate::symbols::advice::{AdvisedSamples, advise, distorted, few_samples};
use crate::terminal::Term;
use crate::terminal::style;

/// Rows of each table of the summary.
const SUMMARY_ROWS: usize = 10;
/// Rows of each table of other views.
const VIEW_ROWS: usize = 40;
/// Functions of each number of running threads.
const NUMBER_ROWS: usize = 8;

pub(crate) fn run(args: &ReportArgs) -> Outcome {
    let term = Term::stderr(args.select.messages.verbosity());
    let target = ResultTarget::for_text(args.output.as_deref(), kind(args.format()))?;
    let wanted = args.select.wanted();
    let input = match args.view.contains(&View::Markers) {
        true => input::open_with_markers(&args.file, &wanted, &args.select.symbols, &term)?,
        false => input::open(&args.file, wanted, &args.select.symbols, &term)?,
    };
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format_args!("{}: {error}", args.file.display()));
    let filter = args.select.filter();
    calls::check_conditions(&args.file, &input.data, &filter)?;
    calls::check_views(&args.file, &input.data, &args.view)?;
    let selection = select(&input.data, &filter).map_err(|error| failed(&error))?;
    let views = match args.view.as_slice() {
        [] => &[View::Summary][..],
        views => views,
    };
    let numbers = match views.contains(&View::Parallelism) {
        true if filter.waits => {
            return Err(failed(&"--view parallelism is of running threads: leave out --waits"));
        }
        true => Some(input.data.parallelism().map_err(|error| failed(&error))?),
        false => None,
    };
    let mut shown = Vec::new();
    for view in views {
        let extent = extent(args, view);
        shown.extend(tables(&selection, &filter, view, extent, numbers.as_ref()).map_err(|error| failed(&error))?);
    }
    let conditions = args.select.describe();
    let mut notes = input.notes;
    let in_circles = arcs::in_circles(&selection);
    if in_circles > 0 {
        notes.push(format!(
            "{in_circles} functions call each other in circles; their totals may be smaller than shown, because the file has calls and no call paths"
        ));
    }
    let measure = CostScale::new(&input.data, selection.total);
    notes.extend(distorted(&selection, measure.time_ms(selection.total)));
    if let Some(numbers) = &numbers {
        notes.extend(parallelism::notes(&selection, numbers));
    }
    notes.extend(profile::view::spans::doubts(&selection));
    if views.contains(&View::Spans) {
        notes.extend(spans::notes(&shown, &selection));
    }
    if views.contains(&View::Markers) {
        notes.extend(markers::missing(&selection));
    }
    if views
        .iter()
        .any(|view| !matches!(view, View::Markers | View::Heap | View::Resources | View::Spans))
    {
        notes.extend(about_samples(args, &selection, &input.symbolicator));
    }
    let report = Report {
        about: About::new(&args.file, &selection, &conditions, args.select.waits, notes),
        tables: shown,
        measure,
    };
    let page = match &target {
        ResultTarget::Screen => TextWidth {
            columns: style::stdout_columns(),
            color: style::stdout_color(),
        },
        ResultTarget::Stdout | ResultTarget::File(..) => TextWidth {
            columns: None,
            color: false,
        },
    };
    target.write(&term, |out| write(&report, args.format(), page, out))
}

/// Notes on what limits views of samples.
fn about_samples(args: &ReportArgs, selection: &Selection<'_>, symbolicator: &Symbolicator) -> Vec<String> {
    let mut notes = Vec::from_iter(few_samples(selection, args.select.waits));
    if selection.total.samples == 0 && selection.data.has_samples() {
        notes.push(why_empty(args, selection));
    }
    let what = match args.select.waits {
        true => AdvisedSamples::SavedWaits,
        false => AdvisedSamples::Saved,
    };
    let advice = advise(&shortfalls(selection), selection, what, symbolicator);
    notes.extend(advice.into_iter().map(|advice| advice.line));
    notes
}

/// Why the selection of a profile with samples is empty.
fn why_empty(args: &ReportArgs, selection: &Selection<'_>) -> String {
    let length_ms = selection.data.length_ms().unwrap_or(f64::INFINITY);
    let filter = args.select.filter();
    if filter.from_ms.is_some_and(|from| from >= length_ms) {
        return format!(
            "the time range begins after the end: the recording is {} long",
            time(length_ms)
        );
    }
    match (filter.waits, selection.other_kind.samples > 0) {
        (true, _) => format!("there are no waits: `{} record --off-cpu` records them", own()),
        (false, true) => "all that is selected are waits: --waits shows them".to_owned(),
        (false, false) => "no sample meets all conditions".to_owned(),
    }
}

fn kind(format: Format) -> FileKind {
    match format {
        Format::Text => FileKind::ReportText,
        Format::Md => FileKind::ReportMarkdown,
        Format::Json => FileKind::ReportJson,
    }
}

fn extent(args: &ReportArgs, view: &View) -> TableExtent {
    let default = match (args.format(), view) {
        (Format::Json, _) => usize::MAX,
        (_, View::Summary) => SUMMARY_ROWS,
        (_, View::Parallelism) => NUMBER_ROWS,
        _ => VIEW_ROWS,
    };
    TableExtent {
        rows: match args.limit {
            Some(0) => usize::MAX,
            Some(limit) => limit,
            None => default,
        },
        min_percent: args.min_percent,
        no_frame_of_all: args.format() != Format::Json,
        sort: args.sort,
        of_event: args.select.event.name().is_some(),
    }
}

fn write(report: &Report, format: Format, page: TextWidth, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Text => text::write(report, page, out),
        Format::Md => markdown::write(report, out),
        Format::Json => json::write(report, out),
    }
}
