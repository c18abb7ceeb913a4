//! `sprof push`.

use std::path::PathBuf;

use clap::Args;

use super::export::PickArgs;
use super::input::{EventArgs, InputArgs, MeasureArgs};
use super::labels::LabelArgs;
use super::select::PartArgs;
use super::share::Private;

#[derive(Args, Clone, Debug)]
#[command(
    before_help = "\
Examples:
  sprof push profile.json.gz --to pyroscope=https://pyroscope.example.org --service shop
  sprof push profile.json.gz --to otlp=http://localhost:4318 --label region=eu
  sprof push bench.json.gz --to parca=http://localhost:7070 --commit 2f3a91c",
    after_help = "\
What a server needs to let sprof in stands in a variable of the environment, because other users can read arguments:
SPROF_PYROSCOPE_HEADERS, SPROF_PARCA_HEADERS and SPROF_OTLP_HEADERS, for example
SPROF_PYROSCOPE_HEADERS='Authorization=Bearer%20TOKEN,X-Scope-OrgID=team'.
Taken out before, as by `sprof share`: home folders and other paths down to their last parts, arguments, secrets of the
environment, names of users and hosts.
Nothing is sent twice: where it is unknown whether a profile arrived, sprof says so and ends.",
    mut_arg("event", |arg| arg.help("Send this event, if the file has several [default: the file's choice, or the first event]")),
    mut_arg("weigh", |arg| arg.conflicts_with_all(["off_cpu", "wall"])),
    mut_arg("wall", |arg| arg.help("Send CPU time and waits together: the whole time of the threads")),
    mut_arg("threads", |arg| arg.help("Send each thread of a process on its own, also to Pyroscope and Parca")),
)]
pub(crate) struct PushArgs {
    /// A file of any kind that `sprof load` opens. `-` is stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The server: pyroscope=URL, parca=URL or otlp=URL (a collector of OpenTelemetry). May be given several times.
    #[arg(long, value_name = "KIND=URL", required = true, value_delimiter = ' ')]
    pub(crate) to: Vec<String>,

    #[command(flatten)]
    pub(crate) labels: LabelArgs,

    /// Send where threads wait instead of CPU time; needs a recording with --off-cpu.
    #[arg(long = "waits", alias = "off-cpu")]
    pub(crate) off_cpu: bool,

    #[command(flatten)]
    pub(crate) pick: PickArgs,

    #[command(flatten)]
    pub(crate) event: EventArgs,

    #[command(flatten)]
    pub(crate) heap: MeasureArgs,

    #[command(flatten)]
    pub(crate) part: PartArgs,

    /// Leave this in the profile, which otherwise loses it. May be given several times, or as a list: args,paths.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) include: Vec<Private>,

    /// Also send to other machines without encryption: everyone on the way can read the profile and the headers.
    #[arg(long)]
    pub(crate) plain_http: bool,

    #[command(flatten, next_help_heading = "Names and messages")]
    pub(crate) input: InputArgs,
}
