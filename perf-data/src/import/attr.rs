//! What a perf.data file says of its events: `struct perf_event_attr`, and where a record keeps its ids and its time.

use crate::abi::record_type;
use crate::abi::sample_type::{ADDR, CPU, ID, IDENTIFIER, IP, STREAM_ID, TID, TIME};
use crate::decode::{HEADER_BYTES, Reader, RecordHeader};

/// Smallest `perf_event_attr` (PERF_ATTR_SIZE_VER0), and the largest that this knows fields of.
const ATTR_BYTES_MIN: usize = 64;
const ATTR_BYTES_KNOWN: usize = 136;

/// One event of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Attr {
    pub(super) kind: u32,
    pub(super) config: u64,
    pub(super) period_or_rate: u64,
    /// Role, for an event of sprof's spool.
    pub(super) config1: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    flags: u64,
    pub(super) branch_sample_type: u64,
    pub(super) regs_user: u64,
    pub(super) stack_user: u32,
    /// As perf wrote it, once known.
    pub(super) name: Option<String>,
}

impl Attr {
    /// Takes an attr apart that may be shorter or longer than the one of this kernel's headers.
    pub(super) fn parse(bytes: &[u8]) -> Option<Attr> {
        if bytes.len() < ATTR_BYTES_MIN {
            return None;
        }
        // What a shorter one does not have is 0 (perf_event_open(2), "size").
        let mut known = [0; ATTR_BYTES_KNOWN];
        let len = bytes.len().min(ATTR_BYTES_KNOWN);
        known[..len].copy_from_slice(&bytes[..len]);
        let word = |at: usize| Reader(&known[at..]).u64().unwrap_or_default();
        let half = |at: usize| Reader(&known[at..]).u32().unwrap_or_default();
        Some(Attr {
            kind: half(0),
            config: word(8),
            period_or_rate: word(16),
            config1: word(56),
            sample_type: word(24),
            read_format: word(32),
            flags: word(40),
            branch_sample_type: word(72),
            regs_user: word(80),
            stack_user: half(88),
            name: None,
        })
    }

    pub(super) fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// `freq`: `period_or_rate` is a rate.
    pub(super) fn is_rate(&self) -> bool {
        self.flags & 1 << 10 != 0
    }

    pub(super) fn excludes_kernel(&self) -> bool {
        self.flags & 1 << 5 != 0
    }

    fn sample_id_all(&self) -> bool {
        self.flags & 1 << 18 != 0
    }

    /// PERF_COUNT_SW_DUMMY: keeps track of processes and mappings, has no samples.
    pub(super) fn is_dummy(&self) -> bool {
        (self.kind, self.config) == (1, 9)
    }

    /// The unit of the samples' periods is a cycle of the CPU.
    pub(super) fn counts_cycles(&self) -> bool {
        // Who named an event in a recording of sprof wants its counts.
        self.config1 != crate::spool::ROLE_WEIGHT && self.measures_cpu() && !self.counts_cpu_time()
    }

    /// The unit of the samples' periods is a nanosecond of CPU time: cpu-clock, task-clock.
    pub(super) fn counts_cpu_time(&self) -> bool {
        self.kind == 1 && self.config <= 1
    }

    /// `exclude_callchain_user`.
    pub(super) fn excludes_user_chain(&self) -> bool {
        self.flags & 1 << 22 != 0
    }

    /// Beside the samples, there is a record of each switch of a thread.
    pub(super) fn records_switches(&self) -> bool {
        self.flags & 1 << 26 != 0
    }

    /// `build_id`: records of mappings have the build id in place of device and inode.
    pub(super) fn asks_for_build_ids(&self) -> bool {
        self.flags & 1 << 34 != 0
    }

    /// `defer_callchain`: the user part of its samples' call chains is in records of its own.
    pub(super) fn defers_user_chains(&self) -> bool {
        self.flags & 1 << 38 != 0
    }

    /// Its samples are taken where threads leave a CPU: their stacks are those of waits.
    pub(super) fn is_of_switches(&self) -> bool {
        (self.kind, self.config) == (1, 3) || self.base_name() == "sched:sched_switch"
    }

    /// PERF_COUNT_SW_BPF_OUTPUT with the name that `perf record --off-cpu` gives it: the periods of its samples are
    /// times off the CPU, ns.
    pub(super) fn is_off_cpu_time(&self) -> bool {
        (self.kind, self.config) == (1, 10) && self.base_name() == "offcpu-time"
    }

    /// Its samples stand for time on a CPU, in one unit or another.
    pub(super) fn measures_cpu(&self) -> bool {
        self.counts_cpu_time() || (self.kind, self.config as u32) == (0, 0) || self.label().contains("cycles")
    }

    /// The name without modifiers: of `cycles:u` that is `cycles`, of `sched:sched_switch:k` the first two parts.
    pub(super) fn base_name(&self) -> String {
        let label = self.label();
        match label.rsplit_once(':') {
            Some((name, modifiers)) if modifiers.bytes().all(|byte| b"ukhGHpPSDIWeb".contains(&byte)) => {
                name.to_owned()
            }
            _ => label,
        }
    }

    /// The name that perf gave it, or its name in `enum perf_hw_id`, `enum perf_sw_ids`.
    pub(super) fn label(&self) -> String {
        const HARDWARE: [&str; 4] = ["cycles", "instructions", "cache-references", "cache-misses"];
        const SOFTWARE: [&str; 4] = ["cpu-clock", "task-clock", "page-faults", "context-switches"];
        if let Some(name) = &self.name {
            return name.clone();
        }
        let names = match self.kind {
            0 => HARDWARE.as_slice(),
            1 => SOFTWARE.as_slice(),
            _ => &[],
        };
        let known = usize::try_from(self.config).ok().and_then(|config| names.get(config));
        known.map_or_else(
            || format!("event type {} config {:#x}", self.kind, self.config),
            |name| (*name).to_owned(),
        )
    }

    /// Bytes at the end of each record but samples: "struct sample_id" in perf_event.h.
    pub(super) fn sample_id_bytes(&self) -> usize {
        if !self.sample_id_all() {
            return 0;
        }
        let parts = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        8 * parts.iter().filter(|&&part| self.has(part)).count()
    }

    /// A part of a record that stands at a fixed place, by the order of samples or of `struct sample_id`.
    fn part(&self, record: &[u8], part: u64) -> Option<u64> {
        let header = RecordHeader::parse(record.first_chunk()?);
        if !self.has(part) {
            return None;
        }
        let before = |parts: &[u64]| 8 * parts.iter().filter(|&&part| self.has(part)).count();
        let at = if header.kind == record_type::SAMPLE {
            let order = [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU];
            HEADER_BYTES + before(order.split(|&other| other == part).next()?)
        } else {
            let order = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
            let start = record.len().checked_sub(self.sample_id_bytes())?;
            if self.sample_id_bytes() == 0 || start < HEADER_BYTES {
                return None;
            }
            start + before(order.split(|&other| other == part).next()?)
        };
        Reader(record.get(at..)?).u64()
    }

    /// When a record was written.
    pub(super) fn time(&self, record: &[u8]) -> Option<u64> {
        self.part(record, TIME)
    }

    /// Process and thread that a record was written in.
    pub(super) fn task(&self, record: &[u8]) -> Option<(i32, i32)> {
        let ids = self.part(record, TID)?.to_ne_bytes();
        let mut ids = Reader(&ids);
        Some((ids.i32()?, ids.i32()?))
    }

    /// Which event wrote a record. All events of a file have it at the same place.
    pub(super) fn id(&self, record: &[u8]) -> Option<u64> {
        self.part(record, IDENTIFIER).or_else(|| self.part(record, ID))
    }
}
