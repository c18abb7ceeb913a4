//! `meta`: what the profile is of, and how the front end shall show it.

use std::io;
use std::time::UNIX_EPOCH;

use serde_json::{Map, Value, json};

use super::cpu::CpuDelta;
use super::json::{Json, put_ms};
use super::tracks::Shown;
use super::{FORMAT_VERSION, extra, markers, quality};
use crate::category::CATEGORIES;
use crate::facts::Facts;
use crate::model::Profile;

/// The gecko format version (`meta.version`) that profiles of format 70 carry; read by no code path for processed profiles.
pub(super) const GECKO_VERSION: u32 = 34;

/// `meta.importedFrom`: who wrote the profile.
pub(crate) const PRODUCER: &str = concat!("sprof ", env!("CARGO_PKG_VERSION"));

pub(super) fn write(profile: &Profile, json: &mut Json) -> io::Result<()> {
    json.key("meta")?;
    json.object(|json| {
        json.entry("version", &GECKO_VERSION)?;
        json.entry("preprocessedProfileVersion", &FORMAT_VERSION)?;
        write_times(profile, json)?;
        write_program(profile, json)?;
        write_shape(profile, json)?;
        json.entry("markerSchema", &markers::schema(profile))?;
        json.entry("sprof", &Facts::of_recorded(quality::recorded_facts(profile)))?;
        json.entry("extra", &extra::sections(profile))
    })
}

fn write_times(profile: &Profile, json: &mut Json) -> io::Result<()> {
    let info = &profile.info;
    let zero = info.clock.wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    let zero_ns = i64::try_from(zero.as_nanos()).unwrap_or(i64::MAX);
    let length_ns = i64::try_from(info.end.nanos_since(info.clock.timestamp)).unwrap_or(i64::MAX);
    let mut ms = |key: &str, ns: i64| {
        json.key(key)?;
        json.value(|buf| put_ms(buf, ns))
    };
    ms("interval", i64::try_from(info.interval_ns).unwrap_or(i64::MAX))?;
    ms("startTime", zero_ns)?;
    ms("endTime", zero_ns.saturating_add(length_ns))?;
    ms("profilingStartTime", 0)?;
    ms("profilingEndTime", length_ns)?;
    json.entry("startTimeAsClockMonotonicNanosecondsSinceBoot", &info.clock.timestamp.0)
}

fn write_program(profile: &Profile, json: &mut Json) -> io::Result<()> {
    let info = &profile.info;
    let host = &info.host;
    let mut known = Map::new();
    let mut add = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            known.insert(key.to_owned(), value);
        }
    };
    add("arguments", info.args.as_ref().map(|args| json!(args.join(" "))));
    add("oscpu", host.os.as_ref().map(|os| json!(os)));
    add("CPUName", host.cpu_name.as_ref().map(|name| json!(name)));
    add("logicalCPUs", host.logical_cpus.map(|count| json!(count)));
    add("physicalCPUs", host.physical_cpus.map(|count| json!(count)));
    add("mainMemory", host.memory_bytes.map(|bytes| json!(bytes)));
    json.entry("product", &info.program)?;
    json.entry("importedFrom", &PRODUCER)?;
    // The front end takes a profile without it for one of a developer's own Firefox, and uploads all of it by default.
    json.entry("updateChannel", &"release")?;
    for (key, value) in &known {
        json.entry(key, value)?;
    }
    json.entry("processType", &0)?;
    json.entry("stackwalk", &1)?;
    json.entry("debug", &false)
}

fn write_shape(profile: &Profile, json: &mut Json) -> io::Result<()> {
    let unit = CpuDelta::of(profile).unit();
    let categories: Vec<Value> = (CATEGORIES.iter())
        .map(
            |category| json!({"name": category.name, "color": category.color, "subcategories": category.subcategories}),
        )
        .collect();
    let shown = Shown::of(profile);
    json.entry("categories", &categories)?;
    if let Some(unit) = unit {
        json.entry(
            "sampleUnits",
            &json!({"time": "ms", "eventDelay": "ms", "threadCPUDelta": unit}),
        )?;
    }
    json.entry("symbolicated", &profile.symbolicated)?;
    json.entry("usesOnlyOneStackType", &true)?;
    json.entry("sourceCodeIsNotOnSearchfox", &true)?;
    json.entry("initialVisibleThreads", &shown.threads)?;
    json.entry("initialSelectedThreads", &[shown.threads[0]])
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_category_list_has_the_default_one() {
        assert!(super::CATEGORIES.iter().any(|category| category.color == "grey"));
    }
}
