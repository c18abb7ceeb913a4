//! The hottest functions.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::*;
use profile::view::top;
use recording::stack::Stack;

#[test]
fn recursion_counts_once_a_stack() {
    let mut stream = Stream::with_app();
    // main -> f -> f -> f, three times at the leaf of f, once in a callee of it.
    for ms in 0..3 {
        stream.sample(1, 1, ms, &[ip(0x1200), ip(0x1200), ip(0x1200), ip(0x1100)]);
    }
    stream.sample(1, 1, 4, &[ip(0x10_0300), ip(0x1200), ip(0x1100)]);
    let view = top(&stream.finish(), 10);
    assert_eq!(view.samples, 4);
    let rows: Vec<_> = (view.functions.iter())
        .map(|row| {
            (
                row.name.as_str(),
                row.lib.as_deref().unwrap(),
                row.self_samples,
                row.total_samples,
            )
        })
        .collect();
    assert_eq!(rows, [("0x200", "app", 3, 4), ("0x300", "libc.so.6", 1, 1)]);
    assert_eq!(view.functions[0].self_share, 0.75);
}

#[test]
fn a_sample_with_a_tiny_period_has_a_tiny_share() {
    let mut stream = Stream::with_app();
    // As a hardware event starts in a new thread: periods of 1, 2, 4, and so on, all within a few microseconds.
    for power in 0..10 {
        stream.period(1, 1, 1, 1 << power, Stack::Frames(&[ip(0x1100)]));
    }
    for ms in 2..4 {
        stream.period(1, 1, ms, MS, Stack::Frames(&[ip(0x1200)]));
    }
    let profile = stream.finish();
    let view = top(&profile, 10);
    let rows: Vec<_> = (view.functions.iter())
        .map(|row| (row.name.as_str(), row.self_samples, (row.self_share * 100.0).round()))
        .collect();
    assert_eq!(rows, [("0x200", 2, 100.0), ("0x100", 10, 0.0)]);

    // The file says so, too: the front end's shares are those of the weights.
    let samples = &written(&profile)["threads"][0]["samples"];
    assert_eq!(samples["weightType"], "tracing-ms");
    assert_eq!(samples["weight"][0].as_f64(), Some(0.000_001));
    assert_eq!(samples["weight"][10].as_f64(), Some(1.0));
}

#[test]
fn no_samples_give_no_functions() {
    let view = top(&Stream::new().finish(), 5);
    assert_eq!((view.samples, view.functions.len()), (0, 0));
}
