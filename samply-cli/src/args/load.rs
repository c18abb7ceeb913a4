//! `sprof load`.

use std::path::PathBuf;

use clap::Args;

use super::ServeArgs;

/// Flags of `sprof load`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    /// A saved profile: from sprof, samply or Firefox, plain or gzip.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}
