//! The cost of samples.

use std::ops::AddAssign;

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
