//! Callers in live memory that are read again between two rounds. The stacks are those of this very process.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::cell::Cell;
use std::hint::black_box;

use crate::common::{Captured, Collector, OwnMemory, PID, TID, capture, names, sample_of, sp, unwinder};
use recording::clock::Timestamp;
use recording::event::{Event, Pid, Thread};
use recording::quality::Quality;
use recording::sink::{EventSink, Looked, TargetMemory};
use unwind::Unwinder;

/// The memory of this process, on a clock of its own, until it is gone.
struct Memory<'a> {
    own: OwnMemory,
    now: &'a Cell<u64>,
    is_gone: &'a Cell<bool>,
}

impl TargetMemory for Memory<'_> {
    fn read(&mut self, pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
        match self.is_gone.get() {
            true => 0,
            false => self.own.read(pid, address, buffer),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.now.get())
    }
}

/// A recording of this process, sample by sample.
struct Recording<'a> {
    unwinder: Unwinder<'a, Collector>,
    now: &'a Cell<u64>,
    is_gone: &'a Cell<bool>,
}

impl Recording<'_> {
    /// Runs this on a recording.
    fn of(test: impl FnOnce(&mut Recording<'_>)) -> (Collector, Quality) {
        let (now, is_gone) = (Cell::new(0), Cell::new(false));
        let memory = Memory {
            own: OwnMemory::open(),
            now: &now,
            is_gone: &is_gone,
        };
        let mut recording = Recording {
            unwinder: unwinder(memory),
            now: &now,
            is_gone: &is_gone,
        };
        test(&mut recording);
        recording.unwinder.finish()
    }

    fn thread() -> Thread {
        Thread { pid: PID, tid: TID }
    }

    /// A sample of this time, completed at that one.
    fn sample(&mut self, captured: &Captured, sampled: u64, now: u64) {
        self.now.set(now);
        let event = sample_of(Recording::thread(), captured);
        self.unwinder.on_event(&Event {
            time: Timestamp(sampled),
            ..event
        });
    }

    fn may_wait(&mut self, captured: &Captured) -> bool {
        let end = sp(&captured.registers) + captured.bytes.len() as u64;
        self.unwinder.may_wait(Recording::thread(), end)
    }

    fn look_again(&mut self, now: u64) -> bool {
        self.now.set(now);
        self.unwinder.look_again() != Looked::Changed
    }

    /// Samples whose stacks are verified.
    fn verified(&self) -> u64 {
        self.unwinder.quality().rooted
    }
}

/// Calls `test` from so many frames of 256 bytes and more, with this stack and 16 KiB of it.
#[inline(never)]
fn deep(depth: usize, test: &mut dyn FnMut(&Captured)) {
    let mut frame = [depth; 32];
    black_box(&mut frame);
    if depth == 0 {
        test(&capture(16 << 10));
    } else {
        deep(depth - 1, test);
    }
    black_box(&frame);
}

#[test]
fn samples_that_waited_are_completed_with_what_was_read_last_and_verified() {
    let (collector, quality) = Recording::of(|recording| {
        deep(200, &mut |stack| {
            assert!(!recording.may_wait(stack), "nothing is known of the thread");
            recording.sample(stack, 1, 2);
            assert_eq!(recording.verified(), 0);
            // Sampled at 3, 5 and 6, and left in the ring.
            assert!(recording.may_wait(stack));
            assert!(recording.look_again(4));
            assert!(recording.may_wait(stack));
            assert!(recording.look_again(7));
            assert!(recording.may_wait(stack));
            recording.is_gone.set(true);
            assert!(!recording.look_again(9));
            for (sampled, verified) in [(3, 1), (5, 2), (6, 3), (8, 3)] {
                recording.sample(stack, sampled, 10);
                assert_eq!(recording.verified(), verified, "sampled at {sampled}");
            }
        });
    });
    // Of the one after the last look, too, the callers are known.
    for frames in &collector.stacks {
        let names = names(&collector.images, frames);
        assert_eq!(names.iter().filter(|name| *name == "deep").count(), 201, "{names:?}");
    }
    assert_eq!((quality.unverified, quality.truncated_no_memory), (2, 0));
}

/// A look that finds the thread as it waits says nothing, and leaves the reading before it to the samples after it.
#[test]
fn looks_while_a_thread_waits_leave_the_reading_before_them() {
    Recording::of(|recording| {
        deep(200, &mut |stack| {
            recording.sample(stack, 1, 2);
            assert!(recording.look_again(3));
            assert!(recording.may_wait(stack));
            assert!(recording.look_again(5));
            recording.sample(stack, 4, 6);
            assert_eq!(recording.verified(), 1);
        });
    });
}

#[test]
fn callers_that_changed_and_dumps_that_end_lower_end_the_round() {
    Recording::of(|recording| {
        deep(200, &mut |stack| {
            recording.sample(stack, 1, 2);
            let mut shorter = stack.clone();
            shorter.bytes.truncate(8 << 10);
            assert!(!recording.may_wait(&shorter), "other frames are beyond its end");
            recording.sample(&shorter, 3, 4);
            assert!(recording.may_wait(&shorter) && recording.may_wait(stack));
            assert!(recording.look_again(5));
        });
        // The frames have returned, and other calls are where they were.
        deep(180, &mut |stack| {
            assert!(recording.look_again(7), "the thread was not sampled since");
            assert!(recording.may_wait(stack));
            assert!(!recording.look_again(8));
            assert!(!recording.may_wait(stack));
            // The next look has nothing to read, and nothing against it.
            assert!(recording.look_again(9));
        });
    });
}

/// Words of frames that have returned are not looked at again and again: seen in rustc, whose records were then taken
/// at each look.
#[test]
fn callers_that_stay_are_looked_at_after_others_have_changed() {
    Recording::of(|recording| {
        deep(300, &mut |_| {
            deep(100, &mut |stack| {
                let mut shorter = stack.clone();
                shorter.bytes.truncate(8 << 10);
                recording.sample(&shorter, 1, 2);
                assert!(recording.may_wait(&shorter));
                assert!(recording.look_again(3));
            });
            // What is beyond this dump is rootwards of those that returned.
            deep(20, &mut |stack| {
                assert!(recording.may_wait(stack));
                assert!(!recording.look_again(4));
                recording.sample(stack, 5, 6);
                assert!(recording.may_wait(stack));
                assert!(recording.look_again(7));
            });
        });
    });
}

#[test]
fn a_stack_that_was_whole_may_wait_while_it_is() {
    Recording::of(|recording| {
        let own = |limit| capture(limit);
        let whole = own(1 << 20);
        recording.sample(&whole, 1, 2);
        assert_eq!(recording.verified(), 1);
        assert!(recording.may_wait(&whole));
        let cut = own(64);
        assert!(!recording.may_wait(&cut));
    });
}

#[test]
fn callers_that_no_stack_of_a_round_needed_are_not_read_again() {
    Recording::of(|recording| {
        deep(200, &mut |stack| {
            recording.sample(stack, 1, 2);
            recording.unwinder.end_round(Timestamp(3));
            recording.is_gone.set(true);
            assert!(recording.may_wait(stack));
            assert!(!recording.look_again(4));
            recording.is_gone.set(false);
            recording.sample(stack, 5, 6);
            recording.unwinder.end_round(Timestamp(7));
            recording.unwinder.end_round(Timestamp(8));
            recording.is_gone.set(true);
            assert!(!recording.may_wait(stack));
            assert!(recording.look_again(9), "nothing is read");
        });
    });
}
