//! `sprof setup`.

use clap::Args;

#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof setup
  sudo sprof setup
  sprof setup; sprof doctor")]
pub(crate) struct SetupArgs {}
