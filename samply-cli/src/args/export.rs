//! `sprof export` and `sprof flamegraph`.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};

use super::{RecordingArgs, value};

/// Flags of `sprof export`.
#[derive(Args, Clone, Debug)]
#[command(after_help = format!("{EXAMPLES}\n\n{UNITS}"))]
pub(crate) struct ExportArgs {
    /// A saved profile (from sprof, samply or Firefox, plain or gzip), a file of `perf record`, text of `perf script`, a .partial
    /// file, folded stacks, or a file of pprof, callgrind, cachegrind or DHAT. `-` is stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// What to write [default: what the output's name ends in].
    #[arg(short, long, value_name = "FORMAT", env = "SPROF_FORMAT", hide_env = true)]
    pub(crate) format: Option<ExportFormat>,

    /// File to write [default: stdout]. An existing one is replaced if it is of the same kind.
    #[arg(short, long, value_name = "FILE", env = "SPROF_OUTPUT", hide_env = true)]
    pub(crate) output: Option<PathBuf>,

    /// Export where threads wait instead of CPU time; the profile must be one of `sprof record --off-cpu`.
    #[arg(long, env = "SPROF_OFF_CPU", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) off_cpu: bool,

    #[command(flatten)]
    pub(crate) pick: PickArgs,

    /// Of a file that counts several things (recorded with -e, of perf record, pprof, callgrind, cachegrind, DHAT), this one
    /// [default: the file's own choice, or the first].
    #[arg(short, long, value_name = "NAME", env = "SPROF_EVENT", hide_env = true)]
    pub(crate) event: Option<String>,

    #[command(flatten)]
    pub(crate) svg: SvgArgs,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// What goes with a program only, and not with a saved profile.
const CHOICES_OF_A_RECORDING: [&str; 13] = [
    "command",
    "pid",
    "all",
    "rate",
    "duration",
    "keep_running",
    "iteration_count",
    "ignore_exit_code",
    "stack_size",
    "main_thread_only",
    "per_cpu_threads",
    "include_args",
    "profile_name",
];

/// Flags of `sprof flamegraph`.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "sprof flamegraph [OPTIONS] [--] [VAR=x]... COMMAND [ARGS]...\n       \
                      sprof flamegraph [OPTIONS] -p PID[,PID]... [-- COMMAND [ARGS]...]\n       \
                      sprof flamegraph [OPTIONS] -a [-- COMMAND [ARGS]...]\n       \
                      sprof flamegraph [OPTIONS] FILE [--base BASE...]",
    after_help = "\
Examples:
  sprof flamegraph ./app --its --arguments
  sprof flamegraph -o app.svg profile.json.gz
  sprof flamegraph -e page-faults -- ./app
  sprof flamegraph new.json.gz --base old.json.gz

With --off-cpu the flame graph shows where threads wait, with --wall CPU time and waits together.",
    mut_arg("command", |arg| arg
        .last(true)
        .trailing_var_arg(false)
        .required_unless_present_any(["pid", "all", "file"])),
)]
pub(crate) struct FlamegraphArgs {
    /// A saved profile, a file of `perf record`, text of `perf script`, a .partial file, folded stacks, or a file of pprof, callgrind,
    /// cachegrind or DHAT, instead of a program to record. `-` is stdin.
    #[arg(value_name = "FILE", conflicts_with_all = CHOICES_OF_A_RECORDING)]
    pub(crate) file: Option<PathBuf>,

    /// Profiles to compare FILE to, one or more: the flame graph is coloured by what changed. As `sprof diff --flamegraph`.
    #[arg(long, value_name = "BASE", num_args = 1.., requires = "file", env = "SPROF_BASE", hide_env = true)]
    pub(crate) base: Vec<PathBuf>,

    /// File to write; `-` is stdout (the program's own output then goes to stderr).
    #[arg(
        short,
        long,
        value_name = "FILE",
        env = "SPROF_OUTPUT",
        hide_env = true,
        default_value = "flamegraph.svg"
    )]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) recording: RecordingArgs,

    #[command(flatten)]
    pub(crate) pick: PickArgs,

    #[command(flatten)]
    pub(crate) svg: SvgArgs,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}

const EXAMPLES: &str = "\
Examples:
  sprof export profile.json.gz -f svg -o flamegraph.svg
  sprof export profile.json.gz -f pprof -o app.pb.gz
  sprof export perf.data -f folded > app.folded
  sprof export profile.json.gz -f perf-script -e page-faults";

const UNITS: &str = "\
Numbers are whole and the same in every format: samples, where each sample of the profile counts as one;
nanoseconds, where samples stand for different times (recorded with --off-cpu, or on hardware events); or bytes.";

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A line for each call path, for inferno, FlameGraph and others: `process;main;work 42`.
    Folded,
    /// A flame graph, for a browser (zoom, search) or any program that shows pictures.
    Svg,
    /// For `go tool pprof` and all that read its format; gzip.
    Pprof,
    /// For <https://www.speedscope.app>.
    Speedscope,
    /// For callgrind_annotate and KCachegrind: by function and line, with calls.
    Callgrind,
    /// As `perf script` prints samples.
    PerfScript,
    /// The profile itself, with all that is in it; gzip if the output's name ends in .gz, plain if in .json.
    Firefox,
    /// The same in version 55 of its format, for older front ends.
    #[value(name = "firefox-v55")]
    FirefoxV55,
}

/// Which samples to export.
#[derive(Args, Clone, Debug)]
pub(crate) struct PickArgs {
    /// Export CPU time and waits together: all of the threads' time.
    #[arg(long, env = "SPROF_WALL", hide_env = true, value_parser = FalseyValueParser::new(),
          conflicts_with = "off_cpu")]
    pub(crate) wall: bool,

    /// Keep threads apart in folded stacks and flame graphs; else those of a process are added up.
    #[arg(long, env = "SPROF_THREADS", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) threads: bool,
}

/// How a flame graph looks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Flame graphs")]
pub(crate) struct SvgArgs {
    /// Put the root at the top (an icicle graph).
    #[arg(long, env = "SPROF_INVERTED", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) inverted: bool,

    /// Put the functions that run at the root, and their callers on top of them.
    #[arg(long, env = "SPROF_REVERSE", hide_env = true, value_parser = FalseyValueParser::new(),
          conflicts_with = "flame_chart")]
    pub(crate) reverse: bool,

    /// Show the samples in time order, thread after thread, instead of added up.
    #[arg(long, visible_alias = "flamechart", env = "SPROF_FLAME_CHART", hide_env = true,
          value_parser = FalseyValueParser::new())]
    pub(crate) flame_chart: bool,

    /// Headline [default: the program, and what is shown].
    #[arg(long, value_name = "TEXT", env = "SPROF_TITLE", hide_env = true)]
    pub(crate) title: Option<String>,

    /// A text to put below the headline: a commit, a machine.
    #[arg(long, value_name = "TEXT", env = "SPROF_NOTES", hide_env = true)]
    pub(crate) notes: Option<String>,

    /// Width in pixels; a browser that shows nothing else takes its own.
    #[arg(long, visible_alias = "image-width", value_name = "PIXELS", env = "SPROF_WIDTH", hide_env = true,
          default_value = "1200", value_parser = clap::value_parser!(u32).range(200..=100_000))]
    pub(crate) width: u32,

    /// Leave out frames that are narrower than this at that width.
    #[arg(long, value_name = "PIXELS", env = "SPROF_MIN_WIDTH", hide_env = true, default_value = "0.1",
          value_parser = value::pixels, allow_negative_numbers = true)]
    pub(crate) min_width: f64,
}

/// How to name functions, and how much to say.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Names and words")]
pub(crate) struct InputArgs {
    /// Folder to look for debug files in, too. May be given several times.
    #[arg(
        long,
        value_name = "DIR",
        env = "SPROF_SYMBOL_DIR",
        hide_env = true,
        value_delimiter = ':'
    )]
    pub(crate) symbol_dir: Vec<PathBuf>,

    /// Print errors only.
    #[arg(short, long, env = "SPROF_QUIET", hide_env = true, value_parser = FalseyValueParser::new(),
          conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more: what each stage did, and what has no names.
    #[arg(short, long, env = "SPROF_VERBOSE", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) verbose: bool,
}
