//! `sprof report`: from a file to views to text, Markdown or JSON.

use std::io::{self, Write};

use super::target::ResultTarget;
use crate::args::{Format, ReportArgs, View};
use crate::exit::{Failure, Outcome};
use crate::input;
use crate::output::file_kind::FileKind;
use crate::report::build::TableExtent;
use crate::report::request::ReportRequest;
use crate::report::text::TextWidth;
use crate::report::{Report, json, markdown, text};
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
    let report = report(args, &term)?;
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

pub(crate) fn report(args: &ReportArgs, term: &Term) -> Result<Report, Failure> {
    let wanted = args.select.wanted();
    let input = match args.view.contains(&View::Markers) {
        true => input::open_with_markers(&args.file, &wanted, &args.select.symbols, term)?,
        false => input::open(&args.file, wanted, &args.select.symbols, term)?,
    };
    let views = match args.view.as_slice() {
        [] => &[View::Summary][..],
        views => views,
    };
    let request = ReportRequest {
        file: &args.file,
        select: &args.select,
        views,
    };
    request.answer(&input, |view| extent(args, view))
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
