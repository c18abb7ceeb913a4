//! Flags of all commands that read a file: each is defined here once. Where its text differs, the command says so.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use profile::view::heap::Measure;
use profile::view::select::Filter;
use symbolicator::{PathMap, SymbolOptions};

use crate::terminal::Verbosity;

/// Where names are looked up.
#[allow(rustdoc::bare_urls, reason = "help texts are printed as they are")]
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SymbolArgs {
    /// Also look for debug files in this folder. May be given several times.
    #[arg(long, value_name = "DIR", value_delimiter = ':')]
    symbol_dir: Vec<PathBuf>,

    /// Read sources from TO where the debug info says FROM, for example /build/app=$HOME/app. May be given several
    /// times. If FROM and TO are one file, that file is shown even if its name is not the name of a source.
    #[arg(long, value_name = "FROM=TO", value_parser = path_map)]
    path_map: Vec<PathMap>,

    /// Download debug info and sources that this machine lacks, from the servers in DEBUGINFOD_URLS. Without this flag
    /// nothing is downloaded.
    #[arg(long)]
    pub(crate) debuginfod: bool,

    /// Download symbols from this server for files without any on this machine, for example https://symbols.mozilla.org
    /// or https://msdl.microsoft.com/download/symbols: Breakpad files, and PDB files where the name ends in .pdb. May
    /// be given several times. Needs a sprof that was built with --features symbol-servers.
    #[arg(long, value_name = "URL", value_delimiter = ' ')]
    symbol_server: Vec<String>,
}

/// Options with their values, as the user types them, without quotes.
pub(super) fn typed(options: &[(&str, &[String])]) -> Vec<String> {
    let pairs = options
        .iter()
        .flat_map(|(option, values)| values.iter().map(move |value| (option, value)));
    // A value that begins with a dash would be an option.
    let words = pairs.flat_map(|(option, value)| match value.starts_with('-') {
        true => vec![format!("{option}={value}")],
        false => vec![(*option).to_owned(), value.clone()],
    });
    words.collect()
}

/// The folder of what sprof need not find out again at its next start. `SPROF_CACHE` names another folder. `None` if it
/// is `off`, or if neither XDG_CACHE_HOME nor HOME names a folder.
pub(crate) fn cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(named) = folder("SPROF_CACHE").filter(|named| !named.as_os_str().is_empty()) {
        return (named.as_os_str() != "off").then(|| std::path::absolute(named).ok())?;
    }
    let of_user = folder("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let of_home = || Some(folder("HOME").filter(|home| home.is_absolute())?.join(".cache"));
    Some(of_user.or_else(of_home)?.join("sprof"))
}

fn path_map(text: &str) -> Result<PathMap, String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => std::path::absolute(to)
            .map(|to| PathMap::new(from, to))
            .map_err(|error| format!("{to}: {error}")),
        _ => Err(
            "two folders with = between them are needed: the one in the debug info, and the one on this machine"
                .to_owned(),
        ),
    }
}

/// Whether the result is printed for programs.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct JsonArgs {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,

    /// `--format`: the same for scripts that use the option of commands with several formats.
    #[arg(short, long, hide = true, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<TextOrJson>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TextOrJson {
    Text,
    Json,
}

impl JsonArgs {
    pub(crate) fn is_json(self) -> bool {
        self.json || self.format == Some(TextOrJson::Json)
    }
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

/// The event of a file to show.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct EventArgs {
    /// Show this event, if the file has several (from -e, perf record, pprof, callgrind, cachegrind, DHAT, heaptrack or
    /// massif) [default: the file's choice, or the first event].
    #[arg(short, long, value_name = "NAME")]
    event: Option<String>,
}

/// What to count of the heap.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MeasureArgs {
    /// Show the heap instead of CPU time, by the code that took the memory; needs a recording with --heap, or a file of
    /// DHAT, heaptrack, massif or pprof: bytes that were allocated, that were retained (not freed by the end, or by the
    /// end of --time-range), that lived at the peak of the heap, that were temporary (freed within a millisecond; in a
    /// file of heaptrack, by the next call), or the number of blocks.
    #[arg(long, value_name = "MEASURE", value_parser = measures(), conflicts_with = "event", hide_possible_values = true)]
    pub(crate) measure: Option<Measure>,

    /// What a sample counts for. latency: its part of wall time, which is its CPU time divided by the number of threads
    /// that ran then. What runs alone counts fully.
    #[arg(long, value_name = "WEIGHT", conflicts_with_all = ["event", "measure"])]
    pub(crate) weigh: Option<SampleWeight>,
}

/// What a sample counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SampleWeight {
    /// Its part of wall time.
    Latency,
}

/// Which samples of a file to read.
#[derive(Clone, Debug)]
pub(crate) enum WantedSamples<'a> {
    /// Those of the named event, or of the one that the file chooses.
    Event(Option<&'a str>),
    /// Those of CPU time, as parts of wall time.
    Latency,
    /// Blocks of memory, by this measure of those that the filter selects.
    Heap {
        measure: Measure,
        filter: Box<Filter>,
        /// True if each run of the program has a peak of its own.
        of_each_run: bool,
    },
}

impl<'a> WantedSamples<'a> {
    /// Those that the options ask for.
    pub(crate) fn new(event: Option<&'a str>, measured: &MeasureArgs, filter: Filter) -> WantedSamples<'a> {
        match (measured.measure, measured.weigh) {
            (Some(measure), _) => WantedSamples::heap(measure, filter),
            (None, Some(SampleWeight::Latency)) => WantedSamples::Latency,
            (None, None) => WantedSamples::Event(event),
        }
    }

    pub(crate) fn heap(measure: Measure, filter: Filter) -> WantedSamples<'a> {
        WantedSamples::Heap {
            measure,
            filter: Box::new(filter),
            of_each_run: false,
        }
    }

    /// The same, to compare runs of the program.
    pub(crate) fn of_each_run(mut self) -> WantedSamples<'a> {
        if let WantedSamples::Heap { of_each_run, .. } = &mut self {
            *of_each_run = true;
        }
        self
    }

    /// The named event.
    pub(crate) fn event(&self) -> Option<&'a str> {
        match self {
            WantedSamples::Event(event) => *event,
            WantedSamples::Latency | WantedSamples::Heap { .. } => None,
        }
    }
}

impl<'a> From<Option<&'a str>> for WantedSamples<'a> {
    fn from(event: Option<&'a str>) -> WantedSamples<'a> {
        WantedSamples::Event(event)
    }
}

fn measures() -> impl TypedValueParser<Value = Measure> {
    let values = Measure::ALL.map(|measure| PossibleValue::new(measure.name()));
    PossibleValuesParser::new(values).map(|name| Measure::named(&name).unwrap_or(Measure::Allocated))
}

impl MeasureArgs {
    /// The options as the user types them.
    pub(super) fn words(&self) -> Vec<String> {
        let measure = self.measure.map(|measure| measure.name().to_owned());
        let weight = self.weigh.map(|SampleWeight::Latency| "latency".to_owned());
        typed(&[("--measure", measure.as_slice()), ("--weigh", weight.as_slice())])
    }
}

impl SymbolArgs {
    /// The options as the user types them, without quotes.
    pub(super) fn words(&self) -> Vec<String> {
        let dirs: Vec<String> = self.symbol_dir.iter().map(|dir| dir.display().to_string()).collect();
        let maps: Vec<String> = self.path_map.iter().map(ToString::to_string).collect();
        let mut words = typed(&[
            ("--symbol-dir", &dirs),
            ("--path-map", &maps),
            ("--symbol-server", &self.symbol_servers()),
        ]);
        words.extend(self.debuginfod.then(|| "--debuginfod".to_owned()));
        words
    }

    /// True if servers may be asked.
    pub(crate) fn uses_network(&self) -> bool {
        self.debuginfod || !self.symbol_servers().is_empty()
    }

    /// URLs of the symbol servers. `SPROF_SYMBOL_SERVER` may have several spaces between two of them.
    pub(crate) fn symbol_servers(&self) -> Vec<String> {
        let urls = self.symbol_server.iter();
        urls.filter(|url| !url.is_empty()).cloned().collect()
    }

    /// Options of a symbolicator for a recording that ended at `recorded_at`, if that time is known. The options name
    /// no servers.
    pub(crate) fn options(&self, recorded_at: Option<SystemTime>) -> SymbolOptions {
        SymbolOptions {
            symbol_dirs: self.symbol_dir.clone(),
            path_maps: self.path_map.clone(),
            cache: cache(),
            debuginfod: None,
            symbol_servers: None,
            recorded_at,
        }
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
    /// Name of the event; `None` leaves the choice to the file.
    pub(crate) fn name(&self) -> Option<&str> {
        self.event.as_deref()
    }
}
