//! The machine, which tests share, and which a test that measures has alone: shares, losses, rates and times mean nothing
//! while another test keeps the CPUs busy.
//!
//! A test holds its part until its thread ends. It takes it before it waits for anything that another test may own (a program
//! that is being built, a recording that several use), or the two would wait for each other.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;

/// A file lock also keeps apart test runners that use one process a test.
enum Held {
    Nothing,
    Part(#[expect(dead_code, reason = "held, not used")] File),
    Whole(#[expect(dead_code, reason = "held, not used")] File),
}

thread_local! {
    static HELD: RefCell<Held> = const { RefCell::new(Held::Nothing) };
}

/// Takes a part of the machine, unless this test has one.
pub(crate) fn share() {
    HELD.with_borrow_mut(|held| {
        if matches!(held, Held::Nothing) {
            *held = Held::Part(take(File::lock_shared));
        }
    });
}

/// Takes the whole machine: the first thing that a test does that measures.
pub(crate) fn alone() {
    HELD.with_borrow_mut(|held| {
        if !matches!(held, Held::Whole(_)) {
            // Two tests that keep their parts would wait for each other.
            *held = Held::Nothing;
            *held = Held::Whole(take(File::lock));
        }
    });
}

/// Gives back all but a part, when what is left is to look at what was measured.
pub(crate) fn share_again() {
    HELD.with_borrow_mut(|held| *held = Held::Nothing);
    share();
}

/// True if no other test runs.
pub(crate) fn is_alone() -> bool {
    HELD.with_borrow(|held| matches!(held, Held::Whole(_)))
}

/// Through a gate, so that tests which take parts in turn don't keep out one that waits for the whole.
fn take(lock: fn(&File) -> std::io::Result<()>) -> File {
    let open = |name: &str| File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)).unwrap();
    let gate = open("machine.gate");
    gate.lock().unwrap();
    let machine = open("machine.lock");
    lock(&machine).unwrap();
    machine
}
