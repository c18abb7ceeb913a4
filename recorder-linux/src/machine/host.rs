//! Description of the machine, for the profile.

use std::collections::HashSet;
use std::fs;

use recording::info::Host;

/// Reads /proc and /etc. Unknown facts stay `None`.
pub(crate) fn describe(online_cpus: usize) -> Host {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |line: &str, name: &str| -> Option<String> {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    };
    let mut package = String::new();
    let mut cores = HashSet::new();
    for line in cpuinfo.lines() {
        if let Some(id) = value(line, "physical id") {
            package = id;
        } else if let Some(id) = value(line, "core id") {
            cores.insert((package.clone(), id));
        }
    }
    Host {
        cpu_name: cpuinfo.lines().find_map(|line| value(line, "model name")),
        logical_cpus: u32::try_from(online_cpus).ok(),
        physical_cpus: u32::try_from(cores.len()).ok().filter(|cores| *cores > 0),
        memory_bytes: memory_bytes(),
        os: os(),
    }
}

fn memory_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn os() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut os = format!("Linux {} {}", release.trim(), std::env::consts::ARCH);
    let distribution = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if let Some(name) = distribution.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")) {
        os.push_str(", ");
        os.push_str(name.trim_matches('"'));
    }
    Some(os)
}
