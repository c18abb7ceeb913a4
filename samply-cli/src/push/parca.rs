//! Parca: `WriteRaw` of parca/profilestore/v1alpha1/profilestore.proto, as JSON over its HTTP gateway, with pprof inside.

use std::io;

use serde_json::json;

use super::pyroscope::{metric, raw_profile};
use super::{Posted, Shipment};

pub(super) fn post(shipment: &Shipment<'_>) -> io::Result<Posted> {
    let mut labels = shipment.labels.of_prometheus("commit");
    labels.insert("__name__".to_owned(), metric(shipment));
    let labels = labels
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }));
    let series = json!({
        "labels": { "labels": labels.collect::<Vec<_>>() },
        "samples": [{ "rawProfile": raw_profile(shipment)? }],
    });
    Ok(Posted {
        path: &["api", "profiles", "writeraw"],
        headers: &[("Content-Type", "application/json")],
        // The addresses are offsets in the files, and names stand beside them.
        body: serde_json::to_vec(&json!({ "series": [series], "normalized": true }))?,
    })
}
