//! Ground truth: stacks of this very process, whose call chain is known.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::hint::black_box;

use crate::common::{Captured, OwnMemory, capture, names, sample, unwinder};
use recording::clock::Timestamp;
use recording::event::Pid;
use recording::sink::{EventSink, NoMemory, TargetMemory};

#[inline(never)]
fn truth_leaf(limit: usize) -> Captured {
    black_box(capture(limit))
}

#[inline(never)]
fn truth_middle(limit: usize, pad: &mut [u8; 300]) -> Captured {
    black_box(pad)[7] = 1;
    let captured = truth_leaf(limit);
    black_box(&captured);
    captured
}

#[inline(never)]
fn truth_outer(limit: usize) -> Captured {
    let captured = truth_middle(limit, &mut [0; 300]);
    black_box(&captured);
    captured
}

#[inline(never)]
fn truth_recursion(depth: usize, limit: usize) -> Captured {
    let mut frame = [depth; 32];
    black_box(&mut frame);
    let captured = if depth == 0 {
        truth_leaf(limit)
    } else {
        truth_recursion(depth - 1, limit)
    };
    black_box(&frame);
    captured
}

#[test]
fn a_whole_stack_is_rooted_in_the_thread_start() {
    let captured = truth_outer(1 << 16);
    let mut unwinder = unwinder(NoMemory);
    unwinder.on_event(&sample(&captured));
    let (collector, quality) = unwinder.finish();
    let names = names(&collector.images, &collector.stacks[0]);
    assert_eq!(names[..3], ["truth_leaf", "truth_middle", "truth_outer"], "{names:?}");
    assert!(names.iter().any(|name| name == "thread_start"), "{names:?}");
    // The thread's first function is clone3's child in libc.
    assert!(names.last().is_some_and(|name| name.starts_with("<libc")), "{names:?}");
    assert_eq!(
        (quality.samples, quality.rooted, quality.by_frame_pointer),
        (1, 1, 0),
        "{names:?}"
    );
}

#[test]
fn a_short_dump_without_live_memory_is_marked() {
    let captured = truth_recursion(100, 4096);
    let mut unwinder = unwinder(NoMemory);
    unwinder.on_event(&sample(&captured));
    let (collector, quality) = unwinder.finish();
    let names = names(&collector.images, &collector.stacks[0]);
    assert_eq!(
        names.last().map(String::as_str),
        Some("[truncated: stack memory not available]")
    );
    assert_eq!((quality.rooted, quality.truncated_no_memory), (0, 1));
}

#[test]
fn recursion_deeper_than_the_dump_is_completed_live() {
    let mut unwinder = unwinder(OwnMemory::open());
    recurse_and_feed(200, &mut |captured| {
        for _ in 0..3 {
            unwinder.on_event(&sample(captured));
        }
    });
    let (collector, quality) = unwinder.finish();
    for frames in &collector.stacks {
        let names = names(&collector.images, frames);
        let depth = names.iter().filter(|name| *name == "recurse_and_feed").count();
        assert_eq!(depth, 201, "{names:?}");
    }
    // Nothing confirms the first; each later one agrees with the one before.
    assert_eq!(
        (
            quality.samples,
            quality.unverified,
            quality.rooted,
            quality.completed_live
        ),
        (3, 1, 2, 2)
    );
}

/// Memory that was cleared since the sample, each time that it is read.
struct Cleared;

impl TargetMemory for Cleared {
    fn read(&mut self, _pid: Pid, _address: u64, buffer: &mut [u8]) -> usize {
        buffer.fill(0);
        buffer.len()
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

#[test]
fn a_return_address_that_was_cleared_since_is_no_end_of_the_stack() {
    let captured = truth_recursion(100, 4096);
    let mut unwinder = unwinder(Cleared);
    for _ in 0..4 {
        unwinder.on_event(&sample(&captured));
    }
    let (collector, quality) = unwinder.finish();
    for frames in &collector.stacks {
        let names = names(&collector.images, frames);
        assert!(names.iter().any(|name| name.starts_with('[')), "{names:?}");
    }
    assert_eq!(quality.rooted, 0, "{quality:?}");
}

#[inline(never)]
fn recurse_and_feed(depth: usize, feed: &mut dyn FnMut(&Captured)) {
    let mut frame = [depth; 32];
    black_box(&mut frame);
    if depth == 0 {
        let captured = capture(16 << 10);
        feed(&captured);
    } else {
        recurse_and_feed(depth - 1, feed);
    }
    black_box(&frame);
}
