//! `sprof annotate`: source and machine code of a function, with the samples of each line and instruction.
//!
//! [`Annotation`] finds what belongs to the function, [`assembly`] its machine code; [`text`] and [`json`] write both.

mod assembly;
mod interleaved;
mod json;
mod text;

use std::ops::RangeInclusive;

use profile::data::Calls;
use profile::view::annotate::{FileLines, are_jit, lines_of};
use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;
use profile::view::functions::{FunctionRow, functions, total_of};
use profile::view::select::{Selection, select};
use profile::view::spans::doubts;
use symbolicator::Symbolicator;

use self::assembly::Code;
use self::text::AnnotatedOutput;
use super::target::ResultTarget;
use crate::args::{AnnotateArgs, AnnotateFormat};
use crate::exit::{Failure, Outcome};
use crate::input::{self, Input};
use crate::output::file_kind::FileKind;
use crate::report::calls;
use crate::symbols::library::module;
use crate::terminal::Term;
use crate::terminal::style;

pub(crate) fn run(args: &AnnotateArgs) -> Outcome {
    let term = Term::stderr(args.select.messages.verbosity());
    let format = args.format();
    let kind = match format {
        AnnotateFormat::Text => FileKind::ReportText,
        AnnotateFormat::Json => FileKind::ReportJson,
    };
    let target = ResultTarget::for_text(args.output.as_deref(), kind)?;
    let input = input::open_and_warn(&args.file, args.select.wanted(), &args.select.symbols, &term)?;
    let page = match &target {
        ResultTarget::Screen => AnnotatedOutput {
            color: style::stdout_color(),
            columns: style::stdout_columns(),
        },
        ResultTarget::Stdout | ResultTarget::File(..) => AnnotatedOutput::default(),
    };
    let (text, _, doubts) = annotated(args, &input, page)?;
    term.warnings(&args.file, &doubts);
    target.write(&term, |out| out.write_all(&text))
}

/// The annotation as text of this width in columns, without colours, and the index of its hottest line.
pub(super) fn lines(args: &AnnotateArgs, input: &Input, columns: usize) -> Result<(Vec<String>, usize), Failure> {
    let page = AnnotatedOutput {
        color: false,
        columns: Some(columns),
    };
    let (text, hottest, _) = annotated(args, input, page)?;
    let before = text.iter().take(hottest).filter(|byte| **byte == b'\n').count();
    let lines = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
    Ok((lines, before))
}

/// The annotation in the format of the options, the number of bytes before the hottest line of a text, and what is not
/// known of its samples, a line each.
fn annotated(
    args: &AnnotateArgs,
    input: &Input,
    page: AnnotatedOutput,
) -> Result<(Vec<u8>, usize, Vec<String>), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format_args!("{}: {error}", args.file.display()));
    calls::check_conditions(&args.file, &input.data, &args.select.filter())?;
    let selection = select(&input.data, &args.select.filter()).map_err(|error| failed(&error))?;
    let mut found = selection.find(&args.function).map_err(|error| failed(&error))?;
    // If the user typed a part of a name, takes all functions with it. `parse` is a method of `str`; the user may mean
    // `parse_line`, where the time goes.
    if !found.iter().any(|func| selection.name(*func) == args.function) {
        found.extend(selection.containing(&args.function));
    }
    let annotation = Annotation {
        args,
        selection: &selection,
        symbolicator: &input.symbolicator,
        measure: CostScale::new(&input.data, selection.total),
    };
    let annotated = annotation.function(&found);
    let mut out = Vec::new();
    let hottest = match args.format() {
        AnnotateFormat::Text => text::write(&annotation, annotated.as_ref(), page, &mut out),
        AnnotateFormat::Json => json::write(&annotation, annotated.as_ref(), &mut out).map(|()| 0),
    };
    let hottest = hottest.map_err(|error| failed(&error))?;
    Ok((out, hottest, doubts(&selection)))
}

/// The lines of `wanted` (ascending) and `context` lines around each, from `first` to `last`, in runs without gaps.
fn around(
    wanted: impl Iterator<Item = usize>,
    first: usize,
    last: usize,
    context: usize,
) -> Vec<RangeInclusive<usize>> {
    let mut runs: Vec<RangeInclusive<usize>> = Vec::new();
    for at in wanted {
        let (from, to) = (
            at.saturating_sub(context).max(first),
            at.saturating_add(context).min(last),
        );
        match runs.last_mut() {
            Some(run) if from <= run.end() + 1 => *run = *run.start()..=to,
            _ => runs.push(from..=to),
        }
    }
    runs
}

struct Annotation<'a> {
    args: &'a AnnotateArgs,
    selection: &'a Selection<'a>,
    symbolicator: &'a Symbolicator,
    measure: CostScale,
}

/// The functions of one name, with their lines and instructions.
struct Annotated {
    name: String,
    own: Cost,
    total: Cost,
    /// True if the functions were compiled while the program ran.
    is_jit: bool,
    /// Other functions whose names match, with their total cost.
    others: Vec<(String, Cost)>,
    /// `None` with `--asm`.
    sources: Option<Vec<AnnotatedFile>>,
    /// `None` with `--source`.
    code: Option<Vec<Code>>,
}

/// A source file.
struct AnnotatedFile {
    path: String,
    /// Why its text is missing.
    unread: Option<String>,
    /// Lines without gaps.
    runs: Vec<Vec<AnnotatedLine>>,
}

struct AnnotatedLine {
    number: usize,
    text: String,
    own: Cost,
    total: Cost,
}

impl Annotation<'_> {
    /// The annotation of the found function with the largest total, and all functions of the same name. `None` if no
    /// selected sample is in a found function.
    fn function(&self, found: &[u32]) -> Option<Annotated> {
        let rows = functions(self.selection).into_iter();
        let mut rows: Vec<_> = rows.filter(|row| found.contains(&row.func)).collect();
        rows.sort_by(|a, b| b.total.weight.total_cmp(&a.total.weight));
        let first = rows.first()?;
        // All functions of this name: instances of a generic function, static functions of several files.
        let name = self.selection.name(first.func);
        let (same, others): (Vec<&FunctionRow>, Vec<&FunctionRow>) =
            rows.iter().partition(|row| self.selection.name(row.func) == name);
        let funcs: Vec<u32> = same.iter().map(|row| row.func).collect();
        Some(Annotated {
            name: name.to_owned(),
            own: same.iter().map(|row| row.own).sum(),
            total: match same.len() > 1 && self.selection.data.calls == Calls::Paths {
                true => total_of(self.selection, &funcs),
                false => first.total,
            },
            is_jit: are_jit(self.selection, &funcs),
            others: (others.iter())
                .map(|row| (self.selection.name(row.func).to_owned(), row.total))
                .collect(),
            sources: (!self.args.asm).then(|| self.sources(&funcs)),
            code: (!self.args.source).then(|| self.code(&funcs)),
        })
    }

    fn sources(&self, funcs: &[u32]) -> Vec<AnnotatedFile> {
        let files = lines_of(self.selection, funcs).into_iter();
        files.map(|file| self.source(&file)).collect()
    }

    fn source(&self, file: &FileLines) -> AnnotatedFile {
        let path = self.selection.data.text(file.file);
        let (text, unread) = match self.text_of(file, path) {
            Ok(text) => (text, None),
            Err(reason) => (String::new(), Some(reason)),
        };
        let text: Vec<&str> = text.lines().collect();
        let wanted = file.lines.keys().map(|line| *line as usize);
        let last = text.len().max(wanted.clone().next_back().unwrap_or(0));
        let context = if text.is_empty() { 0 } else { self.args.context };
        let line = |number: usize| {
            let (own, total) = file.lines.get(&(number as u32)).copied().unwrap_or_default();
            AnnotatedLine {
                number,
                text: text.get(number - 1).copied().unwrap_or_default().to_owned(),
                own,
                total,
            }
        };
        let runs = around(wanted, 1, last, context).into_iter();
        AnnotatedFile {
            path: path.to_owned(),
            unread,
            runs: runs.map(|run| run.map(line).collect()).collect(),
        }
    }

    fn text_of(&self, file: &FileLines, path: &str) -> Result<String, String> {
        let data = self.selection.data;
        if let Some(text) = data.source(path) {
            return Ok(text.to_owned());
        }
        let frame = data.frames.get(file.frame as usize);
        let place = frame.and_then(|frame| Some((data.libs.get(frame.lib as usize)?, frame.address?)));
        // Files of other profilers have only the path, and no address to find and verify the source by.
        if data.weights.is_some() && place.is_none() {
            return (self.symbolicator).source_at(path).map_err(|error| error.to_string());
        }
        let Some((lib, address)) = place else {
            return Err(
                "the file has no address of this function in a library, so its source cannot be looked up".into(),
            );
        };
        let module = module(lib).ok_or("its library has no name")?;
        (self.symbolicator)
            .source(&module, address, path)
            .map_err(|error| error.to_string())
    }
}
