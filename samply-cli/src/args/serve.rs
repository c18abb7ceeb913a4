//! Flags of the commands that show a profile.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::value::{self, Port};

/// How to serve a profile to the browser.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Showing the profile")]
pub(crate) struct ServeArgs {
    /// Serve the profile, but do not open the browser.
    #[arg(short, long, env = "SPROF_NO_OPEN", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) no_open: bool,

    /// Port of the local server; `+` means the next free port from there.
    #[arg(short = 'P', long, value_name = "PORT[+]", env = "SPROF_PORT", hide_env = true,
          default_value = "3000+", value_parser = value::port)]
    pub(crate) port: Port,

    /// Address that the local server listens on. With another address than the default, everyone who reaches it and knows the link
    /// can read the profile and the program's sources.
    #[arg(long, value_name = "IP", env = "SPROF_ADDRESS", hide_env = true, default_value = "127.0.0.1",
          value_parser = value::address)]
    pub(crate) address: IpAddr,

    /// Profiler UI to open [default: profiler.firefox.com, or PROFILER_URL].
    #[arg(long, value_name = "URL", env = "SPROF_UI_URL", hide_env = true, value_parser = value::ui_url,
          conflicts_with = "ui_dir")]
    pub(crate) ui_url: Option<String>,

    /// Serve a built profiler UI from this folder; it needs no internet, and the browser asks for no permission.
    #[arg(long, value_name = "DIR", env = "SPROF_UI_DIR", hide_env = true)]
    pub(crate) ui_dir: Option<PathBuf>,

    /// Look for debug files in this folder, too. May be given several times.
    #[arg(
        long,
        value_name = "DIR",
        env = "SPROF_SYMBOL_DIR",
        hide_env = true,
        value_delimiter = ':'
    )]
    pub(crate) symbol_dir: Vec<PathBuf>,

    /// Print errors only, and the link if no browser opens it.
    #[arg(short, long, env = "SPROF_QUIET", hide_env = true, value_parser = FalseyValueParser::new(),
          conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more: what each stage did, and for how long.
    #[arg(short, long, env = "SPROF_VERBOSE", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) verbose: bool,
}
