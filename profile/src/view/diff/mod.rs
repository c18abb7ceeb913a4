//! Finds what got slower and faster between two programs, or two versions of one, from recordings of both.
//!
//! 1. `samples`: the samples that count, by run.
//! 2. `keys`: the functions, lines or call paths to compare.
//! 3. `tree` and `amounts`: what each key took in each run.
//! 4. `estimate`: a side's mean and its error; `increase`: the difference of two sides.
//! 5. `test`: changed, no change beyond a limit, or neither; `rules`: limits on increases.
//!
//! `lengths`: limits on increases of spans' lengths.
//!
//! [`sides`] holds the files of both sides. [`list`] writes changes as text and Markdown. [`describe`] puts sides,
//! amounts and changes into words.
//!
//! `exact` compares other profilers' counts, which have no statistics. `nodes` compares frames of a flame graph,
//! `paths` those of the viewer.
//!
//! A change counts only if both the share and the time changed. A share alone also changes when another function does;
//! a time alone changes when the whole machine is slower. Of whole runs, the amount of memory alone counts: it does not
//! depend on the machine. A limit on false discoveries excludes chance (Benjamini and
//! Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x): of two recordings of one program, a change is listed only in
//! the accepted share of cases.

mod amounts;
pub mod describe;
mod estimate;
mod exact;
mod increase;
mod keys;
pub mod lengths;
mod libs;
pub mod list;
pub(crate) mod nodes;
pub(crate) mod paths;
pub mod rules;
pub(crate) mod samples;
pub mod sides;
mod test;
mod tree;
pub mod values;

use std::cmp::Ordering;

use crate::data::{Data, Frame, WeightUnit};
use amounts::Side;
use keys::ComparedKeys;
use test::Tested;

pub use estimate::VARYING;
pub use increase::Increase;
pub use libs::{Renamed, match_libs};

/// The things to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compared {
    /// Functions by self time, including all functions inlined into them.
    #[default]
    Own,
    /// Functions by self time, each inlined function separately.
    Inlined,
    /// Functions by total time, including callees.
    Total,
    /// Source lines by self time.
    Lines,
    /// Call paths by self time of their last function.
    Paths,
}

impl Compared {
    /// Functions by self time: each inlined function separately, if all files of both sides have some. If one side
    /// lacks debug info, all inlined functions of the other side would count as new.
    pub fn functions_of(base: &[Data], new: &[Data]) -> Compared {
        let has_inlined = |side: &[Data]| side.iter().all(|data| data.frames.iter().any(Frame::is_inlined));
        match has_inlined(base) && has_inlined(new) {
            true => Compared::Inlined,
            false => Compared::Own,
        }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The compared profiles.
    pub sides: Sides,
    /// Number of functions, lines or paths.
    pub tested: usize,
    /// Significant changes: increases first, each group by change of share, largest first.
    pub changes: Vec<Change>,
    /// Keys for which the recordings do not show whether they changed by [`DiffLimits::least_change`] or more. All
    /// other keys did not.
    pub undecided: Option<Undecided>,
}

/// Functions, lines or paths without a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecided {
    /// Their number.
    pub number: usize,
    /// The key that may have changed most.
    pub widest: Change,
    /// Those with a difference of [`DiffLimits::least_change`] or more, which may be chance: the largest first.
    pub largest: Vec<Change>,
    /// Number of runs a side that would probably show whether it changed; `None` if no number does.
    pub runs: Option<u64>,
}

/// Both sides as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Sides {
    /// Unit of amounts: time, if the profiles give the time of a sample.
    pub unit: WeightUnit,
    /// For files of other profilers, the name of the compared count. Counts are compared exactly, without statistics.
    pub weights: Option<String>,
    /// Each occurrence was counted, in all files: a difference is one of the programs.
    pub is_exact: bool,
    /// The sampled event, if it is not CPU time, or the measure of the heap.
    pub event: Option<String>,
    /// True if the samples are blocks of memory.
    pub is_heap: bool,
    /// True if changes are those of the amount, and not of the share.
    pub by_amount: bool,
    /// The old side.
    pub base: SideTotal,
    /// The new side.
    pub new: SideTotal,
    /// The change of the time of a run.
    pub increase: Increase,
    /// The confidence of [`Increase::range`], 0 to 1; 1 for counts, which are exact.
    pub confidence: f64,
}

/// One side as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SideTotal {
    /// Number of files.
    pub recordings: usize,
    /// Number of files that are not known to hold whole runs.
    pub windows: usize,
    /// Number of those windows that do not say whether they are.
    pub unstated: usize,
    /// Number of files whose samples have no times.
    pub untimed: usize,
    /// Number of runs with samples, in all files.
    pub runs: usize,
    /// Number of runs without samples. Nothing is known of them.
    pub empty_runs: usize,
    /// Samples of running threads.
    pub samples: u64,
    /// Of a heap, bytes of the growth of memory that its blocks are, and bytes of the growth, in all files.
    pub seen_of_growth: (u64, u64),
    /// Weight of a run's blocks of memory that were sampled and lost: sums may be larger by as much.
    pub lost: f64,
    /// Weight of a run's samples, in [`Sides::unit`].
    pub per_run: f64,
}

/// A function, line or path whose share and time changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The function's name.
    pub function: String,
    /// File name of its library.
    pub lib: Option<String>,
    /// Source file and line, if lines are compared.
    pub line: Option<(String, u32)>,
    /// The callers, root first, if call paths are compared.
    pub callers: Vec<String>,
    /// Before.
    pub base: KeyAmount,
    /// After.
    pub new: KeyAmount,
    /// Confidence interval of [`Sides::delta`].
    pub range: (f64, f64),
    /// The probability of such a difference if nothing changed.
    pub p: f64,
}

/// What one key took on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KeyAmount {
    /// Samples of all runs.
    pub samples: u64,
    /// Share of the side's samples, 0 to 1.
    pub share: f64,
    /// Weight a run, as [`SideTotal::per_run`].
    pub per_run: f64,
}

impl Sides {
    fn new(base: &Side, new: &Side, recorded: &[Data], confidence: f64) -> Sides {
        let first = recorded.first();
        Sides {
            unit: match first {
                Some(data) if data.unit == WeightUnit::Samples && data.interval_ms > 0.0 => WeightUnit::Milliseconds,
                Some(data) => data.unit,
                None => WeightUnit::Samples,
            },
            weights: None,
            is_exact: false,
            event: first.and_then(|data| data.event.clone()),
            is_heap: base.is_heap,
            // What a window takes depends on its length and load.
            by_amount: base.is_heap && base.total().windows + new.total().windows == 0,
            base: base.total(),
            new: new.total(),
            increase: increase::of_all(base, new, confidence),
            confidence,
        }
    }

    /// The size of a change: of the share, or of the amount as a part of the larger whole. Positive if it takes more.
    pub fn delta(&self, base: &KeyAmount, new: &KeyAmount) -> f64 {
        let whole = self.base.per_run.max(self.new.per_run);
        match self.by_amount {
            true if whole > 0.0 => (new.per_run - base.per_run) / whole,
            _ => new.share - base.share,
        }
    }

    /// The size of a listed change.
    pub fn delta_of(&self, change: &Change) -> f64 {
        self.delta(&change.base, &change.new)
    }

    /// The sides of exact counts.
    fn exact(base: SideTotal, new: SideTotal, files: [&[Data]; 2]) -> Sides {
        let mut weights = files.into_iter().flatten().map(|data| data.weights.as_ref());
        let is_exact = weights.all(|weights| weights.is_some_and(|weights| weights.is_exact));
        let first = files[0].first();
        Sides {
            unit: first.map(|data| data.unit).unwrap_or_default(),
            weights: first.and_then(|data| Some(data.weights.as_ref()?.name.clone())),
            is_exact,
            event: None,
            is_heap: false,
            by_amount: true,
            increase: Increase::of_time(base.per_run, new.per_run),
            base,
            new,
            confidence: 1.0,
        }
    }
}

impl Change {
    /// Positive if slower.
    pub fn share_delta(&self) -> f64 {
        self.new.share - self.base.share
    }
}

/// Limits of the listed changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffLimits {
    /// The accepted share of listed changes that are chance. If nothing changed, it is the probability that something
    /// is listed.
    pub false_discoveries: f64,
    /// Smaller changes of the share are not listed. Other work on the machine changes the kernel's share by some tenths
    /// of a percent from run to run, which is more than chance.
    pub least_change: f64,
}

impl Default for DiffLimits {
    fn default() -> DiffLimits {
        DiffLimits {
            false_discoveries: 0.01,
            least_change: 0.005,
        }
    }
}

/// Compares two sides of one or more recordings each. Waits are left out. Interrupts are left out because the machine
/// causes them: on a busy machine they took 0.1 to 0.7 % of a program that never called the kernel.
///
/// Files of other profilers are compared exactly, unless they say how blocks of memory were chosen; all must have the
/// same count.
pub fn diff(base: &[Data], new: &[Data], what: Compared, limits: DiffLimits) -> Comparison {
    if base.iter().chain(new).any(Data::is_exact) {
        return exact::diff(base, new, what, limits);
    }
    let Verdicts { sides, keys, items } = verdicts(base, new, what, limits, true);
    let change = |item: &KeyVerdict| keys.change(item);
    let mut changes: Vec<Change> = items.iter().filter(|item| item.is_changed).map(change).collect();
    changes.sort_by(|a, b| by_change(sides.delta_of(a), sides.delta_of(b), a, b));
    let undecided = || items.iter().filter(|item| item.is_undecided);
    let widest = undecided().max_by(|a, b| a.tested.widest().total_cmp(&b.tested.widest()));
    let delta = |item: &KeyVerdict| sides.delta(&item.base, &item.new).abs();
    let mut largest: Vec<&KeyVerdict> = undecided().filter(|item| delta(item) >= limits.least_change).collect();
    largest.sort_by(|a, b| delta(b).total_cmp(&delta(a)));
    let runs = sides.base.runs.min(sides.new.runs);
    Comparison {
        tested: items.len(),
        changes,
        undecided: widest.map(|widest| Undecided {
            number: undecided().count(),
            widest: change(widest),
            largest: largest.into_iter().map(change).collect(),
            runs: runs_for(runs, widest.tested.more_runs(limits.least_change)),
        }),
        sides,
    }
}

/// All keys with samples, and the verdict on each.
pub(crate) struct Verdicts {
    sides: Sides,
    keys: ComparedKeys,
    items: Vec<KeyVerdict>,
}

/// A key and the verdict on it. If both are false, a change of the limit or more is ruled out.
struct KeyVerdict {
    key: usize,
    base: KeyAmount,
    new: KeyAmount,
    tested: Tested,
    is_changed: bool,
    is_undecided: bool,
}

impl Verdicts {
    /// Keys that changed or may have changed: name, library, range of the change of the share, and true if it changed.
    pub(crate) fn of_interest(&self) -> impl Iterator<Item = (&str, Option<&str>, (f64, f64), bool)> {
        let items = self.items.iter().filter(|item| item.is_changed || item.is_undecided);
        items.map(|item| {
            let (function, lib) = (self.keys.function(item.key), self.keys.lib(item.key));
            (function, lib, item.tested.change(), item.is_changed)
        })
    }
}

/// Compares sampled recordings. Without `may_be_by_amount`, changes are those of shares.
pub(crate) fn verdicts(
    base: &[Data],
    new: &[Data],
    what: Compared,
    limits: DiffLimits,
    may_be_by_amount: bool,
) -> Verdicts {
    let mut keys = ComparedKeys::default();
    let recorded = base;
    let base = Side::new(base, what, &mut keys);
    let new = Side::new(new, what, &mut keys);
    let mut sides = Sides::new(&base, &new, recorded, test::CONFIDENCE);
    sides.by_amount &= may_be_by_amount;
    let item = |key: usize| {
        let [before, after] = [&base, &new].map(|side| side.amount(key));
        let tested = (before.samples + after.samples > 0).then(|| Tested::new(&base, &new, key, sides.by_amount));
        tested.flatten().map(|tested| KeyVerdict {
            key,
            base: before,
            new: after,
            is_changed: false,
            is_undecided: !tested.is_within(limits.least_change),
            tested,
        })
    };
    let mut items: Vec<KeyVerdict> = (0..keys.len()).filter_map(item).collect();
    let p_of = items
        .iter()
        .enumerate()
        .filter_map(|(at, item)| Some((item.tested.p?, at)));
    for at in test::significant(p_of.collect(), limits.false_discoveries) {
        let item = &mut items[at];
        if sides.delta(&item.base, &item.new).abs() >= limits.least_change {
            (item.is_changed, item.is_undecided) = (true, false);
        }
    }
    Verdicts { sides, keys, items }
}

/// With fewer runs a side, the difference between runs is assumed more than measured.
const MEASURED_RUNS: usize = 5;
/// Number of runs a side that shows how much runs differ.
const SHOWING_RUNS: f64 = 10.0;

/// The number of runs a side for a verdict: `times` as many as there are. `None` if that is not a number of runs.
fn runs_for(runs: usize, times: f64) -> Option<u64> {
    let wanted = (runs as f64 * times).ceil();
    let wanted = match runs < MEASURED_RUNS && times.is_finite() {
        true => wanted.min(SHOWING_RUNS),
        false => wanted,
    };
    (wanted < 1e6).then_some((wanted as u64).max(runs as u64 + 1).max(3))
}

/// Increases first, then decreases; each group by size, largest first.
fn by_change(delta_a: f64, delta_b: f64, a: &Change, b: &Change) -> Ordering {
    (delta_a < 0.0)
        .cmp(&(delta_b < 0.0))
        .then(delta_b.abs().total_cmp(&delta_a.abs()))
        .then_with(|| (&a.function, &a.line, &a.callers).cmp(&(&b.function, &b.line, &b.callers)))
}
