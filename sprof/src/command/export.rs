//! `sprof export`: a profile in the form that other tools read.

mod page;
mod saved;

use std::io;
use std::path::Path;

use clap::ValueEnum as _;
use profile::data::Data;
use profile::export::svg::{SvgOptions, TreeShape};
use profile::export::{
    ExportUnit, Picked, PickedTime, callgrind, dhat, folded, otlp, parquet, perf_script, pprof, speedscope, svg,
};
use profile::text::numbers::count;
use profile::view::heap::Measure;
use profile::view::select::{KeptKinds, chosen_spans, keep};
use recording::command::own;
use share::push::{GivenLabels, Labels, variable};
use symbolicator::LocalSources;

use super::target::ResultTarget;
use crate::args::{self, ExportArgs, ExportFormat, PartArgs, PickArgs, SvgArgs, WantedSamples};
use crate::exit::{Failure, Outcome};
use crate::input;
use crate::output::file_kind::FileKind;
use crate::report::calls;
use crate::terminal::Term;

pub(crate) fn run(args: &ExportArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    let format = format(args)?;
    if let Some(option) = svg_option(&args.svg).filter(|_| format != ExportFormat::Svg) {
        return args::refuse(
            "export",
            format_args!("{option} is for flame graphs (--format svg), not for this format"),
        );
    }
    if args.embed_sources && format != ExportFormat::Html {
        return args::refuse(
            "export",
            "--embed-sources is for pages (--format html), not for this format",
        );
    }
    if args.labels.is_given() && format != ExportFormat::Parquet {
        return args::refuse(
            "export",
            "--service, --service-version, --commit and --label are columns of --format parquet, not of this format",
        );
    }
    let is_measured = args.heap.measure.is_some() || args.heap.weigh.is_some();
    let is_of_samples = is_measured || args.event.name().is_some() || args.off_cpu || args.pick.wall;
    if format == ExportFormat::Dhat && is_of_samples {
        return args::refuse(
            "export",
            "--format dhat writes all that is known of the heap: leave out --measure, --weigh, --event, --waits and --wall",
        );
    }
    let target = ResultTarget::prepare(args.output.as_deref(), kind(format))?;
    if format == ExportFormat::Html {
        return page::export(args, target, &term);
    }
    if matches!(format, ExportFormat::Firefox | ExportFormat::FirefoxV55) {
        return saved::export(args, format, target, &term);
    }
    // pprof has several values of one heap, DHAT all.
    let heap = match format {
        ExportFormat::Dhat => Some(Measure::Allocated),
        ExportFormat::Pprof => args.heap.measure.filter(|measure| pprof::heap_type(*measure).is_some()),
        _ => None,
    };
    let symbols = &args.input.symbols;
    let mut input = match heap {
        Some(measure) => {
            let wanted = WantedSamples::heap(measure, args.part.filter());
            input::open_with_measures(&args.file, &wanted, symbols, &term)
        }
        None => {
            let wanted = WantedSamples::new(args.event.name(), &args.heap, args.part.filter());
            input::open(&args.file, wanted, symbols, &term)
        }
    }?;
    term.warnings(&args.file, &input.notes);
    keep_part(&mut input.data, &args.part, &args.file, &term)?;
    // Other tools open source files by their paths: `pprof -list`, callgrind_annotate, editors that show speedscope
    // files. Rows of several machines need one path for one file.
    if format != ExportFormat::Parquet {
        let mut local = LocalSources::of_user();
        input.data.map_source_paths(|path| local.local_path(path));
    }
    if let Some(measure) = heap.filter(|_| input.data.has_heap()) {
        let mut tables = input
            .data
            .threads
            .iter()
            .filter_map(|thread| thread.allocations.as_ref());
        if tables.all(|table| table.weight.is_empty()) {
            return Err(Failure::failed(format_args!(
                "{}: no blocks of memory are selected, or were sampled",
                args.file.display()
            )));
        }
        return target.write(&term, |out| match format {
            ExportFormat::Dhat => dhat::write(&input.data, out),
            _ => pprof::write_heap(&input.data, measure, out),
        });
    }
    if format == ExportFormat::Dhat {
        return Err(Failure::failed(format_args!(
            "{} has sums, and no blocks of memory with their times: `{} record --heap` records them",
            args.file.display(),
            own()
        )));
    }
    let picked = Picked::new(&input.data, time(args.off_cpu, &args.pick));
    say_what_is_missing(&picked, &args.file, &term)?;
    let ran = match format {
        ExportFormat::Parquet => {
            let data = &input.data;
            Labels::new(GivenLabels::from(&args.labels), &data.product, data.commit(), &variable)?.of_rows()
        }
        _ => parquet::RanColumns::default(),
    };
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
        ExportFormat::Otlp => otlp::write(&picked, &[("service.name".into(), input.data.product.clone())], out),
        ExportFormat::Parquet => parquet::write(&picked, &ran, out),
        ExportFormat::Dhat | ExportFormat::Html | ExportFormat::Firefox | ExportFormat::FirefoxV55 => {
            Err(io::Error::other("it is not made of samples"))
        }
    })
}

/// Drops the samples of running threads and of waits that the options do not select.
pub(super) fn keep_part(data: &mut Data, part: &PartArgs, file: &Path, term: &Term) -> Result<(), Failure> {
    if part.is_all() {
        return Ok(());
    }
    let filter = part.filter();
    calls::check_conditions(file, data, &filter)?;
    let failed = |error| Failure::failed(format_args!("{}: {error}", file.display()));
    term.warnings(file, &chosen_spans(data, &filter).map_err(failed)?.doubts);
    keep(data, &filter, KeptKinds::Both).map_err(failed)
}

/// The format that was named, or that the output's name asks for.
fn format(args: &ExportArgs) -> Result<ExportFormat, Failure> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let asked = args.output.as_deref().map_or(&[][..], FileKind::promised);
    let of = |format: &ExportFormat| asked.first() == Some(&kind(*format));
    ExportFormat::value_variants().iter().copied().find(of).ok_or_else(|| {
        args::usage_error(
            "export",
            "which format? Name it (--format svg), or a file whose name says it (-o FILE.html, .svg, .folded, .pb.gz, \
             .speedscope.json, .dhat.json, .otlp, .parquet, .json.gz)",
        )
    })
}

fn kind(format: ExportFormat) -> FileKind {
    match format {
        ExportFormat::Folded => FileKind::Folded,
        ExportFormat::Svg => FileKind::FlameGraph,
        ExportFormat::Html => FileKind::Page,
        ExportFormat::Pprof => FileKind::Pprof,
        ExportFormat::Speedscope => FileKind::Speedscope,
        ExportFormat::Callgrind => FileKind::Callgrind,
        ExportFormat::Dhat => FileKind::Dhat,
        ExportFormat::PerfScript => FileKind::PerfScript,
        ExportFormat::Otlp => FileKind::Otlp,
        ExportFormat::Parquet => FileKind::Parquet,
        ExportFormat::Firefox | ExportFormat::FirefoxV55 => FileKind::Profile,
    }
}

pub(super) fn time(off_cpu: bool, args: &PickArgs) -> PickedTime {
    match (off_cpu, args.wall) {
        (true, _) => PickedTime::Waits,
        (_, true) => PickedTime::All,
        _ => PickedTime::Cpu,
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
            (true, _) => TreeShape::Reverse,
            (_, true) => TreeShape::TimeOrder,
            _ => TreeShape::Merged,
        },
        threads,
        ..SvgOptions::default()
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

/// Reports what is left out. An export without samples is an error, not an empty file.
pub(super) fn say_what_is_missing(picked: &Picked<'_>, file: &Path, term: &Term) -> Result<(), Failure> {
    let totals = picked.totals();
    let file = file.display();
    if totals.weight == 0 {
        return Err(Failure::failed(match totals.left_out {
            0 if totals.unusable > 0 => format!("{file}: none of its samples has a weight that can be exported"),
            0 => format!("{file} holds no samples: record for longer, or at a higher rate"),
            _ if is_for_waits(picked) => format!(
                "{file} holds no waits; `{} record --off-cpu` records them, and without --waits its CPU time is exported",
                own()
            ),
            _ => format!("{file} holds waits, but no CPU time; --waits exports them"),
        }));
    }
    if totals.left_out > 0 && !is_for_waits(picked) {
        let amount = match picked.counted() {
            ExportUnit::Nanoseconds => format!("{:.3} s", totals.left_out as f64 / 1e9),
            ExportUnit::Samples => count(totals.left_out, "sample", "samples"),
            ExportUnit::Bytes => format!("{} bytes", totals.left_out),
            ExportUnit::Named => format!("{} {}", totals.left_out, picked.named().map_or("", |(name, _)| name)),
        };
        term.line(format_args!(
            "{amount} of waits are left out; --waits exports them, --wall both together"
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
    picked.time() == PickedTime::Waits
}
