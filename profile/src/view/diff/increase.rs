//! How much more something takes than before, with a confidence interval.
//!
//! The time of one program differs between recordings: by caches, clocks and other work of the machine. Runs in one recording follow each
//! other at once and differ less. Several recordings show the difference. With few recordings, [`VARYING`] is assumed with the weight of
//! [`ASSUMED`] recordings (a moderated t statistic: Smyth 2004, doi:10.2202/1544-6115.1027). One recording then has only the assumption,
//! three equal recordings do not count as exact, and for ten recordings the assumption is the smaller part.
//!
//! With five or more runs or recordings, means are trimmed, so outliers count less (Yuen 1974, doi:10.1093/biomet/61.1.165).

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::amounts::{Run, Side};
use super::test::Chance;

/// What a rule limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The time of a run.
    Time,
    /// The share of the whole.
    Share,
}

/// The standard deviation of a program's CPU time between recordings, as a part of that time. On a machine with nine times as many busy
/// threads as CPUs, it was 3 to 5 % for a loop of half a second. Equal programs differed by up to 9 %, the five runs in each recording by 2
/// %. To measure it again: `sprof diff` of equal recordings, taken in turn.
const VARYING: f64 = 0.015;
/// Number of recordings that the assumption weighs as much as.
const ASSUMED: f64 = 6.0;
/// The part that is trimmed at either end, rounded down.
const TRIMMED: f64 = 0.2;

/// The increase, as a part of the old amount: 0.2 is a fifth more. Infinite if the old amount is 0.
///
/// For shares, the difference: 0.02 is two percentage points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Increase {
    /// Old amount of a run in [`Sides::unit`](super::Sides::unit), or old share.
    pub base: f64,
    /// New amount or share.
    pub new: f64,
    /// The measured increase.
    pub by: f64,
    /// Its confidence interval.
    pub range: (f64, f64),
}

impl Increase {
    /// The exact increase of a counted amount.
    pub(super) fn of_time(base: f64, new: f64) -> Increase {
        Increase::exact(base, new, ratio(base, new))
    }

    /// The exact increase of a counted share.
    pub(super) fn of_share(base: f64, new: f64) -> Increase {
        Increase::exact(base, new, new - base)
    }

    fn exact(base: f64, new: f64, by: f64) -> Increase {
        let range = (by, by);
        Increase { base, new, by, range }
    }
}

fn ratio(base: f64, new: f64) -> f64 {
    match base > 0.0 {
        true => new / base - 1.0,
        false if new > 0.0 => f64::INFINITY,
        false => 0.0,
    }
}

/// A key on both sides; `None` is the whole.
pub(super) struct Pair {
    base: Estimate,
    new: Estimate,
    measure: Measure,
    degrees_of_freedom: f64,
}

impl Pair {
    pub(super) fn of(base: &Side, new: &Side, key: Option<usize>, measure: Measure) -> Pair {
        let [base, new] = [base, new].map(|side| Estimate::of(side, key, measure));
        let part = |estimate: &Estimate| estimate.variance * estimate.variance / estimate.degrees_of_freedom;
        let variance = base.variance + new.variance;
        // Welch and Satterthwaite.
        let degrees_of_freedom = variance * variance / (part(&base) + part(&new));
        Pair {
            base,
            new,
            measure,
            degrees_of_freedom: match degrees_of_freedom.is_finite() {
                true => degrees_of_freedom.clamp(1.0, 1e6),
                false => 1e6,
            },
        }
    }

    /// The mean of a run: before, after.
    pub(super) fn means(&self) -> (f64, f64) {
        (self.base.mean, self.new.mean)
    }

    /// The probability of such an increase if the true increase is `allowed`. For time, `allowed` is a part of the old amount and `more` is
    /// an additional amount.
    pub(super) fn p_above(&self, allowed: f64, more: f64) -> f64 {
        let Difference { mean, deviation } = self.beyond(allowed, more);
        match (deviation > 0.0, mean > 0.0) {
            (true, _) => self.student().map_or(1.0, |student| student.sf(mean / deviation)),
            (false, true) => 0.0,
            (false, false) => 1.0,
        }
    }

    /// The upper bound of the amount beyond the allowed increase. `p` is the probability that the true amount is above it.
    pub(super) fn most_beyond(&self, allowed: f64, p: f64) -> f64 {
        let Difference { mean, deviation } = self.beyond(allowed, 0.0);
        mean + self.quantile(p) * deviation
    }

    /// The increase; `p` is the probability that it is below its range, and also that it is above.
    pub(super) fn increase(&self, p: f64) -> Increase {
        let (a, b, t) = (self.base.mean, self.new.mean, self.quantile(p));
        let (by, range) = match self.measure {
            Measure::Share => {
                let width = t * (self.base.variance + self.new.variance).sqrt();
                (b - a, (b - a - width, b - a + width))
            }
            Measure::Time => (ratio(a, b), self.range_of_ratio(t)),
        };
        Increase {
            base: a,
            new: b,
            by,
            range,
        }
    }

    /// Fieller 1954, doi:10.1111/j.2517-6161.1954.tb00159.x: where `b - r a` does not differ significantly from 0.
    fn range_of_ratio(&self, t: f64) -> (f64, f64) {
        let (a, b) = (self.base.mean, self.new.mean);
        let lead = a * a - t * t * self.base.variance;
        let root = (a * a * b * b - lead * (b * b - t * t * self.new.variance))
            .max(0.0)
            .sqrt();
        match lead > 0.0 {
            true => ((a * b - root) / lead - 1.0, (a * b + root) / lead - 1.0),
            // The old amount may be 0 within chance, so there is no upper bound.
            false if a * b + root > 0.0 => {
                let lowest = (b * b - t * t * self.new.variance) / (a * b + root);
                (lowest.max(0.0) - 1.0, f64::INFINITY)
            }
            false => (-1.0, f64::INFINITY),
        }
    }

    fn beyond(&self, allowed: f64, more: f64) -> Difference {
        let (factor, more) = match self.measure {
            Measure::Time => (1.0 + allowed, more),
            Measure::Share => (1.0, more + allowed),
        };
        Difference {
            mean: self.new.mean - factor * self.base.mean - more,
            deviation: (self.new.variance + factor * factor * self.base.variance).sqrt(),
        }
    }

    fn student(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.degrees_of_freedom).ok()
    }

    fn quantile(&self, p: f64) -> f64 {
        self.student()
            .map_or(f64::INFINITY, |student| student.inverse_cdf(1.0 - p))
    }
}

struct Difference {
    mean: f64,
    deviation: f64,
}

/// The increase of the whole time, without a test of parts.
pub(super) fn of_all(base: &Side, new: &Side, confidence: f64) -> Increase {
    Pair::of(base, new, None, Measure::Time).increase((1.0 - confidence) / 2.0)
}

/// A side's mean of a run, the variance of the mean, and its degrees of freedom.
struct Estimate {
    mean: f64,
    variance: f64,
    degrees_of_freedom: f64,
}

impl Estimate {
    fn of(side: &Side, key: Option<usize>, measure: Measure) -> Estimate {
        let share = smoothed_share(side, key);
        let (mut means, mut sampling, mut within) = (Vec::new(), 0.0, 0.0);
        for runs in side.runs.chunk_by(|a, b| a.recording == b.recording) {
            let values = runs.iter().map(|run| value(run, key, measure)).collect();
            let of_runs: f64 = runs.iter().map(|run| sampling_variance(run, key, measure, share)).sum();
            let of_runs = of_runs / (runs.len() * runs.len()) as f64;
            let trimmed = Trimmed::of(values);
            means.push(trimmed.mean);
            sampling += of_runs;
            within += trimmed.variance.max(of_runs);
        }
        let recordings = (means.len() as f64).max(1.0);
        // A clock misses the same part of each run's last tick, so more runs do not reduce the error. Five runs of 56 ms had one sample of
        // 33 ms each.
        let missed = side
            .runs
            .iter()
            .map(|run| missed_variance(run, measure, share))
            .sum::<f64>();
        let missed = missed / (side.runs.len() as f64).max(1.0);
        let [sampling, within] = [sampling, within].map(|sum| sum / (recordings * recordings) + missed);
        let Trimmed {
            mean,
            variance: seen,
            degrees_of_freedom: free,
        } = Trimmed::of(means);
        let varying = match measure {
            Measure::Time => mean,
            Measure::Share => mean * (1.0 - mean),
        };
        let assumed = within + (varying * VARYING).powi(2) / recordings;
        let variance = ((ASSUMED * assumed + free * seen) / (ASSUMED + free)).max(sampling);
        // The sampling variance is known. The rest is known only from the recordings.
        let rest = (variance - sampling).max(0.0);
        Estimate {
            mean,
            variance,
            degrees_of_freedom: (variance / rest).powi(2) * (ASSUMED + free),
        }
    }
}

/// The trimmed mean of values, and its variance.
struct Trimmed {
    mean: f64,
    /// 0 for one value.
    variance: f64,
    degrees_of_freedom: f64,
}

impl Trimmed {
    fn of(mut values: Vec<f64>) -> Trimmed {
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

fn value(run: &Run, key: Option<usize>, measure: Measure) -> f64 {
    match measure {
        Measure::Time => weight(run, key) * run.factor,
        Measure::Share => weight(run, key) / run.weight,
    }
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

/// The part of a run's variance that comes from sampling.
fn sampling_variance(run: &Run, key: Option<usize>, measure: Measure, share: f64) -> f64 {
    let of_share = match key {
        None => 0.0,
        Some(key) => {
            let chance = Chance::of_share(run, key, share);
            chance.blocks.unwrap_or(0.0).max(chance.counting)
        }
    };
    match measure {
        Measure::Share => of_share,
        Measure::Time => of_share * run.weight * run.weight * run.factor * run.factor,
    }
}

/// The square of the most that a run's clock misses: one tick of each thread. It cancels out in shares.
fn missed_variance(run: &Run, measure: Measure, share: f64) -> f64 {
    match measure {
        Measure::Share => 0.0,
        Measure::Time => share * share * run.ticks * run.factor * run.factor,
    }
}
