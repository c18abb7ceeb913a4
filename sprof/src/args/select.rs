//! Options that select samples of a profile, and name the places of its symbols.

use clap::Args;
use profile::view::diff::Renamed;
use profile::view::diff::describe::renamed_libs;
use profile::view::select::{Filter, SpanPart};

use super::input::{EventArgs, MeasureArgs, SymbolArgs, VerboseArgs, WantedSamples, typed};
use super::value;

/// Selected samples: the options of all commands that read a profile.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which samples")]
pub(crate) struct PartArgs {
    /// Only threads with this name or tid. May be given several times.
    #[arg(short, long, value_name = "NAME|TID")]
    pub(crate) thread: Vec<String>,

    /// Only processes with this name or pid. May be given several times.
    #[arg(long, value_name = "NAME|PID")]
    pub(crate) process: Vec<String>,

    /// Only this time, in seconds since the recording started: 1.5..3, 2.. or ..0.5.
    #[arg(long, value_name = "FROM..TO", value_parser = value::time_range)]
    pub(crate) time_range: Option<value::TimeRange>,

    /// Only samples in code of this category, for example Kernel; of waits, a reason, for example Lock. May be given
    /// several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) category: Vec<String>,

    /// Only samples during a marker with this name, in a thread of the same process.
    #[arg(long, value_name = "NAME")]
    pub(crate) marker: Option<String>,

    /// Only samples outside of all markers with this name in the threads of the same process.
    #[arg(long, value_name = "NAME")]
    pub(crate) outside_marker: Option<String>,

    /// Only what threads did inside a span with this name: a section that the program marked, by its whole name or any
    /// part of the name. May be given several times.
    #[arg(long, value_name = "SPAN")]
    pub(crate) inside: Vec<String>,

    /// Only what threads did outside of all spans with this name. May be given several times.
    #[arg(long, value_name = "SPAN")]
    pub(crate) outside: Vec<String>,

    /// Of the spans of --inside, only so many percent that took longest, of each name. `sprof diff` with one file
    /// compares them with the others.
    #[arg(long, value_name = "PERCENT", value_parser = value::percentage, requires = "inside")]
    pub(crate) slowest: Option<f64>,

    /// Only stacks with this function: its whole name, or the last part of the name, or any part. May be given several
    /// times.
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) focus: Vec<String>,

    /// Remove this function from all stacks; its cost goes to its callers. May be given several times.
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) hide: Vec<String>,

    /// Leave out the stacks with this function, and their cost. May be given several times.
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) drop: Vec<String>,
}

/// Selected samples, and how their stacks are shown.
#[derive(Args, Clone, Debug, Default)]
#[command(
    next_help_heading = "Which samples",
    mut_arg("verbose", |arg| arg.help("Print more: which names are missing, and why"))
)]
pub(crate) struct SelectArgs {
    #[command(flatten)]
    pub(crate) part: PartArgs,

    /// Show all instances of a generic function as one function: Vec<_>::push.
    #[arg(long)]
    pub(crate) merge_generics: bool,

    /// Show what threads waited for instead of what they ran; needs a recording with --off-cpu.
    #[arg(long, alias = "off-cpu", conflicts_with = "weigh")]
    pub(crate) waits: bool,

    #[command(flatten)]
    pub(crate) event: EventArgs,

    #[command(flatten)]
    pub(crate) heap: MeasureArgs,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,

    #[command(flatten)]
    pub(crate) messages: VerboseArgs,
}

impl SelectArgs {
    /// The filter for the samples of a profile.
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            waits: self.waits,
            merge_generics: self.merge_generics,
            ..self.part.filter()
        }
    }

    /// The samples to read.
    pub(crate) fn wanted(&self) -> WantedSamples<'_> {
        WantedSamples::new(self.event.name(), &self.heap, self.filter())
    }

    /// The options as the user types them, without quotes.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = self.part.words();
        let flags = [("--merge-generics", self.merge_generics), ("--waits", self.waits)];
        words.extend(
            flags
                .iter()
                .filter(|(_, given)| *given)
                .map(|(flag, _)| (*flag).to_owned()),
        );
        if let Some(event) = self.event.name() {
            words.extend(["--event".to_owned(), event.to_owned()]);
        }
        words.extend(self.heap.words());
        words.extend(self.symbols.words());
        words
    }

    /// The conditions, a phrase each.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut words = self.part.describe();
        if self.merge_generics {
            words.push("generics merged".to_owned());
        }
        words
    }
}

impl PartArgs {
    /// True if all samples are selected.
    pub(crate) fn is_all(&self) -> bool {
        self.describe().is_empty()
    }

    /// The options as the user types them, without quotes.
    fn words(&self) -> Vec<String> {
        let range = self.time_range.map(|range| range.to_string().replace(" s", ""));
        let slowest = self.slowest.map(|percent| format!("{percent}%"));
        let options = [
            ("--thread", &self.thread[..]),
            ("--process", &self.process),
            ("--time-range", range.as_slice()),
            ("--category", &self.category),
            ("--marker", self.marker.as_slice()),
            ("--outside-marker", self.outside_marker.as_slice()),
            ("--inside", &self.inside),
            ("--outside", &self.outside),
            ("--slowest", slowest.as_slice()),
            ("--focus", &self.focus),
            ("--hide", &self.hide),
            ("--drop", &self.drop),
        ];
        typed(&options)
    }

    /// The filter for the samples of running threads in a file.
    pub(crate) fn filter(&self) -> Filter {
        let ms = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1000.0);
        Filter {
            threads: self.thread.clone(),
            processes: self.process.clone(),
            from_ms: ms(self.time_range.and_then(|range| range.from_s)),
            to_ms: ms(self.time_range.and_then(|range| range.to_s)),
            categories: self.category.clone(),
            marker: self.marker.clone(),
            outside_marker: self.outside_marker.clone(),
            inside: self.inside.clone(),
            outside: self.outside.clone(),
            span_part: self.slowest.map(SpanPart::Slowest),
            focus: self.focus.clone(),
            hide: self.hide.clone(),
            drop: self.drop.clone(),
            ..Filter::default()
        }
    }

    /// Lines about the selection, and about libraries whose names differ between the sides of a comparison.
    pub(crate) fn about(&self, renamed: &[Renamed]) -> Vec<String> {
        let only = (!self.is_all()).then(|| format!("only {}", self.describe().join(", ")));
        only.into_iter().chain(renamed_libs(renamed)).collect()
    }

    /// The conditions, a phrase each.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut list = |what: &str, values: &[String]| {
            if !values.is_empty() {
                words.push(format!("{what} {}", values.join(" or ")));
            }
        };
        list("threads", &self.thread);
        list("processes", &self.process);
        list("category", &self.category);
        list("while marker", self.marker.as_slice());
        list("outside of marker", self.outside_marker.as_slice());
        list("inside", &self.inside);
        list("outside", &self.outside);
        list("stacks with", &self.focus);
        list("hiding", &self.hide);
        list("without stacks with", &self.drop);
        if let Some(percent) = self.slowest {
            words.push(format!("the slowest {percent} % of these spans"));
        }
        if let Some(range) = self.time_range {
            words.push(format!("time {range}"));
        }
        words
    }
}
