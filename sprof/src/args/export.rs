//! `sprof export` and `sprof flamegraph`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::input::{EventArgs, InputArgs, MeasureArgs};
use super::labels::LabelArgs;
use super::record::RecordingArgs;
use super::select::PartArgs;
use super::value;

#[derive(Args, Clone, Debug)]
#[command(
    before_help = EXAMPLES,
    after_help = UNITS,
    mut_arg("event", |arg| arg.help("Export this event, if the file has several (from -e, perf record, pprof, callgrind, cachegrind, DHAT, heaptrack or massif) \
                                     [default: the file's choice, or the first event]")),
    mut_arg("weigh", |arg| arg.conflicts_with_all(["off_cpu", "wall"]))
)]
pub(crate) struct ExportArgs {
    /// A saved profile (from sprof, samply or Firefox, plain or gzip), a file of `perf record`, text of `perf script`,
    /// a .partial file, folded stacks, or a file of pprof, callgrind, cachegrind, DHAT, heaptrack or massif. `-` is
    /// stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// What to write [default: by the ending of the output's name].
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) format: Option<ExportFormat>,

    /// File to write [default: stdout]. It replaces an earlier file of the same kind.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Export where threads wait instead of CPU time; needs a recording with --off-cpu.
    #[arg(long = "waits", alias = "off-cpu")]
    pub(crate) off_cpu: bool,

    /// Put the source files of sampled functions into the page (--format html), so that their lines are shown wherever
    /// it is opened.
    #[arg(long)]
    pub(crate) embed_sources: bool,

    #[command(flatten)]
    pub(crate) pick: PickArgs,

    #[command(flatten)]
    pub(crate) event: EventArgs,

    #[command(flatten)]
    pub(crate) heap: MeasureArgs,

    #[command(flatten)]
    pub(crate) part: PartArgs,

    #[command(flatten)]
    pub(crate) svg: SvgArgs,

    #[command(flatten, next_help_heading = "What ran (--format parquet)")]
    pub(crate) labels: LabelArgs,

    #[command(flatten, next_help_heading = "Names and messages")]
    pub(crate) input: InputArgs,
}

/// Options that need a program, and make no sense with a saved profile.
const CHOICES_OF_A_RECORDING: [&str; 14] = [
    "command",
    "pid",
    "all",
    "rate",
    "duration",
    "keep_running",
    "last",
    "iteration_count",
    "ignore_exit_code",
    "stack_size",
    "main_thread_only",
    "per_cpu_threads",
    "include_args",
    "profile_name",
];

#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "sprof flamegraph [OPTIONS] [--] [VAR=x]... COMMAND [ARGS]...\n       \
                      sprof flamegraph [OPTIONS] -p PID[,PID]... [-- COMMAND [ARGS]...]\n       \
                      sprof flamegraph [OPTIONS] -a [-- COMMAND [ARGS]...]\n       \
                      sprof flamegraph [OPTIONS] FILE [--base BASE...]",
    before_help = "\
Examples:
  sprof flamegraph ./app --its --arguments         record, and draw flamegraph.svg
  sprof flamegraph -o app.svg profile.json.gz      draw a saved profile
  sprof flamegraph new.json.gz --base old.json.gz  colour what changed",
    after_help = "With --off-cpu the flame graph shows where threads wait, with --wall CPU time and waits together.",
    mut_arg("command", |arg| arg
        .last(true)
        .trailing_var_arg(false)
        .required_unless_present_any(["pid", "all", "file"])),
    mut_arg("measure", |arg| arg.requires("file")),
    mut_arg("weigh", |arg| arg.requires("file").conflicts_with_all(["off_cpu", "wall"])),
)]
pub(crate) struct FlamegraphArgs {
    /// Draw this file and record nothing: a saved profile, a file of `perf record`, text of `perf script`, a .partial
    /// file, folded stacks, or a file of pprof, callgrind, cachegrind, DHAT, heaptrack or massif. `-` is stdin.
    #[arg(value_name = "FILE", conflicts_with_all = CHOICES_OF_A_RECORDING)]
    pub(crate) file: Option<PathBuf>,

    /// One or more profiles to compare FILE to: colours show what changed, as with `sprof diff --flamegraph`.
    #[arg(long, value_name = "BASE", num_args = 1.., requires = "file")]
    pub(crate) base: Vec<PathBuf>,

    /// File to write; `-` is stdout (the program's own output then goes to stderr).
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) recording: RecordingArgs,

    #[command(flatten)]
    pub(crate) heap: MeasureArgs,

    #[command(flatten)]
    pub(crate) pick: PickArgs,

    #[command(flatten)]
    pub(crate) part: PartArgs,

    #[command(flatten)]
    pub(crate) svg: SvgArgs,

    #[command(flatten, next_help_heading = "Names and messages")]
    pub(crate) input: InputArgs,
}

const EXAMPLES: &str = "\
Examples:
  sprof export profile.json.gz -o app.html
  sprof export profile.json.gz -f pprof -o app.pb.gz
  sprof export perf.data -f folded > app.folded";

const UNITS: &str = "\
Numbers are whole, and the same in every format: samples; nanoseconds, if samples stand for different times
(recorded with --off-cpu or hardware events); or bytes.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A line for each call path: `process;main;work 42`, for inferno, FlameGraph and others.
    Folded,
    /// A flame graph, to zoom and search in a browser.
    Svg,
    /// The profile with a viewer in one file: timeline, call trees, flame graph and sources in any browser, without
    /// internet.
    Html,
    /// For `go tool pprof` and others; gzip. With --measure allocated, retained or blocks it has all four values of
    /// Go's heap profiles, and shows the named one first.
    Pprof,
    /// For <https://www.speedscope.app>.
    Speedscope,
    /// For callgrind_annotate and KCachegrind: by function and line, with calls.
    Callgrind,
    /// For valgrind's dh_view.html: the blocks of memory of a recording with --heap, by call path.
    Dhat,
    /// As `perf script` prints samples.
    PerfScript,
    /// For collectors of OpenTelemetry: the profiles of OTLP 1.10, as protobuf.
    Otlp,
    /// Rows for ClickHouse, DuckDB, Spark and others: call paths with their sums and what ran.
    Parquet,
    /// The profile itself with everything in it; gzip if the output's name ends in .gz, plain if it ends in .json.
    Firefox,
    /// The same in version 55 of its format, for older front ends.
    #[value(name = "firefox-v55")]
    FirefoxV55,
}

/// Which time to export, and by what.
#[derive(Args, Clone, Debug)]
pub(crate) struct PickArgs {
    /// Export CPU time and waits together: the whole time of the threads.
    #[arg(long, conflicts_with = "off_cpu")]
    pub(crate) wall: bool,

    /// Show each thread on its own in folded stacks and flame graphs, not their sum for each process.
    #[arg(long)]
    pub(crate) threads: bool,
}

/// How a flame graph looks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Flame graphs")]
pub(crate) struct SvgArgs {
    /// Put the root at the top (an icicle graph).
    #[arg(long)]
    pub(crate) inverted: bool,

    /// Put the functions that run at the root, and their callers on top of them.
    #[arg(long, conflicts_with = "flame_chart")]
    pub(crate) reverse: bool,

    /// Show the samples in time order, thread after thread, instead of added up.
    #[arg(long, visible_alias = "flamechart")]
    pub(crate) flame_chart: bool,

    /// Headline [default: the program and what is shown].
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,

    /// Text below the headline, for example a commit or a machine.
    #[arg(long, value_name = "TEXT")]
    pub(crate) notes: Option<String>,

    /// Width in pixels. A browser that shows nothing else uses the width of its window.
    #[arg(long, visible_alias = "image-width", value_name = "PIXELS", default_value = "1200",
          value_parser = clap::value_parser!(u32).range(200..=100_000))]
    pub(crate) width: u32,

    /// Leave out frames that are narrower than this.
    #[arg(long, value_name = "PIXELS", default_value = "0.1", value_parser = value::pixels,
          allow_negative_numbers = true)]
    pub(crate) min_width: f64,
}
