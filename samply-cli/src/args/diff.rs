//! `sprof diff`.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use profile::view::diff::{Limits, What};

use super::{PartArgs, ServeArgs, SvgArgs, value};

/// Flags of `sprof diff`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sprof diff old.json.gz new.json.gz
  sprof diff old1.json.gz old2.json.gz --new new1.json.gz new2.json.gz
  sprof diff old.json.gz new.json.gz --flamegraph diff.svg
  sprof diff old.json.gz new.json.gz -f md > comment.md")]
pub(crate) struct DiffArgs {
    /// Two profiles: before and after. With --new: one profile or more from before. `-` is stdin.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Profiles from after: several recordings a side find smaller changes, and tell what differs from run to run.
    #[arg(long, value_name = "FILE", num_args = 1.., env = "SPROF_NEW", hide_env = true)]
    pub(crate) new: Vec<PathBuf>,

    /// Of files that count several things (of perf record, pprof, callgrind, cachegrind, DHAT), this one [default: the files' own
    /// choice, or the first].
    #[arg(short, long, value_name = "NAME", env = "SPROF_EVENT", hide_env = true)]
    pub(crate) event: Option<String>,

    /// What to compare. As text, functions are listed by the time in their own code, then with all that they call.
    #[arg(
        long,
        value_name = "WHAT",
        env = "SPROF_BY",
        hide_env = true,
        default_value = "functions"
    )]
    pub(crate) by: By,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// List at most so many changes.
    #[arg(long, value_name = "N", env = "SPROF_LIMIT", hide_env = true, default_value_t = 30)]
    pub(crate) limit: usize,

    /// text for people, md for a comment on a pull request, json for programs.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        env = "SPROF_FORMAT",
        hide_env = true,
        default_value = "text"
    )]
    pub(crate) format: DiffFormat,

    /// Draw a flame graph of the second side into this file, too, coloured by what changed: red grew, blue shrank, grey is
    /// chance or nothing. `-` is stdout, without the list.
    #[arg(long, value_name = "FILE", env = "SPROF_FLAMEGRAPH", hide_env = true)]
    pub(crate) flamegraph: Option<PathBuf>,

    /// Show both in the profiler UI, too, in its view that compares two profiles: one thread of each, the busiest.
    #[arg(long, env = "SPROF_OPEN", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) open: bool,

    #[command(flatten)]
    pub(crate) part: PartArgs,

    #[command(flatten)]
    pub(crate) svg: SvgArgs,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// [`DiffArgs::by`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Functions, by the time in their own code and in what is inlined into them.
    Functions,
    /// Functions, each inlined one on its own.
    Inlined,
    /// Functions, with all that they call.
    Total,
    /// Source lines.
    Lines,
    /// Call paths.
    Paths,
}

/// What counts as a change: the same for `sprof diff` and `sprof check`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LimitArgs {
    /// How many of 100 listed changes may be chance, at most; of 100 rules that hold, how many may be called broken.
    #[arg(long, value_name = "PERCENT", env = "SPROF_FALSE_DISCOVERIES", hide_env = true,
          default_value = "1", value_parser = value::percentage)]
    pub(crate) false_discoveries: f64,

    /// Leave out changes of less than this share of all samples.
    #[arg(long, value_name = "PERCENT", env = "SPROF_MIN_CHANGE", hide_env = true,
          default_value = "0.5", value_parser = value::percentage)]
    pub(crate) min_change: f64,
}

impl From<LimitArgs> for Limits {
    fn from(args: LimitArgs) -> Limits {
        Limits {
            false_discoveries: args.false_discoveries / 100.0,
            least_change: args.min_change / 100.0,
        }
    }
}

impl From<By> for What {
    fn from(by: By) -> What {
        match by {
            By::Functions => What::Own,
            By::Inlined => What::Inlined,
            By::Total => What::Total,
            By::Lines => What::Lines,
            By::Paths => What::Paths,
        }
    }
}

/// [`DiffArgs::format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    Text,
    Md,
    Json,
}
