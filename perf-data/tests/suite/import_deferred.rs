//! perf.data files with user call chains that the kernel wrote later (`perf record --call-graph fp,defer`), built by
//! hand: this system's kernel is older.

use std::io::Cursor;

use crate::common::*;
use perf_data::import::Import;
use proptest::prelude::*;
use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, RecordingEvent, ThreadEvent};
use recording::sink::{Completion, EventSink};
use recording::stack::{Frame, Stack, StackMark};

const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;
const CONTEXT_USER_DEFERRED: u64 = -640i64 as u64;
const KERNEL_IP: u64 = 0xffff_8000_0000_1000;
const LEAF: u64 = 0x1010;
const CALLER: u64 = 0x1020;

const IN_KERNEL: u16 = 1;
const IN_USER: u16 = 2;

/// cpu-clock with `freq`, `context_switch`, `sample_id_all`, `defer_callchain` and `defer_output`.
fn deferring() -> Vec<u8> {
    let mut attr = attr(CPU_CLOCK);
    let flags: u64 = 1 << 10 | 1 << 18 | 1 << 26 | 1 << 38 | 1 << 39;
    attr[40..48].copy_from_slice(&flags.to_ne_bytes());
    attr
}

fn file(records: &[Vec<u8>]) -> Vec<u8> {
    file_with_features(&[(deferring(), 1)], records, &[])
}

fn sample(misc: u16, time: u64, tid: u32, chain: &[u64]) -> Vec<u8> {
    let ip = chain.get(1).copied().unwrap_or(LEAF).min(KERNEL_IP);
    let fields = [1, ip, pair(7, tid), time, 0, 1_000_000, chain.len() as u64];
    record(9, misc, &[words(&fields), words(chain)].concat())
}

/// A sample in the kernel, whose user part comes later.
fn in_kernel(time: u64, tid: u32, cookie: u64) -> Vec<u8> {
    let chain = [CONTEXT_KERNEL, KERNEL_IP, CONTEXT_USER_DEFERRED, cookie];
    sample(IN_KERNEL, time, tid, &chain)
}

/// A sample in the program, whose callers come later.
fn in_program(time: u64, tid: u32, cookie: u64) -> Vec<u8> {
    let fields = [1, LEAF, pair(7, tid), time, 0, 1_000_000, 2];
    record(
        9,
        IN_USER,
        &words(&[&fields[..], &[CONTEXT_USER_DEFERRED, cookie]].concat()),
    )
}

fn id_of(tid: u32, time: u64) -> Vec<u8> {
    words(&[pair(7, tid), time, 0, 1])
}

fn deferred(time: u64, tid: u32, cookie: u64, chain: &[u64]) -> Vec<u8> {
    let chain = [&[cookie, chain.len() as u64], chain].concat();
    record(22, IN_USER, &[words(&chain), id_of(tid, time)].concat())
}

fn switch_out(time: u64, tid: u32) -> Vec<u8> {
    record(14, 1 << 13, &id_of(tid, time))
}

fn exit(time: u64, tid: u32) -> Vec<u8> {
    record(
        4,
        0,
        &[words(&[pair(7, 1), pair(tid, 1), time]), id_of(tid, time)].concat(),
    )
}

fn exec(time: u64, tid: u32) -> Vec<u8> {
    record(
        3,
        1 << 13,
        &[words(&[pair(7, tid)]), b"next\0\0\0\0".to_vec(), id_of(tid, time)].concat(),
    )
}

/// Samples and switches as they came: thread, time, and frames in short.
#[derive(Default)]
struct Seen {
    lines: Vec<String>,
    malformed: Vec<&'static str>,
}

fn text(frame: &Frame) -> String {
    match frame {
        Frame::KernelInstructionPointer(_) => "kernel".to_owned(),
        Frame::InstructionPointer(Avma(at)) => format!("{at:x}"),
        Frame::ReturnAddress(Avma(at)) => format!("<{at:x}"),
        Frame::Mark(StackMark::TruncatedDeferred) => "cut".to_owned(),
        other => format!("{other:?}"),
    }
}

impl EventSink for Seen {
    fn on_event(&mut self, event: &Event<'_>) {
        let time = event.time.0;
        match event.kind {
            EventKind::Thread(thread, ThreadEvent::Sample(sample)) => {
                let Stack::Frames(frames) = sample.stack else {
                    panic!("{sample:?}");
                };
                let frames: Vec<String> = frames.iter().map(text).collect();
                self.lines.push(format!("{} {time} {}", thread.tid.0, frames.join(" ")));
            }
            EventKind::Thread(thread, ThreadEvent::SwitchOut { .. }) => {
                self.lines.push(format!("{} {time} out", thread.tid.0));
            }
            EventKind::Recording(RecordingEvent::Malformed(what)) => self.malformed.push(what),
            _ => {}
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

fn import(file: &[u8]) -> Seen {
    let mut seen = Seen::default();
    Import::open(Cursor::new(file), None, None)
        .unwrap()
        .run(&mut seen)
        .unwrap();
    seen
}

fn lines(records: &[Vec<u8>]) -> Vec<String> {
    let seen = import(&file(records));
    assert_eq!(seen.malformed, Vec::<&str>::new());
    seen.lines
}

#[test]
fn samples_of_one_entry_to_the_kernel_get_the_user_part_that_comes_later() {
    let records = [
        in_program(10, 7, 5),
        in_kernel(11, 7, 5),
        deferred(12, 7, 5, &[LEAF, CALLER]),
        in_kernel(13, 7, 6),
        // With the mark that other kernels may write.
        deferred(14, 7, 6, &[CONTEXT_USER, LEAF + 1]),
    ];
    let expected = ["7 10 1010 <1020", "7 11 kernel 1010 <1020", "7 13 kernel 1011"];
    assert_eq!(lines(&records), expected);
    let pipe = import(&pipe_file_of(&[(deferring(), 1)], &records));
    assert_eq!(pipe.lines, expected);
}

/// A thread that is interrupted again after its user part was recorded, and before it has returned.
#[test]
fn a_sample_after_the_record_gets_its_user_part() {
    let seen = lines(&[
        in_kernel(10, 7, 5),
        deferred(11, 7, 5, &[LEAF]),
        in_kernel(12, 7, 5),
        in_kernel(13, 7, 6),
    ]);
    assert_eq!(seen, ["7 10 kernel 1010", "7 12 kernel 1010", "7 13 kernel cut"]);
}

#[test]
fn threads_with_equal_cookies_are_told_apart() {
    let seen = lines(&[
        in_kernel(10, 7, 5),
        in_kernel(11, 8, 5),
        deferred(12, 8, 5, &[CALLER]),
        deferred(13, 7, 5, &[LEAF]),
    ]);
    assert_eq!(seen, ["8 11 kernel 1020", "7 10 kernel 1010"]);
}

#[test]
fn a_call_chain_that_never_comes_is_truncated() {
    for rest in [
        // Nothing, another entry to the kernel, another thread, no memory, the thread's end, another program.
        vec![],
        vec![deferred(12, 7, 6, &[LEAF])],
        vec![deferred(12, 8, 5, &[LEAF])],
        vec![deferred(12, 7, 5, &[])],
        vec![exit(12, 7), deferred(13, 7, 5, &[LEAF])],
        vec![exec(12, 7), deferred(13, 7, 5, &[LEAF])],
    ] {
        let records = [vec![in_kernel(10, 7, 5), in_program(11, 7, 5)], rest].concat();
        assert_eq!(lines(&records), ["7 10 kernel cut", "7 11 1010 cut"], "{records:?}");
    }
}

/// The thread sleeps between a sample and its return, and others go on.
#[test]
fn what_a_thread_does_stays_in_order_while_it_waits_for_its_user_part() {
    let whole = [CONTEXT_KERNEL, KERNEL_IP, CONTEXT_USER, CALLER];
    let seen = lines(&[
        in_kernel(10, 7, 5),
        switch_out(11, 7),
        sample(IN_KERNEL, 12, 8, &whole),
        sample(IN_KERNEL, 13, 7, &whole),
        deferred(14, 7, 5, &[LEAF]),
        switch_out(15, 7),
    ]);
    assert_eq!(
        seen,
        [
            "8 12 kernel 1020",
            "7 10 kernel 1010",
            "7 11 out",
            "7 13 kernel 1020",
            "7 15 out"
        ]
    );
}

#[test]
fn a_damaged_call_chain_is_counted() {
    let mut damaged = deferred(11, 7, 5, &[LEAF]);
    // The number of addresses.
    damaged[16..24].copy_from_slice(&u64::MAX.to_ne_bytes());
    let seen = import(&file(&[in_kernel(10, 7, 5), damaged]));
    assert_eq!(seen.malformed, ["deferred call chain"]);
    assert_eq!(seen.lines, ["7 10 kernel cut"]);
}

fn some_file() -> Vec<u8> {
    let whole = [CONTEXT_KERNEL, KERNEL_IP, CONTEXT_USER, CALLER];
    file(&[
        in_program(10, 7, 5),
        in_kernel(11, 8, 5),
        switch_out(12, 8),
        sample(IN_KERNEL, 13, 7, &whole),
        deferred(14, 7, 5, &[LEAF, CALLER]),
        exec(15, 7),
        in_kernel(16, 7, 6),
        deferred(17, 7, 6, &[LEAF]),
        exit(18, 7),
    ])
}

/// A damaged file may have any events.
struct AnyEvent;

impl EventSink for AnyEvent {
    fn on_event(&mut self, _event: &Event<'_>) {}

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

proptest! {
    #![proptest_config(damage::cases(300))]

    #[test]
    fn damaged_files_never_panic_or_hang(file in damaged(Just(some_file()))) {
        if let Ok(import) = Import::open(Cursor::new(&file), None, None) {
            let _ = import.run(&mut AnyEvent);
        }
    }

    /// Each sample comes once, and those of a thread in the order of their times.
    #[test]
    fn no_sample_is_lost_or_out_of_order(steps in proptest::collection::vec((0..6u8, 7..10u32, 1..4u64), 0..60)) {
        let mut samples = 0;
        let records: Vec<Vec<u8>> = (steps.iter().zip(10..)).map(|(&(kind, tid, cookie), time)| match kind {
            0 => deferred(time, tid, cookie, &[LEAF, CALLER]),
            1 => switch_out(time, tid),
            2 => exec(time, tid),
            _ => {
                samples += 1;
                in_kernel(time, tid, cookie)
            }
        }).collect();
        let seen = import(&file(&records)).lines;
        let of_samples = seen.iter().filter(|line| !line.ends_with("out"));
        prop_assert_eq!(of_samples.count(), samples);
        for tid in ["7", "8", "9"] {
            let mut words = seen.iter().map(|line| line.split(' '));
            let times: Vec<u64> = words.by_ref().filter_map(|mut words| {
                (words.next() == Some(tid)).then(|| words.next().unwrap().parse().unwrap())
            }).collect();
            prop_assert!(times.is_sorted(), "{:?}", seen);
        }
    }
}
