//! Figures that a recorder reads from time to time while it records: of processes, and of the machine.
//!
//! [`COUNTERS`] is the only list. Recorders fill it; the profile, the views and the timeline take what it says of each.

use std::fmt;

/// A figure. Its number stands in the copies of recordings on disk: new ones are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// Bytes of a process's memory that are in RAM, those that it shares with other processes included.
    ResidentBytes,
    /// CPU time of all threads of a process, ended ones included, since its start.
    CpuNanoseconds,
    /// The part of [`Counter::ResidentBytes`] that is of no file and not shared: what a program allocates or maps.
    /// Recordings of the heap have it.
    AnonymousBytes,
    /// Time that the threads of a process could have run and had no CPU. Of an ended thread the last value that was
    /// read counts, and of a thread that was never read nothing: a lower bound.
    CpuWait,
    /// Bytes that a process had read from disks.
    ReadBytes,
    /// Bytes that a process gave to the page cache or to a disk, to be written.
    WrittenBytes,
    /// Page faults of a process that waited for a disk.
    MajorFaults,
    /// Bytes of a process's memory that are in swap.
    SwapBytes,
    /// CPU time of all CPUs.
    MachineCpu,
    /// CPU time that the host of the virtual machine gave to others while something here could have run.
    StolenCpu,
    /// Threads that run, or could run and have no CPU, without the one that reads this.
    RunQueue,
    /// Time in which a thread could have run and had no CPU.
    CpuPressure,
    /// Time in which a thread waited for memory: for pages to be freed, or read back.
    MemoryPressure,
    /// Time in which a thread waited for a disk.
    IoPressure,
    /// Main memory that is not available to programs.
    UsedMemory,
    /// Swap that is in use.
    UsedSwap,
    /// Mean frequency of the CPUs.
    CpuFrequency,
    /// Time in which a disk had a request.
    DiskBusy,
    /// Sum of the times that the completed requests of a disk took.
    DiskRequestTime,
    /// Completed requests of a disk.
    DiskRequests,
    /// Bytes that a disk read and wrote.
    DiskBytes,
    /// Bytes that an interface received and sent.
    NetBytes,
    /// Packets that an interface received and sent. Of `udp`: that sockets received.
    NetPackets,
    /// Packets that an interface had no room for. Of the interface `udp`: of sockets that had none.
    NetDrops,
    /// Packets that an interface received or sent wrongly.
    NetErrors,
}

/// What a counter is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CounterOwner {
    /// A recorded process.
    Process,
    /// The whole machine.
    Machine,
    /// A disk of the machine.
    Disk,
    /// A network interface of the machine.
    Interface,
}

/// The unit of a counter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Occurrences, or things.
    Count,
    /// Hertz.
    Hertz,
}

/// What is known of a counter.
#[derive(Clone, Copy, Debug)]
pub struct CounterInfo {
    /// Which.
    pub counter: Counter,
    /// Its name in files.
    pub name: &'static str,
    /// Its name on the timeline, below that of the process or behind that of the device.
    pub label: &'static str,
    /// The unit of its values.
    pub unit: CounterUnit,
    /// What it is of.
    pub owner: CounterOwner,
    /// True if values are sums since some start, and grow; false if a value is what there is at that moment.
    pub is_sum: bool,
}

const fn info(
    counter: Counter,
    name: &'static str,
    label: &'static str,
    unit: CounterUnit,
    owner: CounterOwner,
    is_sum: bool,
) -> CounterInfo {
    CounterInfo {
        counter,
        name,
        label,
        unit,
        owner,
        is_sum,
    }
}

use CounterOwner::{Disk, Interface, Machine, Process};
use CounterUnit::{Bytes, Count, Hertz, Nanoseconds};

const SUM: bool = true;
const GAUGE: bool = false;

/// All counters, in the order of their numbers.
#[rustfmt::skip]
pub const COUNTERS: [CounterInfo; 25] = [
    info(Counter::ResidentBytes, "memory", "Memory", Bytes, Process, GAUGE),
    info(Counter::CpuNanoseconds, "cpu", "Process CPU", Nanoseconds, Process, SUM),
    info(Counter::AnonymousBytes, "anonymous-memory", "Anonymous memory", Bytes, Process, GAUGE),
    info(Counter::CpuWait, "cpu-wait", "Waiting for a CPU", Nanoseconds, Process, SUM),
    info(Counter::ReadBytes, "read-bytes", "Read from disks", Bytes, Process, SUM),
    info(Counter::WrittenBytes, "written-bytes", "Written to disks", Bytes, Process, SUM),
    info(Counter::MajorFaults, "major-faults", "Major faults", Count, Process, SUM),
    info(Counter::SwapBytes, "swap", "Swap", Bytes, Process, GAUGE),
    info(Counter::MachineCpu, "machine-cpu", "Machine: CPUs busy", Nanoseconds, Machine, SUM),
    info(Counter::StolenCpu, "stolen-cpu", "Machine: stolen by host", Nanoseconds, Machine, SUM),
    info(Counter::RunQueue, "run-queue", "Machine: run queue", Count, Machine, GAUGE),
    info(Counter::CpuPressure, "cpu-pressure", "Machine: CPU pressure", Nanoseconds, Machine, SUM),
    info(Counter::MemoryPressure, "memory-pressure", "Machine: memory pressure", Nanoseconds, Machine, SUM),
    info(Counter::IoPressure, "io-pressure", "Machine: disk pressure", Nanoseconds, Machine, SUM),
    info(Counter::UsedMemory, "used-memory", "Machine: memory used", Bytes, Machine, GAUGE),
    info(Counter::UsedSwap, "used-swap", "Machine: swap used", Bytes, Machine, GAUGE),
    info(Counter::CpuFrequency, "cpu-frequency", "Machine: CPU frequency", Hertz, Machine, GAUGE),
    info(Counter::DiskBusy, "disk-busy", "busy", Nanoseconds, Disk, SUM),
    info(Counter::DiskRequestTime, "disk-request-time", "time of requests", Nanoseconds, Disk, SUM),
    info(Counter::DiskRequests, "disk-requests", "requests", Count, Disk, SUM),
    info(Counter::DiskBytes, "disk-bytes", "read and written", Bytes, Disk, SUM),
    info(Counter::NetBytes, "net-bytes", "received and sent", Bytes, Interface, SUM),
    info(Counter::NetPackets, "net-packets", "packets", Count, Interface, SUM),
    info(Counter::NetDrops, "net-drops", "dropped", Count, Interface, SUM),
    info(Counter::NetErrors, "net-errors", "errors", Count, Interface, SUM),
];

impl Counter {
    /// What is known of it.
    pub fn info(self) -> &'static CounterInfo {
        &COUNTERS[self as usize]
    }

    /// The counter with this name in files.
    pub fn from_name(name: &str) -> Option<Counter> {
        let known = COUNTERS.iter().find(|info| info.name == name);
        known.map(|info| info.counter)
    }
}

/// The name of a disk or network interface; empty for the machine as a whole. At most 31 bytes, as in Linux
/// (`DISK_NAME_LEN` of include/linux/genhd.h, `IFNAMSIZ`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceName([u8; 32]);

impl DeviceName {
    /// A name, cut after 31 bytes.
    pub fn new(name: &str) -> DeviceName {
        let mut bytes = [0; 32];
        let end = name.floor_char_boundary(31);
        bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
        DeviceName(bytes)
    }

    /// The name; empty if the bytes of a file were none.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(0);
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }

    /// Four words, for copies on disk.
    pub fn to_words(self) -> [u64; 4] {
        let (words, _) = self.0.as_chunks::<8>();
        std::array::from_fn(|at| u64::from_le_bytes(words[at]))
    }

    /// The name of such words.
    pub fn from_words(words: [u64; 4]) -> DeviceName {
        let mut bytes = [0; 32];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        DeviceName(bytes)
    }
}

impl fmt::Debug for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// Why a counter could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnreadCause {
    /// The system has no such file, or does not count this.
    NotThere,
    /// No permission.
    Refused,
    /// The file could not be read, or has another form.
    OtherForm,
}

/// All causes, by number.
pub const UNREAD_CAUSES: [UnreadCause; 3] = [UnreadCause::NotThere, UnreadCause::Refused, UnreadCause::OtherForm];

impl UnreadCause {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            UnreadCause::NotThere => "not-there",
            UnreadCause::Refused => "refused",
            UnreadCause::OtherForm => "other-form",
        }
    }

    /// In words, behind the names of counters.
    pub fn label(self) -> &'static str {
        match self {
            UnreadCause::NotThere => "not on this system",
            UnreadCause::Refused => "no permission",
            UnreadCause::OtherForm => "the file has another form",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_numbers_and_names_stand_once() {
        for (number, info) in COUNTERS.iter().enumerate() {
            assert_eq!(info.counter as usize, number);
            assert_eq!(Counter::from_name(info.name), Some(info.counter));
        }
    }

    #[test]
    fn names_of_devices_survive_and_are_cut_between_letters() {
        for name in ["", "vda", "enp0s31f6"] {
            let device = DeviceName::new(name);
            assert_eq!(DeviceName::from_words(device.to_words()).as_str(), name);
        }
        let long = "ä".repeat(20);
        assert_eq!(DeviceName::new(&long).as_str(), "ä".repeat(15));
        assert_eq!(DeviceName::from_words([u64::MAX; 4]).as_str(), "");
    }
}
