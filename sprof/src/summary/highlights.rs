//! Where the time of a recording went, in a few lines: the hottest functions, the program's own functions, the
//! processes, the largest kind of cost, and advice where the result lacks something.

use std::collections::HashMap;

use profile::Profile;
use profile::text::numbers::count;
use profile::view::breakdown::processes;
use profile::view::buckets::{BucketRow, buckets};
use profile::view::cost::FEW_SAMPLES;
use profile::view::functions::functions;
use profile::view::own_code::own_functions;
use profile::view::resources::{Shortage, shortage};
use profile::view::select::{Filter, Selection, select};
use profile::view::shortfalls::shortfalls;
use profile::view::{TopFunction, WaitPlace, names, summed, wait_places};
use recording::info::PeriodUnit;
use recording::session::{RecordOptions, RecordTarget};
use serde_json::{Value, json};

use crate::symbols::advice::{AdvisedSamples, ResultAdvice, advise, distorted};
use crate::symbols::look_ups::LookUps;
use crate::terminal::Term;
use crate::terminal::columns;
use crate::terminal::style::Style;

/// Rows of each table.
const ROWS: usize = 5;
/// Columns of a summary without a terminal.
const COLUMNS: usize = 100;
/// With fewer columns, only the name is shown, not its place.
const LEAST_FOR_PLACES: usize = 40;
/// Rows below this share of the time are left out.
const LEAST_ROW: f64 = 0.005;
/// If the program's own functions have less than this share of the time, they get no table.
const LEAST_OWN: f64 = 0.05;
/// A kind of cost gets a line if its share of the time is surely above this one.
const LEAST_BUCKET: f64 = 0.02;
/// A share whose 95 % interval is wider is shown with it.
const WIDE: f64 = 0.05;

/// The lines of the summary about time.
#[derive(Default)]
pub(crate) struct Highlights {
    /// Hottest functions, largest self first.
    hottest: Vec<TopFunction>,
    /// Functions of the program, largest total first. Empty where programs of others were also recorded.
    own: Vec<TopFunction>,
    /// Processes, busiest first: (name, number of processes, share of all samples). Empty if there is one.
    processes: Vec<(String, u64, f64)>,
    /// True if `processes` are CPUs.
    are_cpus: bool,
    /// The largest kind of cost; two if chance decides which is larger.
    buckets: Vec<Bucket>,
    /// Where threads waited longest.
    pub(crate) wait_places: Vec<WaitPlace>,
    /// CPU time of the samples, ns, if their event counts CPU time.
    pub(crate) sampled_cpu_ns: Option<f64>,
    /// A line about the CPU time of probes, if it changes the shares of other code.
    pub(crate) distorted: Option<String>,
    /// The event whose shares are shown; `None` for shares of time.
    counted: Option<String>,
    /// What the recorded programs were short of.
    pub(crate) shortage: Option<Shortage>,
    advice: Vec<ResultAdvice>,
}

struct Bucket {
    id: &'static str,
    label: &'static str,
    share: f64,
    /// The 95 % interval of the share.
    range: (f64, f64),
    /// The function with the most samples in this kind of cost.
    function: String,
    /// Share of that function in this kind of cost.
    part: f64,
}

impl Highlights {
    /// The highlights of a profile with names.
    pub(crate) fn of(profile: &Profile, look_ups: &LookUps<'_>, asked: Option<&RecordOptions>) -> Highlights {
        let data = summed(profile);
        let Ok(selection) = select(&data, &Filter::default()) else {
            return Highlights::default();
        };
        let named = |rows: Vec<_>| {
            rows.iter()
                .take(ROWS)
                .map(|row| TopFunction::new(&selection, row))
                .collect()
        };
        let mut hottest = functions(&selection);
        hottest.retain(|row| row.own.samples > 0);
        // Names that were not looked up are not missing.
        let shortfalls = match data.symbolicated && look_ups.is_whole() {
            true => shortfalls(&selection),
            false => Vec::new(),
        };
        let is_time = profile.info().unit == PeriodUnit::CpuNanoseconds;
        let sampled_cpu_ns = is_time.then_some(selection.total.weight);
        Highlights {
            hottest: named(hottest),
            own: match asked.map(|asked| &asked.target) {
                Some(RecordTarget::WholeMachine) => Vec::new(),
                Some(RecordTarget::Command | RecordTarget::Processes(_)) | None => named(own_functions(&selection)),
            },
            processes: by_name(profile, &selection),
            are_cpus: profile.tracks_are_cpus(),
            buckets: Bucket::largest(&buckets(&selection), &selection),
            wait_places: wait_places(profile, ROWS),
            counted: (profile.info().unit == PeriodUnit::Counts).then(|| profile.info().event.clone()),
            sampled_cpu_ns,
            distorted: distorted(&selection, sampled_cpu_ns.map(|ns| ns / 1e6)),
            shortage: shortage(&selection),
            advice: advise(
                &shortfalls,
                &selection,
                AdvisedSamples::Recorded(asked),
                look_ups.symbolicator,
            ),
        }
    }

    /// Prints the tables and the largest kind of cost.
    pub(crate) fn print(&self, term: &Term) {
        let percent = |share: f64| format!("{:5.1} %", share * 100.0);
        let functions = |functions: &[TopFunction], numbers: fn(&TopFunction) -> Vec<f64>| -> Vec<HighlightRow> {
            let rows = functions.iter().filter(|function| function.total_share >= LEAST_ROW);
            let rows = rows.map(|function| HighlightRow {
                numbers: numbers(function).into_iter().map(percent).collect(),
                name: function.name.clone(),
                place: function.lib.clone().unwrap_or_default(),
            });
            rows.collect()
        };
        let hottest = functions(&self.hottest, |function| vec![function.self_share]);
        let title = match &self.counted {
            Some(event) => format!("functions by {event} in their own code"),
            None => "functions by the time in their own code".to_owned(),
        };
        print(term, &["self"], &title, &hottest);
        // If other programs use the time, as those of a script do, a few samples of the program itself do not matter.
        let own = match self.own.first() {
            Some(first) if first.total_share >= LEAST_OWN => self.own.as_slice(),
            _ => &[],
        };
        let own = functions(own, |function| vec![function.total_share, function.self_share]);
        let title = "the program's functions, with all that they call";
        print(term, &["total", "self"], title, &own);
        let processes: Vec<HighlightRow> = (self.processes.iter())
            .map(|(name, number, share)| HighlightRow {
                numbers: vec![percent(*share)],
                name: name.clone(),
                place: match number {
                    1 => String::new(),
                    number => count(*number, "process", "processes"),
                },
            })
            .collect();
        print(
            term,
            &["share"],
            if self.are_cpus { "CPUs" } else { "processes" },
            &processes,
        );
        for bucket in &self.buckets {
            let largest = match self.buckets.len() {
                1 => "largest kind of cost",
                _ => "a large kind of cost",
            };
            let most = if bucket.part > 0.5 {
                "most of it"
            } else {
                "largest part"
            };
            let start = format!("{largest}: {}, {most} ", bucket.words());
            let left = columns(term).saturating_sub(start.chars().count()).max(20);
            term.detail(format_args!("{start}{}", columns::function(&bucket.function, left)));
        }
    }

    /// The advice, a line each.
    pub(crate) fn advice(&self) -> impl Iterator<Item = &str> {
        self.advice.iter().map(|advice| advice.line.as_str())
    }

    /// Fields of the JSON summary.
    pub(crate) fn json(&self) -> serde_json::Map<String, Value> {
        let function = |function: &TopFunction| {
            json!({
                "function": function.name,
                "library": function.lib,
                "self_samples": function.self_samples,
                "self_share": function.self_share,
                "total_samples": function.total_samples,
                "total_share": function.total_share,
            })
        };
        let functions = |functions: &[TopFunction]| functions.iter().map(function).collect::<Vec<_>>();
        let process =
            |(name, number, share): &(String, u64, f64)| json!({"name": name, "processes": number, "share": share});
        let bucket = |bucket: &Bucket| {
            json!({
                "bucket": bucket.id,
                "share": bucket.share,
                "share_range": [bucket.range.0, bucket.range.1],
                "function": bucket.function,
            })
        };
        let fields = [
            ("hottest", json!(functions(&self.hottest))),
            ("own_functions", json!(functions(&self.own))),
            ("busiest_processes", self.processes.iter().map(process).collect()),
            ("distorted_by_probes", json!(self.distorted)),
            ("largest_bucket", json!(self.buckets.first().map(bucket))),
            (
                "shortage",
                json!(self.shortage.as_ref().map(|shortage| {
                    json!({"resource": shortage.resource, "text": shortage.text, "share": shortage.share})
                })),
            ),
            (
                "advice",
                self.advice.iter().flat_map(|advice| advice.json.clone()).collect(),
            ),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

impl Bucket {
    /// The largest kind of cost, and the second one if chance decides which is larger. Empty if there are too few
    /// samples.
    fn largest(rows: &[BucketRow], selection: &Selection<'_>) -> Vec<Bucket> {
        let whole = selection.total;
        let Some(first) = rows.first().filter(|_| whole.samples >= FEW_SAMPLES) else {
            return Vec::new();
        };
        let rows = rows.iter().take(2);
        let rows = rows.filter(|row| std::ptr::eq(*row, first) || !first.cost.is_surely_more_than(row.cost, whole));
        let rows = rows.filter(|row| row.cost.share_range(whole).0 >= LEAST_BUCKET);
        rows.filter_map(|row| Bucket::of(row, selection)).collect()
    }

    fn of(row: &BucketRow, selection: &Selection<'_>) -> Option<Bucket> {
        let (func, cost) = row.functions.first()?;
        Some(Bucket {
            id: row.bucket.id(),
            label: row.bucket.label(),
            share: row.cost.share_of(selection.total),
            range: row.cost.share_range(selection.total),
            function: names::short(selection.name(*func)),
            part: cost.share_of(row.cost),
        })
    }

    /// `36.4 % allocating and freeing`, with the interval if it is wide.
    fn words(&self) -> String {
        let [share, low, high] = [self.share, self.range.0, self.range.1].map(|share| 100.0 * share);
        match self.range.1 - self.range.0 {
            width if width > WIDE => format!("{share:.1} % ({low:.0} to {high:.0} %) {}", self.label),
            _ => format!("{share:.1} % {}", self.label),
        }
    }
}

/// Groups processes by name; empty if all have the same name.
fn by_name(profile: &Profile, selection: &Selection<'_>) -> Vec<(String, u64, f64)> {
    let mut sums: HashMap<String, f64> = HashMap::new();
    for row in processes(selection) {
        *sums.entry(row.name).or_default() += row.own.share_of(selection.total);
    }
    if sums.len() < 2 {
        return Vec::new();
    }
    // Includes processes that were too short for a sample: of 286 processes that a script ran, 127 had one.
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    for name in profile.process_names() {
        *numbers.entry(name).or_default() += 1;
    }
    let rows = sums.into_iter().map(|(name, share)| {
        let number = numbers.get(name.as_str()).copied().unwrap_or(1);
        (name, number, share)
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|a, b| b.2.total_cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
    rows.truncate(ROWS);
    rows
}

/// A line of a table: numbers, name and place.
struct HighlightRow {
    numbers: Vec<String>,
    name: String,
    place: String,
}

/// Columns without the indent of details.
fn columns(term: &Term) -> usize {
    term.columns().unwrap_or(COLUMNS).saturating_sub(Term::INDENT)
}

fn print(term: &Term, heads: &[&str], title: &str, rows: &[HighlightRow]) {
    let Some(first) = rows.first() else { return };
    let len = |text: &str| text.chars().count();
    let numbers: usize = first.numbers.iter().map(|number| len(number) + 2).sum();
    let space = columns(term).saturating_sub(numbers).max(8);
    // If space is short, places are left out first.
    let place = match space < LEAST_FOR_PLACES {
        true => 0,
        false => rows.iter().map(|row| len(&row.place)).max().unwrap_or(0).min(space / 3),
    };
    let for_name = match place {
        0 => space,
        place => space - place - 2,
    };
    let names: Vec<String> = rows.iter().map(|row| columns::function(&row.name, for_name)).collect();
    let widest = names.iter().map(|name| len(name)).max().unwrap_or(0);
    let heads: String = heads.iter().map(|head| format!("{head:>7}  ")).collect();
    term.detail(term.style(Style::Dim, columns::cut(&format!("{heads}{title}"), columns(term))));
    for (row, name) in rows.iter().zip(&names) {
        let numbers: String = row.numbers.iter().map(|number| format!("{number}  ")).collect();
        let place = match place {
            0 => String::new(),
            columns => columns::cut(&columns::clean(&row.place), columns),
        };
        match place.is_empty() {
            true => term.detail(format_args!("{numbers}{name}")),
            false => term.detail(format_args!(
                "{numbers}{name:widest$}  {}",
                term.style(Style::Dim, place)
            )),
        }
    }
}
