//! The annotation as text, in as many columns as the terminal has.

use std::io::{self, Write};

use names::source_path::SourcePath;
use profile::text::numbers::count;
use profile::text::one_line;
use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;

use super::assembly::{Code, FunctionCode};
use super::{Annotated, AnnotatedFile, Annotation};
use crate::terminal::columns::cut;
use crate::terminal::style::{Style, Styled};

/// Other functions that are named.
const OTHERS: usize = 8;

/// The terminal, pipe or file that the text goes to.
#[derive(Clone, Copy, Default)]
pub(super) struct AnnotatedOutput {
    pub(super) color: bool,
    /// Columns of the terminal; `None` without a terminal.
    pub(super) columns: Option<usize>,
}

/// Writes the annotation. Returns the number of bytes before the line with the largest share.
pub(super) fn write(
    annotation: &Annotation<'_>,
    annotated: Option<&Annotated>,
    page: AnnotatedOutput,
    out: &mut Vec<u8>,
) -> io::Result<usize> {
    let asked = &annotation.args.function;
    let Some(annotated) = annotated else {
        writeln!(out, "{asked}: none of the selected samples is in it")?;
        return Ok(0);
    };
    let mut text = Text {
        measure: &annotation.measure,
        page,
        hottest: (0.0, 0),
    };
    writeln!(out, "{}", text.style(Style::Bold, &annotated.name))?;
    writeln!(
        out,
        "self {:.1} % ({}), total {:.1} %, of {}",
        text.percent(annotated.own),
        text.amount(annotated.own),
        text.percent(annotated.total),
        text.amount(text.measure.whole)
    )?;
    let others = &annotated.others;
    if !others.is_empty() {
        let in_words = |(name, total): &(String, Cost)| format!("{name} ({:.1} %)", text.percent(*total));
        let names: Vec<String> = others.iter().take(OTHERS).map(in_words).collect();
        let more = if others.len() > names.len() { ", ..." } else { "" };
        writeln!(out, "also named {asked}, with less time: {}{more}", names.join(", "))?;
    }
    if let Some(sources) = &annotated.sources {
        text.write_sources(sources, annotated.is_jit, out)?;
    }
    for code in annotated.code.iter().flatten() {
        text.write_code(code, out)?;
    }
    Ok(text.hottest.1)
}

struct Text<'a> {
    measure: &'a CostScale,
    page: AnnotatedOutput,
    /// The largest share of a line, in percent, and the number of bytes before that line.
    hottest: (f64, usize),
}

impl Text<'_> {
    fn write_sources(&mut self, sources: &[AnnotatedFile], is_jit: bool, out: &mut Vec<u8>) -> io::Result<()> {
        if sources.is_empty() {
            let step = match is_jit {
                true => "the program that compiled it as it ran reported none; Node.js does with --perf-prof",
                false => {
                    "build with debug info (Rust: CARGO_PROFILE_RELEASE_DEBUG=limited, C and C++: -g), and record again"
                }
            };
            return writeln!(out, "\nno source lines are known: {step}");
        }
        for source in sources {
            writeln!(
                out,
                "\n{}",
                self.style(Style::Link, SourcePath::parse(&source.path).short())
            )?;
            writeln!(out, "{}", self.style(Style::Dim, "   self    total   line"))?;
            if let Some(reason) = &source.unread {
                writeln!(out, "{}", self.style(Style::Warning, reason))?;
            }
            for (index, run) in source.runs.iter().enumerate() {
                self.write_gap(index, out)?;
                for line in run {
                    let text = format!("{:>5}  {}", line.number, line.text);
                    self.write_line(Some(line.own), Some(line.total), &text, out)?;
                }
            }
        }
        Ok(())
    }

    fn write_code(&mut self, code: &Code, out: &mut Vec<u8>) -> io::Result<()> {
        match code {
            Code::None(text) => writeln!(out, "\n{text}"),
            Code::Unread(text) => writeln!(out, "\n{}", self.style(Style::Warning, one_line(text))),
            Code::Function(function) => self.write_function(function, out),
        }
    }

    fn write_function(&mut self, function: &FunctionCode, out: &mut Vec<u8>) -> io::Result<()> {
        let start = function.start;
        let size = match function.whole_size.filter(|whole| *whole > function.size) {
            Some(whole) => format!("the first {} of {whole} bytes", function.size),
            None => format!("{} bytes", function.size),
        };
        let place = format!(
            "{start:#x} in {}, {size} of {}: {:.1} % ({}) with inlined functions",
            function.library,
            function.arch,
            self.percent(function.cost),
            self.amount(function.cost)
        );
        let title = match &function.name {
            Some(name) => format!("{name} at {place}"),
            None => place,
        };
        writeln!(out, "\n{}", self.style(Style::Link, one_line(&title)))?;
        for part in &function.other_parts {
            writeln!(out, "{}", self.style(Style::Dim, one_line(part)))?;
        }
        writeln!(out, "{}", self.style(Style::Dim, "   self  address"))?;
        for (index, run) in function.runs.iter().enumerate() {
            self.write_gap(index, out)?;
            for instruction in run {
                for line in &instruction.lines {
                    let line = self.fit(&format!("{:19}{line}", ""));
                    writeln!(out, "{}", self.style(Style::Dim, line.trim_end()))?;
                }
                let text = format!("{:>8x}  {}", instruction.address, instruction.text);
                self.write_line(instruction.cost, None, &text, out)?;
            }
        }
        if !function.behind.is_zero() {
            let end = start.saturating_add(function.size);
            let text = format!(
                "{:.1} % ({}) behind {end:#x} are not shown: the function at {start:#x} is too large",
                self.percent(function.behind),
                self.amount(function.behind)
            );
            writeln!(out, "{}", self.style(Style::Warning, text))?;
        }
        match &function.unread {
            Some(reason) => writeln!(out, "{}", self.style(Style::Warning, one_line(reason))),
            None => Ok(()),
        }
    }

    fn write_line(&mut self, own: Option<Cost>, total: Option<Cost>, text: &str, out: &mut Vec<u8>) -> io::Result<()> {
        let share = |cost: Option<Cost>| match cost {
            Some(cost) if !cost.is_zero() => format!("{:.1} %", self.percent(cost)),
            _ => String::new(),
        };
        let mut numbers = format!("{:>7}", share(own));
        if let Some(total) = total {
            numbers.push_str(&format!("  {:>7}", share(Some(total))));
        }
        let line = self.fit(&format!("{numbers}  {text}"));
        let percent = own.map_or(0.0, |own| self.percent(own));
        if percent > self.hottest.0 {
            self.hottest = (percent, out.len());
        }
        match percent >= 1.0 {
            true => writeln!(out, "{}", self.style(Style::Bold, line.trim_end())),
            false => writeln!(out, "{}", line.trim_end()),
        }
    }

    /// Marks what is left out before each run of lines but the first.
    fn write_gap(&self, index: usize, out: &mut Vec<u8>) -> io::Result<()> {
        match index {
            0 => Ok(()),
            _ => writeln!(out, "{}", self.style(Style::Dim, "    ...")),
        }
    }

    /// As much of a line as the terminal has room for.
    fn fit(&self, line: &str) -> String {
        cut(&one_line(line), self.page.columns.unwrap_or(usize::MAX))
    }

    /// `12 samples`, or the unit of the file.
    fn amount(&self, cost: Cost) -> String {
        match (self.measure.has_samples, self.measure.amount_label()) {
            (false, Some(name)) => format!("{} {name}", self.measure.amount(cost)),
            _ => count(cost.samples, "sample", "samples"),
        }
    }

    fn percent(&self, cost: Cost) -> f64 {
        self.measure.percent(cost)
    }

    fn style<T>(&self, style: Style, text: T) -> Styled<T> {
        Styled::new(self.page.color, style, text)
    }
}
