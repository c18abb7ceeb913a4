//! Reports: the same tables as text, Markdown and JSON.
//!
//! [`calls`] refuses views that a file has no data for. [`build`] makes tables of views. [`about`] is the head. [`text`], [`markdown`] and
//! [`json`] write them.

pub(crate) mod about;
pub(crate) mod build;
pub(crate) mod calls;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod text;

use profile::data::{Data, Unit};
use profile::view::cost::Cost;

use crate::numbers::{bytes, counts, time};
use about::About;

pub(crate) struct Report {
    pub(crate) about: About,
    pub(crate) tables: Vec<Table>,
    pub(crate) measure: Measure,
}

/// The unit of costs, and the whole of shares.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// Cost of all selected samples.
    pub(crate) whole: Cost,
    pub(crate) unit: Unit,
    /// The file's name of its unit, if it has one.
    pub(crate) name: Option<String>,
    /// False if an imported file counts something and has no number of samples.
    pub(crate) has_samples: bool,
    /// Time of a sample, if weights count samples.
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

    /// Heading of the column of weights; `None` if the number of samples suffices.
    pub(crate) fn amount_label(&self) -> Option<&str> {
        match (&self.name, self.unit) {
            (_, Unit::Samples) => self.interval_ms.map(|_| "time"),
            (Some(name), _) => Some(name),
            (None, Unit::Bytes) => Some("bytes"),
            (None, Unit::Milliseconds) => Some("time"),
            (None, Unit::Counts) => Some("count"),
        }
    }

    /// `1.23 s`, `1.2 MB`, `1,234`; `-` if only the number of samples is known.
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

    /// The time of a cost; `None` if samples stand for no time.
    pub(crate) fn time_ms(&self, cost: Cost) -> Option<f64> {
        match self.unit {
            Unit::Milliseconds => Some(cost.weight),
            Unit::Samples => self.interval_ms.map(|interval| cost.weight * interval),
            Unit::Bytes | Unit::Counts => None,
        }
    }
}

/// A table of a report.
pub(crate) struct Table {
    /// Id in JSON.
    pub(crate) id: &'static str,
    /// Title in text and Markdown.
    pub(crate) title: String,
    /// Heading of the first cost.
    pub(crate) own_label: &'static str,
    /// Heading of the third cost, if rows have one.
    pub(crate) other_label: &'static str,
    pub(crate) rows: Vec<Row>,
    /// Number of rows that are not listed.
    pub(crate) left_out: usize,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// Level in a tree, from 0.
    pub(crate) depth: usize,
    /// Indent in text: only a row with siblings is indented further.
    pub(crate) indent: usize,
    pub(crate) name: String,
    /// False if the name is no function, and must not be shortened like one.
    pub(crate) is_function: bool,
    /// Library or process.
    pub(crate) place: String,
    pub(crate) own: Option<Cost>,
    pub(crate) total: Option<Cost>,
    pub(crate) other: Option<Cost>,
    /// Fields in JSON: (key, value).
    pub(crate) fields: Vec<(&'static str, serde_json::Value)>,
}
