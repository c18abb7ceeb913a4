//! Three verdicts on a function, line or path: changed, no change beyond a limit, or undecided.

use super::amounts::Side;
use super::estimate::LimitedMeasure;
use super::increase::EstimatePair;

/// With fewer samples on both sides together, a test shows nothing.
const FEWEST_SAMPLES: u64 = 10;
/// The confidence of the range of a change.
pub(super) const CONFIDENCE: f64 = 0.95;
const P_OF_END: f64 = (1.0 - CONFIDENCE) / 2.0;

/// The comparison of one key.
#[derive(Clone, Debug)]
pub(super) struct Tested {
    /// The probability that the change of share and time is chance. `None`: too few samples.
    pub(super) p: Option<f64>,
    /// The probability that the change of the share is chance.
    pub(super) p_of_share: Option<f64>,
    pub(super) share_change: (f64, f64),
    /// The change of the time, as a part of the whole time before.
    time_change: (f64, f64),
}

impl Tested {
    /// `None`: a side has no samples.
    pub(super) fn new(base: &Side, new: &Side, key: usize) -> Option<Tested> {
        let whole = base.total().per_run;
        if whole <= 0.0 || new.total().per_run <= 0.0 {
            return None;
        }
        let [share, time] = [LimitedMeasure::Share, LimitedMeasure::Time]
            .map(|measure| EstimatePair::new(base, new, Some(key), measure));
        let is_tested = base.amount(key).samples + new.amount(key).samples >= FEWEST_SAMPLES;
        let delta = |pair: &EstimatePair| pair.means().1 - pair.means().0;
        let p_of_share = share.p_of_difference();
        let p = match delta(&share) * delta(&time) > 0.0 {
            true => p_of_share.max(time.p_of_difference()),
            // A change must be of share and time in the same direction.
            false => 1.0,
        };
        let (low, high) = time.difference(P_OF_END);
        Some(Tested {
            p: is_tested.then_some(p),
            p_of_share: is_tested.then_some(p_of_share),
            share_change: share.difference(P_OF_END),
            time_change: (low / whole, high / whole),
        })
    }

    /// True if a change of share and time by `limit` or more, as a part of the whole, can be ruled out.
    pub(super) fn is_within(&self, limit: f64) -> bool {
        let within = |(low, high): (f64, f64)| -limit < low && high < limit;
        within(self.share_change) || within(self.time_change)
    }

    /// How many times as many runs make the range of the share narrow enough for a verdict on changes of `limit`.
    pub(super) fn more_runs(&self, limit: f64) -> f64 {
        let (low, high) = self.share_change;
        ((high - low) / 2.0 / limit).powi(2)
    }

    /// The largest change of the share within the range.
    pub(super) fn widest(&self) -> f64 {
        let (low, high) = self.share_change;
        high.max(-low)
    }
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

/// The keys whose change is significant by their probabilities, the most significant first.
pub(super) fn significant<T: Copy>(mut p_of: Vec<(f64, T)>, false_discoveries: f64) -> Vec<T> {
    p_of.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let number = discoveries(p_of.iter().map(|(p, _)| *p), false_discoveries);
    p_of[..number].iter().map(|(_, key)| *key).collect()
}
