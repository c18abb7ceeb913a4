//! The hottest functions.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::*;
use profile::view::top;

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
fn no_samples_give_no_functions() {
    let view = top(&Stream::new().finish(), 5);
    assert_eq!((view.samples, view.functions.len()), (0, 0));
}
