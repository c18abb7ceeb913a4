//! Which figures a resource has, and which counters they come from. Nothing else knows single counters.

use recording::counter::{Counter, CounterOwner};

use super::FigureUnit;

/// How a figure is made of counters.
#[derive(Clone, Copy)]
pub(super) enum Formula {
    /// What a sum grew by in a second. Of a time: in how much of the time, or of how many at once.
    Rate(Counter),
    /// The same as a part of what all CPUs have.
    RateOfCpus(Counter),
    /// What a sum grew by.
    Growth(Counter),
    /// The mean of what there was.
    Mean(Counter),
    /// The most that there was.
    Most(Counter),
    /// The same as a part of the main memory.
    MostOfMemory(Counter),
    /// What a sum grew by, as a part of what these grew by.
    Ratio(Counter, &'static [Counter]),
}

pub(super) struct FigureRule(pub(super) &'static str, pub(super) Formula, pub(super) FigureUnit);

pub(super) struct ResourceRule {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) owner: CounterOwner,
    /// In how much of the time something waited for it, or else in how much of the time it was used; 1 if for more than
    /// one. Orders the rows, and says when a resource was worst. A share of few waits would stand before many waits.
    pub(super) shortage: Option<Formula>,
    pub(super) utilization: &'static [FigureRule],
    pub(super) saturation: &'static [FigureRule],
    pub(super) errors: &'static [FigureRule],
}

pub(super) const PROCESS_CPU: &str = "process-cpu";
pub(super) const DISK: &str = "disk";
pub(super) const MEMORY: &str = "memory";
pub(super) const NETWORK: &str = "network";
pub(super) const BUSY: &str = "busy";
const WAITED: &str = "waited";
pub(super) const PRESSURE: &str = "pressure";
pub(super) const REQUEST_TIME: &str = "request_time";
pub(super) const DROPPED: &str = "dropped";

/// All resources. Rows that are equally short are in this order.
pub(super) const RULES: [ResourceRule; 8] = [
    ResourceRule {
        name: PROCESS_CPU,
        label: "CPU",
        owner: CounterOwner::Process,
        shortage: Some(Formula::Rate(Counter::CpuWait)),
        utilization: &[FigureRule(
            BUSY,
            Formula::Rate(Counter::CpuNanoseconds),
            FigureUnit::Number,
        )],
        saturation: &[FigureRule(
            WAITED,
            Formula::Ratio(Counter::CpuWait, &[Counter::CpuWait, Counter::CpuNanoseconds]),
            FigureUnit::Share,
        )],
        errors: &[],
    },
    ResourceRule {
        name: "cpus",
        label: "CPUs",
        owner: CounterOwner::Machine,
        shortage: Some(Formula::Rate(Counter::CpuPressure)),
        utilization: &[
            FigureRule(BUSY, Formula::RateOfCpus(Counter::MachineCpu), FigureUnit::Share),
            FigureRule("frequency", Formula::Mean(Counter::CpuFrequency), FigureUnit::Hertz),
        ],
        saturation: &[
            FigureRule(PRESSURE, Formula::Rate(Counter::CpuPressure), FigureUnit::Share),
            FigureRule("run_queue", Formula::Mean(Counter::RunQueue), FigureUnit::Number),
        ],
        errors: &[FigureRule(
            "stolen",
            Formula::Ratio(Counter::StolenCpu, &[Counter::StolenCpu, Counter::MachineCpu]),
            FigureUnit::Share,
        )],
    },
    ResourceRule {
        name: MEMORY,
        label: "memory",
        owner: CounterOwner::Machine,
        shortage: Some(Formula::Rate(Counter::MemoryPressure)),
        utilization: &[
            FigureRule("used", Formula::MostOfMemory(Counter::UsedMemory), FigureUnit::Share),
            FigureRule("swap", Formula::Most(Counter::UsedSwap), FigureUnit::Bytes),
        ],
        saturation: &[FigureRule(
            PRESSURE,
            Formula::Rate(Counter::MemoryPressure),
            FigureUnit::Share,
        )],
        errors: &[],
    },
    ResourceRule {
        name: "disks",
        label: "all disks",
        owner: CounterOwner::Machine,
        shortage: Some(Formula::Rate(Counter::IoPressure)),
        utilization: &[],
        saturation: &[FigureRule(
            PRESSURE,
            Formula::Rate(Counter::IoPressure),
            FigureUnit::Share,
        )],
        errors: &[],
    },
    ResourceRule {
        name: DISK,
        label: "disk",
        owner: CounterOwner::Disk,
        shortage: Some(Formula::Rate(Counter::DiskBusy)),
        utilization: &[
            FigureRule(BUSY, Formula::Rate(Counter::DiskBusy), FigureUnit::Share),
            FigureRule("bytes", Formula::Rate(Counter::DiskBytes), FigureUnit::BytesPerSecond),
        ],
        saturation: &[
            FigureRule("queue", Formula::Rate(Counter::DiskRequestTime), FigureUnit::Number),
            FigureRule(
                REQUEST_TIME,
                Formula::Ratio(Counter::DiskRequestTime, &[Counter::DiskRequests]),
                FigureUnit::Milliseconds,
            ),
        ],
        errors: &[],
    },
    ResourceRule {
        name: NETWORK,
        label: "network",
        owner: CounterOwner::Interface,
        shortage: Some(Formula::Ratio(
            Counter::NetDrops,
            &[Counter::NetDrops, Counter::NetPackets],
        )),
        utilization: &[
            FigureRule("bytes", Formula::Rate(Counter::NetBytes), FigureUnit::BytesPerSecond),
            FigureRule("packets", Formula::Rate(Counter::NetPackets), FigureUnit::PerSecond),
        ],
        saturation: &[
            FigureRule(
                "dropped_share",
                Formula::Ratio(Counter::NetDrops, &[Counter::NetDrops, Counter::NetPackets]),
                FigureUnit::Share,
            ),
            FigureRule(DROPPED, Formula::Growth(Counter::NetDrops), FigureUnit::Count),
        ],
        errors: &[FigureRule(
            "errors",
            Formula::Growth(Counter::NetErrors),
            FigureUnit::Count,
        )],
    },
    ResourceRule {
        name: "process-memory",
        label: "memory",
        owner: CounterOwner::Process,
        shortage: None,
        utilization: &[FigureRule(
            "memory",
            Formula::Most(Counter::ResidentBytes),
            FigureUnit::Bytes,
        )],
        saturation: &[
            FigureRule("major_faults", Formula::Growth(Counter::MajorFaults), FigureUnit::Count),
            FigureRule("swap", Formula::Most(Counter::SwapBytes), FigureUnit::Bytes),
        ],
        errors: &[],
    },
    ResourceRule {
        name: "process-disks",
        label: "disks",
        owner: CounterOwner::Process,
        shortage: None,
        utilization: &[
            FigureRule("read", Formula::Growth(Counter::ReadBytes), FigureUnit::Bytes),
            FigureRule("written", Formula::Growth(Counter::WrittenBytes), FigureUnit::Bytes),
        ],
        saturation: &[],
        errors: &[],
    },
];
