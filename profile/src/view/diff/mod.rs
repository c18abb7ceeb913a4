//! What got slower and faster between two programs, or two versions of one, from recordings of both.
//!
//! 1. `samples`: which samples count, and of which run they are.
//! 2. `keys`: the functions, lines or call paths that they count for.
//! 3. `amounts`: what each of these took in each run, in small blocks of time.
//! 4. `test`: how surely that differs; `increase`: by how much, at least and at most.
//! 5. `rules`: what of it is allowed.
//!
//! `exact` compares what other profilers counted, of which chance can't be told. `nodes` does the same for the frames of a flame graph.
//!
//! A change counts only if both the share and the time of it changed. The share alone changes when another function does; the
//! time alone when the whole machine is slower. Chance is kept out by a limit on false discoveries (Benjamini and Hochberg
//! 1995, doi:10.1111/j.2517-6161.1995.tb02031.x): of two recordings of the same program nothing is listed, but for the
//! agreed share of cases.
//!
//! Measured: of 90 pairs of recordings of the same program one pair differs. A function of 19 % that gets 20 % slower is found in each of 100
//! pairs, with 13,000 samples a side. By share alone, one function of 8 that got 20 % slower made 8 changes.

mod amounts;
mod exact;
mod increase;
mod keys;
mod libs;
pub(crate) mod nodes;
pub mod rules;
pub(crate) mod samples;
mod test;

use std::cmp::Ordering;

use crate::data::{Data, Unit};
use amounts::Side;
use keys::Keys;

pub use increase::Increase;
pub use libs::{Renamed, match_libs};

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// Functions, by the time in their own code, with that of all functions that the compiler inlined into them.
    #[default]
    Own,
    /// Functions, inlined ones each on their own.
    Inlined,
    /// Functions, by the time in them and all that they call.
    Total,
    /// Source lines, by their own time.
    Lines,
    /// Call paths, by the time of their last function's own code.
    Paths,
}

/// What changed, and of what.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What was compared.
    pub sides: Sides,
    /// How many functions, lines or paths had samples enough to be tested.
    pub tested: usize,
    /// Changes that are not chance; what got slower first, largest change of share first.
    pub changes: Vec<Change>,
}

/// Both sides as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Sides {
    /// What amounts are in: time, where the profiles tell how much time a sample stands for.
    pub unit: Unit,
    /// The name of what is compared, of files of other profilers: their figures are compared as they are, and chance is not told.
    pub weights: Option<String>,
    /// The event that was sampled in the place of CPU time.
    pub event: Option<String>,
    /// What was compared to.
    pub base: Total,
    /// What was compared.
    pub new: Total,
    /// How the time of a run changed.
    pub increase: Increase,
    /// The confidence of [`Increase::range`], 0 to 1; 1 of figures, which are exact.
    pub confidence: f64,
}

/// One side as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// Files.
    pub recordings: usize,
    /// Runs of the program, in all files. Of one with no sample nothing is known: it is none of these.
    pub runs: usize,
    /// Runs without a sample.
    pub empty_runs: usize,
    /// Samples of running threads.
    pub samples: u64,
    /// What they weigh, a run, in [`Sides::unit`].
    pub per_run: f64,
}

/// A function, line or path that takes another share and another time than before.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The function's name.
    pub function: String,
    /// File name of its library.
    pub lib: Option<String>,
    /// Source file and line, where lines were compared.
    pub line: Option<(String, u32)>,
    /// The callers, rootmost first, where call paths were compared.
    pub callers: Vec<String>,
    /// Before.
    pub base: Amount,
    /// After.
    pub new: Amount,
    /// The change of the share, 0 to 1: with this confidence it is between these.
    pub share_change: (f64, f64),
    /// The chance to see such a difference where there is none.
    pub p: f64,
}

/// What something took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    /// Samples of all runs.
    pub samples: u64,
    /// Of all that was sampled, 0 to 1.
    pub share: f64,
    /// As [`Total::per_run`].
    pub per_run: f64,
}

impl Sides {
    fn of(base: &Side, new: &Side, recorded: &[Data], confidence: f64) -> Sides {
        let first = recorded.first();
        Sides {
            unit: match first {
                Some(data) if data.unit == Unit::Samples && data.interval_ms > 0.0 => Unit::Milliseconds,
                Some(data) => data.unit,
                None => Unit::Samples,
            },
            weights: None,
            event: first.and_then(|data| data.event.clone()),
            base: base.total(),
            new: new.total(),
            increase: increase::of_all(base, new, confidence),
            confidence,
        }
    }

    /// Of figures, which are what they are.
    fn exact(base: Total, new: Total, files: &[Data]) -> Sides {
        let first = files.first();
        Sides {
            unit: first.map(|data| data.unit).unwrap_or_default(),
            weights: first.and_then(|data| Some(data.weights.as_ref()?.name.clone())),
            event: None,
            increase: Increase::of_time(base.per_run, new.per_run),
            base,
            new,
            confidence: 1.0,
        }
    }
}

impl Comparison {
    /// How much a change is, of all: of the share, or of the amount where that is counted and not sampled. Positive where it got
    /// slower.
    pub fn delta(&self, change: &Change) -> f64 {
        let whole = self.sides.base.per_run.max(self.sides.new.per_run);
        match self.sides.weights {
            Some(_) if whole > 0.0 => (change.new.per_run - change.base.per_run) / whole,
            _ => change.share_delta(),
        }
    }
}

impl Change {
    /// Positive where it got slower.
    pub fn share_delta(&self) -> f64 {
        self.new.share - self.base.share
    }
}

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The share of listed changes that may be chance. Where nothing changed, it is the chance that something is listed.
    pub false_discoveries: f64,
    /// Smaller changes of the share are left out: what else goes on on a machine makes the share of the kernel differ by
    /// some tenths of a percent from run to run, and by more than chance.
    pub least_change: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            false_discoveries: 0.01,
            least_change: 0.005,
        }
    }
}

/// Compares two sides of one recording or more each. Waits are left out, and so are interrupts, which are the machine's and
/// not the program's: on a busy one they took 0.1 to 0.7 % of a program that never called the kernel.
///
/// Files of other profilers are compared as they are: all must count the same.
pub fn diff(base: &[Data], new: &[Data], what: What, limits: Limits) -> Comparison {
    if base.iter().chain(new).any(|data| data.weights.is_some()) {
        return exact::diff(base, new, what, limits);
    }
    let mut keys = Keys::default();
    let recorded = base;
    let base = Side::of(base, what, &mut keys);
    let new = Side::of(new, what, &mut keys);
    let mut changes: Vec<Change> = (0..keys.len())
        .filter_map(|key| {
            let (before, after) = (base.amount(key), new.amount(key));
            let tested = test::test(&base, &new, key)?;
            Some(keys.change(key, [before, after], tested.share_change, tested.p))
        })
        .collect();
    let tested = changes.len();
    changes.sort_by(|a, b| a.p.total_cmp(&b.p));
    let real = test::discoveries(changes.iter().map(|change| change.p), limits.false_discoveries);
    changes.truncate(real);
    changes.retain(|change| change.share_delta().abs() >= limits.least_change);
    changes.sort_by(|a, b| by_change(a.share_delta(), b.share_delta(), a, b));
    Comparison {
        sides: Sides::of(&base, &new, recorded, test::CONFIDENCE),
        tested,
        changes,
    }
}

/// What got slower first, then what got faster; each the largest first.
fn by_change(delta_a: f64, delta_b: f64, a: &Change, b: &Change) -> Ordering {
    (delta_a < 0.0)
        .cmp(&(delta_b < 0.0))
        .then(delta_b.abs().total_cmp(&delta_a.abs()))
        .then_with(|| (&a.function, &a.line, &a.callers).cmp(&(&b.function, &b.line, &b.callers)))
}
