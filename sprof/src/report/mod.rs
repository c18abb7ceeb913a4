//! Reports: the same tables as text, Markdown, JSON, and in the browser of the terminal.
//!
//! [`request`] makes the whole report. [`calls`] refuses views that a file has no data for. [`build`] makes tables of
//! views, [`markers`] the table of markers, [`heap`] the one of blocks of memory, [`parallelism`] the one of running
//! threads, [`resources`] the one of resources, [`spans`] the one of spans. [`about`] is the head. [`trend`] compares
//! with an earlier report. [`text`], [`markdown`] and [`json`] write them.

pub(crate) mod about;
pub(crate) mod build;
pub(crate) mod calls;
mod heap;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod markers;
pub(crate) mod parallelism;
pub(crate) mod request;
mod resources;
pub(crate) mod spans;
pub(crate) mod text;
pub(crate) mod trend;

use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;

use about::About;

pub(crate) struct Report {
    pub(crate) about: About,
    pub(crate) tables: Vec<Table>,
    pub(crate) measure: CostScale,
}

pub(crate) struct Table {
    /// Id in JSON.
    pub(crate) id: &'static str,
    /// Title in text and Markdown.
    pub(crate) title: String,
    /// Heading of the first cost.
    pub(crate) own_label: &'static str,
    /// Heading of the third cost, if rows have one.
    pub(crate) other_label: &'static str,
    /// Headings of columns of text. A table with such columns has no costs.
    pub(crate) headings: Vec<&'static str>,
    pub(crate) rows: Vec<ReportRow>,
    /// Number of rows that are not listed.
    pub(crate) left_out: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ReportRow {
    /// Level in a tree, from 0.
    pub(crate) depth: usize,
    /// Indent in text: only a row with siblings is indented further.
    pub(crate) indent: usize,
    pub(crate) name: String,
    /// The function, by its number in the data.
    pub(crate) func: Option<u32>,
    /// True if the name is a function's; other names must not be shortened like one.
    pub(crate) is_function: bool,
    /// Library or process.
    pub(crate) place: String,
    pub(crate) own: Option<Cost>,
    pub(crate) total: Option<Cost>,
    pub(crate) other: Option<Cost>,
    /// Change of the first cost's share since an earlier report, in percentage points. Only text has it.
    pub(crate) trend: Option<f64>,
    /// Values of the columns of [`Table::headings`].
    pub(crate) cells: Vec<String>,
    /// Lines below the row.
    pub(crate) details: Vec<String>,
    /// Fields in JSON: (key, value).
    pub(crate) fields: Vec<(&'static str, serde_json::Value)>,
}
