//! The PMUs of this machine, as sysfs describes them: the terms that their events may have, and the bits of each term.
//!
//! See Documentation/ABI/testing/sysfs-bus-event_source-devices-format in the Linux sources.

use std::fs;
use std::path::Path;

use crate::machine::cpus;

const EVENT_SOURCES: &str = "sys/bus/event_source/devices";

/// An event of a PMU.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PmuEvent {
    /// `perf_event_attr.type`.
    pub(crate) kind: u32,
    /// `config`, `config1`, `config2`.
    pub(crate) configs: [u64; 3],
    /// The CPUs that have the event, if sysfs names them.
    pub(crate) cpus: Option<Vec<u32>>,
}

/// Finds the PMU and puts each term into its bits. The error names what is wrong and what the machine has.
pub(crate) fn resolve(root: &Path, pmu: &str, terms: &[(String, u64)]) -> Result<PmuEvent, String> {
    let device = root.join(EVENT_SOURCES).join(pmu);
    let read = |file: &str| fs::read_to_string(device.join(file)).map(|text| text.trim().to_owned());
    let Ok(kind) = read("type") else {
        return Err(format!(
            "this machine has no PMU `{pmu}`; it has: {}",
            names(root).join(", ")
        ));
    };
    let kind = (kind.parse()).map_err(|_| format!("the PMU {pmu} has the type `{kind}`, which is not a number"))?;
    if read("cpumask").is_ok() {
        return Err(format!(
            "the PMU {pmu} counts for the whole machine and can't sample: nobody knows which program it counted for"
        ));
    }
    let mut configs = [0; 3];
    for (term, value) in terms {
        // A term may be the name of an event, which stands for several terms.
        match read(&format!("events/{term}")) {
            Ok(event) if *value == 1 => {
                for (term, value) in event.split(',').filter_map(plain_term) {
                    put(&mut configs, &read_format(&device, pmu, term)?, term, value)?;
                }
            }
            _ => put(&mut configs, &read_format(&device, pmu, term)?, term, *value)?,
        }
    }
    Ok(PmuEvent {
        kind,
        configs,
        cpus: read("cpus").ok().and_then(|list| cpus::parse_list(&list)),
    })
}

/// All PMUs, by name.
pub(crate) fn names(root: &Path) -> Vec<String> {
    listed(&root.join(EVENT_SOURCES))
}

/// Names of the events that sysfs lists for a PMU.
pub(crate) fn events(root: &Path, pmu: &str) -> Vec<String> {
    let mut events = listed(&root.join(EVENT_SOURCES).join(pmu).join("events"));
    // `event.scale`, `event.unit`.
    events.retain(|event| !event.contains('.'));
    events
}

/// The terms of a PMU's events.
pub(crate) fn terms(root: &Path, pmu: &str) -> Vec<String> {
    listed(&root.join(EVENT_SOURCES).join(pmu).join("format"))
}

fn listed(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// `event=0x3c`, `umask=0x00`, `any`.
fn plain_term(text: &str) -> Option<(&str, u64)> {
    let (name, value) = text.trim().split_once('=').unwrap_or((text.trim(), "1"));
    let value = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    Some((name, value.ok()?))
}

fn read_format(device: &Path, pmu: &str, term: &str) -> Result<String, String> {
    let is_config = matches!(term, "config" | "config1" | "config2");
    fs::read_to_string(device.join("format").join(term)).or_else(|_| match is_config {
        true => Ok(format!("{term}:0-63")),
        false => {
            let terms = listed(&device.join("format"));
            let events = listed(&device.join("events"));
            Err(format!(
                "the PMU {pmu} has no term `{term}`; its terms: {}; its events: {}",
                shown(&terms),
                shown(&events)
            ))
        }
    })
}

fn shown(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(" "),
    }
}

/// Puts a value into the bits that `config:0-7,32-35` names: its lowest bits into the first range, and so on.
fn put(configs: &mut [u64; 3], format: &str, term: &str, value: u64) -> Result<(), String> {
    let strange = || {
        format!(
            "the term `{term}` of the PMU stands where sprof can't put it: {:?}",
            format.trim()
        )
    };
    let (config, ranges) = format.trim().split_once(':').ok_or_else(strange)?;
    let config = match config {
        "config" => &mut configs[0],
        "config1" => &mut configs[1],
        "config2" => &mut configs[2],
        _ => return Err(strange()),
    };
    let mut rest = value;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
            return Err(strange());
        };
        if first > last || last > 63 {
            return Err(strange());
        }
        let mask = u64::MAX >> (63 - (last - first));
        *config |= (rest & mask) << first;
        rest = rest.checked_shr(last - first + 1).unwrap_or(0);
    }
    match rest {
        0 => Ok(()),
        _ => Err(format!(
            "{value:#x} is too large for the term `{term}` ({})",
            format.trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(EVENT_SOURCES).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cpu/type", "4\n");
        write("cpu/format/event", "config:0-7,32-35\n");
        write("cpu/format/umask", "config:8-15\n");
        write("cpu/format/ldlat", "config1:0-15\n");
        write("cpu/format/odd", "config9:0-1\n");
        write("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
        write("uncore_imc/type", "14\n");
        write("uncore_imc/cpumask", "0\n");
        root
    }

    fn resolved(terms: &[(&str, u64)]) -> Result<[u64; 3], String> {
        let terms: Vec<_> = terms.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        resolve(machine().path(), "cpu", &terms).map(|event| {
            assert_eq!((event.kind, event.cpus), (4, None));
            event.configs
        })
    }

    #[test]
    fn terms_go_to_the_bits_that_the_pmu_says() {
        // 0x1c5 is split: its lowest 8 bits to bits 0 to 7, the ninth to bit 32.
        assert_eq!(resolved(&[("event", 0x1c5), ("umask", 2)]), Ok([0x1_0000_02c5, 0, 0]));
        assert_eq!(resolved(&[("mem-loads", 1)]), Ok([0x1cd, 3, 0]));
        assert_eq!(resolved(&[("config", u64::MAX), ("config2", 7)]), Ok([u64::MAX, 0, 7]));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let error = resolved(&[("umask", 0x100)]).unwrap_err();
        assert!(error.contains("0x100 is too large for the term `umask`"), "{error}");
        let error = resolved(&[("cmask", 1)]).unwrap_err();
        assert!(
            error.contains("no term `cmask`; its terms: event ldlat odd umask"),
            "{error}"
        );
        assert!(resolved(&[("odd", 1)]).is_err());
        let error = resolve(machine().path(), "gpu", &[]).unwrap_err();
        assert!(error.contains("it has: cpu, uncore_imc"), "{error}");
        let error = resolve(machine().path(), "uncore_imc", &[]).unwrap_err();
        assert!(error.contains("whole machine"), "{error}");
    }
}
