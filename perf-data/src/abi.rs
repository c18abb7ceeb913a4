//! The numbers of perf's record format, each once: what the kernel, perf and sprof's spool write.

/// `enum perf_event_type` (include/uapi/linux/perf_event.h), and from 64 on `enum perf_user_event_type`
/// (tools/lib/perf/include/perf/event.h): those come from perf itself and not from the kernel.
pub(crate) mod record_type {
    pub(crate) const MMAP: u32 = 1;
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const EXIT: u32 = 4;
    pub(crate) const THROTTLE: u32 = 5;
    pub(crate) const UNTHROTTLE: u32 = 6;
    pub(crate) const FORK: u32 = 7;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MMAP2: u32 = 10;
    pub(crate) const LOST_SAMPLES: u32 = 13;
    pub(crate) const SWITCH: u32 = 14;
    pub(crate) const SWITCH_CPU_WIDE: u32 = 15;
    pub(crate) const KSYMBOL: u32 = 17;
    pub(crate) const CALLCHAIN_DEFERRED: u32 = 22;
    pub(crate) const FIRST_USER: u32 = 64;
    pub(crate) const HEADER_ATTR: u32 = 64;
    pub(crate) const HEADER_TRACING_DATA: u32 = 66;
    pub(crate) const HEADER_BUILD_ID: u32 = 67;
    pub(crate) const FINISHED_ROUND: u32 = 68;
    pub(crate) const AUXTRACE_INFO: u32 = 70;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const EVENT_UPDATE: u32 = 78;
    pub(crate) const HEADER_FEATURE: u32 = 80;
    pub(crate) const COMPRESSED: u32 = 81;
    pub(crate) const COMPRESSED2: u32 = 83;
    /// From here on they are simpleperf's: `enum user_record_type` in system/extras/simpleperf/record.h of Android.
    /// Where others have `misc` they have the high half of their size.
    pub(crate) const FIRST_OF_SIMPLEPERF: u32 = 32768;
}

/// PERF_RECORD_MISC_*: what a bit means depends on the type of the record.
pub(crate) mod misc {
    pub(crate) const CPUMODE_MASK: u16 = 7;
    pub(crate) const KERNEL: u16 = 1;
    pub(crate) const USER: u16 = 2;
    /// In a MMAP record: the mapping is not executable.
    pub(crate) const MMAP_DATA: u16 = 1 << 13;
    pub(crate) const COMM_EXEC: u16 = 1 << 13;
    pub(crate) const SWITCH_OUT: u16 = 1 << 13;
    pub(crate) const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    pub(crate) const MMAP_BUILD_ID: u16 = 1 << 14;
    /// In a HEADER_BUILD_ID record: the size follows the build id. Without the flag a build id has 20 bytes.
    pub(crate) const BUILD_ID_SIZE: u16 = 1 << 15;
}

/// `enum perf_callchain_context`: call-chain entries from `MAX` up are no addresses.
pub(crate) mod context {
    pub(crate) const MAX: u64 = (-4095i64) as u64;
    pub(crate) const KERNEL: u64 = (-128i64) as u64;
    pub(crate) const USER: u64 = (-512i64) as u64;
    pub(crate) const USER_DEFERRED: u64 = (-640i64) as u64;
}

/// `enum perf_event_sample_format`.
pub(crate) mod sample_type {
    pub(crate) const IP: u64 = 1;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCH_STACK: u64 = 1 << 11;
    pub(crate) const REGS_USER: u64 = 1 << 12;
    pub(crate) const STACK_USER: u64 = 1 << 13;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
}

/// Sections after the records (tools/perf/util/header.h).
pub(crate) mod feature {
    pub(crate) const BUILD_ID: u64 = 2;
    pub(crate) const OSRELEASE: u64 = 4;
    pub(crate) const VERSION: u64 = 5;
    pub(crate) const ARCH: u64 = 6;
    pub(crate) const NRCPUS: u64 = 7;
    pub(crate) const CPUDESC: u64 = 8;
    pub(crate) const TOTAL_MEM: u64 = 10;
    pub(crate) const CMDLINE: u64 = 11;
    pub(crate) const EVENT_DESC: u64 = 12;
    pub(crate) const CLOCK_DATA: u64 = 29;
    /// From here on they are simpleperf's (record_file_format.h).
    pub(crate) const SIMPLEPERF_FILE: u64 = 128;
    pub(crate) const SIMPLEPERF_META_INFO: u64 = 129;
    pub(crate) const SIMPLEPERF_FILE2: u64 = 132;
    pub(crate) const SIMPLEPERF_INIT_MAP: u64 = 134;
}
