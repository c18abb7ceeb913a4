//! `sprof browse`.

use std::path::PathBuf;

use clap::Args;

use super::select::SelectArgs;

#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof browse profile.json.gz
  sprof browse perf.data --thread worker
  sprof browse heap.json.gz --measure peak")]
pub(crate) struct BrowseArgs {
    /// A file that `sprof report` reads: a saved profile, a file of `perf record`, a .partial file, text of `perf
    /// script`, folded stacks, or a file of pprof, callgrind, cachegrind, DHAT, massif or heaptrack. `-` is stdin.
    #[arg(value_name = "FILE", default_value = super::SAVED)]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) select: SelectArgs,
}
