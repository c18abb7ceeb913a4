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
    /// True if the amount alone decides, and not share and time together.
    by_amount: bool,
    /// The probability that the change is chance. `None`: too few samples.
    pub(super) p: Option<f64>,
    /// The probability that the change of the share is chance.
    pub(super) p_of_share: Option<f64>,
    pub(super) share_change: (f64, f64),
    /// The change of the amount, as a part of the whole before; if the amount alone decides, of the larger whole.
    pub(super) amount_change: (f64, f64),
}

impl Tested {
    /// `None`: a side has no samples.
    pub(super) fn new(base: &Side, new: &Side, key: usize, by_amount: bool) -> Option<Tested> {
        let (before, after) = (base.total().per_run, new.total().per_run);
        let whole = if by_amount { before.max(after) } else { before };
        if whole <= 0.0 || !by_amount && after <= 0.0 {
            return None;
        }
        let [share, time] = [LimitedMeasure::Share, LimitedMeasure::Time]
            .map(|measure| EstimatePair::new(base, new, Some(key), measure));
        // The variance of few blocks of memory is known as well.
        let is_tested = by_amount || base.amount(key).samples + new.amount(key).samples >= FEWEST_SAMPLES;
        let delta = |pair: &EstimatePair| pair.means().1 - pair.means().0;
        let p_of_share = share.p_of_difference();
        let p = match delta(&share) * delta(&time) > 0.0 {
            _ if by_amount => time.p_of_difference(),
            true => p_of_share.max(time.p_of_difference()),
            // A change must be of share and time in the same direction.
            false => 1.0,
        };
        let (low, high) = time.difference(P_OF_END);
        Some(Tested {
            by_amount,
            p: is_tested.then_some(p),
            p_of_share: is_tested.then_some(p_of_share),
            share_change: share.difference(P_OF_END),
            amount_change: (low / whole, high / whole),
        })
    }

    /// True if a change by `limit` or more, as a part of the whole, can be ruled out: of share and time, or of the
    /// amount.
    pub(super) fn is_within(&self, limit: f64) -> bool {
        let within = |(low, high): (f64, f64)| -limit < low && high < limit;
        !self.by_amount && within(self.share_change) || within(self.amount_change)
    }

    /// The range of the change that decides.
    pub(super) fn change(&self) -> (f64, f64) {
        if self.by_amount {
            self.amount_change
        } else {
            self.share_change
        }
    }

    /// How many times as many runs make the range narrow enough for a verdict on changes of `limit`.
    pub(super) fn more_runs(&self, limit: f64) -> f64 {
        let (low, high) = self.change();
        ((high - low) / 2.0 / limit).powi(2)
    }

    /// The largest change within the range.
    pub(super) fn widest(&self) -> f64 {
        let (low, high) = self.change();
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
