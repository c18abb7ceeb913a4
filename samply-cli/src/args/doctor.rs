//! `sprof doctor`.

use clap::Args;

#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof doctor
  sudo sprof doctor
  sprof doctor --json")]
pub(crate) struct DoctorArgs {
    /// Print one line of JSON, for machines.
    #[arg(long)]
    pub(crate) json: bool,
}
