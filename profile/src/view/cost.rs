//! The cost of samples.

use std::ops::AddAssign;

/// With fewer samples no view says where time goes: a share of one half may be off by 10 points (95 %).
pub const FEW_SAMPLES: u64 = 100;

/// Half of a 95 % interval in standard deviations.
const DEVIATIONS: f64 = 1.96;

/// A number of samples and the sum of their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Samples (see [`Data::count_of`](crate::data::Data::count_of)); 0 where nothing was sampled.
    pub samples: u64,
    /// The sum of their weights, in [`Data::unit`](crate::data::Data::unit).
    pub weight: f64,
}

impl Cost {
    /// The cost of this many samples. A NaN weight counts as 0.
    pub fn of_samples(samples: u64, weight: f64) -> Cost {
        let weight = if weight.is_finite() { weight } else { 0.0 };
        Cost { samples, weight }
    }

    /// True if nothing was counted.
    pub fn is_zero(self) -> bool {
        self == Cost::default()
    }

    /// Its share of a whole, 0 to 1; 0 if the whole is 0.
    pub fn share_of(self, whole: Cost) -> f64 {
        match whole.weight {
            0.0 => 0.0,
            weight => self.weight / weight,
        }
    }

    /// The 95 % interval of its share of a whole, 0 to 1, where each sample is one by chance (Wilson 1927,
    /// doi:10.2307/2276774).
    pub fn share_range(self, whole: Cost) -> (f64, f64) {
        let (share, number) = (self.share_of(whole).clamp(0.0, 1.0), whole.samples.max(1) as f64);
        let squared = DEVIATIONS * DEVIATIONS / number;
        let middle = share + squared / 2.0;
        let half = (squared * (share * (1.0 - share) + squared / 4.0)).sqrt();
        ((middle - half) / (1.0 + squared), (middle + half) / (1.0 + squared))
    }

    /// True if the share of this cost is larger than the share of `other`, a cost of other samples, by more than chance
    /// (95 %).
    pub fn is_surely_more_than(self, other: Cost, whole: Cost) -> bool {
        let (share, of_other) = (self.share_of(whole), other.share_of(whole));
        let difference = share - of_other;
        let variance = (share + of_other - difference * difference) / whole.samples.max(1) as f64;
        difference > DEVIATIONS * variance.sqrt()
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.samples = self.samples.saturating_add(other.samples);
        self.weight += other.weight;
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), |mut sum, cost| {
            sum += cost;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(samples: u64) -> Cost {
        Cost::of_samples(samples, samples as f64)
    }

    #[test]
    fn a_share_of_few_samples_is_hardly_known() {
        let range = |part: u64, whole: u64| {
            let (low, high) = samples(part).share_range(samples(whole));
            ((1000.0 * low).round(), (1000.0 * high).round())
        };
        // Wilson's interval, as R's prop.test(correct = FALSE) gives it.
        assert_eq!(range(1, 1), (207.0, 1000.0));
        assert_eq!(range(50, 100), (404.0, 596.0));
        assert_eq!(range(0, 100), (0.0, 37.0));
        assert_eq!(range(400, 1000), (370.0, 431.0));
    }

    #[test]
    fn the_larger_of_two_shares_is_known_from_enough_samples() {
        assert!(!samples(20).is_surely_more_than(samples(15), samples(100)));
        assert!(samples(200).is_surely_more_than(samples(150), samples(1000)));
    }
}
