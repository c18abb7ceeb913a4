//! `sprof count`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::record::{ProgramWords, split_environment};
use crate::terminal::Verbosity;

#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "sprof count [OPTIONS] [--] [VAR=x]... COMMAND [ARGS]...",
    before_help = "\
Examples:
  sprof count ./app --its --arguments       the instructions of each function
  sprof count --cache -o new.out ./app      also misses of caches and branches, which valgrind simulates
  sprof count cargo test --test sort        the programs that cargo runs, without cargo and the build",
    after_help = "\
The program takes 20 to 50 times as long, with --cache 50 to 100 times, and its threads take turns
on one CPU. The kernel's instructions are not counted, nor what a process ran before it executed
another program. VALGRIND_OPTS adds options of callgrind.

The result is a file of callgrind: `sprof report callgrind.out`, with -e D1mr for another event;
`sprof diff` and `sprof check --max-total-increase 1%` compare two such files without chance.

valgrind does not know the newest instructions (AVX-512) and system calls. Under it, programs
can't trace others (ptrace), and can't execute themselves as /proc/self/exe. Programs of Go need
GODEBUG=asyncpreemptoff=1. Code that a JIT compiler makes is counted, without names. Only root's
programs can start set-user-ID programs.

Exit status: the program's own."
)]
pub(crate) struct CountArgs {
    /// The program to run, and its arguments. VAR=x words before it are added to its environment.
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = false
    )]
    command: Vec<OsString>,

    /// Also simulate caches as large as those of this machine, and a branch predictor: reads, writes, branches, and
    /// misses of each.
    #[arg(long)]
    pub(crate) cache: bool,

    /// Leave cargo's profiles unchanged, where functions would lack names or lines.
    #[arg(long)]
    pub(crate) no_cargo_env: bool,

    /// File to write. An earlier one is kept under another name.
    #[arg(short, long, value_name = "FILE", default_value = "callgrind.out")]
    pub(crate) output: PathBuf,

    /// Print errors only.
    #[arg(short, long)]
    quiet: bool,
}

impl CountArgs {
    /// The program; `None` if there are only variables.
    pub(crate) fn program(&self) -> Option<ProgramWords> {
        split_environment(&self.command)
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        Verbosity::of(self.quiet, false)
    }
}
