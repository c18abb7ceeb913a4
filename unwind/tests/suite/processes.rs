//! Which process has what mapped: fork, exec, exit; and what is announced of it.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::hint::black_box;

use crate::common::{Captured, Collector, OwnFiles, PID, capture, map, own_mappings, sample_of, unwinder};
use recording::clock::Timestamp;
use recording::event::{Event, Pid, ProcessEvent, Role, Sample, Thread};
use recording::sink::{EventSink, ModuleMiss, NoMemory};
use recording::stack::{Frame, FurtherRegisters, MissingStack, Registers, Snapshot, Stack, StackMark};
use unwind::{UnwindOptions, Unwinder};

const CHILD: Pid = Pid(2);

#[inline(never)]
fn somewhere() -> Captured {
    black_box(capture(1 << 16))
}

#[test]
fn a_forked_process_has_its_parents_code_until_it_calls_exec() {
    let captured = somewhere();
    let mut unwinder = unwinder(NoMemory);
    let fork = ProcessEvent::Start { parent: Some(PID) };
    unwinder.on_event(&Event::process(Timestamp(1), CHILD, fork));
    unwinder.on_event(&sample_of(Thread::main(CHILD), &captured));
    assert_eq!(unwinder.quality().rooted, 1);
    unwinder.on_event(&Event::process(Timestamp(2), CHILD, ProcessEvent::Exec("new")));
    unwinder.on_event(&sample_of(Thread::main(CHILD), &captured));
    unwinder.on_event(&sample_of(Thread::main(PID), &captured));
    let (collector, quality) = unwinder.finish();
    assert_eq!((quality.rooted, quality.truncated_no_rule), (2, 1));
    // The instruction pointer is true; nothing is known of it.
    assert!(matches!(
        collector.stacks[1][..],
        [Frame::InstructionPointer(_), Frame::Mark(StackMark::TruncatedNoRule)]
    ));
    assert_eq!(collector.stacks[0], collector.stacks[2]);
}

#[test]
fn a_new_mapping_in_a_child_leaves_its_parent_alone() {
    let captured = somewhere();
    let mut unwinder = unwinder(NoMemory);
    let fork = ProcessEvent::Start { parent: Some(PID) };
    unwinder.on_event(&Event::process(Timestamp(1), CHILD, fork));
    for (start, len, ..) in own_mappings() {
        map(&mut unwinder, CHILD, *start, *len, 0, b"//anon");
    }
    unwinder.on_event(&sample_of(Thread::main(PID), &captured));
    assert_eq!(unwinder.quality().rooted, 1);
    unwinder.on_event(&sample_of(Thread::main(CHILD), &captured));
    assert_eq!(unwinder.finish().1.by_frame_pointer, 1);
}

#[test]
fn every_module_is_announced_and_anonymous_code_is_not() {
    let mut unwinder = Unwinder::new(
        Collector::default(),
        NoMemory,
        OwnFiles::default(),
        UnwindOptions::default(),
    );
    map(&mut unwinder, PID, 0x10_0000, 0x1000, 0x2000, b"/no/such/file");
    map(&mut unwinder, CHILD, 0x10_0000, 0x1000, 0x2000, b"/no/such/file");
    map(&mut unwinder, PID, 0x20_0000, 0x1000, 0, b"//anon");
    let (collector, quality) = unwinder.finish();
    assert_eq!(collector.images.len(), 2);
    let image = &collector.images[0];
    assert_eq!(
        (image.start.0, image.end.0, image.base.0),
        (0x10_0000, 0x10_1000, 0xf_e000)
    );
    assert_eq!((image.module.arch, image.module.build_id.as_ref()), (None, None));
    // Counted once for the file, not for each process.
    let misses: Vec<_> = quality.module_misses.into_iter().collect();
    assert_eq!(misses, [(ModuleMiss::Anonymous, 1), (ModuleMiss::NotFound, 1)]);
}

#[test]
fn a_task_in_the_middle_of_exec_has_no_user_stack() {
    let mut unwinder = unwinder(NoMemory);
    let kernel = [Frame::KernelInstructionPointer(recording::address::Avma(
        0xffff_ffff_8100_0000,
    ))];
    let stack = Stack::Snapshot(Snapshot {
        kernel: &kernel,
        registers: Registers::X86_64 {
            ip: 0x1234,
            sp: 0x7000,
            bp: 0,
        },
        further: FurtherRegisters::default(),
        stack_bytes: &[],
        next_copy: None,
    });
    let sample = Sample::new(Role::Running, 1, stack);
    unwinder.on_event(&Event::sample(Timestamp(0), Thread::main(PID), sample));
    let (collector, quality) = unwinder.finish();
    let missing = Frame::Mark(StackMark::Missing(MissingStack::NoUserSpace));
    assert_eq!(collector.stacks[0], [kernel[0], missing]);
    assert_eq!(quality.missing.get(&MissingStack::NoUserSpace), Some(&1));
}

#[test]
fn a_stack_with_too_many_frames_is_cut_and_marked() {
    let captured = somewhere();
    let mut unwinder = Unwinder::new(
        Collector::default(),
        NoMemory,
        OwnFiles::default(),
        UnwindOptions {
            max_frames: 3,
            ..UnwindOptions::default()
        },
    );
    for (start, len, file_offset, path) in own_mappings() {
        map(&mut unwinder, PID, *start, *len, *file_offset, path.as_bytes());
    }
    unwinder.on_event(&sample_of(Thread::main(PID), &captured));
    let (collector, quality) = unwinder.finish();
    assert_eq!(collector.stacks[0].len(), 4);
    assert_eq!(
        collector.stacks[0].last(),
        Some(&Frame::Mark(StackMark::TruncatedDepth))
    );
    assert_eq!((quality.truncated_depth, quality.rooted), (1, 0));
}
