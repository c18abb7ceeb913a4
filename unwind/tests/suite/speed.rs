//! What unwinding costs: prints nanoseconds a frame and a sample, asserts none of them.
//! `cargo test --release -p sprof-unwind --test suite -- speed:: --nocapture`

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

use std::hint::black_box;

use crate::common::{Captured, OwnMemory, capture, sample, unwinder};
use recording::sink::EventSink;

#[inline(never)]
fn recurse(depth: usize, feed: &mut dyn FnMut(&Captured), limit: usize) {
    let mut frame = [depth; 8];
    black_box(&mut frame);
    if depth == 0 {
        feed(&capture(limit))
    } else {
        recurse(depth - 1, feed, limit)
    }
    black_box(&frame);
}

/// CPU time of this thread: the first field of schedstat (proc(5)).
fn cpu_nanos() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|nanos| nanos.parse().ok())
        .unwrap_or(f64::NAN)
}

fn measure(what: &str, depth: usize, limit: usize) {
    // Figures of a build without optimization are of no use.
    const SAMPLES: u32 = if cfg!(debug_assertions) { 100 } else { 10_000 };
    let mut unwinder = unwinder(OwnMemory::open());
    let mut nanos = 0.0;
    let mut feed = |captured: &Captured| {
        unwinder.on_event(&sample(captured));
        let start = cpu_nanos();
        for _ in 0..SAMPLES {
            unwinder.on_event(&sample(captured));
        }
        nanos = (cpu_nanos() - start) / f64::from(SAMPLES);
    };
    recurse(depth, &mut feed, limit);
    let (collector, quality) = unwinder.finish();
    let frames = collector.stacks[0].len();
    println!(
        "{what}: {frames} frames, {nanos:.0} ns a sample, {:.1} ns a frame",
        nanos / frames as f64
    );
    assert_eq!(quality.samples, u64::from(SAMPLES) + 1);
}

#[test]
fn nanoseconds_a_frame() {
    measure("from the dump", 20, 16 << 10);
    measure("from the dump", 60, 16 << 10);
    measure("27 KB of stack, 16 KiB dump", 27 * 1024 / 128, 16 << 10);
    measure("200 KB of stack, 16 KiB dump", 200 * 1024 / 128, 16 << 10);
}
