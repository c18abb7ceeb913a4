//! Counts of steps by their way, for the test that compares the three ways.

use std::cell::Cell;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StepCount {
    ReusedSteps,
    FastSteps,
    FullSteps,
    /// Words beyond the sample that the last walk read from the same live memory.
    UnchangedWords,
    /// Requests for a word that read the words of all known callers.
    ReadingsOfCallers,
}

thread_local! {
    /// All steps are full steps.
    pub(crate) static ONLY_FULL_STEPS: Cell<bool> = const { Cell::new(false) };
    static COUNTS: Cell<[usize; 5]> = const { Cell::new([0; 5]) };
}

pub(crate) fn count(what: StepCount, more: usize) {
    let mut counts = COUNTS.get();
    counts[what as usize] += more;
    COUNTS.set(counts);
}

/// The counts of this thread since the last call, in the order of [`StepCount`].
pub(crate) fn take() -> [usize; 5] {
    COUNTS.take()
}
