//! How much more something takes than before, with a confidence interval, from the [`estimate`](super::estimate) of
//! each side.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::amounts::Side;
use super::estimate::{Estimate, LimitedMeasure};

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
pub(super) struct EstimatePair {
    base: Estimate,
    new: Estimate,
    measure: LimitedMeasure,
    degrees_of_freedom: f64,
}

impl EstimatePair {
    pub(super) fn new(base: &Side, new: &Side, key: Option<usize>, measure: LimitedMeasure) -> EstimatePair {
        let [base, new] = [base, new].map(|side| Estimate::new(side, key, measure));
        EstimatePair::of(base, new, measure)
    }

    pub(super) fn of(base: Estimate, new: Estimate, measure: LimitedMeasure) -> EstimatePair {
        let part = |estimate: &Estimate| estimate.variance * estimate.variance / estimate.degrees_of_freedom;
        let variance = base.variance + new.variance;
        // Welch and Satterthwaite.
        let degrees_of_freedom = variance * variance / (part(&base) + part(&new));
        EstimatePair {
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

    /// The probability of such an increase if the true increase is `allowed`. For time, `allowed` is a part of the old
    /// amount and `more` is an additional amount.
    pub(super) fn p_above(&self, allowed: f64, more: f64) -> f64 {
        let Difference { mean, deviation } = self.beyond(allowed, more);
        match (deviation > 0.0, mean > 0.0) {
            (true, _) => self.student().map_or(1.0, |student| student.sf(mean / deviation)),
            (false, true) => 0.0,
            (false, false) => 1.0,
        }
    }

    /// The probability of such a difference in either direction if nothing changed.
    pub(super) fn p_of_difference(&self) -> f64 {
        let Difference { mean, deviation } = self.beyond(0.0, 0.0);
        match (deviation > 0.0, mean == 0.0) {
            (true, _) => {
                let beyond = self
                    .student()
                    .map_or(1.0, |student| student.sf((mean / deviation).abs()));
                (2.0 * beyond).min(1.0)
            }
            (false, true) => 1.0,
            (false, false) => 0.0,
        }
    }

    /// The confidence interval of the difference; `p` is the probability that the difference is below it, and also that
    /// it is above.
    pub(super) fn difference(&self, p: f64) -> (f64, f64) {
        let Difference { mean, deviation } = self.beyond(0.0, 0.0);
        let width = self.quantile(p) * deviation;
        (mean - width, mean + width)
    }

    /// The upper bound of the amount beyond the allowed increase. `p` is the probability that the true amount is above
    /// it.
    pub(super) fn most_beyond(&self, allowed: f64, p: f64) -> f64 {
        let Difference { mean, deviation } = self.beyond(allowed, 0.0);
        mean + self.quantile(p) * deviation
    }

    /// The increase; `p` is the probability that it is below its range, and also that it is above.
    pub(super) fn increase(&self, p: f64) -> Increase {
        let (a, b, t) = (self.base.mean, self.new.mean, self.quantile(p));
        let (by, range) = match self.measure {
            LimitedMeasure::Share => (b - a, self.difference(p)),
            LimitedMeasure::Time => (ratio(a, b), self.range_of_ratio(t)),
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

    /// The least increase that has a probability of at most `p` if it is chance, in this part of all cases.
    pub(super) fn detectable(&self, p: f64, power: f64) -> f64 {
        let width = self.quantile(p / 2.0) + self.quantile(1.0 - power);
        ratio(self.base.mean, self.base.mean + width * self.beyond(0.0, 0.0).deviation)
    }

    fn beyond(&self, allowed: f64, more: f64) -> Difference {
        let (factor, more) = match self.measure {
            LimitedMeasure::Time => (1.0 + allowed, more),
            LimitedMeasure::Share => (1.0, more + allowed),
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
    EstimatePair::new(base, new, None, LimitedMeasure::Time).increase((1.0 - confidence) / 2.0)
}
