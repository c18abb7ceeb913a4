//! `sprof diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use profile::data::Data;
use profile::view::diff::{Compared, DiffLimits};

use super::export::SvgArgs;
use super::input::{EventArgs, MeasureArgs};
use super::select::PartArgs;
use super::serve::ServeArgs;
use super::value;

#[derive(Args, Clone, Debug)]
#[command(
    before_help = "\
Examples:
  sprof diff old.json.gz new.json.gz
  sprof diff new1.json.gz new2.json.gz --base old1.json.gz old2.json.gz
  sprof diff 'pyroscope=http://localhost:4040?query={service_name=\"shop\"}&from=now-1h' new.json.gz",
    mut_arg("event", |arg| arg.help("Compare this event, if the files have several (from perf record, pprof, callgrind, cachegrind, DHAT, heaptrack or massif) \
                                     [default: the files' choice, or the first event]"))
)]
pub(crate) struct DiffArgs {
    /// Two profiles: before and after. With --base: one or more profiles from after. With --new: one or more profiles
    /// from before. `-` is stdin. pyroscope=URL?query=... and parca=URL?query=... ask a server for what it has in a
    /// time range (from=, until=).
    #[arg(value_name = "FILE", required_unless_present = "base")]
    pub(crate) files: Vec<PathBuf>,

    /// One or more profiles from before.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) base: Vec<PathBuf>,

    /// One or more profiles from after. Several recordings a side find smaller changes, and show what differs from run
    /// to run.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) new: Vec<PathBuf>,

    /// Also ask other machines without encryption: everyone on the way can read the profile and the headers.
    #[arg(long)]
    pub(crate) plain_http: bool,

    #[command(flatten)]
    pub(crate) event: EventArgs,

    #[command(flatten)]
    pub(crate) heap: MeasureArgs,

    /// What to compare. Text lists functions by the time in their own code, then by the time with all that they call.
    #[arg(long, value_name = "WHAT", default_value = "functions")]
    pub(crate) by: By,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// List at most N changes.
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,

    /// What to print: text, md (Markdown, for a pull request) or json.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: DiffFormat,

    /// Print JSON: the same as --format json.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,

    /// File to write the list to [default: stdout]. It replaces an earlier report.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Also draw a flame graph of the second side into this file, coloured by change: red grew, blue shrank, grey did
    /// not change, yellow where the recordings cannot tell. `-` is stdout, without the list.
    #[arg(long, value_name = "FILE")]
    pub(crate) flamegraph: Option<PathBuf>,

    /// Also write the comparison and the built-in viewer into this file: functions, flame graph and call tree, coloured
    /// by change. `-` is stdout, without the list.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Also open both profiles in the compare view of the profiler UI: the busiest thread of each. With --viewer, open
    /// the comparison in the built-in viewer.
    #[arg(long)]
    pub(crate) open: bool,

    #[command(flatten)]
    pub(crate) part: PartArgs,

    #[command(flatten)]
    pub(crate) svg: SvgArgs,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Functions, by the time in their own code: inlined functions each on their own, where both sides have some.
    Functions,
    /// Functions, by the time in their own code; inlined functions each on their own.
    Inlined,
    /// Functions as compiled, by the time in their own code and in what was inlined into it.
    Compiled,
    /// Functions, by the time in them and in all that they call.
    Total,
    /// Source lines.
    Lines,
    /// Call paths.
    Paths,
}

/// What counts as a change: the same for `sprof diff` and `sprof check`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LimitArgs {
    /// Of 100 listed changes, at most PERCENT may be chance. Of 100 rules that hold, at most PERCENT may be called
    /// broken.
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = value::percentage)]
    pub(crate) false_discoveries: f64,

    /// Leave out changes below this share of all samples.
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = value::percentage)]
    pub(crate) min_change: f64,
}

impl From<LimitArgs> for DiffLimits {
    fn from(args: LimitArgs) -> DiffLimits {
        DiffLimits {
            false_discoveries: args.false_discoveries / 100.0,
            least_change: args.min_change / 100.0,
        }
    }
}

impl By {
    /// `By::Functions` resolved for two sides: inlined functions each on their own if both sides have some, else
    /// functions as compiled. Other values stay.
    pub(crate) fn resolve(self, base: &[Data], new: &[Data]) -> By {
        match self {
            By::Functions if Compared::functions_of(base, new) == Compared::Inlined => By::Inlined,
            By::Functions => By::Compiled,
            by => by,
        }
    }

    /// The value as the user types it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            By::Functions => "functions",
            By::Inlined => "inlined",
            By::Compiled => "compiled",
            By::Total => "total",
            By::Lines => "lines",
            By::Paths => "paths",
        }
    }
}

impl From<By> for Compared {
    fn from(by: By) -> Compared {
        match by {
            By::Functions | By::Compiled => Compared::Own,
            By::Inlined => Compared::Inlined,
            By::Total => Compared::Total,
            By::Lines => Compared::Lines,
            By::Paths => Compared::Paths,
        }
    }
}

impl DiffArgs {
    pub(crate) fn format(&self) -> DiffFormat {
        if self.json { DiffFormat::Json } else { self.format }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    Text,
    Md,
    Json,
}
