//! Pyroscope: `PusherService/Push` of push/v1/push.proto, as JSON over the Connect protocol, with pprof inside; and
//! `QuerierService/SelectMergeProfile` of querier/v1/querier.proto, as protobuf, because its reply is then a pprof
//! file.

use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use profile::export::{ExportUnit, PickedTime, pprof};
use prost::Message as _;
use serde_json::json;

use super::labels::prometheus_name;
use super::{PushRequest, QueryRequest, QuerySelection, Shipment};
use crate::http::{Address, Method};

/// The type of CPU profiles: of sprof's, and of most agents'. Its parts are the metric, what a sample counts, and the
/// period.
const CPU_TIME: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";

/// The message, as far as sprof sets its fields.
#[derive(prost::Message)]
struct SelectMergeProfileRequest {
    #[prost(string, tag = "1")]
    profile_type_id: String,
    #[prost(string, tag = "2")]
    label_selector: String,
    /// ms since 1970.
    #[prost(int64, tag = "3")]
    start: i64,
    #[prost(int64, tag = "4")]
    end: i64,
}

pub(super) fn ask(server: &Address, selected: &QuerySelection) -> Result<QueryRequest, String> {
    let time = |ms| i64::try_from(ms).unwrap_or(i64::MAX);
    let kind = Some(&*selected.kind).filter(|kind| !kind.is_empty());
    let request = SelectMergeProfileRequest {
        profile_type_id: kind.unwrap_or(CPU_TIME).to_owned(),
        label_selector: selected.labels.clone(),
        start: time(selected.from_ms),
        end: time(selected.until_ms),
    };
    Ok(QueryRequest {
        method: Method::POST,
        address: server.below(&["querier.v1.QuerierService", "SelectMergeProfile"])?,
        headers: &[("Content-Type", "application/proto"), ("Connect-Protocol-Version", "1")],
        body: Some(request.encode_to_vec()),
    })
}

pub(super) fn post(shipment: &Shipment<'_>) -> io::Result<PushRequest> {
    // The name of commits in Pyroscope's links to sources.
    let mut labels = shipment.labels.of_prometheus("service_git_ref");
    labels.insert("__name__".to_owned(), metric(shipment));
    let labels = labels
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }));
    let series = json!({
        "labels": labels.collect::<Vec<_>>(),
        "samples": [{ "rawProfile": raw_profile(shipment)? }],
    });
    Ok(PushRequest {
        path: &["push.v1.PusherService", "Push"],
        headers: &[("Content-Type", "application/json"), ("Connect-Protocol-Version", "1")],
        body: serde_json::to_vec(&json!({ "series": [series] }))?,
    })
}

/// The metric, as Pyroscope's own agents name it.
pub(super) fn metric(shipment: &Shipment<'_>) -> String {
    let picked = shipment.picked;
    match (picked.counted(), picked.named(), picked.time()) {
        (ExportUnit::Bytes, ..) => "memory".to_owned(),
        (_, Some((name, _)), _) => prometheus_name(name),
        (.., PickedTime::Cpu) => "process_cpu".to_owned(),
        (.., PickedTime::Waits) => "off_cpu".to_owned(),
        (.., PickedTime::All) => "wall".to_owned(),
    }
}

/// pprof in base64, as JSON has bytes. Servers make a series of each set of a sample's labels, and thread ids never
/// end: threads are distinguished only where the user wants it.
pub(super) fn raw_profile(shipment: &Shipment<'_>) -> io::Result<String> {
    let mut bytes = Vec::new();
    match shipment.threads {
        true => pprof::write(shipment.picked, &mut bytes)?,
        false => pprof::write_without_threads(shipment.picked, &mut bytes)?,
    }
    Ok(BASE64_STANDARD.encode(bytes))
}
