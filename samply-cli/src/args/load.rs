//! `sprof load`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::ServeArgs;

/// Flags of `sprof load`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sprof load profile.json.gz
  sprof load perf.data
  sprof load -s -o app.json.gz perf.data  convert it
  sprof load -n -P 8080 profile.json.gz   print the link, open no browser")]
pub(crate) struct LoadArgs {
    /// A saved profile (from sprof, samply or Firefox, plain or gzip), a file of `perf record` or of Android's
    /// `simpleperf record`, text of `perf script`, folded stacks, a file of pprof, callgrind, cachegrind or DHAT, or the .partial
    /// file that is left of a recording when sprof is killed or the power fails. `-` is stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Show the samples of this event, where the file has several [default: the first that is not of waits, or the file's choice].
    #[arg(
        short,
        long,
        value_name = "NAME",
        env = "SPROF_EVENT",
        hide_env = true,
        help_heading = "Files of other profilers, and .partial files"
    )]
    pub(crate) event: Option<String>,

    /// Convert to a profile with function names, save it and exit; do not serve it.
    #[arg(short, long, env = "SPROF_SAVE_ONLY", hide_env = true, value_parser = FalseyValueParser::new(),
          help_heading = "Files of other profilers, and .partial files")]
    pub(crate) save_only: bool,

    /// File to save the converted profile to. An earlier profile there is kept as profile.1.json.gz.
    #[arg(
        short,
        long,
        value_name = "FILE",
        env = "SPROF_OUTPUT",
        hide_env = true,
        default_value = "profile.json.gz",
        help_heading = "Files of other profilers, and .partial files"
    )]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}
