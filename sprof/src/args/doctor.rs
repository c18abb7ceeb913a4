//! `sprof doctor`.

use clap::Args;

use super::input::JsonArgs;

#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof doctor
  sudo sprof doctor
  sprof doctor --self-test")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    /// Record a small known program, check what was recorded, and print a block for a bug report.
    #[arg(long, conflicts_with_all = ["json", "format"])]
    pub(crate) self_test: bool,
    /// Resume the threads of a process that a killed sprof left suspended (macOS).
    #[arg(long, value_name = "PID", conflicts_with_all = ["json", "format", "self_test"])]
    pub(crate) resume: Option<i32>,
}
