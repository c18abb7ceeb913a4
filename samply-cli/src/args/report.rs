//! `sprof report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::select::SelectArgs;
use super::value;

#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof report profile.json.gz
  sprof report profile.json.gz --view callers=malloc
  sprof report perf.data --format json | jq '.views[0].rows[:3]'")]
pub(crate) struct ReportArgs {
    /// A saved profile (from sprof, samply or the Firefox Profiler, plain or gzip), a file of `perf record`, a .partial file,
    /// text of `perf script`, folded stacks, or a file of pprof, callgrind, cachegrind or DHAT. `-` is stdin.
    #[arg(value_name = "FILE", default_value = super::SAVED)]
    pub(crate) file: PathBuf,

    /// What to show [default: summary]: summary, functions, lines, tree, bottom-up, callers=FUNCTION, threads, processes,
    /// crates, categories or buckets. May be given several times.
    #[arg(long, value_name = "VIEW", value_parser = view)]
    pub(crate) view: Vec<View>,

    /// What to print: text, Markdown or JSON.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,

    /// Print JSON: the same as --format json.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,

    /// Order of functions and lines.
    #[arg(long, value_name = "KEY", default_value = "self")]
    pub(crate) sort: Sort,

    /// Print at most N rows of each table; 0 is all [default: 10 in the summary, 40 in other views; all in JSON].
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Leave out rows with a smaller share of the selected samples [default: 1 in trees, 0 elsewhere].
    #[arg(long, value_name = "PERCENT", value_parser = value::percent)]
    pub(crate) min_percent: Option<f64>,

    /// File to write to [default: stdout]. It replaces an earlier report.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

impl ReportArgs {
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// A table or tree of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The most important rows of several views.
    Summary,
    Functions,
    Lines,
    Tree,
    /// Functions by self cost, with their callers.
    BottomUp,
    Callers(String),
    Threads,
    Processes,
    /// Crates of Rust, libraries of others, the kernel.
    Crates,
    Categories,
    /// Kinds of cost: allocating, cloning, hashing, locks and others.
    Buckets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for a terminal or a pipe.
    Text,
    /// Markdown tables.
    Md,
    /// One JSON object.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Samples in the function itself.
    #[value(name = "self")]
    Own,
    /// Samples in the function and in all that it called.
    Total,
    Name,
}

/// A view of `sprof report`.
fn view(text: &str) -> Result<View, String> {
    Ok(match text {
        "summary" => View::Summary,
        "functions" => View::Functions,
        "lines" => View::Lines,
        "tree" => View::Tree,
        "bottom-up" => View::BottomUp,
        "threads" => View::Threads,
        "processes" => View::Processes,
        "crates" => View::Crates,
        "categories" => View::Categories,
        "buckets" => View::Buckets,
        _ => match text.split_once('=') {
            Some(("callers", function)) if !function.is_empty() => View::Callers(function.to_owned()),
            _ => {
                return Err(
                    "expected summary, functions, lines, tree, bottom-up, callers=FUNCTION, threads, processes, \
                            crates, categories or buckets"
                        .to_owned(),
                );
            }
        },
    })
}
