//! `sprof load`.

use std::path::PathBuf;

use clap::Args;

use super::input::EventArgs;
use super::serve::ServeArgs;

const FOREIGN: &str = "Files of other profilers, and .partial files";
const SAVE: &str = "Saving";

#[derive(Args, Clone, Debug)]
#[command(
    before_help = "\
Examples:
  sprof load profile.json.gz
  sprof load -s -o app.json.gz perf.data          convert a file of another profiler
  sprof load -s profile.json.gz --symbol-dir DIR  save it with names from debug files in DIR",
    mut_arg("event", |arg| arg.help("Show the samples of this event, if the file has several \
                                     [default: the file's choice, or the first event without waits]"))
)]
pub(crate) struct LoadArgs {
    /// A saved profile (from sprof, samply or Firefox, plain or gzip), a file of `perf record` or of Android's
    /// `simpleperf record`, text of `perf script`, folded stacks, a file of pprof, callgrind, cachegrind, DHAT, massif
    /// or heaptrack, or the .partial file of a recording that did not end (sprof was killed, the power failed). `-` is
    /// stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten, next_help_heading = FOREIGN)]
    pub(crate) event: EventArgs,

    /// Save the file as a profile, with the names, files and lines that are available now, and exit; serve nothing.
    #[arg(short, long, help_heading = SAVE)]
    pub(crate) save_only: bool,

    /// File to save the profile to. sprof keeps an earlier profile: app.json.gz becomes app.1.json.gz.
    #[arg(short, long, value_name = "FILE", default_value = super::SAVED, help_heading = SAVE)]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}
