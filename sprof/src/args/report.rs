//! `sprof report`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, ValueEnum};

use super::select::SelectArgs;
use super::value;

#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof report profile.json.gz
  sprof report profile.json.gz --view callers=malloc
  sprof report perf.data --format json | jq '.views[0].rows[:3]'")]
pub(crate) struct ReportArgs {
    /// A saved profile (from sprof, samply or the Firefox Profiler, plain or gzip), a file of `perf record`, a .partial
    /// file, text of `perf script`, folded stacks, or a file of pprof, callgrind, cachegrind, DHAT, massif or
    /// heaptrack. `-` is stdin.
    #[arg(value_name = "FILE", default_value = super::SAVED)]
    pub(crate) file: PathBuf,

    /// What to show [default: summary]: summary, functions, lines, tree, bottom-up, callers=FUNCTION, threads,
    /// processes, crates, categories, buckets, heap (who allocates, who keeps it, what grows), parallelism (wall time
    /// by number of running threads), resources (CPUs, memory, disks, network: how busy, how short), spans (how long
    /// the sections took that the program marked, and what threads did in them), futures (by the async function that an
    /// executor polled) or markers (system calls, probes, benchmarks). May be given several times.
    #[arg(long, value_name = "VIEW", value_parser = ViewParser, hide_possible_values = true)]
    pub(crate) view: Vec<View>,

    /// What to print: text, Markdown or JSON (its schema: `sprof guide --schema report`).
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,

    /// Print JSON: the same as --format json.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,

    /// Order of functions and lines. Markers are ordered by number (self), by the sum of their time (total) or by name;
    /// spans by the sum of their time or by name.
    #[arg(long, value_name = "KEY", default_value = "self")]
    pub(crate) sort: Sort,

    /// Print at most N rows of each table; 0 is all [default: 10 in the summary, 40 in other views; all in JSON].
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Leave out rows with a smaller share of the selected samples [default: 1 in trees and of
    /// functions in parallelism, 0 elsewhere].
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
    /// Blocks of memory by the code that took them, from a recording with `--heap`.
    Heap,
    /// Wall time by number of running threads.
    Parallelism,
    /// How busy CPUs, memory, disks and network were, and what waited for them.
    Resources,
    /// Sections that the program marked, by name.
    Spans,
    /// Futures that an executor polled.
    Futures,
    /// Events one by one: system calls, probes, benchmarks, what a script marked.
    Markers,
}

impl View {
    /// The view as the user types it.
    pub(crate) fn word(&self) -> String {
        if let View::Callers(function) = self {
            return format!("{CALLERS}{function}");
        }
        let found = VIEWS.iter().find(|(_, view, _)| view == self);
        found.map_or_else(String::new, |(name, ..)| (*name).to_owned())
    }
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

/// Names of views and what they show, for messages and shell completions.
static VIEWS: [(&str, View, &str); 17] = [
    ("summary", View::Summary, "the most important rows of several views"),
    ("functions", View::Functions, "functions by the time in their own code"),
    ("lines", View::Lines, "source lines"),
    ("tree", View::Tree, "call tree, from roots"),
    ("bottom-up", View::BottomUp, "functions, with their callers"),
    (
        CALLERS,
        View::Callers(String::new()),
        "callers of a function, and what it calls",
    ),
    ("threads", View::Threads, "threads"),
    ("processes", View::Processes, "processes"),
    ("crates", View::Crates, "crates, libraries and the kernel"),
    ("categories", View::Categories, "kinds of code"),
    ("buckets", View::Buckets, "kinds of cost: allocating, copying, locks"),
    ("heap", View::Heap, "blocks of memory, by the code that took them"),
    (
        "parallelism",
        View::Parallelism,
        "wall time by number of running threads; what no second CPU helps with",
    ),
    (
        "resources",
        View::Resources,
        "CPUs, memory, disks and network: how busy, how short",
    ),
    (
        "spans",
        View::Spans,
        "sections that the program marked: how long, and what threads did",
    ),
    (
        "futures",
        View::Futures,
        "async functions and futures that an executor polled",
    ),
    (
        "markers",
        View::Markers,
        "events one by one: system calls, probes, benchmarks",
    ),
];

const CALLERS: &str = "callers=";

/// Reads a view.
#[derive(Clone)]
struct ViewParser;

impl TypedValueParser for ViewParser {
    type Value = View;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<View, clap::Error> {
        StringValueParser::new().try_map(view).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = VIEWS
            .iter()
            .map(|(name, _, help)| PossibleValue::new(*name).help(*help));
        Some(Box::new(values))
    }
}

fn view(text: String) -> Result<View, String> {
    match text.strip_prefix(CALLERS) {
        Some(function) if !function.is_empty() => return Ok(View::Callers(function.to_owned())),
        _ => {}
    }
    let known = VIEWS.iter().filter(|(name, ..)| *name != CALLERS);
    let found = known.clone().find(|(name, ..)| *name == text);
    found.map(|(_, view, _)| view.clone()).ok_or_else(|| {
        let names: Vec<&str> = known.map(|(name, ..)| *name).collect();
        format!("expected {} or callers=FUNCTION", names.join(", "))
    })
}
