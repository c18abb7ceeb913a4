//! Tests whether two amounts differ significantly.
//!
//! With several runs a side, the variance between runs is measured. With fewer, it is estimated from each run by the differences of
//! neighbouring blocks of time (von Neumann 1941, doi:10.1214/aoms/1177731677). A program's phases do not increase these differences; calls
//! longer than a block do. No estimate is below the variance of counting.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::amounts::{Run, Side};

/// With fewer samples on both sides together, a test shows nothing.
const FEWEST_SAMPLES: u64 = 10;
/// From this many runs a side, the differences between runs estimate chance better than the blocks of each run.
const ENOUGH_RUNS: usize = 3;
/// The confidence of the range of a change.
pub(super) const CONFIDENCE: f64 = 0.95;

/// The result of a test of one key.
pub(super) struct Tested {
    /// The probability that the change of share and time is chance.
    pub(super) p: f64,
    /// The probability that the change of the share is chance.
    pub(super) p_of_share: f64,
    pub(super) share_change: (f64, f64),
}

/// `None`: too few samples.
pub(super) fn test(base: &Side, new: &Side, key: usize) -> Option<Tested> {
    let samples = |side: &Side| side.amount(key).samples;
    if samples(base) + samples(new) < FEWEST_SAMPLES || total(base) <= 0.0 || total(new) <= 0.0 {
        return None;
    }
    // A side without the key has the other side's variance.
    let pooled = pooled_share(base, new, key);
    let (shares, times) = (
        [base, new].map(|side| Estimate::of_share(side, key, pooled)),
        [base, new].map(|side| Estimate::of_time(side, key, pooled)),
    );
    let share = compare(&shares);
    let time = compare(&times);
    // A change must be of share and time in the same direction.
    let same_direction = (shares[1].mean - shares[0].mean) * (times[1].mean - times[0].mean) > 0.0;
    Some(Tested {
        p: if same_direction { share.p.max(time.p) } else { 1.0 },
        p_of_share: share.p,
        share_change: share.range,
    })
}

/// The number of significant values, which are sorted: the step-up procedure of Benjamini and Hochberg.
pub(super) fn discoveries(p_ascending: impl ExactSizeIterator<Item = f64>, false_discoveries: f64) -> usize {
    let count = p_ascending.len() as f64;
    p_ascending
        .enumerate()
        .filter(|(index, p)| *p <= false_discoveries * (*index as f64 + 1.0) / count)
        .last()
        .map_or(0, |(index, _)| index + 1)
}

fn total(side: &Side) -> f64 {
    side.runs.iter().map(|run| run.weight).sum()
}

fn pooled_share(base: &Side, new: &Side, key: usize) -> f64 {
    let runs = || base.runs.iter().chain(&new.runs);
    let weight: f64 = runs().filter_map(|run| Some(run.amount(key)?.weight)).sum();
    weight / runs().map(|run| run.weight).sum::<f64>()
}

/// The mean of a side's runs, the variance of the mean, and its degrees of freedom.
struct Estimate {
    mean: f64,
    variance: f64,
    /// Infinite if the variance is known from within the runs.
    degrees_of_freedom: f64,
}

impl Estimate {
    fn of_share(side: &Side, key: usize, pooled: f64) -> Estimate {
        let values = side.runs.iter().map(|run| weight(run, key) / run.weight).collect();
        let chances = side.runs.iter().map(|run| Chance::of_share(run, key, pooled));
        Estimate::of(values, chances.collect())
    }

    /// The sampled time of a run.
    fn of_time(side: &Side, key: usize, pooled: f64) -> Estimate {
        let values = side.runs.iter().map(|run| weight(run, key) * run.factor).collect();
        let chances = side.runs.iter().map(|run| {
            let of_share = Chance::of_share(run, key, pooled);
            // The number of samples is also random.
            let number = pooled * pooled * run.squares;
            let scaled = |variance: f64| (variance * run.weight * run.weight + number) * run.factor * run.factor;
            Chance {
                counting: scaled(of_share.counting),
                blocks: of_share.blocks.map(scaled),
                ..of_share
            }
        });
        Estimate::of(values, chances.collect())
    }

    fn of(values: Vec<f64>, chances: Vec<Chance>) -> Estimate {
        let runs = values.len() as f64;
        let mean = values.iter().sum::<f64>() / runs;
        let of_mean = |variances: f64| variances / (runs * runs);
        let counting = of_mean(chances.iter().map(|chance| chance.counting).sum());
        let (seen, degrees_of_freedom) = if values.len() >= ENOUGH_RUNS {
            let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
            (squares / (runs - 1.0) / runs, runs - 1.0)
        } else {
            let blocks = chances.iter().map(|chance| chance.blocks.unwrap_or(chance.counting));
            let degrees_of_freedom = chances.iter().map(|chance| chance.degrees_of_freedom).sum();
            (of_mean(blocks.sum()), degrees_of_freedom)
        };
        match seen > counting {
            true => Estimate {
                mean,
                variance: seen,
                degrees_of_freedom,
            },
            false => Estimate {
                mean,
                variance: counting,
                degrees_of_freedom: f64::INFINITY,
            },
        }
    }
}

/// Estimates of the variance within a run.
#[derive(Clone, Copy)]
pub(super) struct Chance {
    /// For independent samples.
    pub(super) counting: f64,
    /// From the differences of blocks; `None` with one block.
    pub(super) blocks: Option<f64>,
    degrees_of_freedom: f64,
}

impl Chance {
    pub(super) fn of_share(run: &Run, key: usize, pooled: f64) -> Chance {
        let counting = pooled * (1.0 - pooled) * run.squares / (run.weight * run.weight);
        let pairs = run.blocks.len() as f64 - 1.0;
        Chance {
            counting,
            blocks: (pairs > 0.0).then(|| share_variance(run, key, pairs)),
            // For the mean of squared differences of neighbours: von Neumann's second moment.
            degrees_of_freedom: pairs * 2.0 / 3.0,
        }
    }
}

fn weight(run: &Run, key: usize) -> f64 {
    run.amount(key).map_or(0.0, |amount| amount.weight)
}

/// The variance of a share, by the differences of neighbouring blocks.
fn share_variance(run: &Run, key: usize, pairs: f64) -> f64 {
    let Some(amount) = run.amount(key) else {
        return 0.0;
    };
    let share = amount.weight / run.weight;
    let mut of_blocks = amount.blocks.iter().copied().peekable();
    let mut last: Option<f64> = None;
    let mut squares = 0.0;
    for (block, total) in run.blocks.iter().enumerate() {
        let own = of_blocks
            .next_if(|(at, _)| *at as usize == block)
            .map_or(0.0, |(_, own)| own);
        let rest = own - share * total;
        if let Some(last) = last {
            squares += (rest - last) * (rest - last);
        }
        last = Some(rest);
    }
    // The variance of a block is half of the mean squared difference. There is one block more than pairs.
    squares / 2.0 / pairs * (pairs + 1.0) / (run.weight * run.weight)
}

struct Compared {
    p: f64,
    /// Confidence interval of the difference.
    range: (f64, f64),
}

/// Welch's test of different means with these variances.
fn compare([base, new]: &[Estimate; 2]) -> Compared {
    let delta = new.mean - base.mean;
    let variance = base.variance + new.variance;
    if variance <= 0.0 {
        return Compared {
            p: if delta == 0.0 { 1.0 } else { 0.0 },
            range: (delta, delta),
        };
    }
    let deviation = variance.sqrt();
    let part = |estimate: &Estimate| estimate.variance * estimate.variance / estimate.degrees_of_freedom;
    let degrees_of_freedom = variance * variance / (part(base) + part(new));
    let upper = 0.5 + CONFIDENCE / 2.0;
    let (beyond, width) = match StudentsT::new(0.0, 1.0, degrees_of_freedom) {
        Ok(student) if degrees_of_freedom < 1e6 => (student.sf((delta / deviation).abs()), student.inverse_cdf(upper)),
        _ => {
            let normal = Normal::standard();
            (normal.sf((delta / deviation).abs()), normal.inverse_cdf(upper))
        }
    };
    Compared {
        p: (2.0 * beyond).min(1.0),
        range: (delta - width * deviation, delta + width * deviation),
    }
}
