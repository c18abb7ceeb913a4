//! `sprof annotate`: source and machine code of a function, with the samples of each line and instruction.

mod assembly;
mod interleaved;

use std::io::{self, Write};
use std::ops::RangeInclusive;

use profile::data::Calls;
use profile::text::one_line;
use profile::view::annotate::{FileLines, lines_of};
use profile::view::cost::Cost;
use profile::view::functions::{FunctionRow, functions, total_of};
use profile::view::select::{Selection, select};
use recording::source_path::SourcePath;
use symbolicator::Symbolicator;

use crate::args::AnnotateArgs;
use crate::exit::{Failure, Outcome};
use crate::input;
use crate::library::module;
use crate::numbers::count;
use crate::report::{Measure, calls};
use crate::screen;
use crate::style::{self, Style, Styled};
use crate::term::Term;

pub(crate) fn run(args: &AnnotateArgs) -> Outcome {
    let term = Term::stderr(args.select.messages.verbosity());
    let input = input::open_and_warn(&args.file, args.select.event.name(), &args.select.symbols, &term)?;
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format_args!("{}: {error}", args.file.display()));
    calls::check_conditions(&args.file, &input.data, &args.select.filter())?;
    let selection = select(&input.data, &args.select.filter()).map_err(|error| failed(&error))?;
    let mut found = selection.find(&args.function).map_err(|error| failed(&error))?;
    // Of a part of a name, all functions with it: `parse` is a method of `str`, and `parse_line`, which takes the time,
    // was meant.
    if !found.iter().any(|func| selection.name(*func) == args.function) {
        found.extend(selection.containing(&args.function));
    }
    let annotation = Annotation {
        args,
        selection: &selection,
        symbolicator: &input.symbolicator,
        measure: Measure::of(&input.data, selection.total),
        color: style::stdout_color(),
        columns: style::stdout_columns(),
    };
    screen::print("the annotation", |out| annotation.write(&found, out))
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
    measure: Measure,
    color: bool,
    columns: Option<usize>,
}

impl Annotation<'_> {
    fn write(&self, found: &[u32], out: &mut dyn Write) -> io::Result<()> {
        let rows = functions(self.selection).into_iter();
        let mut rows: Vec<_> = rows.filter(|row| found.contains(&row.func)).collect();
        rows.sort_by(|a, b| b.total.weight.total_cmp(&a.total.weight));
        let Some(first) = rows.first() else {
            return writeln!(out, "{}: none of the selected samples is in it", self.args.function);
        };
        // All functions of this name: instances of a generic function, static functions of several files.
        let name = self.selection.name(first.func);
        let (same, others): (Vec<&FunctionRow>, Vec<&FunctionRow>) =
            rows.iter().partition(|row| self.selection.name(row.func) == name);
        let funcs: Vec<u32> = same.iter().map(|row| row.func).collect();
        let own: Cost = same.iter().map(|row| row.own).sum();
        let total = match same.len() > 1 && self.selection.data.calls == Calls::Paths {
            true => total_of(self.selection, &funcs),
            false => first.total,
        };
        writeln!(out, "{}", self.style(Style::Bold, name))?;
        writeln!(
            out,
            "self {:.1} % ({}), total {:.1} %, of {}",
            self.percent(own),
            self.amount(own),
            self.percent(total),
            self.amount(self.selection.total)
        )?;
        if !others.is_empty() {
            let in_words =
                |row: &&FunctionRow| format!("{} ({:.1} %)", self.selection.name(row.func), self.percent(row.total));
            let names: Vec<String> = others.iter().take(8).map(in_words).collect();
            writeln!(
                out,
                "also named {}, with less time: {}{}",
                self.args.function,
                names.join(", "),
                if others.len() > names.len() { ", ..." } else { "" }
            )?;
        }
        if !self.args.asm {
            self.write_source(&funcs, out)?;
        }
        if !self.args.source {
            self.write_assembly(&funcs, out)?;
        }
        Ok(())
    }

    fn write_source(&self, funcs: &[u32], out: &mut dyn Write) -> io::Result<()> {
        let files = lines_of(self.selection, funcs);
        if files.is_empty() {
            let step = "build with debug info (Rust: CARGO_PROFILE_RELEASE_DEBUG=limited, C and C++: -g) or run with it \
                        (Node.js: --perf-prof), and record again";
            return writeln!(out, "\nno source lines are known: {step}");
        }
        for file in files {
            let path = self.selection.data.text(file.file);
            writeln!(out, "\n{}", self.style(Style::Link, SourcePath::parse(path).short()))?;
            writeln!(out, "{}", self.style(Style::Dim, "   self    total   line"))?;
            let text = self.source(&file, path);
            if let Err(reason) = &text {
                writeln!(out, "{}", self.style(Style::Warning, reason))?;
            }
            let text = text.unwrap_or_default();
            let text: Vec<&str> = text.lines().collect();
            let wanted = file.lines.keys().map(|line| *line as usize);
            let last = text.len().max(wanted.clone().next_back().unwrap_or(0));
            let context = if text.is_empty() { 0 } else { self.args.context };
            for (index, lines) in around(wanted, 1, last, context).into_iter().enumerate() {
                self.write_gap(index, out)?;
                for line in lines {
                    let cost = file.lines.get(&(line as u32)).copied();
                    let text = text.get(line - 1).copied().unwrap_or_default();
                    let (own, total) = cost.unwrap_or_default();
                    self.write_line(Some(own), Some(total), &format!("{line:>5}  {text}"), out)?;
                }
            }
        }
        Ok(())
    }

    fn source(&self, file: &FileLines, path: &str) -> Result<String, String> {
        let data = self.selection.data;
        if let Some(text) = data.source(path) {
            return Ok(text.to_owned());
        }
        let frame = data.frames.get(file.frame as usize);
        let place = frame.and_then(|frame| Some((data.libs.get(frame.lib as usize)?, frame.address?)));
        // Files of other profilers have the path alone, and no address to find and check the source by.
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

    fn write_line(&self, own: Option<Cost>, total: Option<Cost>, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let share = |cost: Option<Cost>| match cost {
            Some(cost) if !cost.is_zero() => format!("{:.1} %", self.percent(cost)),
            _ => String::new(),
        };
        let mut numbers = format!("{:>7}", share(own));
        if let Some(total) = total {
            numbers.push_str(&format!("  {:>7}", share(Some(total))));
        }
        let line = self.fit(&format!("{numbers}  {text}"));
        let is_hot = own.is_some_and(|own| self.percent(own) >= 1.0);
        match is_hot {
            true => writeln!(out, "{}", self.style(Style::Bold, line.trim_end())),
            false => writeln!(out, "{}", line.trim_end()),
        }
    }

    /// Marks what is left out before each run of lines but the first.
    fn write_gap(&self, index: usize, out: &mut dyn Write) -> io::Result<()> {
        match index {
            0 => Ok(()),
            _ => writeln!(out, "{}", self.style(Style::Dim, "    ...")),
        }
    }

    /// As much of a line as the terminal has room for.
    fn fit(&self, line: &str) -> String {
        let line = one_line(line);
        let columns = self.columns.unwrap_or(usize::MAX);
        line.chars().take(columns).collect()
    }

    /// `12 samples`, or the unit of the file.
    fn amount(&self, cost: Cost) -> String {
        match (self.measure.has_samples, self.measure.amount_label()) {
            (false, Some(name)) => format!("{} {name}", self.measure.amount(cost)),
            _ => count(cost.samples, "sample", "samples"),
        }
    }

    fn percent(&self, cost: Cost) -> f64 {
        100.0 * cost.share_of(self.selection.total)
    }

    fn style<T>(&self, style: Style, text: T) -> Styled<T> {
        Styled::new(self.color, style, text)
    }
}
