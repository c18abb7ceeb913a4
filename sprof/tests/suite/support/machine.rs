//! The machine, which tests share, and which a test that measures has for itself: shares, losses, rates and times mean
//! nothing while another test keeps the CPUs busy.
//!
//! A test takes its part before it waits for anything that another test may own (a program that is being built, a
//! recording that several use), and holds the part until its thread ends.

use std::cell::RefCell;
use std::sync::{Condvar, Mutex, PoisonError};

/// What a test has of the machine.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// A place among twice as many tests as there are CPUs: tests wait for their programs half of the time.
    Shared,
    /// A CPU, beside tests that have one each.
    OneCpu,
    /// A CPU, beside tests that have one each for a recording by perf.
    OneCpuForPerf,
    All,
}

impl Part {
    /// How many tests may have such a part at once. Tests with other parts wait.
    fn places(self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        match self {
            Part::Shared => 2 * cpus,
            Part::OneCpu | Part::OneCpuForPerf => cpus,
            Part::All => 1,
        }
    }
}

/// The parts that tests have now, all of one kind.
static TAKEN: Mutex<Vec<Part>> = Mutex::new(Vec::new());
static GIVEN_BACK: Condvar = Condvar::new();

/// Given back when it is dropped.
struct Held(Part);

impl Held {
    fn take(part: Part) -> Held {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut Vec<Part>| taken.len() == part.places() || taken.iter().any(|other| *other != part);
        let mut taken = GIVEN_BACK
            .wait_while(taken, is_full)
            .unwrap_or_else(PoisonError::into_inner);
        taken.push(part);
        Held(part)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).pop();
        GIVEN_BACK.notify_all();
    }
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Takes a part instead of the one that this test has.
fn take(part: Part) {
    HELD.with_borrow_mut(|held| {
        // Two tests that keep their parts would wait for each other.
        *held = None;
        *held = Some(Held::take(part));
    });
}

/// Takes a place among tests that share the machine, unless this test has a part.
pub(crate) fn share() {
    if HELD.with_borrow(Option::is_none) {
        take(Part::Shared);
    }
}

/// Takes a CPU: the first thing that a test does that measures a program of one thread, once it knows that it can.
pub(crate) fn one_cpu() {
    if !is_measuring() {
        take(Part::OneCpu);
    }
}

/// The same, for a program that perf records: no recording of sprof is beside it.
pub(crate) fn one_cpu_for_perf() {
    if !is_measuring() {
        take(Part::OneCpuForPerf);
    }
}

/// Takes the whole machine: the first thing that a test does that measures.
pub(crate) fn alone() {
    if HELD.with_borrow(|held| held.as_ref().is_none_or(|held| held.0 != Part::All)) {
        take(Part::All);
    }
}

/// Shares the machine again, when what is left is to look at what was measured.
pub(crate) fn share_again() {
    take(Part::Shared);
}

/// True if nothing runs beside this test but other tests that measure.
pub(crate) fn is_measuring() -> bool {
    HELD.with_borrow(|held| held.as_ref().is_some_and(|held| held.0 != Part::Shared))
}
