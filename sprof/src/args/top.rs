//! `sprof top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::input::InputArgs;
use super::record::RecordingArgs;
use super::report::Sort;
use super::value;

#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "sprof top [OPTIONS] [--] [VAR=x]... COMMAND [ARGS]...\n       \
                      sprof top [OPTIONS] -p PID[,PID]... [[--] COMMAND [ARGS]...]\n       \
                      sprof top [OPTIONS] -a [[--] COMMAND [ARGS]...]",
    before_help = "\
Examples:
  sprof top ./app                              on the screen, with the keys of sprof browse
  sprof top -d 2 -n 5 -p 1234 > app.txt        five tables of 2 s each of a running process
  sprof top -o app.json.gz ./app | grep parse  and the whole recording as a profile",
    after_help = "\
On a terminal this is the screen of sprof browse; s saves, q ends the recording. Else, and with -n, tables go to stdout;
what the program prints there goes to stderr. Each table is of the time since the one before, trend
compares shares with the table before, in percentage points.

Exit status: that of `sprof record`.",
    // -d is the interval, as of top.
    mut_arg("duration", |arg| arg.short(None)),
    // A view is of one run.
    mut_arg("iteration_count", |arg| arg.hide(true).value_parser(clap::value_parser!(u32).range(1..=1))),
    mut_arg("ignore_exit_code", |arg| arg.hide(true)),
    // A view of the whole recording needs all of it.
    mut_arg("last", |arg| arg.hide(true)),
)]
pub(crate) struct TopArgs {
    /// Seconds from one table, or one update of the screen, to the next [default: 1 for tables, 0.5 for the screen].
    #[arg(short = 'd', long, value_name = "SECONDS", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) interval: Option<Duration>,

    /// Number of tables to print. Then the recording ends, and with it a program that sprof started [default: until
    /// the program ends, Ctrl-C or --duration].
    #[arg(short = 'n', long, value_name = "TIMES", conflicts_with = "duration",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) times: Option<u32>,

    /// Order of functions.
    #[arg(long, value_enum, value_name = "KEY", default_value = "self")]
    pub(crate) sort: Sort,

    /// Also save all that was recorded as a profile [default: nothing is saved, but by the key s].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) recording: RecordingArgs,

    #[command(flatten, next_help_heading = "Names and messages")]
    pub(crate) input: InputArgs,
}
