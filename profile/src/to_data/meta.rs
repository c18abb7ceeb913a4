//! `meta`: the profile's origin and contents, and its display in the front end.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::cpu::CpuDelta;
use super::numbers::{json_ms, ms, number};
use super::tracks::InitialTracks;
use super::{extra, quality};
use crate::data::Fields;
use crate::data::facts::SprofFacts;
use crate::recorded::Profile;

/// The gecko format version (`meta.version`) of profiles in format 70. No code reads it for processed profiles.
pub(crate) const GECKO_VERSION: u32 = 34;

/// `meta.importedFrom`: the program that wrote the profile.
pub(crate) const PRODUCER: &str = concat!("sprof ", env!("CARGO_PKG_VERSION"));

/// Unix time of the profile's time 0, ms.
pub(super) fn start_ms(profile: &Profile) -> f64 {
    let zero = profile.info.clock.wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    ms(i64::try_from(zero.as_nanos()).unwrap_or(i64::MAX))
}

/// Duration of the recording, ms.
pub(super) fn duration_ms(profile: &Profile) -> f64 {
    let info = &profile.info;
    ms(i64::try_from(info.end.nanos_since(info.clock.timestamp)).unwrap_or(i64::MAX))
}

/// All of `meta` except the types of markers, which are [`Data::schemas`](crate::data::Data::schemas).
pub(super) fn meta(profile: &Profile) -> Fields {
    let info = &profile.info;
    let host = &info.host;
    let (start_ms, duration_ms) = (start_ms(profile), duration_ms(profile));
    let shown = InitialTracks::new(profile);
    let meta = json!({
        "version": GECKO_VERSION,
        "interval": json_ms(i64::try_from(info.interval_ns).unwrap_or(i64::MAX)),
        "startTime": number(start_ms),
        "endTime": number(start_ms + duration_ms),
        "profilingStartTime": 0,
        "profilingEndTime": number(duration_ms),
        "startTimeAsClockMonotonicNanosecondsSinceBoot": info.clock.timestamp.0,
        "product": info.program,
        "importedFrom": PRODUCER,
        // "Update channel" means nothing for other programs, but the front end has no other way: for any value that it
        // does not show, its panel for sharing preselects hidden threads and all else (`getShouldSanitizeByDefault`).
        "updateChannel": "release",
        "arguments": info.args.as_ref().map(|args| args.join(" ")),
        "oscpu": host.os,
        "CPUName": host.cpu_name,
        "logicalCPUs": host.logical_cpus,
        "physicalCPUs": host.physical_cpus,
        "mainMemory": host.memory_bytes,
        "processType": 0,
        "stackwalk": 1,
        "sampleUnits": json!({"time": "ms", "eventDelay": "ms", "threadCPUDelta": CpuDelta::new(profile).unit()}),
        "usesOnlyOneStackType": !has_scripts(profile),
        "sourceCodeIsNotOnSearchfox": true,
        "initialVisibleThreads": shown.threads,
        "initialSelectedThreads": [shown.threads[0]],
        "sprof": SprofFacts::of_recorded(quality::recorded_facts(profile)),
        "extra": extra::sections(profile),
    });
    match meta {
        Value::Object(mut meta) => {
            meta.retain(|_, value| !value.is_null());
            meta
        }
        _ => Fields::new(),
    }
}

/// True if functions of JavaScript are in the profile. The front end then offers to show them or native functions
/// alone.
fn has_scripts(profile: &Profile) -> bool {
    let tables = &profile.tables;
    (tables.frames.iter()).any(|frame| tables.func(frame.func).start.is_some())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_category_list_has_the_default_one() {
        assert!(
            crate::category::CATEGORIES
                .iter()
                .any(|category| category.color == "grey")
        );
    }
}
