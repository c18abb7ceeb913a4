//! `sprof merge`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::input::InputArgs;

#[derive(Args, Clone, Debug)]
#[command(
    before_help = "\
Examples:
  sprof merge client.json.gz server.json.gz -o both.json.gz   one timeline, by the clock
  sprof merge run*.json.gz --align start -o runs.json.gz      all runs begin at one place
  sprof merge profile.json.gz perf.data -o all.json.gz        files of any profiler that counts time",
    after_help = "Processes keep their numbers where these are free, and get the name of their file where two files have processes of one \
                  name. Markers, counters and waits come along. Files that count different things can't be merged."
)]
pub(crate) struct MergeArgs {
    /// Two or more files of any kind that `sprof load` opens.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// File to save the merged profile to. sprof keeps an earlier profile: app.json.gz becomes app.1.json.gz.
    #[arg(short, long, value_name = "FILE", default_value = "merged.json.gz")]
    pub(crate) output: PathBuf,

    /// How the times of the files relate [default: clock where the recordings overlap or follow within a minute, else
    /// start].
    #[arg(long, value_name = "HOW")]
    pub(crate) align: Option<AlignBy>,

    #[command(flatten, next_help_heading = "Names and messages")]
    pub(crate) input: InputArgs,
}

/// How times relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AlignBy {
    /// What happened at one time stands at one place.
    Clock,
    /// All begin at the same place.
    Start,
}
