//! perf.data files with waits, built by hand: what this system's perf can't record is here, too.

use std::io::Cursor;

use crate::common::*;
use perf_data::import::{Import, Imported};
use proptest::prelude::*;
use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, RecordingEvent, Role, Sample, ThreadEvent};
use recording::sink::{Completion, EventSink};
use recording::stack::{Frame, Stack};

const CONTEXT_SWITCHES: u64 = 3;
const BPF_OUTPUT: u64 = 10;
const ADDR_FLAGS: usize = 40;
const ADDR_SAMPLE_TYPE: usize = 24;
/// `context_switch` and `sample_id_all`.
const RECORDS_SWITCHES: u64 = 1 << 26 | 1 << 18;
const RAW: u64 = 1 << 10;
const CONTEXT_USER: u64 = -512i64 as u64;
/// perf's time of what has none.
const NO_TIME: u64 = u64::MAX << 32;

fn put_word(attr: &mut [u8], at: usize, word: u64) {
    attr[at..at + 8].copy_from_slice(&word.to_ne_bytes());
}

fn cpu_clock(flags: u64) -> Vec<u8> {
    let mut attr = attr(CPU_CLOCK);
    put_word(&mut attr, ADDR_FLAGS, flags | 1 << 10 | 1 << 18);
    attr
}

fn off_cpu_time(more: u64) -> Vec<u8> {
    let mut attr = attr(BPF_OUTPUT);
    put_word(&mut attr, ADDR_SAMPLE_TYPE, SAMPLE_TYPE | more);
    attr
}

/// EVENT_UPDATE of the kind NAME.
fn named(id: u64, name: &[u8; 16]) -> Vec<u8> {
    record(78, 0, &[words(&[2, id]), name.to_vec()].concat())
}

const OUT: u16 = 1 << 13;
const PREEMPTED: u16 = 1 << 14;

fn switch(misc: u16, tid: u32, time: u64) -> Vec<u8> {
    record(14, misc, &words(&[pair(7, tid), time, 0, 1]))
}

/// With the other task's pid and tid before the sample id.
fn switch_cpu_wide(misc: u16, tid: u32, time: u64) -> Vec<u8> {
    record(15, misc, &words(&[pair(99, 99), pair(7, tid), time, 0, 1]))
}

fn task(kind: u32, pid: u32, parent: u32, tid: u32, time: u64) -> Vec<u8> {
    let ids = [pair(pid, parent), pair(tid, parent), time];
    record(kind, 0, &[words(&ids), sample_id(time, 1)].concat())
}

/// As perf before Linux 6.15 writes it when it ends.
fn sum(time: u64, tid: u32, ns: u64) -> Vec<u8> {
    let chain = [3, CONTEXT_USER, 0x2010, 0x2020];
    let fields = [2, 0x2010, pair(7, tid), time, 0, ns];
    record(9, 2, &[words(&fields), words(&chain)].concat())
}

/// As perf since Linux 6.15 writes it: the sample is that of a BPF program's output, in any thread; the wait is in its
/// RAW part.
fn raw_wait(time: u64, tid: u32, ns: u64) -> Vec<u8> {
    let fields = words(&[2, 0xffff_8000, pair(1, 1), time, 0, 1, 0]);
    let wait = words(&[pair(7, tid), ns, 3, CONTEXT_USER, 0x2010, 0x2020, 5]);
    let raw = [(wait.len() as u32 + 4).to_ne_bytes().to_vec(), wait, vec![0; 4]].concat();
    record(9, 2, &[fields, raw].concat())
}

fn text(event: &Event<'_>) -> Option<String> {
    let time = event.time.0;
    let (thread, what) = match event.kind {
        EventKind::Thread(thread, what) => (thread, what),
        EventKind::Recording(RecordingEvent::Malformed(what)) => return Some(format!("malformed: {what}")),
        _ => return None,
    };
    let tid = thread.tid.0;
    let with_frames = |what: &str, sample: Sample<'_>| {
        let Stack::Frames(frames) = sample.stack else {
            return format!("{time} {what} of {tid} without frames");
        };
        let leaf = frames.first().copied().and_then(Frame::lookup_address);
        let Avma(leaf) = leaf.unwrap_or(Avma(0));
        format!(
            "{time} {what} of {tid}: {}, {} frames at {leaf:#x}",
            sample.period,
            frames.len()
        )
    };
    Some(match what {
        ThreadEvent::Sample(sample) => match sample.role {
            Role::WaitStack => with_frames("stack", sample),
            Role::Wait => with_frames("wait", sample),
            _ => with_frames("sample", sample),
        },
        ThreadEvent::SwitchIn => format!("{time} in {tid}"),
        ThreadEvent::SwitchOut { preempted } => {
            format!("{time} out {tid}{}", if preempted { " preempted" } else { "" })
        }
        ThreadEvent::End => format!("{time} end {tid}"),
        _ => return None,
    })
}

#[derive(Default)]
struct Lines(Vec<String>);

impl EventSink for Lines {
    fn on_event(&mut self, event: &Event<'_>) {
        self.0.extend(text(event));
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

fn import(file: &[u8], event: Option<&str>) -> (Vec<String>, Imported, bool) {
    let mut lines = Lines::default();
    let import = Import::open(Cursor::new(file), None, event).unwrap();
    let has_waits = import.has_waits();
    let imported = import.run(&mut lines).unwrap();
    (lines.0, imported, has_waits)
}

/// cpu-clock with switch records, and context-switches.
fn switches_file() -> Vec<u8> {
    let attrs = [(cpu_clock(RECORDS_SWITCHES), 1), (attr(CONTEXT_SWITCHES), 2)];
    let records = [
        sample(20, 1),
        sample(29, 2),
        switch(OUT, 7, 30),
        switch(0, 7, 40),
        switch_cpu_wide(OUT | PREEMPTED, 8, 50),
        switch_cpu_wide(0, 8, 60),
        // That of an idle CPU.
        switch_cpu_wide(0, 0, 65),
    ];
    pipe_file_of(&attrs, &records)
}

#[test]
fn switch_records_and_samples_of_switches_are_waits() {
    let (lines, imported, has_waits) = import(&switches_file(), None);
    assert!(has_waits);
    assert_eq!(
        lines,
        [
            "20 sample of 7: 1000000, 2 frames at 0x1010",
            "29 stack of 7: 1000000, 2 frames at 0x1010",
            "30 out 7",
            "40 in 7",
            "50 out 8 preempted",
            "60 in 8",
        ]
    );
    assert_eq!(imported.info.event, "cpu-clock");
    assert_eq!(imported.notes, Vec::<String>::new());
}

#[test]
fn switches_asked_for_by_name_are_counted_like_any_event() {
    let (lines, imported, has_waits) = import(&switches_file(), Some("context-switches"));
    assert!(!has_waits);
    assert_eq!(lines, ["29 sample of 7: 1000000, 2 frames at 0x1010"]);
    assert_eq!(
        imported.notes,
        [
            "5 switches of threads are left out: waits are shown beside an event that measures time (--event)",
            "1 sample of the event cpu-clock is left out; --event cpu-clock shows it"
        ]
    );
}

#[test]
fn a_file_of_switches_alone_has_waits_alone() {
    let mut switches = attr(CONTEXT_SWITCHES);
    put_word(&mut switches, ADDR_FLAGS, RECORDS_SWITCHES);
    let file = pipe_file_of(&[(switches, 1)], &[sample(29, 1), switch(OUT, 7, 30), switch(0, 7, 40)]);
    let (lines, imported, has_waits) = import(&file, None);
    assert!(has_waits);
    assert_eq!(
        lines,
        ["29 stack of 7: 1000000, 2 frames at 0x1010", "30 out 7", "40 in 7"]
    );
    assert_eq!(imported.notes, Vec::<String>::new());
}

fn off_cpu_file(waits: &[Vec<u8>], more: u64) -> Vec<u8> {
    const FORK: u32 = 7;
    const EXIT: u32 = 4;
    let mut records = vec![
        named(2, b"offcpu-time\0\0\0\0\0"),
        sample(20, 1),
        task(FORK, 7, 7, 8, 21),
        task(EXIT, 7, 7, 8, 30),
        // Another thread with its number.
        task(FORK, 7, 7, 8, 40),
        sample(50, 1),
        task(EXIT, 7, 7, 8, 55),
        task(EXIT, 7, 7, 7, 60),
    ];
    records.extend(waits.iter().cloned());
    pipe_file_of(&[(cpu_clock(0), 1), (off_cpu_time(more), 2)], &records)
}

#[test]
fn sums_of_off_cpu_time_come_last_and_their_threads_end_after_them() {
    let file = off_cpu_file(&[sum(NO_TIME, 8, 5_000_000), sum(NO_TIME + 1, 7, 7_000_000)], 0);
    let (lines, imported, has_waits) = import(&file, None);
    assert!(has_waits);
    assert_eq!(
        lines,
        [
            "20 sample of 7: 1000000, 2 frames at 0x1010",
            "30 end 8",
            "50 sample of 7: 1000000, 2 frames at 0x1010",
            "60 wait of 8: 5000000, 2 frames at 0x2010",
            "60 wait of 7: 7000000, 2 frames at 0x2010",
            "55 end 8",
            "60 end 7",
        ]
    );
    // Not in the year 2554.
    assert_eq!(imported.info.end.0, 60);
    assert!(
        imported.notes[0].contains("2 sums have no place in time"),
        "{:?}",
        imported.notes
    );
}

#[test]
fn off_cpu_time_in_the_raw_part_has_its_own_thread_time_and_stack() {
    let file = off_cpu_file(&[raw_wait(45, 7, 15), raw_wait(NO_TIME, 8, 5_000_000)], RAW);
    let (lines, imported, _) = import(&file, None);
    assert_eq!(
        lines,
        [
            "20 sample of 7: 1000000, 2 frames at 0x1010",
            "30 end 8",
            "45 wait of 7: 15, 2 frames at 0x2010",
            "50 sample of 7: 1000000, 2 frames at 0x1010",
            "60 wait of 8: 5000000, 2 frames at 0x2010",
            "55 end 8",
            "60 end 7",
        ]
    );
    assert!(
        imported.notes[0].contains("1 sums have no place in time"),
        "{:?}",
        imported.notes
    );
}

#[test]
fn off_cpu_time_is_never_counted_as_time_on_a_cpu() {
    let file = off_cpu_file(&[sum(NO_TIME, 7, 7_000_000)], 0);
    let (lines, imported, has_waits) = import(&file, Some("offcpu-time"));
    assert!(has_waits);
    assert_eq!(
        lines,
        [
            "30 end 8",
            "60 wait of 7: 7000000, 2 frames at 0x2010",
            "55 end 8",
            "60 end 7"
        ]
    );
    assert_eq!(
        imported.notes[1..],
        ["2 samples of the event cpu-clock are left out; --event cpu-clock shows them"]
    );
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(switches_file()),
        Just(off_cpu_file(&[sum(NO_TIME, 7, 7), sum(NO_TIME + 1, 8, u64::MAX)], 0)),
        Just(off_cpu_file(
            &[raw_wait(45, 7, 15), raw_wait(NO_TIME, 8, u64::MAX)],
            RAW
        )),
    ]
}

proptest! {
    #![proptest_config(damage::cases(2000))]

    #[test]
    fn damaged_files_never_panic_or_hang(file in damaged(any_file())) {
        if let Ok(import) = Import::open(Cursor::new(&file), None, None) {
            let _ = import.run(&mut Lines::default());
        }
    }
}
