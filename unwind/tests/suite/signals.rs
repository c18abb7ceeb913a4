//! Ground truth: samples inside of signal handlers reach the interrupted function and its callers.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use crate::common::sys::signals::{Where, handle_trap, trap};
use crate::common::{Collector, OwnMemory, capture, names, sample, unwinder_without};
use recording::quality::Quality;
use recording::sink::EventSink;
use recording::stack::Frame;

#[inline(never)]
fn interrupted(pad: &mut [u8; 500]) {
    black_box(&mut *pad)[0] = 1;
    trap();
    black_box(pad);
}

#[inline(never)]
fn caller_of_interrupted() {
    interrupted(&mut [0; 500]);
    black_box(());
}

/// Handles a trap, with two samples taken inside of the handler, each with at most `limit` bytes of stack.
fn record(place: Where, limit: usize, hidden: &'static str) -> (Collector, Quality) {
    let result = Rc::new(RefCell::new(None));
    let inside = result.clone();
    handle_trap(
        place,
        Box::new(move || {
            let mut unwinder = unwinder_without(hidden, OwnMemory::open());
            let captured = capture(limit);
            unwinder.on_event(&sample(&captured));
            unwinder.on_event(&sample(&captured));
            *inside.borrow_mut() = Some(unwinder.finish());
        }),
    );
    caller_of_interrupted();
    result.take().expect("the handler ran")
}

#[track_caller]
fn reaches_the_interrupted_function(collector: &Collector, quality: &Quality) {
    for frames in &collector.stacks {
        let names = names(&collector.images, frames);
        let handler = names.iter().position(|name| name == "on_signal");
        let interrupted = names.iter().position(|name| name == "interrupted");
        let caller = names.iter().position(|name| name == "caller_of_interrupted");
        assert!(
            handler.is_some() && handler < interrupted && interrupted < caller,
            "{names:#?}"
        );
        assert!(names.iter().any(|name| name == "thread_start"), "{names:#?}");
        if cfg!(target_arch = "x86_64") {
            // Nothing called the interrupted instruction: it is not looked up one byte lower.
            assert!(
                matches!(frames[interrupted.unwrap()], Frame::InstructionPointer(_)),
                "{frames:#?}"
            );
        }
    }
    assert_eq!(quality.truncated_total(), 0, "{quality:#?}");
}

#[test]
fn a_handler_on_the_normal_stack_reaches_the_interrupted_function() {
    let (collector, quality) = record(Where::NormalStack, 60 << 10, "");
    reaches_the_interrupted_function(&collector, &quality);
    assert_eq!((quality.rooted, quality.unverified), (2, 0));
}

#[test]
fn a_handler_on_an_alternate_stack_reaches_the_interrupted_function() {
    let (collector, quality) = record(Where::AlternateStack, 16 << 10, "");
    reaches_the_interrupted_function(&collector, &quality);
    // The interrupted stack is not in the dump.
    assert_eq!((quality.rooted, quality.completed_live, quality.unverified), (1, 1, 1));
}

#[test]
fn without_unwind_tables_the_signal_return_is_known_by_its_code() {
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: the signal return function is in the vdso, the interrupted one in libc");
        return;
    }
    let (collector, quality) = record(Where::NormalStack, 60 << 10, "libc.so");
    for frames in &collector.stacks {
        let names = names(&collector.images, frames);
        assert!(names.iter().any(|name| name == "caller_of_interrupted"), "{names:#?}");
    }
    assert_eq!(quality.samples, 2);
}
