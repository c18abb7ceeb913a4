//! `sprof export`: a profile in the form that other tools read.

mod saved;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use clap::ValueEnum as _;
use profile::export::svg::{Shape, SvgOptions};
use profile::export::{Counted, Picked, Time, callgrind, folded, perf_script, pprof, speedscope, svg};
use recording::command::own;

use crate::args::{self, ExportArgs, ExportFormat, InputArgs, PickArgs, SvgArgs};
use crate::exit::{Failure, Outcome, Status};
use crate::file_kind::FileKind;
use crate::input::{self, Input, InputOptions};
use crate::output::{Earlier, Output, OutputError};
use crate::screen;
use crate::style::Style;
use crate::summary::count;
use crate::term::{Term, Verbosity};

/// Runs the command.
pub(crate) fn run(args: &ExportArgs) -> Outcome {
    let term = Term::stderr(verbosity(&args.input));
    let format = format(args)?;
    if let Some(option) = svg_option(&args.svg).filter(|_| format != ExportFormat::Svg) {
        return Err(Failure::from(args::usage_error(
            "export",
            format_args!("{option} is for flame graphs (--format svg), not for this format"),
        )));
    }
    let target = Target::prepare(args.output.as_deref(), kind(format))?;
    if matches!(format, ExportFormat::Firefox | ExportFormat::FirefoxV55) {
        return saved::export(args, format, target, &term);
    }
    let input = read(&args.file, args.event.clone(), &args.input, &term)?;
    let picked = Picked::new(&input.data, time(args.off_cpu, &args.pick));
    say_what_is_missing(&picked, &args.file, &term)?;
    target.write(&term, |out| match format {
        ExportFormat::Folded => {
            let options = folded::FoldedOptions {
                threads: args.pick.threads,
            };
            folded::write(&picked, options, out)
        }
        ExportFormat::Svg => svg::write(&picked, &svg_options(&args.svg, args.pick.threads), out),
        ExportFormat::Pprof => pprof::write(&picked, out),
        ExportFormat::Speedscope => speedscope::write(&picked, out),
        ExportFormat::Callgrind => callgrind::write(&picked, out),
        ExportFormat::PerfScript => perf_script::write(&picked, out),
        ExportFormat::Firefox | ExportFormat::FirefoxV55 => Err(io::Error::other("it is not made of samples")),
    })
}

/// The format that was named, or that the output's name asks for.
fn format(args: &ExportArgs) -> Result<ExportFormat, Failure> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let asked = args.output.as_deref().map_or(&[][..], FileKind::promised);
    let of = |format: &ExportFormat| asked.first() == Some(&kind(*format));
    ExportFormat::value_variants().iter().copied().find(of).ok_or_else(|| {
        Failure::from(args::usage_error(
            "export",
            "which format? Name it (--format svg), or a file whose name says it (-o FILE.svg, .folded, .pb.gz, \
             .speedscope.json, .json.gz)",
        ))
    })
}

fn kind(format: ExportFormat) -> FileKind {
    match format {
        ExportFormat::Folded => FileKind::Folded,
        ExportFormat::Svg => FileKind::FlameGraph,
        ExportFormat::Pprof => FileKind::Pprof,
        ExportFormat::Speedscope => FileKind::Speedscope,
        ExportFormat::Callgrind => FileKind::Callgrind,
        ExportFormat::PerfScript => FileKind::PerfScript,
        ExportFormat::Firefox | ExportFormat::FirefoxV55 => FileKind::Profile,
    }
}

pub(super) fn read(file: &Path, event: Option<String>, args: &InputArgs, term: &Term) -> Result<Input, Failure> {
    let options = InputOptions {
        event,
        symbol_dirs: args.symbol_dir.clone(),
    };
    let input = input::open(file, &options, term)?;
    (input.notes.iter()).for_each(|note| term.warning(format_args!("{}: {note}", file.display())));
    Ok(input)
}

pub(super) fn time(off_cpu: bool, args: &PickArgs) -> Time {
    match (off_cpu, args.wall) {
        (true, _) => Time::Waits,
        (_, true) => Time::All,
        _ => Time::Cpu,
    }
}

pub(super) fn svg_options(args: &SvgArgs, threads: bool) -> SvgOptions {
    SvgOptions {
        title: args.title.clone(),
        notes: args.notes.clone(),
        width: args.width,
        min_width: args.min_width,
        inverted: args.inverted,
        shape: match (args.reverse, args.flame_chart) {
            (true, _) => Shape::Reverse,
            (_, true) => Shape::TimeOrder,
            _ => Shape::Merged,
        },
        threads,
    }
}

/// An option of flame graphs that was given, if any.
pub(super) fn svg_option(args: &SvgArgs) -> Option<&'static str> {
    let given = [
        (args.inverted, "--inverted"),
        (args.reverse, "--reverse"),
        (args.flame_chart, "--flame-chart"),
        (args.title.is_some(), "--title"),
        (args.notes.is_some(), "--notes"),
    ];
    given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
}

/// Nothing is left out silently; and an export of nothing is an error, not an empty file.
pub(super) fn say_what_is_missing(picked: &Picked<'_>, file: &Path, term: &Term) -> Result<(), Failure> {
    let totals = picked.totals();
    let file = file.display();
    if totals.weight == 0 {
        return Err(Failure::failed(match totals.left_out {
            0 if totals.unusable > 0 => format!("{file}: none of its samples has a weight that can be exported"),
            0 => format!("{file} holds no samples: record for longer, or at a higher rate"),
            _ if is_for_waits(picked) => format!(
                "{file} holds no waits; `{} record --off-cpu` records them, and without --off-cpu its CPU time is exported",
                own()
            ),
            _ => format!("{file} holds waits, but no CPU time; --off-cpu exports them"),
        }));
    }
    if totals.left_out > 0 && !is_for_waits(picked) {
        let amount = match picked.counted() {
            Counted::Nanoseconds => format!("{:.3} s", totals.left_out as f64 / 1e9),
            Counted::Samples => count(totals.left_out, "sample", "samples"),
            Counted::Bytes => format!("{} bytes", totals.left_out),
            Counted::Named => format!("{} {}", totals.left_out, picked.named().map_or("", |(name, _)| name)),
        };
        term.line(format_args!(
            "{amount} of waits are left out; --off-cpu exports them, --wall both together"
        ));
    }
    if totals.unusable > 0 {
        term.warning(format_args!(
            "left out: {} whose weight is negative or missing",
            count(totals.unusable, "sample", "samples")
        ));
    }
    Ok(())
}

fn is_for_waits(picked: &Picked<'_>) -> bool {
    picked.time() == Time::Waits
}

pub(super) fn verbosity(args: &InputArgs) -> Verbosity {
    match (args.quiet, args.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, true) => Verbosity::Verbose,
        (false, false) => Verbosity::Normal,
    }
}

/// Where an export goes, known to be writable before anything is read.
pub(super) enum Target<'a> {
    Stdout,
    File(&'a Path, Output),
}

impl<'a> Target<'a> {
    pub(super) fn prepare(path: Option<&'a Path>, kind: FileKind) -> Result<Target<'a>, Failure> {
        // What a terminal can't show.
        let is_binary = matches!(kind, FileKind::Pprof | FileKind::Profile);
        match path.filter(|path| *path != Path::new("-")) {
            None if is_binary && io::stdout().is_terminal() => Err(Failure::from(args::usage_error(
                "export",
                "this format cannot go to a terminal; redirect stdout, or name a file with -o",
            ))),
            None => Ok(Target::Stdout),
            Some(path) => match Output::prepare(path, kind, Earlier::Replaced) {
                Ok(output) => Ok(Target::File(path, output)),
                Err(OutputError::Unusable { path, reason }) => Err(Failure::failed(format_args!(
                    "cannot write to {}: {reason}",
                    path.display()
                ))),
                Err(error) => Err(Failure::failed(error)),
            },
        }
    }

    pub(super) fn write(self, term: &Term, write: impl Fn(&mut dyn Write) -> io::Result<()>) -> Outcome {
        match self {
            Target::Stdout => {
                let mut out = io::stdout().lock();
                screen::of_writing("the export", write(&mut out).and_then(|()| out.flush()))
            }
            Target::File(path, output) => match output.save_there(term, write) {
                Ok(()) => {
                    term.line(format_args!("wrote {}", term.style(Style::Link, path.display())));
                    Ok(Status::SUCCESS)
                }
                Err(error) => Err(Failure::failed(format_args!(
                    "writing {} failed: {error}; free space, or name another file with -o",
                    path.display()
                ))),
            },
        }
    }
}
