//! `sprof guide`.

use clap::{Args, ValueEnum};

#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof guide
  sprof guide --schema report
  sprof guide --schema summary > sprof-summary.schema.json")]
pub(crate) struct GuideArgs {
    /// Print the JSON schema of an output instead: of a command with --json, by its name. `summary` is of `sprof
    /// record`, `shared` of `sprof share --list`.
    #[arg(long, value_name = "OUTPUT")]
    pub(crate) schema: Option<JsonOutput>,
}

/// A JSON output.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum JsonOutput {
    Summary,
    Report,
    Annotate,
    Diff,
    Check,
    Stat,
    Doctor,
    Share,
    Shared,
}
