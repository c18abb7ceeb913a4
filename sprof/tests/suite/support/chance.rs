//! How far a share of samples may be from the truth by chance.

use super::Profile;
use super::profile::Share;

/// Standard deviations: chance refuses a right answer once in 1.7 million times.
const SIGMAS: f64 = 5.0;

impl Share {
    /// How many points chance may take from or add to a share of `percent`, where each sample falls by itself.
    fn chance_points(self, percent: f64) -> f64 {
        let share = percent / 100.0;
        100.0 * SIGMAS * (share * (1.0 - share) / self.of.max(1) as f64).sqrt()
    }

    /// `what` has this share: within so many points at most, and within what chance allows for this number of samples.
    pub(crate) fn assert_is(self, percent: f64, at_most_points: f64, what: &str, profile: &Profile) {
        self.assert_is_within(percent, at_most_points, what, || profile.summary());
    }

    /// The same; `context` is shown where it fails.
    pub(crate) fn assert_is_within(
        self,
        percent: f64,
        at_most_points: f64,
        what: &str,
        context: impl FnOnce() -> String,
    ) {
        let (found, points) = (self.percent(), self.chance_points(percent).min(at_most_points));
        assert!(
            (found - percent).abs() <= points,
            "{what}: {found:.1} % of {} samples, not {percent} \u{b1} {points:.1} %\n{}",
            self.of,
            context()
        );
    }
}
