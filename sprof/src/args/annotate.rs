//! `sprof annotate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::select::SelectArgs;

/// Default of `-C`.
const CONTEXT: usize = 4;

#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof annotate profile.json.gz my_function
  sprof annotate profile.json.gz app::module::function --asm
  sprof annotate perf.data malloc --symbol-dir /usr/lib/debug")]
pub(crate) struct AnnotateArgs {
    /// A saved profile, a file of `perf record`, text of `perf script`, a .partial file, or a file of pprof, callgrind,
    /// cachegrind, DHAT, heaptrack or massif. `-` is stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The function: its whole name, or the last part of the name, or any part.
    #[arg(value_name = "FUNCTION")]
    pub(crate) function: String,

    /// Print only the source.
    #[arg(long, conflicts_with = "asm")]
    pub(crate) source: bool,

    /// Print only the machine code.
    #[arg(long)]
    pub(crate) asm: bool,

    /// Print no source lines between the instructions.
    #[arg(long, conflicts_with = "source")]
    pub(crate) no_lines: bool,

    /// Print N lines or instructions around each one with samples.
    #[arg(short = 'C', long, value_name = "N", default_value_t = CONTEXT)]
    pub(crate) context: usize,

    /// What to print: text or json.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    format: AnnotateFormat,

    /// Print JSON: the same as --format json.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,

    /// File to write to [default: stdout]. It replaces an earlier report.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnnotateFormat {
    Text,
    Json,
}

impl AnnotateArgs {
    /// Source and machine code of a function, as text.
    pub(crate) fn of_function(file: PathBuf, function: String, select: SelectArgs) -> AnnotateArgs {
        AnnotateArgs {
            file,
            function,
            source: false,
            asm: false,
            no_lines: false,
            context: CONTEXT,
            format: AnnotateFormat::Text,
            json: false,
            output: None,
            select,
        }
    }

    pub(crate) fn format(&self) -> AnnotateFormat {
        if self.json { AnnotateFormat::Json } else { self.format }
    }
}
