//! What is said of a profile without a browser: tables, the same ones for people, Markdown and programs.
//!
//! [`calls`]: what a file without call paths can't show. [`build`]: from views to tables. [`about`]: what the profile is of. [`text`], [`markdown`], [`json`]: how they are written.

pub(crate) mod about;
pub(crate) mod build;
pub(crate) mod calls;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod text;

use profile::view::cost::Cost;
use profile::view::data::{Data, Unit};

use about::About;

/// A report.
pub(crate) struct Report {
    pub(crate) about: About,
    pub(crate) tables: Vec<Table>,
    pub(crate) measure: Measure,
}

/// What costs are, and of what shares are.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// All selected samples.
    pub(crate) whole: Cost,
    pub(crate) unit: Unit,
    /// The file's own name of what weights count, where it has one.
    pub(crate) name: Option<String>,
    /// False where nothing was sampled: an imported file may count something else, and not tell how many samples there were.
    pub(crate) has_samples: bool,
    /// What a sample stands for where weights count samples.
    pub(crate) interval_ms: Option<f64>,
}

impl Measure {
    pub(crate) fn of(data: &Data, whole: Cost) -> Measure {
        Measure {
            whole,
            unit: data.unit,
            name: data.counted_name().map(str::to_owned),
            has_samples: data.has_samples(),
            interval_ms: about::has_times(data).then_some(data.interval_ms),
        }
    }

    /// What weights are called, at the head of a column; `None` where samples say all.
    pub(crate) fn amount_label(&self) -> Option<&str> {
        match (&self.name, self.unit) {
            (_, Unit::Samples) => self.interval_ms.map(|_| "time"),
            (Some(name), _) => Some(name),
            (None, Unit::Bytes) => Some("bytes"),
            (None, Unit::Milliseconds) => Some("time"),
            (None, Unit::Counts) => Some("count"),
        }
    }

    /// `1.23 s`, `1.2 MB`, `1,234`; `-` where only samples are known.
    pub(crate) fn amount(&self, cost: Cost) -> String {
        match (self.time_ms(cost), self.unit) {
            (Some(ms), _) => time(ms),
            (None, Unit::Bytes) => bytes(cost.weight),
            (None, Unit::Counts) => counts(cost.weight),
            (None, Unit::Samples | Unit::Milliseconds) => "-".to_owned(),
        }
    }

    pub(crate) fn percent(&self, cost: Cost) -> f64 {
        100.0 * cost.share_of(self.whole)
    }

    /// The time that it stands for; `None` where samples stand for none.
    pub(crate) fn time_ms(&self, cost: Cost) -> Option<f64> {
        match self.unit {
            Unit::Milliseconds => Some(cost.weight),
            Unit::Samples => self.interval_ms.map(|interval| cost.weight * interval),
            Unit::Bytes | Unit::Counts => None,
        }
    }
}

/// Rows of one kind.
pub(crate) struct Table {
    /// For programs.
    pub(crate) id: &'static str,
    /// For people.
    pub(crate) title: String,
    /// What costs of rows are called.
    pub(crate) own_label: &'static str,
    /// What the third cost is called, where rows have one.
    pub(crate) other_label: &'static str,
    pub(crate) rows: Vec<Row>,
    /// Rows that there are, too.
    pub(crate) left_out: usize,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// In a tree: levels below the first.
    pub(crate) depth: usize,
    /// In a tree as people see it: only what stands beside others is further in.
    pub(crate) indent: usize,
    pub(crate) name: String,
    /// False for names that are no functions': these are never shortened as such.
    pub(crate) is_function: bool,
    /// Where it is: a library, a process.
    pub(crate) place: String,
    pub(crate) own: Option<Cost>,
    pub(crate) total: Option<Cost>,
    pub(crate) other: Option<Cost>,
    /// The same and more for programs: (key, value).
    pub(crate) fields: Vec<(&'static str, serde_json::Value)>,
}

/// `1.23 s`, `12.3 ms`
pub(crate) fn time(ms: f64) -> String {
    match ms {
        ms if ms.abs() >= 1000.0 => format!("{:.2} s", ms / 1000.0),
        ms if ms.abs() >= 100.0 || ms == 0.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

/// `1,234`; negative where profiles were subtracted.
pub(crate) fn counts(counts: f64) -> String {
    let digits = crate::summary::grouped(counts.abs().round() as u64);
    match counts < 0.0 {
        true => format!("-{digits}"),
        false => digits,
    }
}

/// `123 B`, `1.2 MB`.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes.abs() {
        size if size >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        size if size >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        size if size >= 1e3 => format!("{:.1} kB", bytes / 1e3),
        _ => format!("{bytes:.0} B"),
    }
}
