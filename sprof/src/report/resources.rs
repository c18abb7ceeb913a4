//! The table of resources.

use profile::data::UnreadFacts;
use profile::text::numbers::{bytes, counts, grouped, number_json, time};
use profile::view::resources::{FigureUnit, ResourceFigure, ResourceRow, resources};
use profile::view::select::Selection;
use recording::counter::UNREAD_CAUSES;
use serde_json::{Value, json};

use super::{ReportRow, Table};

/// The resources, at most `rows` of them, and what could not be read.
pub(super) fn tables(selection: &Selection<'_>, rows: usize) -> Vec<Table> {
    let found = resources(selection);
    let left_out = found.len().saturating_sub(rows);
    let made = found.iter().take(rows).map(|row| ReportRow {
        name: match row.device.as_str() {
            "" => row.label.to_owned(),
            device => format!("{} {device}", row.label),
        },
        place: { row.process.as_ref() }.map_or_else(String::new, |(name, pid)| format!("{name} ({pid})")),
        cells: vec![
            cell(&row.utilization),
            cell(&row.saturation),
            cell(&row.errors),
            row.worst.map_or_else(String::new, |worst| {
                format!("{} ({})", time_range(row), figure(&worst.figure))
            }),
        ],
        fields: vec![
            ("resource", json!(row.resource)),
            ("device", json!(Some(&row.device).filter(|device| !device.is_empty()))),
            (
                "process",
                row.process
                    .as_ref()
                    .map_or(Value::Null, |(name, pid)| json!({"name": name, "pid": pid})),
            ),
            ("utilization", row.utilization.iter().map(figure_json).collect()),
            ("saturation", row.saturation.iter().map(figure_json).collect()),
            ("errors", row.errors.iter().map(figure_json).collect()),
            (
                "worst",
                row.worst.map_or(Value::Null, |worst| {
                    json!({
                        "time_range": time_range(row),
                        "from_ms": number_json(worst.from_ms),
                        "to_ms": number_json(worst.to_ms),
                        "figure": figure_json(&worst.figure),
                    })
                }),
            ),
        ],
        ..ReportRow::default()
    });
    let headings = vec!["utilization", "saturation", "errors", "worst, s"];
    let made = table(
        "resources",
        "Resources, the shortest first",
        headings,
        made.collect(),
        left_out,
    );
    let facts = selection
        .data
        .recorded
        .as_ref()
        .and_then(|recorded| recorded.resources.as_ref());
    let unread: Vec<ReportRow> = facts
        .into_iter()
        .flat_map(|facts| &facts.unread)
        .map(unread_row)
        .collect();
    let unread = (!unread.is_empty()).then(|| table("resources_not_read", "Not read", vec!["why"], unread, 0));
    [made].into_iter().chain(unread).collect()
}

fn table(id: &'static str, title: &str, headings: Vec<&'static str>, rows: Vec<ReportRow>, left_out: usize) -> Table {
    Table {
        id,
        title: title.to_owned(),
        own_label: "",
        other_label: "",
        headings,
        rows,
        left_out,
    }
}

fn unread_row(unread: &UnreadFacts) -> ReportRow {
    let cause = UNREAD_CAUSES.iter().find(|cause| cause.name() == unread.cause);
    ReportRow {
        name: unread.counter.clone(),
        place: match unread.processes {
            None => String::new(),
            Some(1) => "of 1 process".to_owned(),
            Some(processes) => format!("of {} processes", grouped(processes)),
        },
        cells: vec![cause.map_or_else(String::new, |cause| cause.label().to_owned())],
        fields: vec![
            ("counter", json!(unread.counter)),
            ("cause", json!(unread.cause)),
            ("processes", json!(unread.processes)),
        ],
        ..ReportRow::default()
    }
}

/// When the resource was worst, as `--time-range` takes it.
fn time_range(row: &ResourceRow) -> String {
    let seconds = |ms: f64| (ms / 10.0).round() / 100.0;
    row.worst.map_or_else(String::new, |worst| {
        format!("{}..{}", seconds(worst.from_ms), seconds(worst.to_ms))
    })
}

/// Figures that are not 0. `-`: the resource has none.
fn cell(figures: &[ResourceFigure]) -> String {
    let shown: Vec<String> = figures.iter().filter(|shown| shown.value > 0.0).map(figure).collect();
    match (shown.is_empty(), figures.is_empty()) {
        (_, true) => "-".to_owned(),
        (true, false) => "none".to_owned(),
        (false, false) => shown.join(", "),
    }
}

/// `busy 97 %`
fn figure(figure: &ResourceFigure) -> String {
    let value = figure.value;
    let text = match figure.unit {
        FigureUnit::Share if value > 0.0 && value < 0.001 => "< 0.1 %".to_owned(),
        FigureUnit::Share if value < 0.1 => format!("{:.1} %", 100.0 * value),
        FigureUnit::Share => format!("{:.0} %", 100.0 * value),
        FigureUnit::Number => format!("{value:.2}"),
        FigureUnit::Count => counts(value),
        FigureUnit::PerSecond => format!("{}/s", counts(value)),
        FigureUnit::Bytes => bytes(value),
        FigureUnit::BytesPerSecond => format!("{}/s", bytes(value)),
        FigureUnit::Milliseconds => time(value),
        FigureUnit::Hertz => format!("{:.2} GHz", value / 1e9),
    };
    format!("{} {text}", figure.name.replace('_', " "))
}

fn figure_json(figure: &ResourceFigure) -> Value {
    json!({
        "name": figure.name,
        "value": number_json(figure.value),
        "unit": match figure.unit {
            FigureUnit::Share => "share",
            FigureUnit::Number => "number",
            FigureUnit::Count => "count",
            FigureUnit::PerSecond => "per-second",
            FigureUnit::Bytes => "bytes",
            FigureUnit::BytesPerSecond => "bytes-per-second",
            FigureUnit::Milliseconds => "ms",
            FigureUnit::Hertz => "hertz",
        },
    })
}
