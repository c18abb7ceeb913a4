//! The record decoder on records built by hand from `perf_event.h`, and on bytes that no kernel ever wrote.

use proptest::prelude::*;
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Pid, ProcessEvent, Role, Thread, ThreadEvent};
use recording::module::BuildId;
use recording::sink::{Completion, EventSink};
use recording::stack::{Frame, Registers, Stack};

use crate::decode::{self, Origin, Record, RegisterSet, SampleLayout, ThreadRecord};
use crate::translate::Translator;

const LAYOUT: SampleLayout = SampleLayout {
    registers: RegisterSet::X86_64,
    call_chain: true,
    period: None,
    raw: false,
    stack_bytes: 16,
};

const EVENT_ID: u64 = 99;

/// header { type, misc, size } and body.
fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend((body.len() as u16 + 8).to_ne_bytes());
    bytes.extend(body);
    bytes
}

fn words32(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn words64(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// pid, tid, time, id, cpu, reserved: the end of every record but samples.
fn sample_id(time: u64) -> Vec<u8> {
    [words32(&[7, 7]), words64(&[time, EVENT_ID]), words32(&[1, 0])].concat()
}

/// PERF_SAMPLE_REGS_ABI_64 and the registers, with bp 0xb, sp 0x5000, ip 0x1000 and r15 15.
fn registers() -> Vec<u64> {
    [&[2, 0, 0, 0, 0, 0, 0, 0xb, 0x5000, 0x1000][..], &[0; 7], &[15]].concat()
}

/// A sample of thread 7/8 in the kernel, called from user code at 0x1000 with 8 of 16 stack bytes present.
fn kernel_sample() -> Vec<u8> {
    let ip = 0xffff_ffff_8100_0010;
    let perf_context_kernel = -128i64 as u64;
    record(
        9,
        1,
        &[
            words64(&[ip]),
            words32(&[7, 8]),
            words64(&[42, EVENT_ID]),
            words32(&[1, 0]),
            words64(&[1_000_000]),
            words64(&[3, perf_context_kernel, ip, 0xffff_ffff_8100_0099]),
            words64(&registers()),
            words64(&[16, 0x1111, 0x2222, 8]),
        ]
        .concat(),
    )
}

#[test]
fn a_sample_has_its_kernel_chain_registers_and_the_real_part_of_its_stack() {
    let bytes = kernel_sample();
    assert_eq!(decode::time(&bytes), Some(42));
    let Ok(Record::Sample(sample)) = decode::decode(&bytes, &LAYOUT) else {
        panic!("not a sample")
    };
    assert_eq!(
        (sample.pid, sample.tid, sample.cpu, sample.period),
        (7, 8, 1, 1_000_000)
    );
    assert_eq!(
        sample.kernel_chain().collect::<Vec<_>>(),
        [0xffff_ffff_8100_0010, 0xffff_ffff_8100_0099]
    );
    assert_eq!(sample.stack, 0x1111u64.to_ne_bytes());
    let registers = sample
        .registers
        .map(|registers| [6, 7, 8, 23].map(|bit| registers.get(bit)));
    assert_eq!(registers, Some([0xb, 0x5000, 0x1000, 15]));
}

#[test]
fn the_copy_of_a_stack_has_all_its_bytes_or_is_none() {
    let bytes = kernel_sample();
    let copied =
        |record: &[u8]| decode::stack_copy(record, &LAYOUT).map(|copied| (copied.start, copied.bytes.to_vec()));
    // Size, bytes, and how many of them are real, which is not looked at.
    let stack = &bytes[bytes.len() - 24..bytes.len() - 8];
    assert_eq!(copied(&bytes), Some((0x5000, stack.to_vec())));
    assert_eq!(copied(&bytes[..bytes.len() - 8]), copied(&bytes));
    assert_eq!(copied(&bytes[..bytes.len() - 9]), None);
    let kernel_thread = [&bytes[..56], &words64(&[0, 0, 0])].concat();
    assert_eq!(copied(&kernel_thread), None);
    assert_eq!(copied(&record(7, 0, &sample_id(5))), None);
    assert_eq!(copied(&[]), None);
}

#[test]
fn records_about_a_thread_name_it_and_the_event_that_wrote_them() {
    let origin = |tid, what| {
        Some(Origin {
            event_id: EVENT_ID,
            tid,
            what,
        })
    };
    assert_eq!(decode::origin(&kernel_sample()), origin(8, ThreadRecord::Sample));
    let fork = record(7, 0, &[words32(&[9, 7, 9, 7]), words64(&[5]), sample_id(5)].concat());
    assert_eq!(decode::origin(&fork), origin(7, ThreadRecord::Fork(9)));
    let lost = record(2, 0, &[words64(&[EVENT_ID, 3]), sample_id(5)].concat());
    assert_eq!(decode::origin(&lost), None);
    assert_eq!(decode::origin(&fork[..20]), None);
}

#[test]
fn the_interrupted_kernel_instruction_is_one_frame_not_two() {
    struct Check(usize);
    impl EventSink for Check {
        fn on_event(&mut self, event: &Event<'_>) {
            let EventKind::Thread(_, ThreadEvent::Sample(sample)) = event.kind else {
                return;
            };
            let Stack::Snapshot(snapshot) = sample.stack else {
                panic!("no snapshot")
            };
            assert!(matches!(
                snapshot.kernel,
                [Frame::KernelInstructionPointer(_), Frame::KernelReturnAddress(_)]
            ));
            assert_eq!(
                snapshot.registers,
                Registers::X86_64 {
                    ip: 0x1000,
                    sp: 0x5000,
                    bp: 0xb
                }
            );
            self.0 += 1;
        }

        fn end_round(&mut self, _: Timestamp) -> Completion {
            Completion::default()
        }
    }
    let mut check = Check(0);
    Translator::new(LAYOUT).record(42, &kernel_sample(), &[], Role::Running, &mut check);
    assert_eq!(check.0, 1);
}

#[test]
fn a_switch_says_whose_it_is_and_whether_the_task_could_have_gone_on() {
    let switch = |kind, misc, body: &[u8]| {
        let bytes = record(kind, misc, &[body, &sample_id(5)].concat());
        assert_eq!(decode::time(&bytes), Some(5));
        match decode::decode(&bytes, &LAYOUT) {
            Ok(Record::Switch {
                pid: 7,
                tid: 7,
                out,
                preempted,
            }) => (out, preempted),
            other => panic!("{other:?}"),
        }
    };
    // PERF_RECORD_MISC_SWITCH_OUT, PERF_RECORD_MISC_SWITCH_OUT_PREEMPT.
    let (out, preempt) = (1 << 13, 1 << 14);
    assert_eq!(switch(14, 0, &[]), (false, false));
    assert_eq!(switch(14, out, &[]), (true, false));
    assert_eq!(switch(14, out | preempt, &[]), (true, true));
    // PERF_RECORD_SWITCH_CPU_WIDE: the body is the other task's.
    assert_eq!(switch(15, out, &words32(&[1, 2])), (true, false));
}

#[test]
fn a_sample_of_the_ring_of_waits_is_the_stack_of_a_wait_and_no_sample() {
    struct Waits(u32);
    impl EventSink for Waits {
        fn on_event(&mut self, event: &Event<'_>) {
            let EventKind::Thread(_, ThreadEvent::Sample(sample)) = event.kind else {
                return;
            };
            assert_eq!(sample.role, Role::WaitStack);
            self.0 += 1;
        }

        fn end_round(&mut self, _: Timestamp) -> Completion {
            Completion::default()
        }
    }
    let (mut waits, mut translator) = (Waits(0), Translator::new(LAYOUT));
    translator.record(42, &kernel_sample(), &[], Role::WaitStack, &mut waits);
    assert_eq!((waits.0, translator.samples()), (1, 0));
}

/// PERF_RECORD_FORK: u32 pid, ppid, tid, ptid; u64 time.
#[test]
fn a_fork_that_two_events_report_is_one_process() {
    struct Starts(u32);
    impl EventSink for Starts {
        fn on_event(&mut self, event: &Event<'_>) {
            self.0 += u32::from(matches!(event.kind, EventKind::Process(_, ProcessEvent::Start { .. })));
        }

        fn end_round(&mut self, _: Timestamp) -> Completion {
            Completion::default()
        }
    }
    let fork = record(7, 0, &[words32(&[9, 7, 9, 7]), words64(&[5]), sample_id(5)].concat());
    let starts = |twice: Option<(u64, u64)>| {
        let (mut starts, mut translator) = (Starts(0), Translator::new(LAYOUT));
        if let Some((from, until)) = twice {
            translator.reported_twice(Timestamp(from), Timestamp(until));
        }
        (0..2).for_each(|_| translator.record(5, &fork, &[], Role::Running, &mut starts));
        starts.0
    };
    assert_eq!(starts(Some((4, 6))), 1);
    // Else it is a new process with the number of one whose exit was lost.
    assert_eq!(starts(None), 2);
    assert_eq!(starts(Some((6, 8))), 2);
}

#[test]
fn a_mapping_has_its_build_id_or_its_inode() {
    let id: Vec<u8> = (1..=20).collect();
    let fields = [words32(&[7, 7]), words64(&[0x1000, 0x2000, 0x3000])].concat();
    let end = [words32(&[5, 2]), b"/lib/x.so\0\0\0\0\0\0\0".to_vec(), sample_id(9)].concat();
    let with_id = record(10, 1 << 14, &[&fields[..], &[20, 0, 0, 0], &id, &end].concat());
    let with_inode = record(10, 0, &[fields, words32(&[8, 1]), words64(&[77, 0]), end].concat());
    assert_eq!(decode::time(&with_id), Some(9));
    let decoded = |build_id, inode| {
        Ok(Record::Mmap {
            pid: 7,
            start: 0x1000,
            len: 0x2000,
            file_offset: 0x3000,
            inode,
            build_id,
            executable: true,
            path: b"/lib/x.so",
        })
    };
    assert_eq!(decode::decode(&with_id, &LAYOUT), decoded(Some(BuildId(id)), None));
    assert_eq!(decode::decode(&with_inode, &LAYOUT), decoded(None, Some((8, 1, 77))));
}

#[test]
fn a_bpf_program_has_its_code_and_its_name() {
    let ksymbol = |kind: u16, flags: u16| {
        let end = [b"bpf_prog_6dee_count\0\0\0\0\0".to_vec(), sample_id(9)].concat();
        let kind_and_flags = u32::from(kind) | u32::from(flags) << 16;
        let words = [words64(&[0xffff_ffff_c002_2064]), words32(&[0x1234, kind_and_flags])];
        record(17, 0, &[words.concat(), end].concat())
    };
    let decoded = |is_loaded| {
        Ok(Record::Bpf {
            start: 0xffff_ffff_c002_2064,
            len: 0x1234,
            is_loaded,
            name: b"bpf_prog_6dee_count",
        })
    };
    assert_eq!(decode::decode(&ksymbol(1, 0), &LAYOUT), decoded(true));
    assert_eq!(decode::decode(&ksymbol(1, 1), &LAYOUT), decoded(false));
    assert_eq!(
        decode::decode(&ksymbol(2, 0), &LAYOUT),
        Ok(Record::Other),
        "a trampoline"
    );
}

/// Checks what every consumer relies on: processes and threads start before they are used and end once.
#[derive(Default)]
struct Order {
    processes: std::collections::HashSet<Pid>,
    threads: std::collections::HashSet<Thread>,
    ended: std::collections::HashSet<Thread>,
}

impl EventSink for Order {
    fn on_event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Process(pid, ProcessEvent::Start { .. }) => assert!(self.processes.insert(pid)),
            EventKind::Process(pid, ProcessEvent::End) => assert!(self.processes.remove(&pid)),
            EventKind::Process(pid, ProcessEvent::Exec(_)) => assert!(self.processes.contains(&pid)),
            EventKind::Thread(thread, ThreadEvent::Start) => {
                assert!(self.processes.contains(&thread.pid));
                assert!(self.threads.insert(thread));
            }
            EventKind::Thread(thread, ThreadEvent::End) => {
                assert!(self.threads.remove(&thread));
                self.ended.insert(thread);
            }
            EventKind::Thread(thread, ThreadEvent::Name(_)) => assert!(self.threads.contains(&thread)),
            EventKind::Thread(thread, ThreadEvent::Sample(_)) => {
                assert!(self.threads.contains(&thread) || self.ended.contains(&thread));
            }
            _ => {}
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

#[test]
fn an_exit_between_an_exec_and_its_first_mapping_is_that_of_the_events_alone() {
    // As Linux 6.18 records the exec of a set-user-ID program, for events of a task, and of whole CPUs: then mappings
    // follow.
    let exec = record(
        3,
        1 << 13,
        &[words32(&[7, 7]), b"su\0\0\0\0\0\0".to_vec(), sample_id(1)].concat(),
    );
    let exit = record(4, 0, &[words32(&[7, 1, 7, 1]), words64(&[2]), sample_id(2)].concat());
    let fields = [words32(&[7, 7]), words64(&[0x1000, 0x2000, 0x3000, 0, 0, 0])].concat();
    let end = [words32(&[5, 2]), b"/bin/su\0".to_vec(), sample_id(3)].concat();
    let mapping = record(10, 0, &[fields, end].concat());
    let run = |records: &[&Vec<u8>]| {
        let (mut translator, mut sink) = (Translator::new(LAYOUT), Order::default());
        translator.watch_for_lost_events();
        for bytes in records {
            translator.record(1, bytes, &[], Role::Running, &mut sink);
        }
        let lost = translator.take_tasks_without_events();
        (
            sink.processes.contains(&Pid(7)),
            lost.into_iter().map(|lost| (lost.pid, lost.name)).collect::<Vec<_>>(),
        )
    };
    assert_eq!(run(&[&exec, &exit]), (true, vec![(7, "su".to_owned())]));
    assert_eq!(run(&[&exec, &exit, &mapping]), (true, vec![]));
    assert_eq!(run(&[&exec, &exit, &mapping, &exit]), (false, vec![]));
    assert_eq!(run(&[&exec, &mapping, &exit]), (false, vec![]));
}

/// Events of whole CPUs sample the rest of a task's exit, and its user space may be gone by then.
#[test]
fn samples_after_the_record_of_an_exit_are_those_of_the_task() {
    #[derive(Default)]
    struct Lines(Vec<String>);
    impl EventSink for Lines {
        fn on_event(&mut self, event: &Event<'_>) {
            self.0.push(match event.kind {
                EventKind::Thread(thread, ThreadEvent::Sample(sample)) => match sample.stack {
                    Stack::Missing { kernel, reason } => format!("{}: {}, {reason:?}", thread.tid.0, kernel.len()),
                    other => format!("{}: {other:?}", thread.tid.0),
                },
                other => format!("{other:?}"),
            });
        }

        fn end_round(&mut self, _: Timestamp) -> Completion {
            Completion::default()
        }
    }
    let (mut lines, mut translator) = (Lines::default(), Translator::new(LAYOUT));
    translator.start_process(Timestamp(1), Pid(7), &mut lines);
    let exit = |tid| {
        record(
            4,
            0,
            &[words32(&[7, 7, tid, tid]), words64(&[2]), sample_id(2)].concat(),
        )
    };
    for bytes in [kernel_sample(), exit(8), exit(7)] {
        translator.record(42, &bytes, &[], Role::Running, &mut lines);
    }
    lines.0.clear();
    translator.record(43, &kernel_sample(), &[], Role::Running, &mut lines);
    translator.record(44, &kernel_sample(), &[], Role::WaitStack, &mut lines);
    assert_eq!(lines.0, ["8: 2, NoUserSpace"]);
    assert_eq!(translator.samples(), 2);
    // In the end the kernel reports no pid (-1): then nobody knows whose sample it is.
    lines.0.clear();
    let mut without_pid = kernel_sample();
    without_pid[16..24].fill(0xff);
    translator.record(45, &without_pid, &[], Role::Point, &mut lines);
    assert_eq!(lines.0, ["Recording(Lost { count: 1, role: Point, cause: NoPid })"]);
    assert_eq!(translator.lost(Role::Point), 0, "not the ring's");
}

/// A fork, exit, exec, rename or sample of a few tasks, in any order.
fn task_record() -> impl Strategy<Value = Vec<u8>> {
    (0..5u8, 1..4u32, 1..4u32, 1..6u32).prop_map(|(kind, pid, parent, tid)| match kind {
        0 => record(
            7,
            0,
            &[words32(&[pid, parent, tid, parent]), words64(&[1]), sample_id(1)].concat(),
        ),
        1 => record(
            4,
            0,
            &[words32(&[pid, parent, tid, parent]), words64(&[1]), sample_id(1)].concat(),
        ),
        2 => record(
            3,
            1 << 13,
            &[words32(&[pid, pid]), b"new\0\0\0\0\0".to_vec(), sample_id(1)].concat(),
        ),
        3 => record(
            3,
            0,
            &[words32(&[pid, tid]), b"name\0\0\0\0".to_vec(), sample_id(1)].concat(),
        ),
        _ => {
            let ids = [words64(&[5]), words32(&[pid, tid]), words64(&[1, EVENT_ID, 0, 1])].concat();
            record(9, 2, &[ids, words64(&[0, 0, 0])].concat())
        }
    })
}

proptest! {
    // The same cases in each run.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::time(&bytes);
        let _ = decode::origin(&bytes);
        let _ = decode::decode(&bytes, &LAYOUT);
    }

    #[test]
    fn records_with_random_contents_never_panic(
        kind in 0..20u32,
        misc in any::<u16>(),
        body in proptest::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..300),
        role in prop_oneof![Just(Role::Running), Just(Role::WaitStack)],
    ) {
        let mut sink = Order::default();
        Translator::new(LAYOUT).record(1, &record(kind, misc, &body), &[], role, &mut sink);
    }

    #[test]
    fn tasks_start_before_they_are_used_and_end_once(
        records in proptest::collection::vec(task_record(), 0..60),
        watches in any::<bool>(),
    ) {
        let mut translator = Translator::new(LAYOUT);
        if watches {
            translator.watch_for_lost_events();
        }
        let mut sink = Order::default();
        for record in &records {
            translator.record(1, record, &[], Role::Running, &mut sink);
        }
    }
}

#[test]
fn files_may_have_to_be_opened_for_new_processes_execs_and_mappings_alone() {
    // pid, ppid, tid, ptid, time.
    let fork = |pid, ppid| record(7, 0, &[words32(&[pid, ppid, 9, 7]), words64(&[1])].concat());
    let comm = |misc| {
        record(
            3,
            misc,
            &[words32(&[7, 7]), b"name\0\0\0\0".to_vec(), sample_id(1)].concat(),
        )
    };
    let exit = record(4, 0, &[words32(&[7, 7, 7, 7]), words64(&[1])].concat());
    let thread_records = [fork(7, 7), comm(0), exit];
    assert!(thread_records.iter().all(|record| decode::opens_no_file(record)));
    let mapping = record(10, 0, &sample_id(1));
    let cut = record(7, 0, &[]);
    let others = [fork(9, 7), comm(1 << 13), mapping, cut, Vec::new()];
    assert!(!others.iter().any(|record| decode::opens_no_file(record)));
}
