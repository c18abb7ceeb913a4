//! What a key takes in a run: the mean of a side's runs, and how far the mean may be from the truth.
//!
//! Three things make two sides of one program differ.
//!
//! 1. *Counting.* Samples come at regular times, so a call of many milliseconds is missed by less than one sample at
//!    each end, and a short one is hit or missed. Half of the number of changes between a sample with the key and one
//!    without it is the variance of the number of samples (successive differences: Wolter 1984,
//!    doi:10.1080/01621459.1984.10477095): for independent samples it is the variance of a coin, for calls that last
//!    for many samples it is several times too large, and it never exceeds the variance of a coin. A program's phases
//!    do not count. Blocks of memory are samples by chance, each with a known variance: `w * w * (1 - p)` for a block
//!    that stands for `w` bytes and had the chance `p`.
//! 2. *Runs* differ in what they do: hash seeds, addresses, timing of threads, the cost of kernel code ([`varying`]
//!    until it is measured). A *window* of something that goes on holds other work than the next window. The
//!    differences of neighbouring blocks of time show how much (von Neumann 1941, doi:10.1214/aoms/1177731677).
//! 3. *Recordings* differ by the speed of the machine, which changes all times and no share ([`VARYING`] until it is
//!    measured).
//!
//! With few runs, an assumption has the weight of [`ASSUMED`] of them (a moderated t statistic: Smyth 2004,
//! doi:10.2202/1544-6115.1027). One run then has only the assumption, three equal ones do not count as exact, and of
//! ten the assumption is the smaller part.
//!
//! With five or more runs or recordings, means are trimmed, so outliers count less (Yuen 1974,
//! doi:10.1093/biomet/61.1.165).

use super::amounts::{Run, Side};

/// The standard deviation of a program's CPU time between recordings, as a part of that time. On a machine with nine
/// times as many busy threads as CPUs, it was 3 to 5 % for a loop of half a second. Equal programs differed by up to 9
/// %, the five runs in each recording by 2 %. To measure it again: `sprof diff` of equal recordings, taken in turn.
pub const VARYING: f64 = 0.015;
/// The same of the memory that a program takes, also of a function's part as [`varying`] has it. DHAT's exact figures
/// of five equal runs each of sort, git, xz, ls and perl differed by at most 0.03 %, the peak of a program with five
/// threads by 0.7 %.
pub(super) const VARYING_MEMORY: f64 = 0.005;
/// The standard deviation of the cost of kernel code between runs, as a part of it. On a virtual machine that other
/// work shared, page faults took 4 to 14 % of equal runs of node and sort: the host's memory decides how long it takes
/// to clear a page.
const VARYING_KERNEL: f64 = 0.2;
/// Number of runs or recordings that an assumption weighs as much as.
const ASSUMED: f64 = 6.0;
/// The part that is trimmed at either end, rounded down.
const TRIMMED: f64 = 0.2;

/// What a rule limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedMeasure {
    /// The time of a run.
    Time,
    /// The share of the whole.
    Share,
}

/// A side's mean of a run, the variance of the mean, and its degrees of freedom.
pub(super) struct Estimate {
    pub(super) mean: f64,
    pub(super) variance: f64,
    pub(super) degrees_of_freedom: f64,
}

impl Estimate {
    pub(super) fn new(side: &Side, key: Option<usize>, measure: LimitedMeasure) -> Estimate {
        let share = smoothed_share(side, key);
        let recordings = side.runs.chunk_by(|a, b| a.recording == b.recording);
        let number = (recordings.clone().count() as f64).max(1.0);
        let (mut means, mut sampling, mut of_blocks) = (Vec::new(), 0.0, 0.0);
        let (mut seen, mut free, mut assumed) = (0.0, 0.0, 0.0);
        for runs in recordings {
            // A run's part in the mean.
            let part = 1.0 / (runs.len() as f64 * number);
            for run in runs {
                let Sampling { variance, block_pairs } = Sampling::new(run, key, measure, share);
                let variance = variance * part * part;
                sampling += variance;
                of_blocks += if block_pairs > 0.0 {
                    variance * variance / block_pairs
                } else {
                    0.0
                };
                assumed += (varying(run, key, measure, share) * part).powi(2);
            }
            let trimmed = Trimmed::new(runs.iter().map(|run| value(run, key, measure)).collect());
            means.push(trimmed.mean);
            seen += trimmed.variance / (number * number);
            free += trimmed.degrees_of_freedom;
        }
        // A clock misses the same part of each run's last tick, so more runs do not reduce the error. Five runs of 56
        // ms had one sample of 33 ms each.
        let missed = side
            .runs
            .iter()
            .map(|run| missed_variance(run, measure, share))
            .sum::<f64>();
        let missed = missed / (side.runs.len() as f64).max(1.0);
        let of_means = Trimmed::new(means);
        let of_machine = match measure {
            LimitedMeasure::Time if side.is_heap => (of_means.mean * VARYING_MEMORY).powi(2) / number,
            LimitedMeasure::Time => (of_means.mean * VARYING).powi(2) / number,
            LimitedMeasure::Share => 0.0,
        };
        // The variance of counting is known. The rest is known only from runs, recordings and blocks.
        let rest = |variance: f64| (variance - sampling).max(0.0);
        let of_runs = Moderated::new(sampling + assumed, seen, free);
        let expected = of_runs.variance.max(sampling) + of_machine;
        let (variance, uncertain) = match of_means.degrees_of_freedom > 0.0 {
            false => (
                expected,
                rest(of_runs.variance).powi(2) / of_runs.degrees_of_freedom + of_machine.powi(2) / ASSUMED,
            ),
            true => {
                let of_all = Moderated::new(expected, of_means.variance, of_means.degrees_of_freedom);
                let variance = of_all.variance.max(sampling);
                (variance, rest(variance).powi(2) / of_all.degrees_of_freedom)
            }
        };
        let variance = variance + missed;
        Estimate {
            mean: of_means.mean,
            variance,
            degrees_of_freedom: variance * variance / (uncertain + of_blocks),
        }
    }
}

/// An assumed variance and a measured one, in one.
pub(super) struct Moderated {
    pub(super) variance: f64,
    pub(super) degrees_of_freedom: f64,
}

impl Moderated {
    pub(super) fn new(assumed: f64, seen: f64, free: f64) -> Moderated {
        // A measured variance that is larger is not reduced. Otherwise, programs whose runs do random work differed in
        // 21 of 100 cases, with four runs a side.
        match seen > assumed {
            true => Moderated {
                variance: seen,
                degrees_of_freedom: free + ASSUMED * assumed / seen,
            },
            false => Moderated {
                variance: (ASSUMED * assumed + free * seen) / (ASSUMED + free),
                degrees_of_freedom: ASSUMED + free,
            },
        }
    }
}

/// The trimmed mean of values, and its variance.
pub(super) struct Trimmed {
    pub(super) mean: f64,
    /// 0 for one value.
    pub(super) variance: f64,
    pub(super) degrees_of_freedom: f64,
}

impl Trimmed {
    pub(super) fn new(mut values: Vec<f64>) -> Trimmed {
        values.sort_by(f64::total_cmp);
        let trimmed = (values.len() as f64 * TRIMMED) as usize;
        let kept = &values[trimmed..values.len() - trimmed];
        let mean = kept.iter().sum::<f64>() / (kept.len() as f64).max(1.0);
        let degrees_of_freedom = kept.len().saturating_sub(1) as f64;
        let variance = match (kept.first(), kept.last()) {
            (Some(low), Some(high)) if degrees_of_freedom > 0.0 => {
                // A trimmed value counts as the nearest kept value.
                let winsorized = values.iter().map(|value| value.clamp(*low, *high));
                let center = winsorized.clone().sum::<f64>() / values.len() as f64;
                let squares: f64 = winsorized.map(|value| (value - center) * (value - center)).sum();
                squares / (kept.len() as f64 * degrees_of_freedom)
            }
            _ => 0.0,
        };
        Trimmed {
            mean,
            variance,
            degrees_of_freedom,
        }
    }
}

fn weight(run: &Run, key: Option<usize>) -> f64 {
    match key {
        None => run.weight,
        Some(key) => run.amount(key).map_or(0.0, |amount| amount.weight),
    }
}

/// Converts a weight of the run to the measure.
fn factor(run: &Run, measure: LimitedMeasure) -> f64 {
    match measure {
        LimitedMeasure::Time => run.factor,
        LimitedMeasure::Share if run.weight > 0.0 => 1.0 / run.weight,
        LimitedMeasure::Share => 0.0,
    }
}

fn value(run: &Run, key: Option<usize>, measure: LimitedMeasure) -> f64 {
    weight(run, key) * factor(run, measure)
}

/// The share of a key with one sample added to the key and one to the rest: an unseen key may be rare.
fn smoothed_share(side: &Side, key: Option<usize>) -> f64 {
    let Some(key) = key else {
        return 1.0;
    };
    let samples: u64 = side.runs.iter().map(|run| run.samples).sum();
    let all: f64 = side.runs.iter().map(|run| run.weight).sum();
    let of_one = all / samples.max(1) as f64;
    (side.amount(key).share * all + of_one) / (all + 2.0 * of_one)
}

/// The assumed standard deviation of a run's amount, without the machine's speed.
///
/// Measured on eight runs each of node, python, sort, xz and a loop: beyond counting, shares differed by 0.9 to 2.5 %
/// of the root of `share * (1 - share)`, small ones and large ones.
fn varying(run: &Run, key: Option<usize>, measure: LimitedMeasure, share: f64) -> f64 {
    let is_heap = run.variance.is_some();
    let of_share = if is_heap { VARYING_MEMORY } else { VARYING } * (share * (1.0 - share)).sqrt();
    match (measure, key.and_then(|key| run.amount(key))) {
        (LimitedMeasure::Share, Some(amount)) if !is_heap => {
            // If kernel code costs more, a key with more kernel code than the whole has a larger share.
            let of_whole = amount.weight / run.weight * run.kernel;
            of_share.hypot(VARYING_KERNEL * (amount.kernel - of_whole) / run.weight)
        }
        (LimitedMeasure::Share, _) => of_share,
        (LimitedMeasure::Time, _) => of_share * run.weight * run.factor,
    }
}

/// The part of a run's variance that comes from sampling it, and of a window from where it lies.
struct Sampling {
    variance: f64,
    /// The degrees of freedom, if blocks have shown the variance; else 0, and the variance is known.
    block_pairs: f64,
}

impl Sampling {
    fn new(run: &Run, key: Option<usize>, measure: LimitedMeasure, share: f64) -> Sampling {
        let factor = factor(run, measure);
        let scaled = |variance, block_pairs| Sampling {
            variance: variance * factor * factor,
            block_pairs,
        };
        let counting = match (run.variance, key) {
            (Some(_), _) => heap_variance(run, key, measure),
            (None, Some(key)) => counting_variance(run, key, share),
            (None, None) => 0.0,
        };
        let Some(key) = key else {
            return scaled(counting, 0.0);
        };
        match block_variance(run, key) {
            Some((of_blocks, pairs)) if of_blocks > counting => scaled(of_blocks, pairs),
            _ => scaled(counting, 0.0),
        }
    }
}

/// The variance of a key's weight by counting.
fn counting_variance(run: &Run, key: usize, share: f64) -> f64 {
    let of_coins = share * (1.0 - share) * run.squares;
    if !run.is_ordered {
        return of_coins;
    }
    // The first and the last call may be cut by an end of the run.
    let of_one = run.squares / run.samples.max(1) as f64;
    let edges = run.amount(key).map_or(0.0, |amount| amount.edges);
    of_coins.min(edges.max(0.0) + of_one)
}

/// The variance of a sum over blocks of memory, or of what the sum differs by from its share of the whole. One more
/// block of mean variance may be there that no sample shows.
fn heap_variance(run: &Run, key: Option<usize>, measure: LimitedMeasure) -> f64 {
    let more_one = |variance: f64, samples: u64| variance + variance / samples.max(1) as f64;
    let whole = run.variance.unwrap_or_default();
    let of_key = match key.map(|key| run.amount(key)) {
        None => more_one(whole, run.samples),
        Some(Some(amount)) => more_one(amount.variance, amount.samples),
        Some(None) => whole / run.samples.max(1) as f64,
    };
    match (measure, key) {
        (LimitedMeasure::Time, _) => of_key,
        (LimitedMeasure::Share, None) => 0.0,
        (LimitedMeasure::Share, Some(_)) => {
            let share = value(run, key, measure);
            (1.0 - share).powi(2) * of_key + share * share * (whole - of_key).max(0.0)
        }
    }
}

/// The variance of a key's weight by the blocks of a window, and its degrees of freedom. `None` with one block.
fn block_variance(run: &Run, key: usize) -> Option<(f64, f64)> {
    let pairs = run.blocks.len() as f64 - 1.0;
    if pairs <= 0.0 {
        return None;
    }
    let Some(amount) = run.amount(key) else {
        return Some((0.0, pairs));
    };
    let share = amount.weight / run.weight;
    let mut rests: Vec<f64> = run.blocks.iter().map(|total| -share * total).collect();
    for (block, weight) in &amount.blocks {
        rests[*block as usize] += weight;
    }
    // The variance of a block is half of the mean squared difference. There is one block more than pairs.
    let differences: f64 = rests.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let of_neighbours = (differences / 2.0 / pairs * (pairs + 1.0), pairs * 2.0 / 3.0);
    Some(of_neighbours)
}

/// The square of the most that a run misses: of its clock one tick of each thread, which cancels out in shares; of its
/// heap all blocks that were lost.
fn missed_variance(run: &Run, measure: LimitedMeasure, share: f64) -> f64 {
    match measure {
        _ if run.variance.is_some() => (run.lost * factor(run, measure)).powi(2),
        LimitedMeasure::Share => 0.0,
        LimitedMeasure::Time => share * share * run.ticks * run.factor * run.factor,
    }
}
