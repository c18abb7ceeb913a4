//! What samples sum up to.

use std::ops::AddAssign;

/// A number of samples, and what they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Samples (see [`Data::count_of`](crate::data::Data::count_of)); 0 where nothing was sampled.
    pub samples: u64,
    /// The sum of their weights, in [`Data::unit`](crate::data::Data::unit).
    pub weight: f64,
}

impl Cost {
    /// The cost of so many samples. A weight that is no number counts as 0.
    pub fn of_samples(samples: u64, weight: f64) -> Cost {
        let weight = if weight.is_finite() { weight } else { 0.0 };
        Cost { samples, weight }
    }

    /// True if nothing was counted.
    pub fn is_zero(self) -> bool {
        self == Cost::default()
    }

    /// Its share of a whole, 0 to 1; 0 of nothing.
    pub fn share_of(self, whole: Cost) -> f64 {
        match whole.weight {
            0.0 => 0.0,
            weight => self.weight / weight,
        }
    }
}

/// `f64::round` of a number that is not negative. That one is a call into the C library for each sample.
pub(crate) fn rounded(number: f64) -> u64 {
    let whole = number as u64;
    whole.saturating_add(u64::from(number - whole as f64 >= 0.5))
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
    use super::rounded;

    #[test]
    fn halves_are_rounded_up_and_nothing_else() {
        for number in [0.0, 0.49999999999999994, 0.5, 1.0, 1.5, 2.4999, 1e15 + 0.5, 1e18, 1e300] {
            assert_eq!(rounded(number), number.round() as u64, "{number}");
        }
    }
}
