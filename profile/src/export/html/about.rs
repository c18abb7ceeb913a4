//! The head of the page: what was recorded, and how far it can be trusted.

use serde_json::{Value, json};

use crate::data::{Data, RecordingFacts, RowValue, SampledFacts};

/// The facts, typed; the page makes words of them.
pub(super) fn about(data: &Data, notes: &[String]) -> Value {
    let extra = data.extra.iter().map(|section| {
        let rows = section.rows.iter().map(|row| match &row.value {
            RowValue::Number(number) => json!([row.label, number, row.format]),
            RowValue::Text(text) => json!([row.label, text, row.format]),
            RowValue::Other(_) | RowValue::None => json!([row.label, null, row.format]),
        });
        json!({ "label": section.label, "rows": rows.collect::<Vec<_>>() })
    });
    json!({
        "product": data.product,
        "arguments": data.arguments,
        "by": data.imported_from,
        "os": data.os,
        "cpu": data.cpu,
        "startMs": data.start_ms,
        "durationMs": data.length_ms(),
        "processes": data.processes(),
        "threads": data.threads_in_all(),
        "symbolicated": data.symbolicated,
        "newer": data.newer_facts,
        "exact": data.weights.as_ref().is_some_and(|weights| weights.is_exact),
        // The page has the line and the markers that are made of the rest.
        "recorded": data.recorded.clone().map(|recorded| RecordingFacts {
            running: None,
            sampled: recorded.sampled.map(|sampled| SampledFacts { lasted_ns: Vec::new(), ..sampled }),
            ..recorded
        }),
        "extra": extra.collect::<Vec<_>>(),
        "notes": notes,
    })
}
