//! The unit of costs, and costs as text.

use super::cost::Cost;
use crate::data::{Data, WeightUnit};
use crate::text::numbers::{bytes, counts, time};

/// The unit of costs, and the whole of shares.
#[derive(Clone, Debug)]
pub struct CostScale {
    /// Cost of all selected samples.
    pub whole: Cost,
    /// The unit of weights.
    pub unit: WeightUnit,
    /// The file's name of its unit, if it has one.
    pub name: Option<String>,
    /// False if an imported file counts something and has no number of samples.
    pub has_samples: bool,
    /// Time of a sample, if weights count samples.
    pub interval_ms: Option<f64>,
}

impl CostScale {
    /// The unit of a profile's weights, and the cost that is 100 %.
    pub fn new(data: &Data, whole: Cost) -> CostScale {
        CostScale {
            whole,
            unit: data.unit,
            name: data.counted_name().map(str::to_owned),
            has_samples: data.has_samples(),
            interval_ms: has_times(data).then_some(data.interval_ms),
        }
    }

    /// Heading of the column of weights; `None` if the number of samples suffices.
    pub fn amount_label(&self) -> Option<&str> {
        match (&self.name, self.unit) {
            (_, WeightUnit::Samples) => self.interval_ms.map(|_| "time"),
            (Some(name), _) => Some(name),
            (None, WeightUnit::Bytes) => Some("bytes"),
            (None, WeightUnit::Milliseconds) => Some("time"),
            (None, WeightUnit::Counts) => Some("count"),
        }
    }

    /// `1.23 s`, `1.2 MB`, `1,234`; `-` if only the number of samples is known.
    pub fn amount(&self, cost: Cost) -> String {
        match (self.time_ms(cost), self.unit) {
            (Some(ms), _) => time(ms),
            (None, WeightUnit::Bytes) => bytes(cost.weight),
            (None, WeightUnit::Counts) => counts(cost.weight),
            (None, WeightUnit::Samples | WeightUnit::Milliseconds) => "-".to_owned(),
        }
    }

    /// The share of the whole, 0 to 100.
    pub fn percent(&self, cost: Cost) -> f64 {
        100.0 * cost.share_of(self.whole)
    }

    /// The time of a cost; `None` if samples stand for no time.
    pub fn time_ms(&self, cost: Cost) -> Option<f64> {
        match self.unit {
            WeightUnit::Milliseconds => Some(cost.weight),
            WeightUnit::Samples => self.interval_ms.map(|interval| cost.weight * interval),
            WeightUnit::Bytes | WeightUnit::Counts => None,
        }
    }
}

/// True if a sample stands for a known time: not in folded stacks.
pub fn has_times(data: &Data) -> bool {
    data.interval_ms > 0.0 && data.interval_ms.is_finite()
}
