//! Parca: `WriteRaw` of parca/profilestore/v1alpha1/profilestore.proto, as JSON over its HTTP gateway, with pprof
//! inside; and `Query` of parca/query/v1alpha1/query.proto, which gives such a profile back.

use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use profile::text::date::utc;
use serde::Deserialize;
use serde_json::json;

use super::pyroscope::{metric, raw_profile};
use super::{PushError, PushRequest, QueryRequest, QuerySelection, Shipment};
use crate::http::{Address, Method};

/// The type of CPU profiles. `delta`: each has a duration, so they can be added up.
const CPU_TIME: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta";

pub(super) fn ask(server: &Address, selected: &QuerySelection) -> Result<QueryRequest, String> {
    let kind = Some(&*selected.kind).filter(|kind| !kind.is_empty());
    let query = format!("{}{}", kind.unwrap_or(CPU_TIME), selected.labels);
    // RFC 3339, as JSON has the times of protobuf.
    let time = |ms| utc(ms as f64).replacen(' ', "T", 1).replacen(" UTC", "Z", 1);
    let (from, until) = (time(selected.from_ms), time(selected.until_ms));
    let address = server.below(&["api", "profiles", "query"])?;
    Ok(QueryRequest {
        method: Method::GET,
        // Names of the fields with their messages, as gateways of gRPC have them in a query.
        address: address.with_query(&[
            ("mode", "MODE_MERGE"),
            ("merge.query", &query),
            ("merge.start", &from),
            ("merge.end", &until),
            ("report_type", "REPORT_TYPE_PPROF"),
        ])?,
        headers: &[],
        body: None,
    })
}

/// The profile in a `QueryResponse`.
pub(super) fn pprof(reply: &[u8]) -> Result<Vec<u8>, PushError> {
    #[derive(Deserialize)]
    struct QueryResponse {
        pprof: String,
    }
    let reply: QueryResponse =
        serde_json::from_slice(reply).map_err(|_| PushError::Reply("the reply holds no profile".to_owned()))?;
    let bytes = BASE64_STANDARD.decode(reply.pprof);
    bytes.map_err(|_| PushError::Reply("the profile in the reply is not base64".to_owned()))
}

pub(super) fn post(shipment: &Shipment<'_>) -> io::Result<PushRequest> {
    let mut labels = shipment.labels.of_prometheus("commit");
    labels.insert("__name__".to_owned(), metric(shipment));
    let labels = labels
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }));
    let series = json!({
        "labels": { "labels": labels.collect::<Vec<_>>() },
        "samples": [{ "rawProfile": raw_profile(shipment)? }],
    });
    Ok(PushRequest {
        path: &["api", "profiles", "writeraw"],
        headers: &[("Content-Type", "application/json")],
        // The addresses are offsets in the files, and names stand beside them.
        body: serde_json::to_vec(&json!({ "series": [series], "normalized": true }))?,
    })
}
