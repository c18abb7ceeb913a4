//! How far a share of samples may be from the truth by chance.

use super::Profile;
use super::profile::Share;

/// Standard deviations: chance refuses a right answer once in 1.7 million times.
const SIGMAS: f64 = 5.0;

impl Share {
    /// So many points are chance, where a share is `percent` in truth and each sample falls where it does by itself.
    fn chance_points(self, percent: f64) -> f64 {
        let share = percent / 100.0;
        100.0 * SIGMAS * (share * (1.0 - share) / self.of.max(1) as f64).sqrt()
    }

    /// `what` has this share: within so many points at most, and within what chance allows for this number of samples.
    pub(crate) fn assert_is(self, percent: f64, at_most_points: f64, what: &str, profile: &Profile) {
        let (found, points) = (self.percent(), self.chance_points(percent).min(at_most_points));
        assert!(
            (found - percent).abs() <= points,
            "{what}: {found:.1} % of {} samples, not {percent} \u{b1} {points:.1} %\n{}",
            self.of,
            profile.summary()
        );
    }
}
