//! CPUs of the machine, and the counter that counts cycles on each.

use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity};

const CPUS_ONLINE: &str = "sys/devices/system/cpu/online";
const EVENT_SOURCES: &str = "sys/bus/event_source/devices";

/// The online CPUs. The affinity mask or a quota does not serve: the program may run on CPUs that sprof itself may not
/// (`taskset`, a container's cpuset).
///
/// Where sysfs is not mounted, as in a chroot, /proc/stat has a line for each online CPU (fs/proc/stat.c). It is the
/// second choice: lxcfs numbers the CPUs of a container anew in it. In a folder with neither, the CPUs are those that
/// sprof may use: a program that it starts may use the same (sched_setaffinity(2)), and attaching needs /proc.
pub(crate) fn online(root: &Path) -> Result<Vec<u32>, String> {
    let cpus = match fs::read_to_string(root.join(CPUS_ONLINE)) {
        Ok(list) => parse_list(list.trim()),
        Err(_) => match fs::read_to_string(root.join("proc/stat")) {
            Ok(stat) => {
                let cpu = |line: &str| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok();
                Some(stat.lines().filter_map(cpu).collect())
            }
            // Fails on machines with more than 1024 CPUs.
            Err(_) => sched_getaffinity(None).ok().map(|allowed| {
                let all = 0..CpuSet::MAX_CPU as u32;
                all.filter(|&cpu| allowed.is_set(cpu as usize)).collect()
            }),
        },
    };
    cpus.filter(|cpus| !cpus.is_empty()).ok_or_else(|| {
        format!(
            "cannot read the online CPUs in /{CPUS_ONLINE} or /proc/stat: mount sysfs with `mount -t sysfs sysfs /sys`"
        )
    })
}

/// PMU types of machines with more than one kind of core (`cpu_core` and `cpu_atom`, `armv8_cortex_a53`...), each with
/// its CPUs. There, PERF_TYPE_HARDWARE alone counts on one kind and stays silent on the other. The type goes into the
/// upper half of `config` (PERF_PMU_TYPE_SHIFT, Linux 5.13). Empty on ordinary machines.
pub(crate) fn core_types(root: &Path) -> Vec<(u32, Vec<u32>)> {
    let Ok(devices) = fs::read_dir(root.join(EVENT_SOURCES)) else {
        return Vec::new();
    };
    let mut types: Vec<(u32, Vec<u32>)> = devices
        .flatten()
        .filter_map(|device| {
            let read = |file: &str| fs::read_to_string(device.path().join(file)).ok();
            let cpus = parse_list(read("cpus")?.trim())?;
            let kind = read("type")?.trim().parse().ok()?;
            // Uncore devices have "cpumask". Among devices with "cpus", only core PMUs name the cycles event.
            let counts_cycles =
                device.path().join("events/cpu-cycles").exists() || device.path().join("events/cpu_cycles").exists();
            (counts_cycles && !cpus.is_empty()).then_some((kind, cpus))
        })
        .collect();
    types.sort();
    if types.len() < 2 { Vec::new() } else { types }
}

/// Parses `0-3,8,10-11`, the kernel's "cpulist" form. `None` for other text.
pub(crate) fn parse_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // Limit against nonsense: CONFIG_NR_CPUS goes to 8192.
        if last >= 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("0-"), None);
        assert_eq!(parse_list("0-4294967295"), None);
    }

    #[test]
    fn online_cpus_are_known_without_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let own = std::thread::available_parallelism().unwrap().get();
        assert!(online(root.path()).unwrap().len() >= own);
        fs::create_dir(root.path().join("proc")).unwrap();
        fs::write(
            root.path().join("proc/stat"),
            "cpu  7 0 9\ncpu0 3 0 4\ncpu12 4 0 5\nintr 1 2\n",
        )
        .unwrap();
        assert_eq!(online(root.path()), Ok(vec![0, 12]));
        fs::create_dir_all(root.path().join(CPUS_ONLINE).parent().unwrap()).unwrap();
        fs::write(root.path().join(CPUS_ONLINE), "4,6-7\n").unwrap();
        assert_eq!(online(root.path()), Ok(vec![4, 6, 7]));
    }

    #[test]
    fn machines_with_two_kinds_of_cores_name_both_counters() {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path().join(EVENT_SOURCES);
        for (name, kind, cpus, event) in [
            ("cpu_core", "4", "0-1", true),
            ("cpu_atom", "10", "2-3", true),
            ("uncore", "12", "0", false),
        ] {
            let device = devices.join(name);
            fs::create_dir_all(device.join("events")).unwrap();
            fs::write(device.join("type"), kind).unwrap();
            fs::write(device.join("cpus"), cpus).unwrap();
            if event {
                fs::write(device.join("events/cpu-cycles"), "event=0x3c").unwrap();
            }
        }
        assert_eq!(core_types(root.path()), [(4, vec![0, 1]), (10, vec![2, 3])]);
        fs::remove_dir_all(devices.join("cpu_atom")).unwrap();
        assert_eq!(core_types(root.path()), []);
    }
}
