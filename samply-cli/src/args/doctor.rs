//! `sprof doctor`.

use clap::Args;
use clap::builder::FalseyValueParser;

/// Flags of `sprof doctor`.
#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof doctor
  sudo sprof doctor
  sprof doctor --json")]
pub(crate) struct DoctorArgs {
    /// Print one line of JSON, for machines.
    #[arg(long, env = "SPROF_JSON", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}
