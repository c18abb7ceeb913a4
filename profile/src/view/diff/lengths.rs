//! Rules on the lengths of spans: means, and lengths that a part of the spans does not exceed.
//!
//! How far a figure may be from the truth follows from the order of the lengths: neighbouring spans are alike, so
//! blocks of time differ by more than as many independent spans would (von Neumann 1941,
//! doi:10.1214/aoms/1177731677). Recordings differ by the speed of the machine, as where
//! samples are compared.

use super::estimate::{Estimate, LimitedMeasure, Moderated, VARYING};
use super::increase::{EstimatePair, Increase};
use super::rules::{RESOLUTION, UnknownReason, Verdict};

/// A figure of the lengths of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthFigure {
    /// The mean.
    Mean,
    /// The length that half of them do not exceed.
    P50,
    /// That 90 of 100 do not exceed.
    P90,
    /// That 99 of 100 do not exceed.
    P99,
}

/// A figure of spans is known from at least this number of spans that are longer.
const FEWEST_BEYOND: f64 = 10.0;
/// Blocks of time, and the fewest spans of one.
const BLOCKS: usize = 32;
const FEWEST_OF_A_BLOCK: usize = 20;

impl LengthFigure {
    /// All of them.
    pub const ALL: [LengthFigure; 4] = [
        LengthFigure::Mean,
        LengthFigure::P50,
        LengthFigure::P90,
        LengthFigure::P99,
    ];

    /// As users name it.
    pub fn name(self) -> &'static str {
        match self {
            LengthFigure::Mean => "mean",
            LengthFigure::P50 => "p50",
            LengthFigure::P90 => "p90",
            LengthFigure::P99 => "p99",
        }
    }

    /// The fewest spans of a side that show it.
    pub fn fewest(self) -> u64 {
        let part = self.part().unwrap_or(0.5);
        (FEWEST_BEYOND / (1.0 - part)).round() as u64
    }

    /// The part of the spans that are not longer; `None` of the mean.
    fn part(self) -> Option<f64> {
        match self {
            LengthFigure::Mean => None,
            LengthFigure::P50 => Some(0.5),
            LengthFigure::P90 => Some(0.9),
            LengthFigure::P99 => Some(0.99),
        }
    }

    /// Of lengths in ascending order; `None` of nothing.
    fn of(self, sorted: &[f64]) -> Option<f64> {
        match self.part() {
            Some(part) => at(sorted, part),
            None if sorted.is_empty() => None,
            None => Some(sorted.iter().sum::<f64>() / sorted.len() as f64),
        }
    }
}

/// The length that this part of the sorted lengths does not exceed. `None` for more than all.
fn at(sorted: &[f64], part: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * part).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// What the lengths of a span say of a limit on their increase: of each recording of both sides, in the order of the
/// spans. `allowed` is a part of the old figure, `p` the probability that a limit that holds is called broken.
pub fn check_lengths(
    base: &[Vec<f64>],
    new: &[Vec<f64>],
    figure: LengthFigure,
    allowed: f64,
    p: f64,
) -> (Option<Increase>, Verdict) {
    let number = |side: &[Vec<f64>]| side.iter().map(|lengths| lengths.len() as u64).sum::<u64>();
    let few = UnknownReason::FewSamples {
        base: number(base),
        new: number(new),
    };
    let (Some(base), Some(new)) = (estimate(base, figure), estimate(new, figure)) else {
        return (None, Verdict::Unknown(few));
    };
    let pair = EstimatePair::of(base, new, LimitedMeasure::Time);
    let increase = pair.increase(p);
    let verdict = if pair.p_above(allowed, 0.0) <= p {
        Verdict::Broken
    } else if increase.range.1 <= allowed + RESOLUTION {
        Verdict::Kept
    } else {
        Verdict::Unknown(UnknownReason::TooWide)
    };
    (Some(increase), verdict)
}

/// `None` of too few spans.
fn estimate(recordings: &[Vec<f64>], figure: LengthFigure) -> Option<Estimate> {
    let all: Vec<f64> = recordings.concat();
    if (all.len() as u64) < figure.fewest() {
        return None;
    }
    let mut sorted = all.clone();
    sorted.sort_by(f64::total_cmp);
    let mean = figure.of(&sorted)?;
    let (variance, pairs) = match figure.part() {
        None => variance_of_mean(&all),
        Some(part) => {
            let beyond: Vec<f64> = all.iter().map(|length| f64::from(u8::from(*length > mean))).collect();
            let (variance, pairs) = variance_of_mean(&beyond);
            let deviation = variance.max(part * (1.0 - part) / all.len() as f64).sqrt();
            // Of skewed lengths the upper distance is the larger one.
            let (low, high) = (at(&sorted, part - deviation)?, at(&sorted, part + deviation)?);
            ((high - mean).max((high - low) / 2.0).powi(2), pairs)
        }
    };
    let number = recordings.len() as f64;
    let expected = variance + (mean * VARYING).powi(2) / number;
    let mut of_recordings: Vec<f64> = Vec::with_capacity(recordings.len());
    for lengths in recordings.iter().filter(|lengths| !lengths.is_empty()) {
        let mut sorted = lengths.clone();
        sorted.sort_by(f64::total_cmp);
        of_recordings.extend(figure.of(&sorted));
    }
    let free = of_recordings.len() as f64 - 1.0;
    let center = of_recordings.iter().sum::<f64>() / of_recordings.len() as f64;
    let squares: f64 = of_recordings.iter().map(|figure| (figure - center).powi(2)).sum();
    let seen = if free > 0.0 { squares / free / (free + 1.0) } else { 0.0 };
    let moderated = Moderated::new(expected, seen, free);
    let whole = moderated.variance.max(variance);
    let uncertain = (whole - variance).powi(2) / moderated.degrees_of_freedom
        + if pairs > 0.0 {
            variance * variance / (pairs * 2.0 / 3.0)
        } else {
            0.0
        };
    Some(Estimate {
        mean,
        variance: whole,
        degrees_of_freedom: whole * whole / uncertain,
    })
}

/// The variance of the mean of values in their order, and the number of pairs of blocks that show it.
fn variance_of_mean(values: &[f64]) -> (f64, f64) {
    let number = values.len() as f64;
    let mean = values.iter().sum::<f64>() / number;
    let independent = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (number - 1.0).max(1.0) / number;
    let blocks = (values.len() / FEWEST_OF_A_BLOCK).clamp(1, BLOCKS);
    let means: Vec<f64> = values
        .chunks(values.len().div_ceil(blocks))
        .map(|block| block.iter().sum::<f64>() / block.len() as f64)
        .collect();
    let pairs = means.len() as f64 - 1.0;
    if pairs <= 0.0 {
        return (independent, 0.0);
    }
    let differences: f64 = means.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let of_blocks = differences / 2.0 / pairs / means.len() as f64;
    (independent.max(of_blocks), pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::scaling::Chance;

    /// Skewed lengths; with `alike`, neighbours are.
    fn lengths(chance: &mut Chance, number: usize, factor: f64, alike: f64) -> Vec<f64> {
        let mut level = 0.0;
        let mut next = || {
            level = alike * level + (1.0 - alike * alike).sqrt() * chance.normal();
            factor * (0.5 * level).exp()
        };
        (0..number).map(|_| next()).collect()
    }

    /// How many of these comparisons are broken, and how many are kept.
    fn verdicts(comparisons: usize, number: usize, factor: f64, alike: f64, figure: LengthFigure) -> [usize; 2] {
        let mut chance = Chance((100.0 * alike) as u64 + figure.fewest());
        let mut side = |factor: f64| vec![lengths(&mut chance, number, factor, alike)];
        let all: Vec<Verdict> = (0..comparisons)
            .map(|_| check_lengths(&side(1.0), &side(factor), figure, 0.1, 0.01).1)
            .collect();
        [Verdict::Broken, Verdict::Kept].map(|verdict| all.iter().filter(|found| **found == verdict).count())
    }

    #[test]
    fn a_limit_that_holds_is_seldom_called_broken() {
        let cases = LengthFigure::ALL
            .into_iter()
            .flat_map(|figure| [(figure, 0.0), (figure, 0.9)]);
        let broken: usize = cases
            .map(|(figure, alike)| verdicts(150, 1200, 1.1, alike, figure)[0])
            .sum();
        // 1,200 * 0.01, and five times the square root.
        assert!(broken <= 29, "{broken}");
    }

    #[test]
    fn a_large_increase_is_found_and_equal_programs_keep_the_limit() {
        let [broken, _] = verdicts(100, 3000, 1.5, 0.0, LengthFigure::P99);
        assert!(broken >= 90, "{broken}");
        let [broken, kept] = verdicts(100, 5000, 1.0, 0.0, LengthFigure::P50);
        assert!(broken == 0 && kept >= 90, "{broken} {kept}");
    }

    #[test]
    fn too_few_spans_say_nothing() {
        let side = vec![vec![1.0; 999]];
        let few = UnknownReason::FewSamples { base: 999, new: 999 };
        assert_eq!(
            check_lengths(&side, &side, LengthFigure::P99, 0.1, 0.01),
            (None, Verdict::Unknown(few))
        );
        let side = vec![vec![2.0; 500], vec![2.0; 500]];
        let (increase, verdict) = check_lengths(&side, &side, LengthFigure::P99, 0.1, 0.01);
        assert_eq!((increase.unwrap().by, verdict), (0.0, Verdict::Kept));
    }
}
