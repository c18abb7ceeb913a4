//! The machine's figures: its CPUs, memory, pressure, disks and network.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use recording::counter::{Counter, CounterOwner, DeviceName, UnreadCause};

use super::kept_file::{FileReader, KeptFile};
use crate::processes::procfs;
use crate::sys::process::ticks_per_second;

/// A figure that was read.
pub(super) type Reading = (Counter, DeviceName, u64);
/// Takes a text apart; `None` if it has another form.
type Parse = fn(&str, &mut Vec<Reading>) -> Option<()>;

/// Files with figures: the path, what is in them, and how it is read. A star stands for any part of one name.
const FILES: [(&str, &[Counter], Parse); 8] = [
    (
        "proc/stat",
        &[Counter::MachineCpu, Counter::StolenCpu, Counter::RunQueue],
        parse_stat,
    ),
    ("proc/pressure/cpu", &[Counter::CpuPressure], |text, to| {
        parse_pressure(Counter::CpuPressure, text, to)
    }),
    ("proc/pressure/memory", &[Counter::MemoryPressure], |text, to| {
        parse_pressure(Counter::MemoryPressure, text, to)
    }),
    ("proc/pressure/io", &[Counter::IoPressure], |text, to| {
        parse_pressure(Counter::IoPressure, text, to)
    }),
    ("proc/meminfo", &[Counter::UsedMemory, Counter::UsedSwap], parse_meminfo),
    (
        "proc/diskstats",
        &[
            Counter::DiskBusy,
            Counter::DiskRequestTime,
            Counter::DiskRequests,
            Counter::DiskBytes,
        ],
        parse_diskstats,
    ),
    (
        "proc/net/dev",
        &[
            Counter::NetBytes,
            Counter::NetPackets,
            Counter::NetDrops,
            Counter::NetErrors,
        ],
        parse_net_dev,
    ),
    // A datagram for which a socket has no room is no drop of an interface.
    ("proc/net/snmp", &[], parse_snmp),
];
/// One file for each group of CPUs that have their frequency in common.
const FREQUENCIES: (&str, &[Counter], Parse) = (
    "sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq",
    &[Counter::CpuFrequency],
    parse_frequencies,
);

/// Files that are read together.
struct Source {
    files: Vec<KeptFile>,
    counters: &'static [Counter],
    parse: Parse,
}

/// What is read of the machine.
pub(super) struct MachineFiles {
    sources: Vec<Source>,
    /// Whole disks; `None` if they are not known. Partitions count in their disk.
    disks: Option<HashSet<DeviceName>>,
}

impl MachineFiles {
    /// Finds the files below `root`.
    pub(super) fn new(root: &Path) -> MachineFiles {
        let sources = FILES.iter().chain([&FREQUENCIES]).map(|(path, counters, parse)| {
            let path = root.join(path).to_string_lossy().into_owned();
            let paths = match path.split_once('*') {
                None => vec![path],
                Some((before, after)) => matching(before, after),
            };
            Source {
                files: paths.into_iter().map(KeptFile::new).collect(),
                counters,
                parse: *parse,
            }
        });
        let sources = sources.collect();
        let disks = fs::read_dir(root.join("sys/block")).ok().map(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            names.filter_map(|name| Some(DeviceName::new(name.to_str()?))).collect()
        });
        MachineFiles { sources, disks }
    }

    /// Reads all files into `to`. What can't be read is reported, and is not read again.
    pub(super) fn read(
        &mut self,
        reader: &mut FileReader,
        to: &mut Vec<Reading>,
        unread: &mut dyn FnMut(Counter, UnreadCause),
    ) {
        self.sources.retain_mut(|source| {
            let mut text = String::new();
            let mut read = match source.files.is_empty() {
                true => Err(UnreadCause::NotThere),
                false => Ok(()),
            };
            for file in &mut source.files {
                match reader.read(file) {
                    Ok(part) => text.push_str(part),
                    Err(error) => read = Err(cause(&error)),
                }
            }
            let read = read.and_then(|()| (source.parse)(&text, to).ok_or(UnreadCause::OtherForm));
            if let Err(cause) = read {
                source.counters.iter().for_each(|counter| unread(*counter, cause));
            }
            read.is_ok()
        });
        if let Some(disks) = &self.disks {
            to.retain(|(counter, device, _)| counter.info().owner != CounterOwner::Disk || disks.contains(device));
        }
    }
}

/// Why a file could not be read.
pub(super) fn cause(error: &io::Error) -> UnreadCause {
    match error.kind() {
        io::ErrorKind::NotFound => UnreadCause::NotThere,
        // /proc/pressure with `psi=0` on the kernel's command line.
        io::ErrorKind::Unsupported => UnreadCause::NotThere,
        io::ErrorKind::PermissionDenied => UnreadCause::Refused,
        _ => UnreadCause::OtherForm,
    }
}

/// The paths `before*after`, where the star is the rest of a name.
fn matching(before: &str, after: &str) -> Vec<String> {
    let (folder, start) = before.rsplit_once('/').unwrap_or(("", before));
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let paths = names.filter(|name| name.starts_with(start));
    paths.map(|name| format!("{folder}/{name}{after}")).collect()
}

const MACHINE: fn() -> DeviceName = DeviceName::default;

fn parse_stat(text: &str, to: &mut Vec<Reading>) -> Option<()> {
    let time = procfs::parse_machine_time(text, ticks_per_second())?;
    let running: u64 = { text.lines() }.find_map(|line| line.strip_prefix("procs_running ")?.parse().ok())?;
    to.extend([
        (Counter::MachineCpu, MACHINE(), time.used_ns),
        (Counter::StolenCpu, MACHINE(), time.stolen_ns),
        (Counter::RunQueue, MACHINE(), running.saturating_sub(1)),
    ]);
    Some(())
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in us (Documentation/accounting/psi.rst).
fn parse_pressure(counter: Counter, text: &str, to: &mut Vec<Reading>) -> Option<()> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total_us: u64 = some.split_once("total=")?.1.trim().parse().ok()?;
    to.push((counter, MACHINE(), total_us.saturating_mul(1000)));
    Some(())
}

fn parse_meminfo(text: &str, to: &mut Vec<Reading>) -> Option<()> {
    let bytes = |name: &str| -> Option<u64> {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        kib.checked_mul(1024)
    };
    let used = |all: &str, free: &str| Some(bytes(all)?.saturating_sub(bytes(free)?));
    to.push((Counter::UsedMemory, MACHINE(), used("MemTotal:", "MemAvailable:")?));
    to.push((Counter::UsedSwap, MACHINE(), used("SwapTotal:", "SwapFree:")?));
    Some(())
}

/// In kHz, a line each.
fn parse_frequencies(text: &str, to: &mut Vec<Reading>) -> Option<()> {
    let khz: Option<Vec<u64>> = text.lines().map(|line| line.trim().parse().ok()).collect();
    let khz = khz.filter(|khz| !khz.is_empty())?;
    let mean_khz = khz.iter().fold(0, |sum: u64, khz| sum.saturating_add(*khz)) / khz.len() as u64;
    to.push((Counter::CpuFrequency, MACHINE(), mean_khz.saturating_mul(1000)));
    Some(())
}

/// `major minor name`, then the figures of Documentation/admin-guide/iostats.rst: requests, merged, sectors, ms of
/// reads; the same of writes; requests in flight, ms busy.
fn parse_diskstats(text: &str, to: &mut Vec<Reading>) -> Option<()> {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let device = DeviceName::new(&words.nth(2)?.replace('/', "!"));
        let mut next = || words.next()?.parse::<u64>().ok();
        let [reads, _, read_sectors, read_ms] = [next()?, next()?, next()?, next()?];
        let [writes, _, written_sectors, write_ms] = [next()?, next()?, next()?, next()?];
        let [_, busy_ms] = [next()?, next()?];
        let ns = |ms: u64| ms.saturating_mul(1_000_000);
        to.extend([
            (Counter::DiskBusy, device, ns(busy_ms)),
            (Counter::DiskRequestTime, device, ns(read_ms.saturating_add(write_ms))),
            (Counter::DiskRequests, device, reads.saturating_add(writes)),
            // A sector has 512 bytes here, whatever the disk has.
            (
                Counter::DiskBytes,
                device,
                read_sectors.saturating_add(written_sectors).saturating_mul(512),
            ),
        ]);
    }
    Some(())
}

/// Two lines of headings, then `name: bytes packets errs drop fifo frame compressed multicast` received, and `bytes
/// packets errs drop ...` sent.
fn parse_net_dev(text: &str, to: &mut Vec<Reading>) -> Option<()> {
    for line in text.lines().skip(2) {
        let (name, figures) = line.split_once(':')?;
        let figures: Vec<u64> = figures
            .split_ascii_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        let both = |at: usize| Some(figures.get(at)?.saturating_add(*figures.get(8 + at)?));
        let counters = [
            Counter::NetBytes,
            Counter::NetPackets,
            Counter::NetErrors,
            Counter::NetDrops,
        ];
        for (at, counter) in counters.into_iter().enumerate() {
            to.push((counter, DeviceName::new(name.trim()), both(at)?));
        }
    }
    Some(())
}

/// Each protocol has two lines: names, and values. A datagram is an error, too, if its socket had no room.
fn parse_snmp(text: &str, to: &mut Vec<Reading>) -> Option<()> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let figure = |wanted: &str| -> Option<u64> {
        let mut both = names.split(' ').zip(values.split(' '));
        both.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    let drops = figure("RcvbufErrors")?.saturating_add(figure("SndbufErrors")?);
    let device = DeviceName::new("udp");
    to.extend([
        (Counter::NetPackets, device, figure("InDatagrams")?),
        (Counter::NetDrops, device, drops),
        (
            Counter::NetErrors,
            device,
            figure("InErrors")?.saturating_sub(figure("RcvbufErrors")?),
        ),
    ]);
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    type NamedReading = (Counter, String, u64);

    fn readings(root: &Path) -> (Vec<NamedReading>, Vec<(Counter, UnreadCause)>) {
        let (mut to, mut unread) = (Vec::new(), Vec::new());
        let mut files = MachineFiles::new(root);
        files.read(&mut FileReader::default(), &mut to, &mut |counter, cause| {
            unread.push((counter, cause))
        });
        let to = to
            .into_iter()
            .map(|(counter, device, value)| (counter, device.as_str().to_owned(), value));
        (to.collect(), unread)
    }

    #[test]
    fn each_file_gives_what_the_list_says_and_what_is_not_there_is_reported() {
        let root = std::env::temp_dir().join(format!("sprof-machine-{}", std::process::id()));
        let policies = ["policy0", "policy4"].map(|name| format!("sys/devices/system/cpu/cpufreq/{name}"));
        for folder in ["proc/pressure", "proc/net", "sys/block/vda"]
            .into_iter()
            .chain(policies.iter().map(String::as_str))
        {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (path, text) in [
            (
                "proc/stat",
                "cpu  1 1 1 9 9 0 1 5 0 0\nintr 3 4\nprocs_running 4\nprocs_blocked 0\n",
            ),
            (
                "proc/pressure/cpu",
                "some avg10=1.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 total=3\n",
            ),
            ("proc/pressure/memory", "nonsense"),
            (
                "proc/meminfo",
                "MemTotal:  10 kB\nMemAvailable:  4 kB\nSwapTotal: 3 kB\nSwapFree: 1 kB\n",
            ),
            (
                "proc/diskstats",
                " 254 0 vda 10 0 4 30 1 0 6 20 0 40 50 0 0 0 0 0 0\n 254 1 vda1 1 0 4 3 1 0 6 2 0 4 5\n",
            ),
            (
                "proc/net/dev",
                "Inter-|\n face |\n  eth0: 100 2 3 4 0 0 0 0 10 20 30 40 0 0 0 0\n",
            ),
            (
                "proc/net/snmp",
                "Tcp: A\nTcp: 1\nUdp: InDatagrams InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 1 9 2 7 3\n",
            ),
            (&format!("{}/scaling_cur_freq", policies[0]), "1000000\n"),
            (&format!("{}/scaling_cur_freq", policies[1]), "3000000\n"),
        ] {
            fs::write(root.join(path), text).unwrap();
        }
        let (found, unread) = readings(&root);
        fs::remove_dir_all(&root).unwrap();
        let expected = [
            (Counter::MachineCpu, "", 40_000_000),
            (Counter::StolenCpu, "", 50_000_000),
            (Counter::RunQueue, "", 3),
            (Counter::CpuPressure, "", 7000),
            (Counter::UsedMemory, "", 6 << 10),
            (Counter::UsedSwap, "", 2 << 10),
            (Counter::DiskBusy, "vda", 40_000_000),
            (Counter::DiskRequestTime, "vda", 50_000_000),
            (Counter::DiskRequests, "vda", 11),
            (Counter::DiskBytes, "vda", 5120),
            (Counter::NetBytes, "eth0", 110),
            (Counter::NetPackets, "eth0", 22),
            (Counter::NetErrors, "eth0", 33),
            (Counter::NetDrops, "eth0", 44),
            (Counter::NetPackets, "udp", 1),
            (Counter::NetDrops, "udp", 10),
            (Counter::NetErrors, "udp", 2),
            (Counter::CpuFrequency, "", 2_000_000_000),
        ];
        let expected = expected.map(|(counter, device, value)| (counter, device.to_owned(), value));
        assert_eq!(found, expected);
        let unread_expected = [
            (Counter::MemoryPressure, UnreadCause::OtherForm),
            (Counter::IoPressure, UnreadCause::NotThere),
        ];
        assert_eq!(unread, unread_expected);
    }

    #[test]
    fn this_machine_has_cpus_and_memory() {
        let (found, _) = readings(Path::new("/"));
        for counter in [Counter::MachineCpu, Counter::UsedMemory] {
            assert!(
                found.iter().any(|(found, _, value)| *found == counter && *value > 0),
                "{found:?}"
            );
        }
    }
}
