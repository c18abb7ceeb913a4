//! The table of spans.

use profile::text::numbers::{count, grouped, number_json, time};
use profile::view::select::{Selection, SpanPart};
use profile::view::spans::{SpanLengths, SpanRow, SpanTime};
use recording::command::own;
use serde_json::{Value, json};

use super::markers::rate;
use super::{ReportRow, Table};
use crate::args::Sort;

/// Waits below this share of the time are in no line.
const LEAST_SHARE: f64 = 0.0005;

/// A share of time on a CPU is by samples. With a larger error (two standard errors) it says nothing.
const MOST_ERROR: f64 = 0.2;

/// At most `rows` rows. `interval_ms`: the time of a sample.
pub(super) fn table(mut found: Vec<SpanRow>, sort: Sort, rows: usize, interval_ms: f64) -> Table {
    if sort == Sort::Name {
        found.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let left_out = found.len().saturating_sub(rows);
    let rows = found.into_iter().take(rows).map(|row| ReportRow {
        place: match row.part {
            Some(SpanPart::Slowest(percent)) => format!("the slowest {percent} %"),
            Some(SpanPart::Usual(_)) => "the others".to_owned(),
            None => String::new(),
        },
        cells: {
            let length = |of: fn(&SpanLengths) -> f64| {
                row.lengths
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |lengths| time(of(lengths)))
            };
            vec![
                grouped(row.count),
                length(|lengths| lengths.mean_ms),
                length(|lengths| lengths.p50_ms),
                length(|lengths| lengths.p90_ms),
                length(|lengths| lengths.p99_ms),
                length(|lengths| lengths.max_ms),
                time(row.total_ms),
            ]
        },
        details: [did(&row, interval_ms)]
            .into_iter()
            .chain(at_once(&row))
            .chain(rest_on(&row))
            .collect(),
        fields: fields(&row),
        name: row.name,
        ..ReportRow::default()
    });
    Table {
        id: "spans",
        title: "Spans".to_owned(),
        own_label: "",
        other_label: "",
        headings: vec!["count", "mean", "p50", "p90", "p99", "longest", "total"],
        rows: rows.collect(),
        left_out,
    }
}

/// What threads did: `on a CPU 40.1 % (812 samples), sleep 59.8 %`
fn did(row: &SpanRow, interval_ms: f64) -> String {
    let SpanTime {
        covered_ms,
        on_cpu_ms,
        samples,
        ref waits,
        ready_ms,
    } = row.time;
    if is_async(row) {
        return "async: nothing says when they ran, so what threads did is not known".to_owned();
    }
    if covered_ms == 0.0 && row.total_ms > 0.0 {
        return "the recording was paused, so what threads did is not known".to_owned();
    }
    let share = |ms: f64| match covered_ms > 0.0 {
        true => ms / covered_ms,
        false => 0.0,
    };
    let percent = |ms: f64| format!("{:.1} %", 100.0 * share(ms));
    let mut parts = vec![match on_cpu_ms {
        Some(_) if 2.0 * share(interval_ms) * (samples.max(1) as f64).sqrt() > MOST_ERROR => {
            format!("on a CPU: {}, too few to tell", count(samples, "sample", "samples"))
        }
        Some(ms) => format!("on a CPU {} ({})", percent(ms), count(samples, "sample", "samples")),
        None => "on a CPU: not known, the samples are not of CPU time".to_owned(),
    }];
    let ready = ready_ms.map(|ms| ("waiting for a CPU".to_owned(), ms));
    let waits = waits
        .iter()
        .flatten()
        .map(|(reason, ms)| (reason.to_lowercase(), *ms))
        .chain(ready);
    parts.extend(
        waits
            .filter(|(_, ms)| share(*ms) >= LEAST_SHARE)
            .map(|(reason, ms)| format!("{reason} {}", percent(ms))),
    );
    if row.time.waits.is_none() {
        parts.push("waits are not known".to_owned());
    }
    if row.count_async > 0 {
        parts.push(format!(
            "without {} async ones, of which nothing says when they ran",
            grouped(row.count_async)
        ));
    }
    parts.join(", ")
}

/// True if nothing is known of the time of any of them.
fn is_async(row: &SpanRow) -> bool {
    row.count_async == row.kept.unwrap_or(row.count)
}

/// `12.5 start a second and take 80 ms: 1.0 open at once, at most 4`
fn at_once(row: &SpanRow) -> Option<String> {
    let (per_second, at_once) = (rate(row.per_second()?), rate(row.at_once()?));
    let length = row
        .lengths
        .map_or_else(String::new, |lengths| format!(" and take {}", time(lengths.mean_ms)));
    let most = row
        .most_at_once
        .map_or_else(String::new, |most| format!(", at most {}", grouped(most)));
    Some(format!(
        "{per_second} start a second{length}: {at_once} open at once{most}"
    ))
}

/// What the figures rest on, if the profile does not have all spans from start to end.
fn rest_on(row: &SpanRow) -> Option<String> {
    let kept = row.kept.map(|kept| {
        format!(
            "by {} of them, chosen by chance: all but number, sum and longest are estimates",
            grouped(kept)
        )
    });
    let cut = (row.count_cut > 0).then(|| {
        let ones = if row.count_cut == 1 { "one" } else { "ones" };
        format!(
            "lengths are without {} {ones} that began before the recording or ended after",
            grouped(row.count_cut)
        )
    });
    let parts: Vec<String> = kept.into_iter().chain(cut).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn fields(row: &SpanRow) -> Vec<(&'static str, Value)> {
    let known = |ms: Option<f64>| ms.map_or(Value::Null, number_json);
    let time = Some(&row.time).filter(|_| !is_async(row));
    let length = |of: fn(&SpanLengths) -> f64| known(row.lengths.as_ref().map(of));
    let waits = time.and_then(|time| time.waits.as_ref()).map(|waits| -> Vec<Value> {
        let wait = |(reason, ms): &(String, f64)| json!({"reason": reason, "ms": number_json(*ms)});
        waits.iter().map(wait).collect()
    });
    vec![
        ("name", json!(row.name)),
        (
            "part",
            json!(row.part.map(|part| match part {
                SpanPart::Slowest(_) => "slowest",
                SpanPart::Usual(_) => "others",
            })),
        ),
        ("count", json!(row.count)),
        ("async", json!(row.count_async)),
        ("cut", json!(row.count_cut)),
        ("kept", json!(row.kept)),
        ("total_ms", number_json(row.total_ms)),
        ("mean_ms", length(|lengths| lengths.mean_ms)),
        ("p50_ms", length(|lengths| lengths.p50_ms)),
        ("p90_ms", length(|lengths| lengths.p90_ms)),
        ("p99_ms", length(|lengths| lengths.p99_ms)),
        ("max_ms", length(|lengths| lengths.max_ms)),
        ("covered_ms", known(time.map(|time| time.covered_ms))),
        ("on_cpu_ms", known(time.and_then(|time| time.on_cpu_ms))),
        ("samples", json!(time.map(|time| time.samples))),
        ("waiting_ms", known(time.and_then(SpanTime::waiting_ms))),
        ("waits", json!(waits)),
        ("ready_ms", known(time.and_then(|time| time.ready_ms))),
        ("rest_ms", known(time.and_then(SpanTime::rest_ms))),
        ("per_second", known(row.per_second())),
        ("at_once", known(row.at_once())),
        ("most_at_once", json!(row.most_at_once)),
    ]
}

/// What the table does not say.
pub(crate) fn notes(tables: &[Table], selection: &Selection<'_>) -> Vec<String> {
    let is_known = |row: &ReportRow| {
        row.fields
            .iter()
            .any(|(key, value)| *key == "waits" && !value.is_null())
    };
    let rows = tables
        .iter()
        .filter(|table| table.id == "spans")
        .flat_map(|table| &table.rows);
    let mut notes = Vec::new();
    if selection.data.sampled_parts_ms().is_some() {
        notes.push(
            "the recording was paused for some time: what threads did is of the rest; lengths are of all".to_owned(),
        );
    }
    if !rows.clone().any(is_known) && selection.data.has_samples() {
        notes.push(format!(
            "waits were not recorded, so nobody knows what threads did in spans while they were not on a CPU: `{} record --off-cpu`",
            own()
        ));
    }
    let thinned = selection
        .data
        .recorded
        .iter()
        .flat_map(|recorded| &recorded.thinned_spans);
    notes.extend(
        thinned
            .filter(|facts| facts.name.is_none() && facts.kept < facts.count)
            .map(|facts| {
                format!(
                    "of {} spans of rare names the profile has {}: their rows have no others",
                    grouped(facts.count),
                    grouped(facts.kept)
                )
            }),
    );
    notes
}
