//! The unit of costs.

use profile::data::{Data, WeightUnit};
use profile::view::cost::Cost;

use crate::numbers::{bytes, counts, time};

/// The unit of costs, and the whole of shares.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// Cost of all selected samples.
    pub(crate) whole: Cost,
    pub(crate) unit: WeightUnit,
    /// The file's name of its unit, if it has one.
    pub(crate) name: Option<String>,
    /// False if an imported file counts something and has no number of samples.
    pub(crate) has_samples: bool,
    /// Time of a sample, if weights count samples.
    pub(crate) interval_ms: Option<f64>,
}

impl Measure {
    pub(crate) fn of(data: &Data, whole: Cost) -> Measure {
        Measure {
            whole,
            unit: data.unit,
            name: data.counted_name().map(str::to_owned),
            has_samples: data.has_samples(),
            interval_ms: has_times(data).then_some(data.interval_ms),
        }
    }

    /// Heading of the column of weights; `None` if the number of samples suffices.
    pub(crate) fn amount_label(&self) -> Option<&str> {
        match (&self.name, self.unit) {
            (_, WeightUnit::Samples) => self.interval_ms.map(|_| "time"),
            (Some(name), _) => Some(name),
            (None, WeightUnit::Bytes) => Some("bytes"),
            (None, WeightUnit::Milliseconds) => Some("time"),
            (None, WeightUnit::Counts) => Some("count"),
        }
    }

    /// `1.23 s`, `1.2 MB`, `1,234`; `-` if only the number of samples is known.
    pub(crate) fn amount(&self, cost: Cost) -> String {
        match (self.time_ms(cost), self.unit) {
            (Some(ms), _) => time(ms),
            (None, WeightUnit::Bytes) => bytes(cost.weight),
            (None, WeightUnit::Counts) => counts(cost.weight),
            (None, WeightUnit::Samples | WeightUnit::Milliseconds) => "-".to_owned(),
        }
    }

    pub(crate) fn percent(&self, cost: Cost) -> f64 {
        100.0 * cost.share_of(self.whole)
    }

    /// The time of a cost; `None` if samples stand for no time.
    pub(crate) fn time_ms(&self, cost: Cost) -> Option<f64> {
        match self.unit {
            WeightUnit::Milliseconds => Some(cost.weight),
            WeightUnit::Samples => self.interval_ms.map(|interval| cost.weight * interval),
            WeightUnit::Bytes | WeightUnit::Counts => None,
        }
    }
}

/// False for folded stacks, whose samples have no known unit.
pub(super) fn has_times(data: &Data) -> bool {
    data.interval_ms > 0.0 && data.interval_ms.is_finite()
}
