//! Flags of the commands that show a profile.

use std::net::IpAddr;
use std::path::PathBuf;

use ::server::{ListenOptions, Port, UiSource};
use clap::Args;

use super::input::InputArgs;
use super::value;

/// How to serve a profile to the browser.
#[derive(Args, Clone, Debug)]
#[command(
    next_help_heading = "Showing the profile",
    mut_arg("quiet", |arg| arg.help("Print errors only, and the link if no browser opens it")),
    mut_arg("verbose", |arg| arg.help("Print more: what each stage did, and for how long")),
)]
pub(crate) struct ServeArgs {
    /// Serve the profile, but do not open the browser.
    #[arg(short, long)]
    pub(crate) no_open: bool,

    /// Port of the local server; `+` means the next free port from there.
    #[arg(short = 'P', long, value_name = "PORT[+]", default_value = "3000+", value_parser = value::port)]
    pub(crate) port: Port,

    /// Address that the local server listens on. With another address than the default, everyone who reaches it and
    /// knows the link can read the profile and the program's sources.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = value::address)]
    pub(crate) address: IpAddr,

    /// Profiler UI to open [default: profiler.firefox.com, or PROFILER_URL].
    #[arg(long, value_name = "URL", value_parser = value::ui_url, conflicts_with = "ui_dir")]
    pub(crate) ui_url: Option<String>,

    /// Serve a built profiler UI from this folder; it needs no internet, and the browser asks for no permission.
    #[arg(long, value_name = "DIR")]
    pub(crate) ui_dir: Option<PathBuf>,

    /// Open the built-in viewer, which needs no internet and no other page.
    #[arg(long, conflicts_with_all = ["ui_url", "ui_dir"])]
    pub(crate) viewer: bool,

    /// Serve until Ctrl-C. Without it, the server ends when nobody has asked it for anything for 8 hours.
    #[arg(long)]
    pub(crate) keep: bool,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}

impl ServeArgs {
    /// Where the server listens, and the UI of its links.
    ///
    /// # Errors
    ///
    /// `PROFILER_URL` is not the address of a UI.
    pub(crate) fn listen_options(&self) -> Result<ListenOptions, String> {
        Ok(ListenOptions {
            address: self.address,
            port: self.port,
            ui: match &self.ui_dir {
                Some(folder) => UiSource::Folder(folder.clone()),
                None => UiSource::Url(value::ui_or_public(self.ui_url.as_deref())?),
            },
            opens_viewer: self.viewer,
        })
    }
}
