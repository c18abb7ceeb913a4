//! `meta`: what the profile is of. As it was read or built; of files of other profilers it is made here.

use std::io;

use serde_json::{Value, json};

use super::FORMAT_VERSION;
use super::json::{Json, ns, put_ms};
use super::threads::{EACH_MS, times_ms};
use crate::built::GECKO_VERSION;
use crate::facts::Facts;
use crate::view::data::{Calls, Data, Unit, Weights};

pub(super) fn write(data: &Data, json: &mut Json) -> io::Result<()> {
    match data.meta.is_empty() {
        true => of_imported(data, json)?,
        false => {
            let others = data.meta.iter().filter(|(key, _)| !OWN.contains(&key.as_str()));
            json.fields(&others.map(|(key, value)| (key.clone(), value.clone())).collect())?;
        }
    }
    let own = crate::category::all();
    json.entry("preprocessedProfileVersion", &FORMAT_VERSION)?;
    json.entry(
        "categories",
        if data.categories.is_empty() {
            &own
        } else {
            &data.categories
        },
    )?;
    json.entry("symbolicated", &data.symbolicated)?;
    json.entry("markerSchema", &data.schemas)
}

/// What is written from fields of the data in any case.
const OWN: [&str; 4] = [
    "preprocessedProfileVersion",
    "categories",
    "symbolicated",
    "markerSchema",
];

/// Of another profiler's file.
fn of_imported(data: &Data, json: &mut Json) -> io::Result<()> {
    let interval_ms = match data.interval_ms > 0.0 && !data.is_summed {
        true => data.interval_ms,
        false => EACH_MS,
    };
    let last_ms = (data.threads.iter()).filter_map(|thread| times_ms(data, thread).last());
    let end_ms = last_ms.fold(0.0, f64::max) + interval_ms;
    json.entry("version", &GECKO_VERSION)?;
    for (key, ms) in [
        ("interval", interval_ms),
        ("startTime", data.start_ms),
        ("profilingStartTime", 0.0),
        ("profilingEndTime", end_ms),
    ] {
        json.key(key)?;
        json.value(|buf| put_ms(buf, ns(ms)))?;
    }
    json.entry("product", &data.product)?;
    json.entry("importedFrom", &data.imported_from)?;
    for (key, text) in [("oscpu", &data.os), ("CPUName", &data.cpu)] {
        if !text.is_empty() {
            json.entry(key, text)?;
        }
    }
    json.entry("processType", &0)?;
    json.entry("stackwalk", &1)?;
    json.entry("debug", &false)?;
    if data.unit == Unit::Milliseconds {
        json.entry(
            "sampleUnits",
            &json!({"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"}),
        )?;
    }
    json.entry("sprof", &Facts::of_imported(data))?;
    json.entry("extra", &extra(data))?;
    json.entry("usesOnlyOneStackType", &true)?;
    json.entry("sourceCodeIsNotOnSearchfox", &true)
}

/// What the front end can't know, for its "more info" panel.
fn extra(data: &Data) -> Value {
    let mut rows = Vec::new();
    let mut row = |label: &str, value: &str| rows.push(json!({"label": label, "format": "string", "value": value}));
    if let Some(Weights { name, unit, .. }) = &data.weights {
        row("Called samples here", name);
        if !unit.is_empty() {
            row("In", unit);
        }
    }
    if data.is_summed {
        row("Times", "none: these are sums, laid out one after the other");
    }
    if data.calls != Calls::Paths {
        row("Call paths", "none: each function stands alone");
    }
    match rows.is_empty() {
        true => json!([]),
        false => json!([{"label": "The file", "entries": rows}]),
    }
}
