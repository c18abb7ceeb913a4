//! How two series of numbers differ: what a measure was in the runs of two programs, taken in turn.

use statrs::distribution::{ContinuousCDF, Normal};

use super::estimate::{Estimate, LimitedMeasure, Trimmed};
use super::increase::{EstimatePair, Increase};
use super::rules::{RESOLUTION, UnknownReason, Verdict};
use super::test::{CONFIDENCE, discoveries};

/// The chance that a series of tests finds a difference where there is none.
pub const FALSE_DIFFERENCES: f64 = 0.01;
/// The chance to find a difference of [`ValueDifference::detectable`], by means alone. Ranks make it less with few
/// runs: 0.7 with ten.
const POWER: f64 = 0.9;

/// The mean of numbers without outliers: a fifth at each end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

impl Mean {
    /// `None` of fewer than two numbers.
    pub fn of(values: &[f64]) -> Option<Mean> {
        (values.len() >= 2).then(|| {
            let trimmed = Trimmed::new(values.to_vec());
            Mean {
                value: trimmed.mean,
                error: trimmed.variance.sqrt(),
            }
        })
    }
}

/// A measure on two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueDifference {
    /// The difference of the means without outliers, as a part of the old one: 0.03 is 3 % more. Infinite if that is 0.
    pub relative: f64,
    /// Its confidence interval, of 95 %.
    pub range: (f64, f64),
    /// The probability that the difference is chance.
    p: f64,
    /// The least part of the old mean that would have been found, in most cases. `None`: there are too few
    /// numbers to find any.
    pub detectable: Option<f64>,
    /// The difference is not chance, as far as such numbers can say.
    pub is_certain: bool,
}

/// Compares measures that belong together, each an old and a new series. `None` where a side has fewer than two
/// numbers. Who looks `looks` times at growing series, and stops at what is found, has as many chances of a false one.
pub fn compare_values(pairs: &[(&[f64], &[f64])], looks: usize) -> Vec<Option<ValueDifference>> {
    let false_differences = FALSE_DIFFERENCES / looks.max(1) as f64;
    // What the strictest of the tests needs.
    let p_needed = false_differences / pairs.len() as f64;
    let mut found: Vec<Option<ValueDifference>> =
        pairs.iter().map(|(base, new)| compare(base, new, p_needed)).collect();
    let mut ps: Vec<f64> = found.iter().flatten().map(|difference| difference.p).collect();
    ps.sort_by(f64::total_cmp);
    let certain = discoveries(ps.iter().copied(), false_differences);
    let limit = certain.checked_sub(1).and_then(|last| ps.get(last)).copied();
    for difference in found.iter_mut().flatten() {
        difference.is_certain = limit.is_some_and(|limit| difference.p <= limit);
    }
    found
}

/// What the runs of two sides say of a limit on the increase of a measure: `allowed` is a part of the old amount, `p`
/// the probability that a limit that holds is called broken. `None` where a side has fewer than two numbers.
pub fn check_values(base: &[f64], new: &[f64], allowed: f64, p: f64) -> Option<(Increase, Verdict)> {
    if base.len().min(new.len()) < 2 {
        return None;
    }
    let pair = EstimatePair::of(estimate(base), estimate(new), LimitedMeasure::Time);
    let increase = pair.increase(p);
    let limits: Vec<f64> = base.iter().map(|value| value * (1.0 + allowed)).collect();
    // Ranks say whether two sides differ, and not which is the greater one: the means do.
    let p_above = pair.p_above(allowed, 0.0).max(p_of_ranks(&limits, new) / 2.0);
    let verdict = if p_above <= p {
        Verdict::Broken
    } else if increase.range.1 <= allowed + RESOLUTION {
        Verdict::Kept
    } else {
        Verdict::Unknown(UnknownReason::TooWide)
    };
    Some((increase, verdict))
}

fn estimate(values: &[f64]) -> Estimate {
    let Trimmed {
        mean,
        variance,
        degrees_of_freedom,
    } = Trimmed::new(values.to_vec());
    Estimate {
        mean,
        variance,
        degrees_of_freedom,
    }
}

fn compare(base: &[f64], new: &[f64], p_needed: f64) -> Option<ValueDifference> {
    if base.len().min(new.len()) < 2 {
        return None;
    }
    let pair = EstimatePair::of(estimate(base), estimate(new), LimitedMeasure::Time);
    let increase = pair.increase((1.0 - CONFIDENCE) / 2.0);
    let is_possible = p_of_ranks_at_best(base.len(), new.len()) <= p_needed;
    Some(ValueDifference {
        relative: increase.by,
        range: increase.range,
        // Small counts may be equal in all runs that are kept, and say nothing of the others. Ranks are of all runs.
        p: pair.p_of_difference().max(p_of_ranks(base, new)),
        detectable: is_possible.then(|| pair.detectable(p_needed, POWER)),
        is_certain: false,
    })
}

/// The probability that chance gives one side the greater numbers to such a degree (Mann and Whitney 1947,
/// doi:10.1214/aoms/1177730491), with the correction for ties.
fn p_of_ranks(base: &[f64], new: &[f64]) -> f64 {
    let (a, b) = (base.len() as f64, new.len() as f64);
    let mut all: Vec<(f64, bool)> = { base.iter().map(|value| (*value, true)) }
        .chain(new.iter().map(|value| (*value, false)))
        .collect();
    all.sort_by(|(x, _), (y, _)| x.total_cmp(y));
    let (mut rank_sum, mut ties, mut before) = (0.0, 0.0, 0.0);
    for equal in all.chunk_by(|(x, _), (y, _)| x == y) {
        let number = equal.len() as f64;
        let of_base = equal.iter().filter(|(_, is_base)| *is_base).count() as f64;
        rank_sum += of_base * (before + (number + 1.0) / 2.0);
        ties += number.powi(3) - number;
        before += number;
    }
    let from_middle = (rank_sum - a * (a + b + 1.0) / 2.0).abs();
    let variance = a * b / 12.0 * (a + b + 1.0 - ties / ((a + b) * (a + b - 1.0)));
    match variance > 0.0 {
        true => p_of_normal((from_middle - 0.5).max(0.0) / variance.sqrt()),
        false => 1.0,
    }
}

/// The same where all numbers of one side are the greater ones.
fn p_of_ranks_at_best(base: usize, new: usize) -> f64 {
    let (a, b) = (base as f64, new as f64);
    p_of_normal((a * b / 2.0 - 0.5) / (a * b * (a + b + 1.0) / 12.0).sqrt())
}

fn p_of_normal(deviations: f64) -> f64 {
    (2.0 * Normal::standard().sf(deviations)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::scaling::Chance;

    /// A time: 1 with a deviation of 1 %, and in one of ten runs up to a half more.
    fn time(chance: &mut Chance) -> f64 {
        let late = if chance.part() < 0.1 { chance.part() / 2.0 } else { 0.0 };
        1.0 + 0.01 * chance.normal() + late
    }

    /// A small count: 0 or 1, seldom more.
    fn count(chance: &mut Chance) -> f64 {
        (0..4).filter(|_| chance.part() < 0.15).count() as f64
    }

    /// How many of a thousand comparisons of nine measures find one that differs.
    fn found(runs: usize, factor: f64) -> usize {
        let mut chance = Chance(runs as u64);
        let is_found = |_: &usize| {
            let mut series = |factor: f64| -> Vec<Vec<f64>> {
                let mut times: Vec<Vec<f64>> = (0..6)
                    .map(|_| (0..runs).map(|_| factor * time(&mut chance)).collect())
                    .collect();
                times.extend((0..3).map(|_| (0..runs).map(|_| count(&mut chance)).collect::<Vec<f64>>()));
                times
            };
            let (base, new) = (series(1.0), series(factor));
            let pairs: Vec<(&[f64], &[f64])> = { base.iter().map(Vec::as_slice) }
                .zip(new.iter().map(Vec::as_slice))
                .collect();
            compare_values(&pairs, 1).iter().flatten().any(|pair| pair.is_certain)
        };
        (0..1000).filter(is_found).count()
    }

    #[test]
    fn equal_programs_differ_in_at_most_one_of_a_hundred_comparisons() {
        // 1,000 * 0.01, and five times the square root.
        for runs in [5, 8, 10, 20] {
            let found = found(runs, 1.0);
            assert!(found <= 26, "{runs} runs: {found}");
        }
    }

    #[test]
    fn a_difference_is_found_where_it_was_said_to_be() {
        assert!(found(20, 1.02) >= 990);
        assert_eq!(found(4, 1.5), 0);
        let mut chance = Chance(7);
        let mut series = |factor: f64| -> Vec<f64> { (0..20).map(|_| factor * time(&mut chance)).collect() };
        let pairs: Vec<(Vec<f64>, Vec<f64>)> = (0..200).map(|_| (series(1.0), series(1.0))).collect();
        let all: Vec<f64> = { pairs.iter() }
            .filter_map(|(base, new)| compare_values(&[(base, new)], 1)[0]?.detectable)
            .collect();
        let detectable = all.iter().sum::<f64>() / all.len() as f64;
        let hits = (0..200).filter(|_| {
            let (base, new) = (series(1.0), series(1.0 + detectable));
            compare_values(&[(&base, &new)], 1)[0].unwrap().is_certain
        });
        // Ranks need more than means do.
        let hits = hits.count();
        assert!(hits >= 112, "{hits} at {detectable}");
    }

    #[test]
    fn the_range_has_the_truth() {
        let mut chance = Chance(3);
        let mut series = |factor: f64| -> Vec<f64> { (0..12).map(|_| factor * time(&mut chance)).collect() };
        let holds = (0..1000).filter(|_| {
            let (base, new) = (series(1.0), series(1.1));
            let (low, high) = compare_values(&[(&base, &new)], 1)[0].unwrap().range;
            (low..high).contains(&0.1)
        });
        // 950, less five deviations.
        let holds = holds.count();
        assert!(holds >= 915, "{holds}");
    }

    #[test]
    fn a_limit_is_kept_or_broken_by_more_than_chance() {
        let mut chance = Chance(11);
        let mut verdicts = |factor: f64, allowed: f64| -> [usize; 2] {
            let mut series = |factor: f64| -> Vec<f64> { (0..20).map(|_| factor * time(&mut chance)).collect() };
            let all: Vec<Verdict> = (0..1000)
                .filter_map(|_| Some(check_values(&series(1.0), &series(factor), allowed, FALSE_DIFFERENCES)?.1))
                .collect();
            let number = |verdict| all.iter().filter(|found| **found == verdict).count();
            [number(Verdict::Broken), number(Verdict::Kept)]
        };
        // 1,000 * 0.01, and five times the square root.
        for at_the_limit in [verdicts(1.0, 0.0), verdicts(1.05, 0.05)] {
            assert!(at_the_limit[0] <= 26 && at_the_limit[1] >= 900, "{at_the_limit:?}");
        }
        let above = verdicts(1.03, 0.01);
        // More than four late runs of 20 are more than the trimmed mean leaves out: 4 % of all series.
        assert!(above[0] >= 860, "{above:?}");
        let of =
            |base: &[f64], new: &[f64]| check_values(base, new, 0.01, FALSE_DIFFERENCES).map(|(_, verdict)| verdict);
        assert_eq!(of(&[1000.0; 10], &[1000.0; 10]), Some(Verdict::Kept));
        assert_eq!(of(&[1000.0; 10], &[1011.0; 10]), Some(Verdict::Broken));
        assert_eq!(
            of(&[1.0, 3.0], &[2.0, 9.0]),
            Some(Verdict::Unknown(UnknownReason::TooWide))
        );
        assert_eq!(of(&[1.0], &[9.0, 9.0]), None);
    }

    #[test]
    fn equal_counts_are_exact_and_too_few_runs_say_nothing() {
        let pair = compare_values(&[(&[7.0; 12], &[7.0; 12])], 1)[0].unwrap();
        assert_eq!((pair.relative, pair.range, pair.is_certain), (0.0, (0.0, 0.0), false));
        assert_eq!(pair.detectable, Some(0.0));
        let pair = compare_values(&[(&[7.0; 12], &[8.0; 12])], 1)[0].unwrap();
        assert!(pair.is_certain && (pair.relative - 1.0 / 7.0).abs() < 1e-9);
        assert!(compare_values(&[(&[1.0], &[2.0])], 1)[0].is_none());
        assert_eq!(
            compare_values(&[(&[1.0, 1.1], &[2.0, 2.1])], 1)[0].unwrap().detectable,
            None
        );
        let from_nothing = compare_values(&[(&[0.0; 12], &[5.0; 12])], 1)[0].unwrap();
        assert!(from_nothing.is_certain && from_nothing.relative.is_infinite());
    }
}
