//! A report for programs.
//!
//! ```text
//! schema          "sprof-report"
//! schema_version  1; a removed or changed field increases it, a new field does not
//! sprof_version
//! file            as named by the user
//! profile         product, arguments, commit (null if not known), recorded_by, os, cpu, start_unix_ms, duration_ms, interval_ms,
//!                 processes, threads, symbolicated, extra: the recorder's facts about lost and truncated samples
//! selection       kind: "cpu" or "waits"; conditions; samples, weight: of all selected samples, the whole of shares;
//!                 without_stack; other_kind: samples of the other kind
//! unit            of weights: "samples", "ms", "bytes" or "count"
//! weights         of imported files, else null: name, unit: as in the file; others: its other events
//! notes           limits of the data, a sentence each
//! views           id, rows, left_out: number of rows that are not listed
//!   rows          origin (of a crate: "crate", "library", "kernel", "jit", "mark", "unknown"), function, library, file, line, name, pid, tid, process, threads, bucket, functions, subcategories: if known
//!                 depth: in trees; rows are in depth-first order
//!                 self, total, other_kind: samples (null if the file has none), weight, share (0 to 1), time_ms
//!                 (null if samples stand for no time)
//! ```

use std::io::{self, Write};

use profile::view::cost::Cost;
use serde_json::{Map, Value, json};

use super::{Measure, Report};
use crate::numbers::number_json;

/// See the list above.
pub(crate) const SCHEMA_VERSION: u32 = 1;

pub(crate) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let views: Vec<Value> = (report.tables.iter())
        .map(|table| {
            let is_tree = matches!(table.id, "tree" | "bottom_up" | "callers" | "callees" | "hot_path");
            let rows: Vec<Value> = (table.rows.iter())
                .map(|row| {
                    let mut fields: Map<String, Value> = Map::new();
                    if is_tree {
                        fields.insert("depth".into(), row.depth.into());
                    }
                    fields.extend(row.fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
                    for (key, cost) in [("self", row.own), ("total", row.total), ("other_kind", row.other)] {
                        if let Some(cost) = cost {
                            fields.insert(key.into(), cost_json(cost, &report.measure));
                        }
                    }
                    Value::Object(fields)
                })
                .collect();
            json!({"id": table.id, "rows": rows, "left_out": table.left_out})
        })
        .collect();
    let mut object = Map::new();
    object.insert("schema".into(), "sprof-report".into());
    object.insert("schema_version".into(), SCHEMA_VERSION.into());
    object.insert("sprof_version".into(), env!("CARGO_PKG_VERSION").into());
    if let Value::Object(about) = &report.about.json {
        object.extend(about.clone());
    }
    object.insert("views".into(), Value::Array(views));
    serde_json::to_writer(&mut *out, &object)?;
    out.write_all(b"\n")
}

fn cost_json(cost: Cost, measure: &Measure) -> Value {
    json!({
        "samples": measure.has_samples.then_some(cost.samples),
        "weight": number_json(cost.weight),
        "share": cost.share_of(measure.whole),
        "time_ms": measure.time_ms(cost).map(number_json),
    })
}
