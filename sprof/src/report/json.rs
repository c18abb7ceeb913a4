//! A report for programs. docs/json.md describes its fields.

use std::io::{self, Write};

use profile::text::numbers::number_json;
use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;
use serde_json::{Map, Value, json};

use super::Report;
use crate::output::json;

/// A removed or changed field increases it, a new field does not.
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
    let mut fields = report.about.json.clone();
    fields["views"] = Value::Array(views);
    json::write("sprof-report", SCHEMA_VERSION, fields, out)
}

pub(crate) fn cost_json(cost: Cost, measure: &CostScale) -> Value {
    json!({
        "samples": measure.has_samples.then_some(cost.samples),
        "weight": number_json(cost.weight),
        "share": cost.share_of(measure.whole),
        "time_ms": measure.time_ms(cost).map(number_json),
    })
}
