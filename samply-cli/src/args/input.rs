//! Flags of all commands that read a file: each is defined here once. Where its text differs, the command says so.

use std::path::PathBuf;

use clap::Args;

use crate::term::Verbosity;

/// Where names are looked up.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SymbolArgs {
    /// Look for debug files in this folder, too. May be given several times.
    #[arg(long, value_name = "DIR", value_delimiter = ':')]
    symbol_dir: Vec<PathBuf>,
}

/// How much to print.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct VerboseArgs {
    /// Print more: what each stage did, and what has no name.
    #[arg(short, long)]
    verbose: bool,
}

/// Where names are looked up, and how much to print.
#[derive(Args, Clone, Debug)]
pub(crate) struct InputArgs {
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,

    /// Print errors only.
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    #[command(flatten)]
    verbose: VerboseArgs,
}

/// Which of the events of a file.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct EventArgs {
    /// Show this event, if the file has several (from -e, perf record, pprof, callgrind, cachegrind or DHAT) [default: the file's
    /// choice, or the first event].
    #[arg(short, long, value_name = "NAME")]
    event: Option<String>,
}

impl SymbolArgs {
    /// Folders to look for debug files in, too.
    pub(crate) fn dirs(&self) -> &[PathBuf] {
        &self.symbol_dir
    }
}

impl VerboseArgs {
    pub(crate) fn verbosity(&self) -> Verbosity {
        Verbosity::of(false, self.verbose)
    }
}

impl InputArgs {
    pub(crate) fn verbosity(&self) -> Verbosity {
        Verbosity::of(self.quiet, self.verbose.verbose)
    }
}

impl EventArgs {
    /// The event; `None` for the file's own choice.
    pub(crate) fn name(&self) -> Option<&str> {
        self.event.as_deref()
    }
}
