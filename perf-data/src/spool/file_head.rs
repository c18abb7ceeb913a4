//! The part before the first event: the attrs, and the features with the program and the machine.

use std::time::UNIX_EPOCH;

use recording::event::Role;
use recording::info::{EventInfo, PeriodUnit, RecordingInfo, SampleBy};
use recording::module::BuildId;

use super::encode::{SAMPLE_RAW, SAMPLE_TYPE};
use super::record::{EVENT_ID, FIRST_NAMED_ID, HEAP_EVENT_ID, WAIT_EVENT_ID, put_c_string, put_record, put_sample_id};
use crate::abi::{feature, misc, record_type};

/// How the VERSION feature of a spool begins.
pub(crate) const VERSION_PREFIX: &str = "sprof ";

/// PERF_ATTR_SIZE_VER7.
const ATTR_BYTES: usize = 128;

/// The bytes of the file before the first event.
pub(super) fn bytes(info: &RecordingInfo, waits: bool, kernel: Option<(u64, Option<BuildId>)>) -> Vec<u8> {
    let mut out = b"PERFILE2".to_vec();
    out.extend(16u64.to_ne_bytes());
    let mut event = |id: u64, attr: Vec<u8>| {
        put_record(&mut out, record_type::HEADER_ATTR, 0, |body| {
            body.extend(attr);
            body.extend(id.to_ne_bytes());
        });
    };
    // PERF_TYPE_HARDWARE cycles, PERF_TYPE_SOFTWARE cpu-clock. Of others, the name says what they are.
    let flags = if info.kernel_included { 0 } else { EXCLUDE_KERNEL };
    let weight = info.events.iter().find(|event| event.role == Role::Running);
    event(
        EVENT_ID,
        match (info.unit, weight) {
            (PeriodUnit::Counts, Some(weight)) => named(weight),
            (PeriodUnit::CpuNanoseconds, _) => attr([1, 0], info.interval_ns, flags),
            (PeriodUnit::Cycles | PeriodUnit::Counts, _) => {
                attr([0, 0], 1_000_000_000 / info.interval_ns.max(1), flags | FREQ)
            }
        },
    );
    if waits {
        // PERF_TYPE_SOFTWARE context-switches.
        event(WAIT_EVENT_ID, attr([1, 3], 1, flags | CONTEXT_SWITCH));
    }
    if let Some(heap) = &info.heap {
        event(HEAP_EVENT_ID, heap_attr(heap.interval));
    }
    let further = || {
        (FIRST_NAMED_ID..)
            .zip(&info.events)
            .filter(|(_, event)| event.role != Role::Running)
    };
    for (id, of) in further() {
        event(id, named(of));
    }
    let mut name = |id: u64, name: &str| {
        put_record(&mut out, record_type::EVENT_UPDATE, 0, |body| {
            // PERF_EVENT_UPDATE__NAME.
            const NAME: u64 = 2;
            body.extend(NAME.to_ne_bytes());
            body.extend(id.to_ne_bytes());
            put_c_string(body, name.bytes());
        });
    };
    name(EVENT_ID, &info.event);
    if info.heap.is_some() {
        name(HEAP_EVENT_ID, "heap");
    }
    further().for_each(|(id, event)| name(id, &event.name));
    features(&mut out, info);
    if let Some((text, build_id)) = kernel {
        kernel_mapping(&mut out, text, build_id);
    }
    out
}

/// Flags of `perf_event_attr`.
const EXCLUDE_KERNEL: u64 = 1 << 5;
const FREQ: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const CONTEXT_SWITCH: u64 = 1 << 26;
const BUILD_ID: u64 = 1 << 34;

/// An event that the user named. perf takes it for a raw event with that name; `config1` has its role for sprof.
fn named(event: &EventInfo) -> Vec<u8> {
    const PERF_TYPE_RAW: u32 = 4;
    let flags = match event.without_kernel {
        Some(_) => EXCLUDE_KERNEL,
        None => 0,
    };
    let (period_or_rate, flags) = match event.sample_by {
        SampleBy::Period(period) => (period, flags),
        SampleBy::Frequency(rate_hz) => (rate_hz, flags | FREQ),
    };
    let kind = match event.unit {
        // PERF_TYPE_SOFTWARE cpu-clock.
        PeriodUnit::CpuNanoseconds => [1, 0],
        PeriodUnit::Cycles | PeriodUnit::Counts => [PERF_TYPE_RAW, 0],
    };
    let attr = attr(kind, period_or_rate, flags);
    match event.role {
        Role::Counted => with_role(attr, ROLE_TRACK, false),
        Role::Point => with_role(attr, ROLE_MARKER, true),
        _ => with_role(attr, ROLE_WEIGHT, false),
    }
}

/// Blocks of memory, one byte in `interval` chosen. PERF_TYPE_SOFTWARE dummy: perf has no such event.
fn heap_attr(interval: u64) -> Vec<u8> {
    with_role(attr([1, 9], interval, EXCLUDE_KERNEL), ROLE_HEAP, true)
}

fn with_role(mut attr: Vec<u8>, role: u64, has_raw: bool) -> Vec<u8> {
    if has_raw {
        attr[SAMPLE_TYPE_AT..SAMPLE_TYPE_AT + 8].copy_from_slice(&(SAMPLE_TYPE | SAMPLE_RAW).to_ne_bytes());
    }
    attr[CONFIG1_AT..CONFIG1_AT + 8].copy_from_slice(&role.to_ne_bytes());
    attr
}

/// What `config1` of an event says in a spool.
pub(crate) const ROLE_WEIGHT: u64 = 1;
pub(crate) const ROLE_TRACK: u64 = 2;
pub(crate) const ROLE_MARKER: u64 = 3;
pub(crate) const ROLE_HEAP: u64 = 4;

/// Places in `struct perf_event_attr`.
const SAMPLE_TYPE_AT: usize = 24;
const CONFIG1_AT: usize = 56;

fn attr([kind, config]: [u32; 2], period_or_rate: u64, flags: u64) -> Vec<u8> {
    let mut attr = Vec::with_capacity(ATTR_BYTES);
    attr.extend(kind.to_ne_bytes());
    attr.extend((ATTR_BYTES as u32).to_ne_bytes());
    for word in [
        u64::from(config),
        period_or_rate,
        SAMPLE_TYPE,
        0,
        flags | SAMPLE_ID_ALL | BUILD_ID,
    ] {
        attr.extend(word.to_ne_bytes());
    }
    attr.resize(ATTR_BYTES, 0);
    attr
}

fn features(out: &mut Vec<u8>, info: &RecordingInfo) {
    let mut feature = |number: u64, data: Vec<u8>| {
        put_record(out, record_type::HEADER_FEATURE, 0, |body| {
            body.extend(number.to_ne_bytes());
            body.extend(data);
        });
    };
    let text = |text: &str| {
        let mut data = Vec::new();
        put_string(&mut data, text);
        data
    };
    feature(
        feature::VERSION,
        text(&format!("{VERSION_PREFIX}{}", env!("CARGO_PKG_VERSION"))),
    );
    feature(feature::ARCH, text(std::env::consts::ARCH));
    if let Some(os) = &info.host.os {
        feature(feature::OSRELEASE, text(os.strip_prefix("Linux ").unwrap_or(os)));
    }
    if let Some(cpu) = &info.host.cpu_name {
        feature(feature::CPUDESC, text(cpu));
    }
    if let Some(cpus) = info.host.logical_cpus {
        feature(feature::NRCPUS, [cpus.to_ne_bytes(), cpus.to_ne_bytes()].concat());
    }
    if let Some(bytes) = info.host.memory_bytes {
        feature(feature::TOTAL_MEM, (bytes / 1024).to_ne_bytes().to_vec());
    }
    let words = std::iter::once(&info.program).chain(info.args.iter().flatten());
    let mut command = Vec::new();
    let mut count = 0u32;
    // A record has 64 KiB.
    for word in words {
        if command.len() + word.len() > 1 << 15 {
            break;
        }
        put_string(&mut command, word);
        count += 1;
    }
    feature(feature::CMDLINE, [count.to_ne_bytes().to_vec(), command].concat());
    let wall = info.clock.wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or_default();
    // u32 version 1, u32 CLOCK_MONOTONIC.
    let clock = [1u32.to_ne_bytes(), 1u32.to_ne_bytes()].concat();
    let times = [wall_ns.to_ne_bytes(), info.clock.timestamp.0.to_ne_bytes()].concat();
    feature(feature::CLOCK_DATA, [clock, times].concat());
}

/// The kernel as a mapping of no process, as perf itself writes it.
fn kernel_mapping(out: &mut Vec<u8>, text: u64, build_id: Option<BuildId>) {
    put_record(out, record_type::MMAP, misc::KERNEL, |body| {
        body.extend((-1i32).to_ne_bytes());
        body.extend(0i32.to_ne_bytes());
        for word in [text, u64::MAX - text, text] {
            body.extend(word.to_ne_bytes());
        }
        put_c_string(body, *b"[kernel.kallsyms]_text");
        put_sample_id(body, [-1, 0], 0, EVENT_ID);
    });
    let Some(BuildId(id)) = build_id.filter(|id| id.0.len() <= 20) else {
        return;
    };
    put_record(
        out,
        record_type::HEADER_BUILD_ID,
        misc::KERNEL | misc::BUILD_ID_SIZE,
        |body| {
            body.extend((-1i32).to_ne_bytes());
            let mut padded = [0; 24];
            padded[..id.len()].copy_from_slice(&id);
            padded[20] = id.len() as u8;
            body.extend(padded);
            put_c_string(body, *b"[kernel.kallsyms]");
        },
    );
}

/// `struct perf_header_string`.
fn put_string(out: &mut Vec<u8>, text: &str) {
    let bytes = (text.len() + 1).next_multiple_of(8);
    out.extend((bytes as u32).to_ne_bytes());
    let end = out.len() + bytes;
    out.extend(text.as_bytes());
    out.resize(end, 0);
}
